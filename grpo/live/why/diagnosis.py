"""Explain why a run is not progressing or has ended, from a cluster's evidence or from a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from grpo.cluster.evidence import Evidence
from grpo.live.status import summary
from grpo.live.why import cluster_lines, log_reader
from grpo.live.why.ranking import Clues, Found
from grpo.problems.problem import CONSEQUENCE
from postrender import masking

# Lines that are shown of each cause.
_SHOWN: Final = 3
_WIDTH: Final = 400
_ELSEWHERE: Final = (
    "look into another log: the driver's (grpo logs), a pod's (kubectl logs --previous), the node's; "
    "grpo watch says whether a run learns"
)


@dataclass(frozen=True)
class Diagnosis:
    """The ranked causes; `about` says what was examined, and `unread` what could not be read.

    `is_healthy` is None if it is unknown: a log without a cause does not show that the run is progressing.
    """

    about: str
    is_healthy: bool | None
    found: tuple[Found, ...]
    unread: dict[str, str] = field(default_factory=dict)
    evidence: Evidence | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the diagnosis as data for programs."""
        rows = [self._row(number, each) for number, each in enumerate(self.found, 1)]
        about = {"about": self.about, "healthy": self.is_healthy, "causes": rows, "unread": self.unread}
        return dict(masking.clean(about))

    def _row(self, number: int, found: Found) -> dict[str, Any]:
        cause = found.cause
        return {
            "rank": number,
            "id": cause.id,
            "title": cause.title,
            "blame": cause.blame,
            "evidence": [{"source": line.place, "text": line.text[:_WIDTH]} for line in found.lines[:_SHOWN]],
            "lines": found.count,
            "remark": found.remark(self.evidence),
            "value": found.value,
            "at": self.evidence.expected.place(found.value) if self.evidence else "",
            "rules": list(found.rules),
            "fix": cause.fix,
            "retry": cause.retry,
        }

    def lines(self) -> Iterator[str]:
        """Yield the diagnosis for human readers."""
        yield self.about
        for row in self.as_json()["causes"]:
            yield from _lines(row)
        if not self.found:
            yield "nothing is wrong" if self.is_healthy else "no known cause was found"
        if not self.found and not self.is_healthy:
            yield f"     do: {_ELSEWHERE}"
        if self.unread:
            yield "not read:"
            yield from (f"  {name}: {why}" for name, why in self.unread.items())


def _lines(row: dict[str, Any]) -> Iterator[str]:
    yield f"{row['rank']}. {row['id']} ({row['blame']}): {row['title']}"
    yield from (f"     {each['source']}: {each['text']}" for each in row["evidence"])
    if (more := row["lines"] - len(row["evidence"])) > 0:
        yield f"     and {more} more such lines"
    if row["remark"]:
        yield f"     {row['remark']}"
    if row["value"]:
        yield f"     value: {' '.join(filter(None, (row['at'], row['value'])))}"
    if row["rules"]:
        yield f"     may be found before the start by {', '.join(row['rules'])}"
    yield f"     do: {row['fix']}"
    yield f"     another start {row['retry']}"


def of_evidence(evidence: Evidence) -> Diagnosis:
    """Explain why a stack's run is not progressing; a run that is progressing has no cause."""
    state = summary.sum_up(evidence)
    about = f"run {state.run or '(none)'} of stack {state.stack} in namespace {state.namespace}: {state.job}"
    if state.record:
        parts = [f"{key} {state.record[key]}" for key in ("attempt", "phase", "step") if state.record.get(key)]
        about += f"; the guard last saw {', '.join(parts)}"
    lines = list(cluster_lines.lines(evidence))
    clues = Clues()
    if not state.is_healthy:
        clues.take(lines)
        for _, log in cluster_lines.logs(evidence):
            clues.take(log)
    found = clues.ranked(ran=cluster_lines.has_ended(evidence))
    return Diagnosis(about, state.is_healthy, tuple(found), evidence.unread, evidence)


def of_log(chunks: Iterable[bytes], name: str) -> Diagnosis:
    """Explain what a log shows; a log without a cause is not called healthy."""
    clues, unread = Clues(), list[str]()
    clues.take(log_reader.read(chunks, name, say=unread.append))
    found = clues.ranked()
    if found and all(each.cause.place == CONSEQUENCE for each in found):
        unread.append("the log shows only consequences: the cause stands in another log, of a worker or of a node")
    is_healthy = False if found else None
    return Diagnosis(f"log {name}", is_healthy, tuple(found), {name: "; ".join(unread)} if unread else {})
