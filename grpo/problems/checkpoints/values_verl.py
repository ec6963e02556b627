"""What a checkpoint contains, and what a resumed run loads from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.verl import TOPIC
from grpo.values.frameworks.verl import ACTOR
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_SAVED: Final = f"{ACTOR}.checkpoint.save_contents"
_LOADED: Final = f"{ACTOR}.checkpoint.load_contents"
_RESUME: Final = "trainer.resume_mode"
_OPTIM: Final = f"{ACTOR}.optim"
_PARTS: Final = ("model", "optimizer", "extra", "hf_model")


@TOPIC.problem(
    f"{_SAVED} {_LOADED}",
    fails=Fails.AT_CHECKPOINT,
    source="utils/checkpoint/checkpoint_manager.py:76 at 0.9.1",
    severity=WARNING,
)
def checkpoint_contents(run: RunConfig) -> Iterator[Finding]:
    """a checkpoint has an unknown part, or lacks one that a resumed run needs

    Why: nothing fails until the run resumes: an unknown part is never saved, and a missing one makes the resume fail
    Fix: use [model, optimizer, extra]; hf_model adds a copy for vLLM
    """
    # A missing part may be the one that is misspelt.
    yield from [*_unknown(run)] or _forgotten(run)


def _unknown(run: RunConfig) -> Iterator[Finding]:
    saved, loaded = run.at(_SAVED), run.at(_LOADED)
    for path, given in ((_SAVED, saved), (_LOADED, loaded)):
        unknown = [part for part in given if part not in _PARTS] if isinstance(given, list) else []
        if unknown and run.given_has(path):
            yield Finding(f"{path} has {quoted(unknown)}, expected of {', '.join(_PARTS)}", keys=[path])
    if isinstance(saved, list) and isinstance(loaded, list) and run.at(_RESUME) != "disable":
        missing = [part for part in loaded if part in _PARTS and part not in saved]
        if missing:
            yield Finding(f"load_contents has {quoted(missing)}, which save_contents lacks", keys=[_LOADED, _SAVED])


def _forgotten(run: RunConfig) -> Iterator[Finding]:
    """Yield what a resumed run resets besides its weights; a run that resumes from a path may intend that."""
    if run.at(_RESUME) == "resume_path" or _without(run, "model"):
        return
    path = _without(run, "optimizer")
    if path:
        what = f"{path} is {quoted(run.at(path))}, without optimizer: a resumed run has a fresh optimizer"
        yield Finding(what, keys=[path], why="Adam has lost its averages after each resume")
    path = _without(run, "extra") if _has_schedule(run) else ""
    if path:
        what = f"{path} is {quoted(run.at(path))}, without extra: a resumed run starts the learning rate schedule again"
        yield Finding(what, keys=[path], why="after each resume the learning rate is that of the first steps")


def _without(run: RunConfig, part: str) -> str:
    """Return the key that keeps a resumed run from loading a part; empty if the part is loaded."""
    resumes = run.at(_RESUME) == "resume_path" or (run.at(_RESUME) == "auto" and run.number("trainer.save_freq") > 0)
    saved, loaded = run.at(_SAVED), run.at(_LOADED)
    if not resumes or not isinstance(saved, list) or not isinstance(loaded, list) or part in loaded:
        return ""
    return _LOADED if part in saved else _SAVED


def _has_schedule(run: RunConfig) -> bool:
    """Return whether the learning rate changes during the run."""
    kind = run.at(f"{_OPTIM}.warmup_style") or run.at(f"{_OPTIM}.lr_scheduler_type")
    warm_up = (run.at(f"{_OPTIM}.{key}") for key in ("lr_warmup_steps", "lr_warmup_steps_ratio"))
    return kind == "cosine" or any(isinstance(given, (int, float)) and given > 0 for given in warm_up)


@TOPIC.problem(
    f"{_SAVED} {_LOADED}",
    fails=Fails.SILENT,
    source="utils/checkpoint/fsdp_checkpoint_manager.py:212 at 0.9.1",
    severity=WARNING,
)
def checkpoint_without_model(run: RunConfig) -> Iterator[Finding]:
    """a resumed run does not load the trained weights

    Why: verl neither checks for model nor loads hf_model, vLLM's copy, so the run continues with the base model
    Fix: use [model, optimizer, extra, hf_model], or trainer.resume_mode disable for a run that never resumes
    """
    path = _without(run, "model")
    if path:
        what = (
            f"{path} is {quoted(run.at(path))}, without model: a resumed run goes on with the weights of the base model"
        )
        yield Finding(what, keys=[path])
