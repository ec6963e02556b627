"""The memory of a GPU that trains, phase by phase.

h is the hidden size, q and kv are the total widths of all heads and of all KV heads, I is the MLP's inner width, V
the vocabulary size, P the number of parameters, TP the tensor parallel size. Activations are bytes per token and
layer, computed from the tensors that the modules of transformers 5.23 save for the backward pass, with bfloat16 and
fused attention.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.plan.phase import SHARE, WIDE_SHARE, Item, Phase
from grpo.plan.setup import KEEP_ALL, KEEP_LAYERS
from grpo.plan.units import NOTHING, Bytes, gib

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.plan.setup import Micro, Setup, Shards, Trainer

LOSS: Final = "train: loss"
BACKWARD: Final = "train: backward"
END: Final = "train: last gradients"
STEP: Final = "optimizer step"
LOGPROB: Final = "log-probabilities"
REFIT: Final = "refit"
_CONTEXT, _COMMUNICATION = gib(1.0), gib(1.0)
_ADAPTER: Final = 16
_COLLECTED: Final = "CUDA context and libraries 0.6 to 1 GiB, NCCL 0.5 to 1.5 GiB, published logs"


_COUNTED: Final = "tensors saved for backward, counted on transformers' modules"


class _Activations(NamedTuple):
    """The bytes that a model family saves per token and layer: `norms` of h, `heads` of q and kv besides 4."""

    norms: int
    heads: int
    parts: int


# Gemma's norms keep a copy in float32, and are four a layer; Qwen3 and Gemma 3 norm q and k.
_FAMILIES: Final = {
    "Qwen3ForCausalLM": _Activations(16, 6, 8),
    "Qwen3MoeForCausalLM": _Activations(16, 6, 8),
    "Gemma2ForCausalLM": _Activations(36, 0, 24),
    "Gemma3ForCausalLM": _Activations(36, 8, 24),
    "Gemma3ForConditionalGeneration": _Activations(36, 8, 24),
}
_PLAIN: Final = _Activations(16, 0, 8)


class Widths(NamedTuple):
    """A model's widths, and its family's coefficients."""

    hidden: int
    heads: int
    pairs: int
    inner: int
    words: int
    family: _Activations

    @classmethod
    def of(cls, setup: Setup) -> Widths:
        """Return the widths of the setup's model; a token passes through the active experts only."""
        model = setup.model
        return cls(
            hidden=model.number("hidden_size"),
            heads=model.number("num_attention_heads") * model.head_dim(),
            pairs=model.kv_heads() * model.head_dim(),
            inner=model.feed_forward() * setup.parameters.active,
            words=model.number("vocab_size"),
            family=_FAMILIES.get(model.architecture, _PLAIN),
        )

    def whole(self, trainer: Trainer) -> float:
        """Return the bytes per token of a layer that keeps all activations."""
        family = self.family
        norms = 8 if trainer.engine == "Megatron" else family.norms
        split = 4 * self.heads + 4 * self.pairs + 8 * self.inner + family.heads * (self.heads + self.pairs)
        return self._numbers(trainer, norms * self.hidden, split)

    def kept(self, trainer: Trainer) -> float:
        """Return a layer's bytes per token that are kept from the forward to the backward pass."""
        if trainer.keep == KEEP_ALL:
            return self.whole(trainer)
        coefficient = 2 if trainer.keep == KEEP_LAYERS else self.family.parts
        return self._numbers(trainer, coefficient * self.hidden, 0)

    def recomputed(self, trainer: Trainer) -> float:
        """Return the bytes per token of the part that the backward pass recomputes, including the gradients in it."""
        flow = self._numbers(trainer, 4 * self.hidden, 4 * self.inner)
        if trainer.keep == KEEP_ALL:
            return flow
        again = self.whole(trainer) if trainer.keep == KEEP_LAYERS else self._numbers(trainer, 0, 12 * self.inner)
        return again + flow

    def forward(self, trainer: Trainer) -> float:
        """Return the bytes per token of the layer that the forward pass computes without keeping anything."""
        return self._numbers(trainer, 8 * self.hidden, 8 * self.inner)

    def _numbers(self, trainer: Trainer, everywhere: float, split: float) -> float:
        """Return bytes: without sequence parallelism, TP does not split what is outside attention and MLP."""
        layout = trainer.layout
        outside = everywhere / (layout.tensor if layout.sequence_parallel else 1)
        return (outside + split / layout.tensor) * trainer.activation / 2


