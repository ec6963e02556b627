"""Judge as a run's guard does: what is a sign, when a sign stops the run, and how long the run may be silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from grpo.lint.messages import Explainer
from grpo.runlog.shared import SIGNS, Limits
from grpo.values import set_arguments
from grpo.values.set_arguments import Argument
from postrender import paths
from postrender.errors import InputError
from postrender.schema import SchemaError, read_schema
from postrender.values import merge
from postrender.values.merge import Values

_GUARD = ("job", "guard")
# The guard knows in which phase a training is silent; from outside it may be the longest of these.
_DEADLINES = ("step", "checkpoint", "validation")


class Judgement(NamedTuple):
    """The limits of the signs, and, by sign name, after how many consecutive steps a sign stops the watch."""

    limits: Limits
    stop_on: Mapping[str, int]


def judgement(files: Sequence[str], arguments: Sequence[Argument] = ()) -> Judgement:
    """Return how the guard in the values judges; without files nothing stops the watch, and the default limits apply.

    Raises UnreadableError if a file cannot be read, and InputError if the values are not valid for a guard.
    """
    if not files:
        return Judgement(Limits(), {})
    values = set_arguments.apply(merge.load(files), arguments)
    _refuse(values)
    guard = merge.over_defaults(values)["job"]["guard"]
    silent = max(guard["deadlines"][f"{each}Seconds"] for each in _DEADLINES)
    of_time = {"silent_seconds": silent, "validation_seconds": silent, "silent_factor": guard["factor"]}
    limits = replace(Limits.of(guard["limits"]), **of_time)
    # A guard that is off ends no run.
    stop_on = guard["stopOn"] if guard["enabled"] else {}
    for name in sorted(stop_on.keys() - SIGNS.keys()):
        known = ", ".join(sorted(SIGNS))
        raise InputError(
            f"job.guard.stopOn: there is no sign {name}; there are {known}", at=values.at((*_GUARD, "stopOn", name))
        )
    return Judgement(limits, {name: stop_on[name].get("steps", 1) for name in stop_on})


def _refuse(values: Values) -> None:
    """Raise InputError if the chart would reject the guard's values; the other values are not checked."""
    schema = read_schema(paths.schema("grpo-job"))
    for problem in schema.problems(merge.overlay(merge.defaults(), values.as_helm_merges())):
        if _is_of_guard(problem):
            finding = next(Explainer(schema, values).findings(problem))
            raise InputError(finding.what, at=finding.at, fix=finding.fix)


def _is_of_guard(problem: SchemaError) -> bool:
    at = (*problem.path, problem.expected) if problem.keyword == "required" else problem.path
    return at[:2] == _GUARD or (at == _GUARD[:1] and problem.keyword == "type")
