"""What a run's memory depends on, in the same terms for every framework; nemo_rl.py and verl.py read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.values.reference_errors import UnknownError

if TYPE_CHECKING:
    from grpo.plan.units import Bytes
    from grpo.values.frameworks.model import Model
    from grpo.values.frameworks.parameters import Parameters

# What a trainer keeps for the backward pass: everything, the inputs of attention and MLP, or the inputs of layers.
KEEP_ALL: Final = "none"
KEEP_PARTS: Final = "attention and MLP"
KEEP_LAYERS: Final = "layers"

# Shorter sequences are not realistic for a verdict, and a quarter of the longest is.
_SHORT: Final = 256
_REALISTIC: Final = 4


class NotModelledError(UnknownError):
    """A run's memory is not computed; the message says why."""


class Micro(NamedTuple):
    """A micro batch of one data parallel rank.

    Without a `budget`, it has `sequences`, each of up to `length` tokens; with a budget, it is filled with up to `most`
    sequences until it has this number of tokens. `shares` GPUs share the tokens. A padded sequence takes up `length`
    tokens, but only its own tokens count against the budget (verl utils/seqlen_balancing.py, rearrange_micro_batches).
    """

    sequences: int
    length: int
    budget: int
    most: int
    shares: int
    padded: bool

    @property
    def worst(self) -> int:
        """Return the tokens on a GPU if every sequence has the maximum length.

        With a budget and padding, many short sequences take more memory.
        """
        return self.at(min(self.length, _SHORT) if self.padded and self.budget else self.length)

    @property
    def realistic(self) -> int:
        """Return the tokens on a GPU if sequences have a quarter of the maximum length, but at least 256 tokens."""
        return self.at(min(self.length, max(_SHORT, self.length // _REALISTIC)))

    def at(self, length: int) -> int:
        """Return the tokens on a GPU for sequences of a given length."""
        length = min(length, self.length)
        room = self.length if self.padded else length
        tokens = min(self.budget * room // length, self.most * room) if self.budget else self.sequences * room
        return -(-tokens // self.shares)


class Layout(NamedTuple):
    """How the training GPUs share the work; `expert` GPUs share a layer's experts."""

    gpus: int
    data: int
    tensor: int
    pipeline: int
    context: int
    expert: int
    sequence_parallel: bool


class Shards(NamedTuple):
    """The number of GPUs that shard the parameters: those of layers, of experts, and those outside the layers."""

    layers: int
    experts: int
    outside: int


class Trainer(NamedTuple):
    """The training side.

    `weight`, `gradient`, the optimizer's `moments` and the extra memory for its `step` are bytes per parameter; the
    first two are sharded over `weights`, the others over `states`. `gathered` says whether complete layers are gathered
    for computation, as FSDP does. `activation` is the size of a number, `train_logits` and `logprob_logits` are bytes
    per token and vocabulary entry. With a `lora` rank above 0, only adapters are trained. `on_host` names what is kept
    in the node's memory: weights, optimizer. `in_flight` micro batches are computed at the same time. With
    `keeps_cache`, PyTorch's allocator keeps the largest phase's memory while vLLM wakes on the same GPU.
    """

    engine: str
    layout: Layout
    weights: Shards
    states: Shards
    weight: float
    gradient: float
    moments: float
    step: float
    gathered: bool
    activation: int
    keep: str
    on_host: frozenset[str]
    lora: int
    train: Micro
    logprob: Micro
    train_logits: float
    logprob_logits: float
    vocabulary_shards: int
    reference: bool
    in_flight: int
    keeps_cache: bool


class Generator(NamedTuple):
    """The generating side, vLLM. `beside` names the parts of the trainer that stay on the GPU during generation."""

    gpus: int
    tensor: int
    pipeline: int
    utilization: float
    length: int
    sequences: int
    batched_tokens: int
    weight: float
    cache: float
    colocated: bool
    sleeps: bool
    graphs: bool
    beside: frozenset[str]

    @property
    def engines(self) -> int:
        """Return the number of generation engines."""
        return self.gpus // (self.tensor * self.pipeline)


class Batch(NamedTuple):
    """The arithmetic of a step: optimizer `updates`, each with `micro_batches` on a GPU (0: not fixed).

    `steps` is 0 if the configuration does not set the number of steps.
    """

    prompts: int
    generations: int
    global_batch: int
    micro_batch: int
    updates: int
    micro_batches: int
    steps: int


class Machine(NamedTuple):
    """The nodes, with the usable memory of a GPU, of a worker and of /dev/shm; None if unknown."""

    name: str
    nodes: int
    gpus: int
    gpu: Bytes
    host: Bytes | None
    shared: Bytes | None


class Checkpoint(NamedTuple):
    """What a checkpoint holds, in bytes per parameter, and how many lie on the volume at the same time.

    `kept` is 0 if none is written, and None if the configuration does not say how many there are. One is written
    every `period` steps.
    """

    per_parameter: float
    kept: int | None
    volume: Bytes | None
    key: str
    period: int = 0


class Setup(NamedTuple):
    """The part of a run that its memory depends on."""

    model: Model
    parameters: Parameters
    machine: Machine
    trainer: Trainer
    generator: Generator
    batch: Batch
    checkpoint: Checkpoint

    @property
    def is_wide(self) -> bool:
        """Return whether the verdict needs a wider margin: experts and Megatron were verified less."""
        return self.parameters.experts > 1 or self.trainer.engine == "Megatron"
