"""Judge as the guard of a run does: when a sign stops it, and how long it may be silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from postrender.errors import InputError
from postrender.runlog.shared import SIGNS, Limits
from postrender.values import merge
from postrender.values.merge import Values

_STOP_ON = "job.guard.stopOn"
# The guard knows in which phase a training is silent; from outside it may be the longest of these.
_DEADLINES = ("step", "checkpoint", "validation")


class Judgement(NamedTuple):
    """The limits of the signs, and after how many steps in a row a sign stops the watch, by the sign's name."""

    limits: Limits
    stop_on: Mapping[str, int]


def judgement(files: Sequence[str]) -> Judgement:
    """Return how the guard of values files judges; without files nothing stops, and the limits are the usual ones.

    Raises UnreadableError, and InputError for values that no guard would take.
    """
    if not files:
        return Judgement(Limits(), {})
    values = merge.load(files)
    guard = merge.over_defaults(values)["job"]["guard"]
    silent = max(_number(values, f"job.guard.deadlines.{each}Seconds", guard["deadlines"]) for each in _DEADLINES)
    limits = Limits(silent_seconds=silent, silent_factor=_number(values, "job.guard.factor", guard))
    stop_on = guard["stopOn"]
    for name in sorted(stop_on.keys() - SIGNS.keys()):
        known = ", ".join(sorted(SIGNS))
        raise InputError(
            f"{_STOP_ON}: there is no sign {name}; there are {known}", at=values.at((*_STOP_ON.split("."), name))
        )
    return Judgement(
        limits, {name: _number(values, f"{_STOP_ON}.{name}.steps", {"steps": 1, **stop_on[name]}) for name in stop_on}
    )


def _number(values: Values, path: str, section: Mapping[str, Any]) -> int:
    found = section[path.rpartition(".")[2]]
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise InputError(f"{path} is {found!r}, expected a whole number from 1", at=values.at(tuple(path.split("."))))
    return found
