"""A node's memory: what is kept there while another phase has the GPUs, and what loading and saving take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.plan import training
from grpo.plan.phase import DOES_NOT_FIT, FITS, NOT_MODELLED, TIGHT, Item
from grpo.plan.units import Bytes, gib, total

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.plan.setup import Setup

# A worker process without a model: Python, PyTorch and CUDA's host side.
_PROCESS: Final = gib(8)
# Ray's default share of the node's memory for objects (ray/_private/ray_constants.py).
_STORE: Final = 0.3
_SHARE: Final = 0.85
# Bytes of a token between driver and workers: id 8, mask 8, three kinds of log-probabilities and the advantage 4 each
# (NeMo RL nemo_rl/algorithms/grpo.py:1486, 1688 at v0.7.0; verl's batch has the same parts).
_OF_TOKEN: Final = 32
# The phases in which the memory of a node holds what other phases do not have there, by the end of its name.
# What saving a checkpoint and computing rewards take is not modelled.
PHASES: Final = {
    "loading": "while it is loaded",
    "generation": "while vLLM generates",
    "validation": "while vLLM generates",
    "logprobs": "while the reference computes",
    "training": "asleep",
}


def during(setup: Setup, phase: str) -> list[Item]:
    """Return the items that are present in some phases only, including this one."""
    return [item for item in items(setup) if item.name.endswith(PHASES[phase])]


def items(setup: Setup) -> Iterator[Item]:
    """Yield what is in the fullest node's memory at the same time."""
    trainer, machine, parameters = setup.trainer, setup.machine, setup.parameters
    gpus = min(machine.gpus, trainer.layout.gpus)
    weights, states = training.local(setup, trainer.weights), training.local(setup, trainer.states)
    yield Item("processes", "8 GiB a GPU", "published logs of workers", _PROCESS * gpus)
    if trainer.reference and not trainer.lora:
        size = Bytes(gpus * weights * trainer.weight)
        yield Item("reference policy", f"{trainer.weight:g} B a parameter", "NeMo RL setup.py:413, verl :524", size)
        if trainer.engine.startswith("DTensor"):
            formula = f"{trainer.weight:g} B a parameter"
            yield Item("weights while the reference computes", formula, "NeMo RL use_reference_model", size)
    for name, each in _moved(setup).items():
        size = Bytes(gpus * each * (weights if name == "weights" else states))
        source = "NeMo RL offload_before_refit, move_model"
        yield Item(f"{name} while vLLM generates", f"{each:g} B a parameter", source, size)
    if setup.generator.colocated and setup.generator.sleeps:
        count = gpus * setup.generator.weight * parameters.total / (setup.generator.tensor * setup.generator.pipeline)
        yield Item("vLLM's weights asleep", "weights of each engine", "vLLM sleep level 1", Bytes(count))
    if trainer.engine == "DTensor v1":
        yield Item("model while it is loaded", "4 B a parameter on one node", "worker:349", Bytes(4 * parameters.total))


def _moved(setup: Setup) -> dict[str, float]:
    """Return the policy's parts kept in the node's memory, in bytes per parameter: always, or during generation."""
    trainer, generator = setup.trainer, setup.generator
    sizes = {"weights": trainer.weight, "optimizer": 0 if trainer.lora else trainer.moments}
    if "weights" in trainer.on_host:
        # The gradients are there too.
        return {**sizes, "weights": trainer.weight + trainer.gradient}
    if not generator.colocated:
        return {name: size for name, size in sizes.items() if name in trainer.on_host}
    return {name: size for name, size in sizes.items() if name not in generator.beside}


def peak(setup: Setup) -> Bytes:
    """Return the memory used on the fullest node, without Ray's objects."""
    return total(item.fixed for item in items(setup))


def objects(setup: Setup) -> Bytes:
    """Return the size of a step's answers as Ray objects: once for log probabilities, and with these for training."""
    batch = setup.batch
    return Bytes(2 * _OF_TOKEN * batch.prompts * batch.generations * setup.generator.length)


def store(setup: Setup) -> Bytes | None:
    """Return what Ray reserves for objects: a share of the container's memory, at most the size of /dev/shm."""
    host, shared = setup.machine.host, setup.machine.shared
    if host is None:
        return None
    return min(host * _STORE, shared) if shared else host * _STORE


def objects_verdict(setup: Setup) -> str:
    """Return whether Ray can keep a step's answers in /dev/shm; what does not fit there is spilled to disk."""
    room = store(setup)
    if room is None:
        return NOT_MODELLED
    return FITS if objects(setup) <= room else TIGHT


def verdict(setup: Setup) -> str:
    """Return whether the node's memory has room for what is kept there."""
    if setup.machine.host is None:
        return NOT_MODELLED
    share = peak(setup).share(setup.machine.host)
    return FITS if share <= _SHARE else TIGHT if share <= 1 else DOES_NOT_FIT
