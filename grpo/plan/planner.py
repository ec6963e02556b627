"""Plan a run: which GPUs do what, whether it fits, and how much it costs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from grpo.plan import generation, host, nemo_rl, training, verl
from grpo.plan.phase import DOES_NOT_FIT, FITS, NOT_MODELLED, TIGHT, VERDICTS, Phase
from grpo.plan.setup import Checkpoint, Machine, NotModelledError, Setup
from grpo.plan.units import Bytes, gib
from grpo.values.derived import mapping
from grpo.values.frameworks import nemo_rl as nemo_rl_run
from grpo.values.frameworks import parameters
from grpo.values.frameworks import verl as verl_run
from grpo.values.reference_errors import UnknownError
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpo.plan.generation import Cache
    from grpo.values.config import RunConfig
    from grpo.values.frameworks.model import Model
    from postrender.types import Json

# What a program can use of a GPU's memory: 79.2 of 80, 139.8 of 141, 178.4 of 180, 184 of 186 (published logs).
_USABLE: Final = 0.99
# Nothing is computed with larger numbers.
_LARGEST: Final = 2**40
_EFA: Final = "vpc.amazonaws.com/efa"
_FSX: Final = (1200, 2400)


class Judged(NamedTuple):
    """A phase and its verdict."""

    phase: Phase
    verdict: str


class Plan(NamedTuple):
    """A plan; `reason` says why a run is not modelled."""

    setup: Setup | None
    phases: Sequence[Judged]
    cache: Cache | None
    reason: str

    @property
    def verdict(self) -> str:
        """Return the worst verdict among the phases, the nodes, and the volume."""
        if self.setup is None:
            return NOT_MODELLED
        found = [each.verdict for each in self.phases] + [host.verdict(self.setup), volume(self.setup)]
        return max((each for each in found if each != NOT_MODELLED), key=VERDICTS.index)


def plan(run: RunConfig) -> Plan:
    """Plan a run's training."""
    try:
        setup = read(run)
        _refuse_sizes(setup)
        return planned(setup)
    except NotModelledError as error:
        return Plan(None, (), None, str(error))
    except UnknownError as error:
        fix = ": give its config.json with --model-config" if str(error).startswith("the model ") else ""
        return Plan(None, (), None, f"{error} is not known{fix}")


def _refuse_sizes(setup: Setup) -> None:
    """Raise NotModelledError if a size is impossible; rules report such sizes, which allow no computation."""
    generator, trainer, machine = setup.generator, setup.trainer, setup.machine
    positive = [generator.tensor, generator.pipeline, generator.gpus, generator.length, generator.sequences]
    positive += [generator.batched_tokens, trainer.train.length, trainer.logprob.length, trainer.train.shares]
    others = [trainer.lora, *(number for micro in (trainer.train, trainer.logprob) for number in micro[:4])]
    others += [*setup.batch, setup.checkpoint.kept or 0]
    sizes = all(0 < each < _LARGEST for each in positive) and all(0 <= each < _LARGEST for each in others)
    if not sizes or not 0 < generator.utilization <= 1 or not 0 < machine.gpu.gib < _LARGEST:
        raise NotModelledError("a size that no run has: 0, below 0 or too large")


def planned(setup: Setup) -> Plan:
    """Plan a setup."""
    trained = list(training.phases(setup, generation.asleep(setup)))
    found = [Judged(each, each.verdict) for each in trained]
    refit, generating = generation.phases(setup, trained)
    found += [Judged(refit, refit.verdict), Judged(generating, generation.verdict(setup, generating))]
    return Plan(setup, found, generation.cache(setup), "")


def read(run: RunConfig) -> Setup:
    """Read a run's setup; raise NotModelledError or UnknownError if it cannot be modelled or a value is unknown."""
    if not run.trains:
        raise NotModelledError(f"the task {run.value('job.task')}")
    is_verl = run.framework == "verl"
    model = _model(run)
    counted = parameters.count(model)
    reader = verl if is_verl else nemo_rl
    return Setup(
        model=model,
        parameters=counted,
        machine=machine(run),
        trainer=verl.trainer(run) if is_verl else nemo_rl.trainer(run, counted),
        generator=reader.generator(run),
        batch=reader.batch(run),
        checkpoint=reader.checkpoint(run, *_volume(run)),
    )


def _model(run: RunConfig) -> Model:
    return verl_run.model_of(run) if run.framework == "verl" else nemo_rl_run.model_of(run)


def checkpoints(run: RunConfig) -> tuple[Bytes, Checkpoint]:
    """Return the size of a checkpoint with all parameters, and the number of such checkpoints; nothing else is read.

    Raises NotModelledError for checkpoints that contain adapters, and UnknownError if a value is unknown.
    """
    reader = verl if run.framework == "verl" else nemo_rl
    if not run.trains or reader.lora(run):
        raise NotModelledError("a checkpoint of adapters, or of another task")
    saved = reader.checkpoint(run, *_volume(run))
    return Bytes(saved.per_parameter * parameters.count(_model(run)).total), saved


