"""The DTensor workers' optimizer and learning rate schedules: their classes, and the arguments of these classes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values import catalogue
from grpo.values.frameworks.nemo_rl import is_megatron, is_v2
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig
    from postrender.types import Json

OPTIMIZER: Final = "policy.optimizer"
SCHEDULER: Final = "policy.scheduler"
_TORCH: Final = "torch.optim."
_SCHEDULES: Final = "torch.optim.lr_scheduler."
_TRANSFORMER_ENGINE: Final = "transformer_engine."
_FUSED: Final = "transformer_engine.pytorch.optimizers."


class Entry(NamedTuple):
    """A class that the configuration names: where, under which name, and what is known about the class, if anything."""

    path: str
    words: str
    name: str
    kwargs: Json
    known: Mapping[str, Any] | None

    @property
    def short(self) -> str:
        """Return the class's name without its module."""
        return self.name.rpartition(".")[2]

    @property
    def is_schedule(self) -> bool:
        """Return whether the entry is in a place where a learning rate schedule is expected."""
        return self.path.startswith(SCHEDULER)

    @property
    def keys(self) -> list[str]:
        """Return the keys for a finding about the entry."""
        return [self.path, SCHEDULER if self.is_schedule else OPTIMIZER]


def entries(run: RunConfig) -> Iterator[Entry]:
    """Yield the optimizer and the schedules; none if Megatron trains, because it reads its own sections."""
    if is_megatron(run):
        return
    places = [(OPTIMIZER, OPTIMIZER)]
    scheduler = run.at(SCHEDULER)
    if isinstance(scheduler, list):
        places += [(f"{SCHEDULER}.{at}", f"entry {at + 1} of {SCHEDULER}") for at in range(len(scheduler))]
    else:
        places.append((SCHEDULER, SCHEDULER))
    for path, words in places:
        name = run.at(f"{path}.name") if isinstance(run.at(path), dict) else None
        if isinstance(name, str):
            missing = object()
            kwargs = run.at(f"{path}.kwargs", missing)
            yield Entry(path, words, name, {} if kwargs is missing else kwargs, _known(name))


def _known(name: str) -> Mapping[str, Any] | None:
    """Return what is known about a class, also if it is named by the module that defines it."""
    classes = catalogue.library("torch")
    short = name.rpartition(".")[2]
    for folder in (_FUSED, _SCHEDULES, _TORCH):
        if name.startswith(folder):
            found: Mapping[str, Any] | None = classes.get(folder + short)
            return found
    return None


@TOPIC.problem(
    f"{OPTIMIZER}.name {SCHEDULER} {OPTIMIZER}",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:806 at v0.7.0, torch/optim/__init__.py at 2.11.0",
)
def optimizer_class(run: RunConfig) -> Iterator[Finding]:
    """the optimizer or a schedule has no class that the worker can use

    Fix: use a class with its import path, such as torch.optim.AdamW
    """
    if not is_megatron(run):
        for path in (OPTIMIZER, SCHEDULER):
            if run.has(path) and run.at(path) is None:
                yield Finding(f"{path} is null, and the DTensor worker needs it", keys=[path], fix="remove the null")
    for entry in entries(run):
        what, fix = _wrong_class(run, entry)
        if what:
            yield Finding(f"{entry.words} is {entry.name}: {what}", keys=[f"{entry.path}.name", *entry.keys], fix=fix)


def _wrong_class(run: RunConfig, entry: Entry) -> tuple[str, str]:
    """Return what is wrong with an entry's class, and what to use instead; two empty texts if nothing is wrong."""
    folder = _SCHEDULES if entry.is_schedule else _TORCH
    if "." not in entry.name:
        is_there = f"{folder}{entry.name}" in catalogue.library("torch")
        return "it has no module in front", f"write {folder}{entry.name}" if is_there else ""
    if entry.name.startswith(_TRANSFORMER_ENGINE):
        if not is_v2(run) or not run.since("v0.5.0"):
            return f"the environment of the worker has no transformer-engine in {run.version}", _instead(run)
        return "", ""
    if not entry.name.startswith(_TORCH):
        # A package of the user's own.
        return "", ""
    if entry.known is None:
        close = _close(entry.name, folder)
        return "torch has no such class", f"did you mean {close}?" if close else ""
    if entry.name.startswith(_SCHEDULES) != entry.is_schedule:
        return f"it is {'an optimizer' if entry.is_schedule else 'a learning rate schedule'}", ""
    if "since" in entry.known and not run.since(entry.known["since"]):
        return f"the torch of {run.version} does not have it yet", ""
    return entry.known.get("unusable", ""), ""


