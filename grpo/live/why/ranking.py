"""Find the causes that lines show, and rank them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from grpo.cluster.evidence import Evidence
from grpo.live.why import registry
from grpo.problems.line import GPU_HEAD, HEAD, LOG, OPERATOR, Line
from grpo.problems.problem import EXCEPTION, ORIGIN
from grpo.problems.topic import whole
from postrender import masking
from postrender.problem import Problem

# What is kept of one cause: enough for a line of each rank of a large run.
_KEPT: Final = 2000
_LONGEST: Final = 1000


@dataclass
class Found:
    """A cause with the lines that show it, earliest first; `count` is the total number of such lines."""

    cause: Problem
    lines: list[Line] = field(default_factory=list)
    count: int = 0

    def remark(self, evidence: Evidence | None) -> str:
        """Return what all lines show together, using a cluster's evidence if there is any."""
        return self.cause.remark(self.lines, evidence) if self.cause.remark else ""

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the problems that would reveal the cause before the run: from grpo lint, check or doctor."""
        ids = [each.id for line in self.lines[:1] for each in registry.refused_values(line)]
        return tuple(ids or self.cause.earlier)

    @property
    def value(self) -> str:
        """Return the path of the value to look at: the first key of lint's problem, or else the cause's own value."""
        said = [each for line in self.lines[:1] for each in registry.refused_values(line)]
        if said:
            keys = [each.keys[0] for each in said if each.keys]
            return whole(keys[0]) if keys else "job.config"
        heads = (HEAD,) if self.cause.value.startswith("accelerator.") else (HEAD, GPU_HEAD)
        on_head = any(line.role in heads for line in self.lines[:1])
        return self.cause.on_head if on_head and self.cause.on_head else self.cause.value


class Clues:
    """The causes that the lines of one run have shown so far."""

    def __init__(self) -> None:
        self.found: dict[str, Found] = {}

    def take(self, lines: Iterable[Line | None]) -> None:
        """Take the lines of one source; None means that the run survived all lines before it."""
        mine: dict[str, Found] = {}
        for line in lines:
            if line is None:
                mine = {}
            elif cause := registry.cause_of(line):
                entry = mine.setdefault(cause.id, Found(cause))
                entry.count += 1
                if len(entry.lines) < _KEPT:
                    entry.lines.append(_short(line))
        for name, entry in mine.items():
            kept = self.found.setdefault(name, Found(entry.cause))
            kept.count += entry.count
            kept.lines += entry.lines

    def ranked(self, *, ran: bool = True) -> list[Found]:
        """Return the causes, the closest to the root first.

        Root causes come before Python errors that no cause explains, these before symptoms (a collective that timed
        out), and symptoms before consequences (an actor that died). Among equals, the cluster's evidence comes first,
        by time, then log lines, by line number. After a run has started and ended (`ran`), what its pods are waiting
        for now is not why it ended, but may show what was lost: it is ranked after errors and before symptoms. What the
        operator logged comes last. A run that was evicted also waits, for a new place, but the eviction is still the
        origin.
        """

        def rank(found: Found) -> tuple[bool, int, int, str, int]:
            line, place = min(found.lines, key=lambda each: _order(each, ran=ran)), found.cause.place
            if ran and place > ORIGIN and all(each.waits for each in found.lines):
                place = max(place, EXCEPTION)
            return (ran and line.kind == OPERATOR, place, *_order(line, ran=ran))

        return sorted(self.found.values(), key=rank)


def _order(line: Line, *, ran: bool) -> tuple[int, str, int]:
    late = 2 if line.kind == OPERATOR or (ran and line.waits) else 1 if line.kind == LOG else 0
    return late, line.time, line.order


def _short(line: Line) -> Line:
    # Hidden before it is cut: of half a token nobody knows what it is.
    said = f"{line.text.rstrip()}: {line.asserted}" if line.asserted else line.text
    return replace(line, text=masking.text(said)[:_LONGEST])