def local(setup: Setup, shards: Shards) -> float:
    """Return the number of parameters on the fullest GPU."""
    parameters, stages = setup.parameters, setup.trainer.layout.pipeline
    experts = parameters.of_experts
    outside = parameters.outside
    if stages > 1:
        # The first stage has the embedding, the last one the output layer.
        outside = max(parameters.embedding, parameters.head or parameters.embedding) + parameters.vision
    dense = parameters.layers * parameters.dense_layer
    return dense / shards.layers + experts / shards.experts + outside / shards.outside


def adapters(setup: Setup) -> int:
    """Return the number of parameters in the LoRA adapters on all of the layers' matrices."""
    widths, parameters = Widths.of(setup), setup.parameters
    hidden, inner = widths.hidden, setup.model.feed_forward() * parameters.experts
    attention = 2 * (hidden + widths.heads) + 2 * (hidden + widths.pairs)
    return setup.trainer.lora * parameters.layers * (attention + 3 * (hidden * parameters.experts + inner))


def weights(setup: Setup) -> Item:
    """Return the weights on the GPU."""
    trainer = setup.trainer
    size = Bytes(0 if "weights" in trainer.on_host else trainer.weight * local(setup, trainer.weights))
    return Item("weights", f"{trainer.weight:g} B a parameter / {trainer.weights.layers} GPUs", _engine(trainer), size)


def gradients(setup: Setup) -> Item:
    """Return the gradients; with LoRA, only the adapters have any, and their optimizer state is counted here."""
    trainer = setup.trainer
    if trainer.lora:
        formula = f"{_ADAPTER} B a parameter of the adapters of rank {trainer.lora}"
        return Item("adapters", formula, _engine(trainer), Bytes(_ADAPTER * adapters(setup) / trainer.weights.layers))
    size = Bytes(0 if "weights" in trainer.on_host else trainer.gradient * local(setup, trainer.weights))
    formula = f"{trainer.gradient:g} B a parameter / {trainer.weights.layers} GPUs"
    return Item("gradients", formula, _engine(trainer), size)


def optimizer(setup: Setup) -> Item:
    """Return Adam's state: two moments and, with Megatron, the weights in float32."""
    trainer = setup.trainer
    is_here = not trainer.lora and "optimizer" not in trainer.on_host
    size = Bytes(trainer.moments * local(setup, trainer.states) if is_here else 0)
    formula = f"{trainer.moments:g} B a parameter / {trainer.states.layers} GPUs"
    return Item("optimizer", formula, _engine(trainer), size)


def gathered(setup: Setup, moment: str) -> Item:
    """Return what FSDP gathers for computation: what is outside the layers for a full pass, and two layers at a time.

    The backward pass adds gradients. Those outside the layers are summed in float32 at its end, when no activation is
    left. verl's loss includes the gradient of the output layer.
    """
    trainer, parameters = setup.trainer, setup.parameters
    root, layer = {BACKWARD: (4, 10), END: (8, 0), LOSS: (4 if trainer.engine.startswith("FSDP") else 2, 2)}.get(
        moment, (2, 4)
    )
    if trainer.lora:
        root, layer = 2, 4
    experts = parameters.experts * parameters.feed_forward * (parameters.experts > 1) / trainer.layout.expert
    count = root * (parameters.embedding + parameters.head) + layer * (parameters.dense_layer + experts)
    size = Bytes(count / trainer.layout.tensor * trainer.activation / 2) if trainer.gathered else NOTHING
    formula = f"({root} B a parameter outside the layers + {layer} B of a layer) / TP"
    return Item("gathered layers", formula, "PyTorch FSDP2: fully_shard, reshard_after_forward", size)


def logits(setup: Setup, bytes_each: float) -> Item:
    """Return the logits and log probabilities over the vocabulary."""
    shards, words = setup.trainer.vocabulary_shards, setup.model.number("vocab_size")
    formula = f"{bytes_each:g} B × V / {shards} a token"
    return Item("logits", formula, _engine(setup.trainer), per_token=Bytes(bytes_each * words / shards))


