"""Write what the last planted failures have cost into docs/howto/faults.md.

usage: python tests/e2e/planted/table.py     after tests/e2e/planted/run.py, of whose results it makes the table
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import suite
from kinds import DEADLINES, KINDS, Kind
from ray_site import RESULTS

PAGE = suite.REPOSITORY / "docs/howto/faults.md"
BEGIN, END = "<!-- planted: written by tests/e2e/planted/table.py -->", "<!-- planted: end -->"
HEAD = """\
| planted | what comes of it | seeds | deadline | seconds lost | evidence |
|---|---|---|---|---|---|
"""


def results(kind: Kind) -> list[dict[str, Any]]:
    """Return the records of a kind, one a seed."""
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob(f"{kind.name}-[0-9]*.json"))]


def span(values: list[float]) -> str:
    """Write the lowest and the highest of some seconds."""
    low, high = round(min(values)), round(max(values))
    return f"{low}" if low == high else f"{low} to {high}"


def row(kind: Kind, found: list[dict[str, Any]]) -> str:
    """Return the row of a kind."""
    if not found:
        return f"| {kind.what} | {kind.outcome} | 0 | – | not measured | – |\n"
    is_alone = kind.outcome == "left alone"
    deadlines = [one["deadline"] for one in found]
    deadline = f"{span(deadlines)} s" if max(deadlines) else "–"
    lost = "0" if is_alone else span([one["lost"] for one in found])
    evidence = "stacks name the function" if kind.stack else "complete" if kind.evidence and kind.fails else "–"
    return f"| {kind.what} | {kind.outcome} | {len(found)} | {deadline} | {lost} | {evidence} |\n"


def machine() -> str:
    """Name this machine's size."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} processors and {memory:.0f} GiB"


def section() -> str:
    """Return the text between the marks; a kind without a result is called so."""
    found = [(kind, results(kind)) for kind in KINDS]
    newest = max(path.stat().st_mtime for path in RESULTS.glob("*.json"))
    date = time.strftime("%Y-%m-%d", time.gmtime(newest))
    plants = sum(len(records) for _, records in found)
    measured = sum(1 for _, records in found if records)
    about = f"{plants} plants of {measured} kinds, on {date}, on a machine with {machine()}"
    return f"{about}:\n\n{HEAD}{''.join(row(kind, records) for kind, records in found)}"


def main() -> None:
    """Replace the section of the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        sys.exit(f"{PAGE} lacks the lines {BEGIN} and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n\n{section()}\n{END}{after}")
    print(f"written: {PAGE.relative_to(suite.REPOSITORY)}, deadlines of {min(DEADLINES.values())} s and more")


if __name__ == "__main__":
    main()
