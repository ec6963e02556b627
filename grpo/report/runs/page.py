"""Write the page about runs: one self-contained HTML file.

Logs contain untrusted text, so Jinja escapes every text, and a content security policy forbids every request.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import isfinite
from typing import Final

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from grpo.report.runs import figures, graphs, points
from grpo.report.runs.measures import MEASURES, SECONDS, Measure
from grpo.report.runs.run import Run, shown
from grpo.runlog.shared import Step
from postrender.finding import SEVERITIES, Finding

# Characters of a text of a sample, and of a word that a narrow table does not break.
_LONGEST: Final = 4000
_WORD: Final = 20


def write(runs: Sequence[Run]) -> str:
    """Return the page."""
    environment = Environment(loader=PackageLoader("grpo.report", "runs"), autoescape=True, keep_trailing_newline=True)
    environment.filters |= {
        "groups": _groups,
        "missing": figures.missing,
        "columns": _columns,
        "cell": _cell,
        "cut": _cut,
        "words": _words,
    }
    size = points.size(runs)
    return environment.get_template("page.html").render(
        title="GRPO training: " + " and ".join(run.name for run in runs),
        runs=runs,
        figures=figures.figures(runs),
        notes=figures.notes(runs),
        graphs=graphs.graphs(runs),
        size=size,
        tables=[points.thin(run, size) for run in runs],
        marked=any(run.signs for run in runs),
        program=_script(graphs.program()),
        swatch=_swatch,
        shown=shown,
    )


def _script(text: str) -> Markup:
    """Return JavaScript that is safe to embed in a page: no text in it closes the script element."""
    return Markup(text.replace("</script", r"<\/script"))  # noqa: S704 (the library's own program)


def _swatch(index: int) -> Markup:
    """Return a sample of a run's line, with its colour and dash pattern."""
    colour, dashes = graphs.line_style(index)
    line = Markup('<line x1="0" y1="6" x2="36" y2="6" style="stroke: {}" stroke-dasharray="{}"/>').format(
        colour, dashes
    )
    return Markup('<svg class="swatch" viewBox="0 0 36 12" aria-hidden="true">{}</svg>').format(line)


def _groups(found: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Return findings grouped by rule, the most severe rules first."""
    ordered = sorted(found, key=lambda each: (SEVERITIES.index(each.severity), each.rule))
    return [(rule, list(same)) for rule, same in groupby(ordered, key=lambda each: each.rule)]


def _columns(run: Run) -> list[Measure]:
    return [measure for measure in (*MEASURES, SECONDS) if run.values(measure.name)]


def _cell(measure: Measure, step: Step) -> str:
    value = getattr(step, measure.name)
    return "" if value is None else measure.text(value) if isfinite(value) else str(value)


def _words(text: str) -> Markup:
    """Return a text whose short words are never broken; browsers would break a line at a number's hyphen."""
    whole = Markup('<span class="word">{}</span>')
    return Markup(" ").join(whole.format(word) if len(word) <= _WORD else escape(word) for word in text.split())


def _cut(text: str) -> str:
    """Return the start of a sample's text; secrets are masked before the text is cut."""
    visible = shown(text)
    more = len(visible) - _LONGEST
    return visible[:_LONGEST] + (f"\n… {more} more characters: grpo samples shows them" if more > 0 else "")
