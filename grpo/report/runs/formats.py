"""Write the report about runs as an HTML page, JSON or Markdown."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from grpo.report import json as findings_json
from grpo.report.plan import markdown_table
from grpo.report.runs import figures
from grpo.report.runs.run import Run, shown
from postrender.errors import InstallationError

HTML: Final = "html"
JSON: Final = "json"
MARKDOWN: Final = "markdown"
FORMATS: Final = (HTML, JSON, MARKDOWN)
# With what a report begins, so that only a report is replaced by another one.
MARKS: Final = {
    HTML: b'<!doctype html>\n<html lang="en">\n<head>\n<meta name="generator" content="grpo report">\n',
    JSON: b'{\n  "writtenBy": "grpo report",\n',
    MARKDOWN: b"<!-- Written by grpo report. -->\n",
}
# Of the extra `report`.
_LIBRARIES: Final = ("altair", "jinja2", "markupsafe", "vl_convert")
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>|#&!])")


def write(runs: Sequence[Run], form: str) -> str:
    """Return the report in one of FORMATS; raise InstallationError if the libraries for the page are missing."""
    if form == HTML:
        return _page(runs)
    if form == JSON:
        return json.dumps(tree(runs), indent=2, ensure_ascii=False) + "\n"
    return "\n".join(_markdown(runs)) + "\n"


def _page(runs: Sequence[Run]) -> str:
    try:
        from grpo.report.runs import page  # noqa: PLC0415 (an extra: seconds to import)
    except ModuleNotFoundError as error:
        if error.name not in _LIBRARIES:
            raise
        fix = "pip install 'grpo-charts[report]', or --format markdown"
        raise InstallationError(f"the page needs a library that is not installed: {error.name}", fix=fix) from error
    return page.write(runs)


def tree(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the report's JSON object; figures and measures that the log does not have are left out."""
    found = figures.figures(runs)
    return {
        "writtenBy": "grpo report",
        "runs": [_run(run, index, found) for index, run in enumerate(runs)],
        "notes": figures.notes(runs),
    }


def _run(run: Run, index: int, found: Sequence[figures.Figure]) -> dict[str, Any]:
    known = {figure.id: figure.values[index] for figure in found}
    return {
        "name": run.name,
        "log": shown(run.word),
        "figures": _known(known),
        "notInTheLog": figures.missing(run),
        "findings": findings_json.entries(run.findings),
        "steps": [_known(dataclasses.asdict(step)) for step in run.steps],
        "validations": [_known(dataclasses.asdict(each)) for each in run.validations],
    }


def _known(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: findings_json.plain(value) for name, value in fields.items() if value is not None}


def _markdown(runs: Sequence[Run]) -> Iterator[str]:
    yield MARKS[MARKDOWN].decode().rstrip()
    yield "# GRPO training: " + " and ".join(_escaped(run.name) for run in runs)
    yield from ["", "## Findings", ""]
    for run in runs:
        of = f"{_escaped(run.name)}: " if len(runs) > 1 else ""
        for each in run.findings:
            where = f"{_escaped(shown(each.what))} ({_escaped(shown(str(each.at)))})"
            yield f"- {of}**{each.severity}** `{each.rule}`: {where}. Why: {each.why}. Fix: {each.fix}."
        if not run.findings:
            yield f"- {of}none"
    yield from ["", "## Figures", ""]
    head = ["figure", _escaped(runs[0].name)]
    for run in runs[1:]:
        head += [_escaped(run.name), "difference"]
    yield from markdown_table(head, [_row(figure, len(runs)) for figure in figures.figures(runs)])
    yield ""
    yield from (f"- {_escaped(note)}" for note in figures.notes(runs))
    for run in runs:
        if missing := figures.missing(run):
            yield f"- not in the log of {_escaped(run.name)}: {', '.join(missing)}"


def _row(figure: figures.Figure, runs: int) -> list[str]:
    cells = [figure.title, figure.text(0)]
    for index in range(1, runs):
        cells += [figure.text(index), figure.difference(index)]
    return cells


def _escaped(text: str) -> str:
    """Escape a text so that neither Markdown nor HTML finds markup in it."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