def _instead(run: RunConfig) -> str:
    later = "set policy.dtensor_cfg._v2 to true, or " if run.since("v0.5.0") else ""
    return f"{later}write torch.optim.AdamW"


def _close(name: str, folder: str) -> str:
    known = {each.rpartition(".")[2].lower(): each for each in catalogue.library("torch") if _is_in(each, folder)}
    found = difflib.get_close_matches(name.rpartition(".")[2].lower(), known, n=1, cutoff=0.6)
    return known[found[0]] if found else ""


def _is_in(name: str, folder: str) -> bool:
    return f"{name.rpartition('.')[0]}." == folder


@TOPIC.problem(
    f"{OPTIMIZER}.kwargs {SCHEDULER} {OPTIMIZER}",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/automodel/setup.py:819 at v0.7.0, torch/optim and its signatures at 2.11.0",
)
def optimizer_arguments(run: RunConfig) -> Iterator[Finding]:
    """an argument of the optimizer or of a schedule is unknown, missing or invalid

    Fix: use the arguments of the class, with the types that it accepts
    """
    for entry in entries(run):
        if not run.has(f"{entry.path}.kwargs") or not isinstance(entry.kwargs, dict):
            given = "null" if run.has(f"{entry.path}.kwargs") and entry.kwargs is None else "not given"
            given = quoted(entry.kwargs) if entry.kwargs else given
            what = f"{entry.words}: kwargs is {given}, expected a map"
            yield Finding(what, keys=[f"{entry.path}.kwargs", *entry.keys], fix="write kwargs: {} for none")
        elif entry.known and "arguments" in entry.known:
            yield from _wrong_arguments(run, entry, entry.kwargs)


def _wrong_arguments(run: RunConfig, entry: Entry, kwargs: Mapping[str, Any]) -> Iterator[Finding]:
    known: Mapping[str, Any] = entry.known["arguments"] if entry.known else {}
    for name in kwargs:
        key = f"{entry.path}.kwargs.{name}"
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            fix = f"did you mean {close[0]}?" if close else f"one of {', '.join(known)}"
            yield Finding(f"{entry.words}: {entry.short} takes no {name}", keys=[key, *entry.keys], fix=fix)
            continue
        value = run.at(key)
        # torch computes with any number where its signature says int.
        allowed = known[name] if isinstance(known[name], list) else known[name].replace("integer", "number")
        if not catalogue.fits(allowed, value) and not _is_reported_elsewhere(run, entry, key, value):
            wanted = ", ".join(map(quoted, allowed)) if isinstance(allowed, list) else allowed.replace("|", " or ")
            what = f"{entry.words}: {name} of {entry.short} is {quoted(value)}, expected {wanted}"
            yield Finding(what, keys=[key, *entry.keys])
    for name in (entry.known or {}).get("required", ()):
        if name not in kwargs:
            what = f"{entry.words}: {entry.short} needs {name}"
            yield Finding(what, keys=[f"{entry.path}.kwargs", *entry.keys], fix=f"add {name} to its kwargs")


def _is_reported_elsewhere(run: RunConfig, entry: Entry, key: str, value: Json) -> bool:
    """Return whether the rule wrong-type reports the value; it accepts a quoted number, which NeMo RL converts."""
    is_text = isinstance(value, str) and run.since("v0.7.0")
    return not entry.is_schedule and not is_text and not run.catalogue.allows(key, value)


@TOPIC.problem(
    f"{OPTIMIZER}.kwargs.fused {OPTIMIZER}.kwargs.foreach",
    fails=Fails.AT_LOADING,
    source="torch/optim/adam.py:113 at 2.11.0",
)
def fused_and_foreach(run: RunConfig) -> str | None:
    """fused and foreach of the optimizer are both on

    Fix: set one of fused and foreach to false
    """
    if is_megatron(run) or not all(run.on(f"{OPTIMIZER}.kwargs.{name}") for name in ("fused", "foreach")):
        return None
    return "fused and foreach of the optimizer are both on"