def overhead(setup: Setup) -> Item:
    """Return the memory that CUDA and NCCL take."""
    size = _CONTEXT + (_COMMUNICATION if setup.trainer.layout.gpus > 1 else NOTHING)
    return Item("CUDA and NCCL", "1 GiB + 1 GiB with several GPUs", _COLLECTED, size)


def _engine(trainer: Trainer) -> str:
    """Return the source of an engine's numbers."""
    return {
        "DTensor v1": "NeMo RL nemo_rl/models/policy/workers/dtensor_policy_worker.py:296 at v0.7.0",
        "DTensor v2": "NeMo RL nemo_rl/models/automodel/setup.py:330, 483 at v0.7.0",
        "Megatron": "NeMo RL nemo_rl/models/megatron/setup.py at v0.7.0, Megatron-LM DistributedOptimizer",
        "FSDP": "verl workers/fsdp_workers.py:326, 495 at 0.6.1",
        "FSDP2": "verl workers/fsdp_workers.py:326, 495 at 0.6.1",
    }[trainer.engine]


def _kept(setup: Setup) -> Item:
    """Return what the layers keep from the forward to the backward pass."""
    trainer, each = setup.trainer, Widths.of(setup).kept(setup.trainer)
    layers = setup.parameters.layers / trainer.layout.pipeline * trainer.in_flight
    name = "activations, all" if trainer.keep == KEEP_ALL else f"activations, inputs of {trainer.keep}"
    return Item(name, f"{each:.0f} B × {layers:g} layers a token", _COUNTED, per_token=Bytes(each * layers))


def _recomputed(setup: Setup) -> Item:
    """Return the layer that the backward pass is working on."""
    each = Widths.of(setup).recomputed(setup.trainer)
    return Item("layer in backward", f"{each:.0f} B a token", _COUNTED, per_token=Bytes(each))


def phases(setup: Setup, beside: Item) -> Iterator[Phase]:
    """Yield the training phases; `beside` is what vLLM leaves on the GPU."""
    trainer, states = setup.trainer, (weights(setup), gradients(setup), optimizer(setup))
    common = [_kept(setup), overhead(setup), beside]
    loss = [*states, gathered(setup, LOSS), logits(setup, trainer.train_logits), *common]
    yield _phase(setup, LOSS, loss, trainer.train)
    backward = [*states, gathered(setup, BACKWARD), _recomputed(setup), *common]
    yield _phase(setup, BACKWARD, backward, trainer.train)
    yield _phase(setup, END, [*states, gathered(setup, END), overhead(setup), beside], None)
    count = trainer.step * local(setup, trainer.weights) * (not trainer.lora) * (not trainer.on_host)
    step = Item("step", f"{trainer.step:g} B a parameter", "torch.optim.AdamW, foreach", Bytes(count))
    yield _phase(setup, STEP, [*states, step, overhead(setup), beside], None)
    yield _phase(setup, LOGPROB, [*_logprob_items(setup), overhead(setup), beside], trainer.logprob)


def _logprob_items(setup: Setup) -> Iterator[Item]:
    """Yield what the pass over all answers needs: no gradients, and the optimizer only if nothing moves it away."""
    trainer = setup.trainer
    yield weights(setup)
    if not setup.generator.colocated or "optimizer" in setup.generator.beside:
        yield optimizer(setup)
    yield gathered(setup, LOGPROB)
    widths = Widths.of(setup)
    of_logits, forward = logits(setup, trainer.logprob_logits), Bytes(widths.forward(trainer))
    if of_logits.per_token > forward:
        yield of_logits
    else:
        yield Item("layer in forward", f"{widths.forward(trainer):.0f} B a token", _COUNTED, per_token=forward)


def _phase(setup: Setup, name: str, items: list[Item], micro: Micro | None) -> Phase:
    return Phase(
        name=name,
        items=tuple(item for item in items if item.fixed.count or item.per_token.count),
        worst=micro.worst if micro else 0,
        realistic=micro.realistic if micro else 0,
        usable=setup.machine.gpu,
        share=WIDE_SHARE if setup.is_wide else SHARE,
    )
