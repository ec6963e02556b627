"""The memory of a GPU that generates with vLLM, and while it receives new weights.

At startup, vLLM takes `gpu_memory_utilization` of the total GPU memory, and uses what is left of it for the KV
cache (vllm/v1/worker/gpu_worker.py, determine_available_memory, at v0.20.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.plan import training
from grpo.plan.phase import DOES_NOT_FIT, FITS, TIGHT, Item, Phase
from grpo.plan.units import NOTHING, Bytes, gib, total

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from grpo.plan.setup import Setup
    from grpo.values.frameworks.model import Model

GENERATION: Final = "generation"
_VLLM: Final = "vLLM vllm/v1/worker/gpu_worker.py at v0.20.0"
# update_weights wakes vLLM first; 0.7.1 and 0.9.1 empty PyTorch's cache before, and so does the offload of weights.
_CACHE: Final = "verl workers/engine_workers.py:702 at 0.8.0"
# What is not PyTorch's, and the CUDA graphs, in published start-up logs.
_OUTSIDE, _GRAPHS = gib(1.3), gib(1.0)
# What stays on the GPU while vLLM sleeps: published for one GPU, and for engines of several.
_ASLEEP_ONE, _ASLEEP_MANY = gib(0.8), gib(4.0)
# What stays of the policy while vLLM generates.
_POLICY: Final = gib(2.0)
# How much of the usable memory vLLM and its neighbours may take together: vLLM itself plans what is inside its share.
_SHARE: Final = 0.97
# How well the size of the KV cache is known.
_UNSURE: Final = gib(1.0)
# Every how many layers sees all tokens; the others see a window.
_FULL_EVERY: Final = {
    "Gemma2ForCausalLM": 2,
    "Gemma3ForCausalLM": 6,
    "Gemma3ForConditionalGeneration": 6,
    "GptOssForCausalLM": 2,
}


class Cache(NamedTuple):
    """An engine's KV cache: its bytes on one GPU, and the bytes of one sequence of the maximum length.

    A step gives an engine as many sequences as `wanted`, of which it generates at most `limit` at a time.
    """

    size: Bytes
    sequence: Bytes
    engines: int
    wanted: int
    limit: int

    @property
    def concurrent(self) -> int:
        """Return how many sequences of the maximum length an engine generates at a time."""
        return max(int(self.size.share(self.sequence)), 0)


def sliding_layers(model: Model, layers: int) -> int:
    """Return the number of layers with sliding-window attention."""
    if not model.window():
        return 0
    kinds = model.value("layer_types")
    if isinstance(kinds, list):
        return kinds.count("sliding_attention")
    every = _FULL_EVERY.get(model.architecture)
    return layers - layers // every if every else layers


def cache(setup: Setup) -> Cache:
    """Return the KV cache that remains after the weights and the working memory."""
    generator, items = setup.generator, _inside(setup)
    size = setup.machine.gpu * generator.utilization
    for item in items:
        size = size - item.fixed
    wanted = -(-setup.batch.prompts * setup.batch.generations // max(generator.engines, 1))
    return Cache(size, _sequence(setup), generator.engines, wanted, generator.sequences)


def _sequence(setup: Setup) -> Bytes:
    """Return the KV cache of one sequence of the maximum length on one GPU: keys and values of its KV heads."""
    generator, model = setup.generator, setup.model
    heads, layers = -(-model.kv_heads() // generator.tensor), setup.parameters.layers
    each = 2 * generator.cache * heads * model.head_dim() / generator.pipeline
    sliding = sliding_layers(model, layers)
    tokens = (layers - sliding) * generator.length + sliding * min(generator.length, model.window() or generator.length)
    return Bytes(each * tokens)


def _weights(setup: Setup) -> Item:
    generator = setup.generator
    gpus = generator.tensor * generator.pipeline
    size = Bytes(generator.weight * setup.parameters.total / gpus)
    return Item("vLLM's weights", f"{generator.weight:g} B a parameter / {gpus} GPUs", _VLLM, size)


def _inside(setup: Setup) -> list[Item]:
    """Return the items in vLLM's share besides the KV cache."""
    generator, widths = setup.generator, training.Widths.of(setup)
    tokens = generator.batched_tokens * (6 * widths.hidden + 6 * widths.inner / generator.tensor)
    words = 2 * generator.sequences * widths.words * 4
    formula = f"{generator.batched_tokens} tokens × (6h + 6I/TP) + {generator.sequences} sequences × V × 8 B"
    return [
        _weights(setup),
        Item("vLLM's activations", formula, _VLLM, Bytes(tokens + words)),
        Item("vLLM outside PyTorch", "1.3 GiB", "published start-up logs", _OUTSIDE),
    ]