def weights(run: RunConfig) -> Bytes:
    """Return the size of the model's files at 2 bytes per parameter; raise UnknownError if the model is unknown."""
    return Bytes(2 * parameters.count(_model(run)).total)


def local_disk(run: RunConfig) -> tuple[Bytes, str]:
    """Return the size and the key of the largest ephemeral volume; raise UnknownError if there is none."""
    disks = [
        (size, f"storage.{name}.ephemeral.size")
        for name, volume in mapping(run.value("storage")).items()
        if (size := _amount(mapping(mapping(volume).get("ephemeral")).get("size")))
    ]
    if not disks:
        raise UnknownError("the size of a local disk")
    return max(disks)


def converted(run: RunConfig) -> Bytes:
    """Return the weights that the convert task holds at once; raise NotModelledError or UnknownError as `read` does.

    NeMo RL's script merges DTensor's checkpoint in float32 (utils/native_checkpoint.py:258 at v0.7.0). verl's script
    loads all shards as they were saved before it converts the first tensor to bfloat16
    (model_merger/fsdp_model_merger.py:145).
    """
    reader = verl if run.framework == "verl" else nemo_rl
    if reader.lora(run) or merges_in_pieces(run) or (run.framework == "nemo-rl" and nemo_rl_run.is_megatron(run)):
        raise NotModelledError("the conversion of adapters, of safetensors or of Megatron's checkpoint")
    return Bytes((verl.weight(run) if run.framework == "verl" else 4) * parameters.count(_model(run)).total)


def merges_in_pieces(run: RunConfig) -> bool:
    """Return whether the convert task holds one output file at a time, as `Pieces` in jobs/tasks/tensors.py does."""
    return run.framework == "nemo-rl" and str(run.at("checkpointing.model_save_format")).lower() == "safetensors"


def machine(run: RunConfig) -> Machine:
    """Return the machine from the values; raise UnknownError if its GPUs or the number of nodes are unknown."""
    memory = run.value("accelerator.gpuMemoryGigabytes")
    if not isinstance(memory, int | float):
        raise UnknownError("the memory of a GPU")
    if run.gpus < 1:
        raise UnknownError("the number of a node's GPUs")
    if run.nodes < 1:
        raise UnknownError("the number of nodes")
    return Machine(
        name=run.accelerator,
        nodes=run.nodes,
        gpus=run.gpus,
        gpu=gib(memory * _USABLE),
        host=_amount(run.value("accelerator.worker.memory")),
        shared=_amount(run.value("accelerator.sharedMemory")),
    )


def _volume(run: RunConfig) -> tuple[Bytes | None, str]:
    """Return the size of the run's volume and its key; the size is None if the values do not set it."""
    name = str(run.value("job.volume"))
    volume = mapping(mapping(run.value("storage")).get(name))
    for kind in ("pvc", "lustre"):
        if size := _amount(mapping(volume.get(kind)).get("size")):
            return size, f"storage.{name}.{kind}.size"
    return None, ""


def _amount(value: Json) -> Bytes | None:
    found = quantity(value) if value is not None else None
    return Bytes(found) if found else None


def checkpoint(setup: Setup) -> Bytes:
    """Return the size of one checkpoint."""
    of = training.adapters(setup) if setup.trainer.lora else setup.parameters.total
    return Bytes(setup.checkpoint.per_parameter * of)


def unjudged(saved: Checkpoint) -> str:
    """Return what of the checkpoints is not judged because nobody has counted the rows; an empty text if all is."""
    return "whether the volume holds all checkpoints" if saved.kept is None else ""


def claim(run: RunConfig, size: Bytes) -> tuple[int, str]:
    """Return the GiB to ask for where a volume has to hold a size, and why they are more.

    FSx for Lustre has 1200 GiB and multiples of 2400 GiB (docs/howto/eks-storage.md).
    """
    needed, name = math.ceil(size.gib), str(run.value("job.volume"))
    kind = str(mapping(mapping(mapping(run.value("storage")).get(name)).get("pvc")).get("storageClassName")).lower()
    has_efa = _EFA in mapping(run.value("accelerator.resources"))
    if "fsx" not in kind and (not has_efa or "efs" in kind):
        return needed, ""
    sold = _FSX[0] if needed <= _FSX[0] else math.ceil(needed / _FSX[1]) * _FSX[1]
    return sold, f"FSx for Lustre has {_FSX[0]} GiB or multiples of {_FSX[1]} GiB"


def volume(setup: Setup) -> str:
    """Return whether the volume has room for all checkpoints that exist at the same time."""
    saved = setup.checkpoint
    if saved.volume is None or saved.kept == 0:
        return NOT_MODELLED
    if checkpoint(setup) > saved.volume:
        return DOES_NOT_FIT
    if saved.kept is None:
        return NOT_MODELLED
    return FITS if checkpoint(setup) * saved.kept <= saved.volume else TIGHT
