"""Write what the last planted failures have cost into docs/howto/faults.md.

usage: python tests/e2e/planted/table.py     after `make planted`, of whose results it makes the table
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
from kinds import FROM_INSIDE, KINDS, Kind
from ray_site import IN_PODS, RESULTS

PAGE = suite.REPOSITORY / "docs/howto/faults.md"
BEGIN, END = "<!-- planted: written by tests/e2e/planted/table.py -->", "<!-- planted: end -->"
HEAD = """\
| planted | what comes of it | seeds | deadline | seconds lost | evidence | seeds in pods | seconds lost in pods |
|---|---|---|---|---|---|---|---|
"""


def results(kind: Kind, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the records of a kind, one a seed."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob(f"{kind.name}-[0-9]*.json"))]


def in_pods(kind: Kind) -> str:
    """Return how many seeds were planted in pods, and what they lost."""
    if kind not in FROM_INSIDE:
        return "– | –"
    found = results(kind, IN_PODS)
    lost = "0" if kind.outcome == "left alone" else span([one["lost"] for one in found]) if found else ""
    return f"{len(found)} | {lost if found else 'not measured'}"


def span(values: list[float]) -> str:
    """Write the lowest and the highest of some seconds."""
    low, high = round(min(values)), round(max(values))
    return f"{low}" if low == high else f"{low} to {high}"


def row(kind: Kind, found: list[dict[str, Any]]) -> str:
    """Return the row of a kind."""
    if not found:
        return f"| {kind.what} | {kind.outcome} | 0 | – | not measured | – | {in_pods(kind)} |\n"
    is_alone = kind.outcome == "left alone"
    deadlines = [one["deadline"] for one in found]
    deadline = f"{span(deadlines)} s" if max(deadlines) else "–"
    lost = "0" if is_alone else span([one["lost"] for one in found])
    evidence = "stacks name the function" if kind.stack else "complete" if kind.is_whole else "–"
    return f"| {kind.what} | {kind.outcome} | {len(found)} | {deadline} | {lost} | {evidence} | {in_pods(kind)} |\n"


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
    pods = sum(len(results(kind, IN_PODS)) for kind in FROM_INSIDE)
    about = f"{plants} plants of {measured} kinds, and {pods} in pods, on {date}, on a machine with {machine()}"
    return f"{about}:\n\n{HEAD}{''.join(row(kind, records) for kind, records in found)}"


def main() -> None:
    """Replace the section of the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        sys.exit(f"{PAGE} lacks the lines {BEGIN} and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n\n{section()}\n{END}{after}")
    print(f"written: {PAGE.relative_to(suite.REPOSITORY)}")


if __name__ == "__main__":
    main()