def asleep(setup: Setup) -> Item:
    """Return the memory that vLLM keeps while the policy trains on the same GPU."""
    generator = setup.generator
    if not generator.colocated:
        return Item("", "", "")
    if not generator.sleeps:
        formula = f"{generator.utilization:g} of the GPU: vLLM does not sleep"
        return Item("vLLM", formula, _VLLM, setup.machine.gpu * generator.utilization)
    size = _ASLEEP_ONE if generator.tensor == 1 else _ASLEEP_MANY
    return Item("vLLM asleep", "0.8 GiB, 4 GiB with several GPUs an engine", "NeMo RL issue 223, vLLM's logs", size)


def _policy(setup: Setup) -> Iterator[Item]:
    """Yield what the policy leaves on the GPU while vLLM generates."""
    generator = setup.generator
    parts: Mapping[str, Item] = {"weights": training.weights(setup), "optimizer": training.optimizer(setup)}
    for name in sorted(generator.beside):
        item = parts[name]
        yield item._replace(name=f"policy's {item.name}")
    yield Item("policy's rest", "2 GiB", "CUDA and NCCL of the training process, published logs", _POLICY)


def phases(setup: Setup, trained: Sequence[Phase]) -> Iterator[Phase]:
    """Yield the weight transfer and the generation, as phases after those of training."""
    generator, gpu = setup.generator, setup.machine.gpu
    yield _refit(setup, max(trained, key=lambda phase: phase.peak))
    left = cache(setup).size
    formula = "what is left of gpu_memory_utilization"
    inside = [*_inside(setup), Item("KV cache", formula, _VLLM, left if left > NOTHING else NOTHING)]
    around = [*_policy(setup)] if generator.colocated else []
    if generator.graphs:
        around.append(Item("CUDA graphs", "1 GiB", "published start-up logs", _GRAPHS))
    yield Phase(GENERATION, tuple(item for item in [*inside, *around] if item.fixed.count), 0, 0, gpu, _SHARE)


def _refit(setup: Setup, largest: Phase) -> Phase:
    """Return the weight transfer phase; `largest` is the training phase with the highest peak."""
    generator = setup.generator
    if generator.colocated and setup.trainer.keeps_cache:
        fixed, per_token = total(item.fixed for item in largest.items), total(item.per_token for item in largest.items)
        cache = Item(
            "trainer's memory", f"as in {largest.name}: PyTorch's cache is not emptied", _CACHE, fixed, per_token
        )
        return largest._replace(name=training.REFIT, items=(cache, _weights(setup)))
    items = [training.weights(setup), _tensor(setup), training.overhead(setup)]
    if generator.colocated:
        items += [_weights(setup), asleep(setup)]
    if not generator.colocated or "optimizer" in generator.beside:
        items.append(training.optimizer(setup))
    return Phase(training.REFIT, tuple(item for item in items if item.fixed.count), 0, 0, setup.machine.gpu, _SHARE)


def _tensor(setup: Setup) -> Item:
    """Return the largest tensor, which is gathered in full before it is sent: in float32, and in bfloat16."""
    size = Bytes(6 * setup.parameters.embedding)
    return Item("tensor that is sent", "6 B × the embedding", "NeMo RL ipc_weight_synchronizer.py", size)


def verdict(setup: Setup, phase: Phase) -> str:
    """Return whether generation fits: one sequence of the maximum length must fit, or vLLM refuses to start."""
    left = cache(setup)
    if left.size + _UNSURE < left.sequence or phase.peak > setup.machine.gpu:
        return DOES_NOT_FIT
    return FITS if phase.peak.share(setup.machine.gpu) <= _SHARE and left.size >= left.sequence else TIGHT
