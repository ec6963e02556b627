"""A problem with everything that reveals it: before the run, in the cluster, and in the output of a failed run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR
from postrender.problem import CLUSTER, FAILURE, Problem

if TYPE_CHECKING:
    from grpo.cluster.evidence import Evidence
    from grpo.problems.line import Line
    from grpo.problems.probe import Result
    from grpo.problems.sign import Sign

# Who is to blame.
HARDWARE: Final = "hardware"
CAPACITY: Final = "capacity"
CONFIGURATION: Final = "configuration"
SERVICE: Final = "service"
UNKNOWN: Final = "unknown"

# What another start of the same would do.
SAME: Final = "fails the same way"
HELPS: Final = "may succeed"
ELSEWHERE: Final = "helps on other nodes"
WAITS: Final = "does not help: it goes on by itself when there is room"

# How near to the root of a failure a problem is: the smallest number is ranked first.
# A run that lost its place also waits for another one, which is a root where nothing came before it.
ORIGIN: Final = -1
ROOT: Final = 0
EXCEPTION: Final = 1
SYMPTOM: Final = 2
CONSEQUENCE: Final = 3

Remark = Callable[["Sequence[Line]", "Evidence | None"], str]


def failure(
    problem_id: str,
    title: str,
    blame: str,
    fix: str,
    retry: str,
    logs: tuple[Sign, ...],
    *,
    place: int = ROOT,
    value: str = "",
    on_head: str = "",
    earlier: str = "",
    remark: Remark | None = None,
) -> Problem:
    """Return a problem that only a failed run's lines reveal; `earlier` are ids separated by spaces."""
    return Problem(
        problem_id,
        target=FAILURE,
        severity=ERROR,
        title=title,
        fix=fix,
        logs=logs,
        blame=blame,
        retry=retry,
        place=place,
        value=value,
        on_head=on_head,
        remark=remark,
        earlier=tuple(earlier.split()),
    )


def probe(problem_id: str, title: str, *reads: str) -> Callable[[Callable[[Evidence], Iterator[Result]]], Problem]:
    """Turn a function that inspects the cluster into a problem; `title` says what the function finds."""
    return lambda check: Problem(problem_id, target=CLUSTER, severity=ERROR, title=title, check=check, reads=reads)
