"""A problem with everything that reveals it: before the run, in the cluster, and in the output of a failed run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR
from postrender.problem import CLUSTER, FAILURE
from postrender.problem import Problem as Judged

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


@dataclass(frozen=True)
class Problem(Judged):
    """One thing that can go wrong, with the evidence that reveals it when its check has not.

    `logs` are the lines that reveal it after a run has failed. `value` is the path of the value to look at, and
    `on_head` is that path for a line about the head pod; the default is the first of the keys. `remark` summarizes all
    lines together with the cluster's evidence, if there is any. `earlier` are the ids of the problems that report the
    same fault earlier. `reads` are the kinds of evidence without which the cluster check is skipped.
    """

    logs: tuple[Sign, ...] = ()
    blame: str = CONFIGURATION
    retry: str = SAME
    place: int = ROOT
    value: str = ""
    on_head: str = ""
    remark: Remark | None = None
    earlier: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


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
