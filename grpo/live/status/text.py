"""Format a status for human readers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from grpo.live import times
from grpo.live.status.summary import Role, Status
from postrender.types import Json

_INDENT: Final = "  "


def lines(status: Status, *, show_commands: bool = False) -> Iterator[str]:
    """Yield the lines: the stack, its layers, its pods, its run, what the run waits for, and what could not be read.

    With `show_commands`, each part ends with the command that shows it by hand.
    """
    commands = status.commands if show_commands else {}
    yield f"stack {status.stack} in namespace {status.namespace}, context {status.context}"
    yield from (*_table(list(status.releases.items())), *_by_hand(commands, "releases"))
    there = f"{status.gpus_there} of {status.gpus_wanted} GPUs on nodes, {status.gpus_used} in use by the run"
    yield f"cluster: {status.cluster}, {there}"
    yield from _by_hand(commands, "cluster")
    yield from (*_table(list(map(_role, status.roles))), *_by_hand(commands, "pods"))
    yield f"run {status.run or '(none)'}: {status.job}"
    if status.reason:
        yield f"{_INDENT}failed: {status.reason}"
    yield from _by_hand(commands, "run")
    yield from (f"{_INDENT}{line}" for line in _record(status.record))
    yield from _by_hand(commands, "record")
    if status.waits:
        yield "waits for:"
        yield from (f"{_INDENT}{wait}" for wait in status.waits)
        yield from _by_hand(commands, "waits")
    if status.leftovers:
        yield "left over:"
        yield from (f"{_INDENT}{each}" for each in status.leftovers)
    if status.unread:
        yield "not read:"
        yield from _table(list(status.unread.items()))


def _by_hand(commands: Mapping[str, str], part: str) -> Iterator[str]:
    if part in commands:
        yield f"{_INDENT}by hand: {commands[part]}"


def _role(role: Role) -> tuple[str, str, str]:
    return role.name, f"{role.ready} of {_wanted(role.wanted)} pods ready", _missing(role.wanted, role.there)


def _wanted(count: int | None) -> str:
    return "?" if count is None else str(count)


def _missing(wanted: int | None, there: int) -> str:
    missing = (wanted or 0) - there
    return f"{missing} not created yet" if missing > 0 else ""


def _record(record: dict[str, Any]) -> Iterator[str]:
    """Yield lines with what the guard has written about the run."""
    if not record:
        return
    parts = [f"attempt {record.get('attempt')}", str(record.get("state"))]
    if record.get("step") is not None:
        parts.append(f"step {record['step']}")
    if isinstance(record.get("reward"), int | float):
        parts.append(f"reward {_number(record['reward'], '.4g')}")
    if record.get("phase"):
        parts.append(f"phase {record['phase']}")
    yield ", ".join(parts)
    if record.get("heartbeat"):
        yield f"last known line {_ago(str(record['heartbeat']))}, record written {_ago(str(record.get('updated', '')))}"
    saved = record.get("checkpoint")
    if isinstance(saved, dict):
        yield f"last checkpoint: step {saved.get('step')}, {_ago(str(saved.get('time', '')))}"
    hours = record.get("gpuHours")
    if isinstance(hours, dict):
        spent, lost, unsaved = (_number(hours.get(key, 0)) for key in ("spent", "lost", "unsaved"))
        yield f"GPU-hours {spent}, lost {lost}, not saved yet {unsaved}"
    findings = record.get("findings")
    for each in findings[-3:] if isinstance(findings, list) else ():
        if isinstance(each, dict):
            yield f"{each.get('time')} {each.get('sign')}: {each.get('text')}"
    if record.get("reason"):
        yield f"ended: {record['reason']}"


def _number(value: Json, form: str = "g") -> str:
    """Return a number as text; programs in pods write the record, so the value may have any type."""
    try:
        return f"{float(value):{form}}" if isinstance(value, int | float) else str(value)
    except OverflowError:
        return "infinite"


def _ago(stamp: str) -> str:
    """Return how long ago a UTC time was, in the guard's format."""
    then = times.seconds(stamp)
    return f"at {stamp}" if then is None else f"{times.span(time.time() - then)} ago"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield rows in aligned columns, without trailing spaces."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield _INDENT + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
