"""Draw graphs of runs with Vega-Lite; the extra `report` installs the libraries.

Colours are variables of the page's style sheet, so that a graph follows the reader's choice of light or dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import isfinite
from statistics import median
from typing import Any, Final, NamedTuple

import altair as alt
import vl_convert

from grpo.report.runs import phases, points
from grpo.report.runs.measures import MEASURES, SECONDS, Measure
from grpo.report.runs.run import Run

# How many runs have a colour of their own.
MOST_RUNS: Final = 4
# A run with as many steps has no dots; a thick line shows the mean of the last WINDOW steps.
MANY: Final = 60
WINDOW: Final = 10
# A measure whose highest value is this many times its median has a logarithmic axis.
LOGARITHMIC_FROM: Final = 50
_RUN_COLOURS: Final = [f"var(--run-{number})" for number in range(1, MOST_RUNS + 1)]
_DASHES: Final = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]][:MOST_RUNS]
_PHASE_COLOURS: Final = [f"var(--phase-{number})" for number in range(1, phases.SHOWN + 1)]
_REST_COLOUR: Final = "var(--phase-rest)"
_STEP_AXIS: Final = alt.Axis(title="step", tickMinStep=1, format="d", grid=False)
# 4e-8 instead of 0.00000004.
_LABEL: Final = "length(datum.label) > 7 && abs(datum.value) < 0.001 ? format(datum.value, '~g') : datum.label"
_HEIGHT: Final = 200

Rows = list[dict[str, Any]]


class Graph(NamedTuple):
    """A graph: its title, a text alternative, notes for the reader, and its specification."""

    title: str
    text: str
    note: str
    specification: Mapping[str, Any]


@cache
def program() -> str:
    """Return the JavaScript that draws a specification: Vega, Vega-Lite and vega-embed in one text."""
    version = ".".join(alt.SCHEMA_VERSION.split(".")[:2])
    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version))


def graphs(runs: Sequence[Run]) -> list[Graph]:
    """Return one graph for each measure that any run has, and for each run one of its step times."""
    size = points.size(runs)
    drawn = [points.thin(run, size) for run in runs]
    measures = [measure for measure in MEASURES if any(run.values(measure.name) for run in runs)]
    found = [_of_measure(measure, runs, drawn, size) for measure in measures]
    return [*found[:1], *_of_times(runs, drawn, size), *found[1:]]


def _of_measure(measure: Measure, runs: Sequence[Run], drawn: Sequence[Run], size: int) -> Graph:
    rows: Rows = [
        {"step": step.number, "value": _finite(getattr(step, measure.name)), "run": run.name}
        for run in drawn
        for step in run.steps
        if getattr(step, measure.name) is not None
    ]
    values = [row["value"] for row in rows if row["value"] is not None]
    logarithmic = bool(values) and min(values) > 0 and max(values) > LOGARITHMIC_FROM * median(values)
    validations = _validations(measure, runs)
    told = [_told(measure, run) for run in runs]
    notes = ["the axis is logarithmic"] if logarithmic else []
    notes += _point_notes(size)
    notes += [f"thick: mean of the last {WINDOW} {'steps' if size == 1 else 'points'}"] if _many(runs) else []
    notes += ["diamonds: validation"] if validations else []
    notes += ["gaps: the value is not a number"] if len(values) < len(rows) else []
    layers = [*_lines(measure, rows, runs, logarithmic=logarithmic), *_diamonds(validations, runs), *_marks(runs)]
    return Graph(measure.label, "; ".join(told), ", ".join(notes), _specification(alt.layer(*layers)))


def _lines(measure: Measure, rows: Rows, runs: Sequence[Run], *, logarithmic: bool) -> Iterator[alt.Chart]:
    """Yield each run's line and, if there are many steps, a thick line for the moving average."""
    scale = alt.Scale(type="log") if logarithmic else alt.Scale(zero=False)
    share = measure.form.endswith("%}")
    axis = alt.Axis(format=".3~%") if share else alt.Axis(labelExpr=_LABEL)
    value = alt.Y("value:Q", title=None, scale=scale, axis=axis)
    base = alt.Chart(alt.InlineData(values=rows))
    smoothed = _many(runs)
    shared = {"x": alt.X("step:Q", axis=_STEP_AXIS, scale=_steps(runs)), "color": _run_colour(runs)}
    tooltip = [
        alt.Tooltip("run:N"),
        alt.Tooltip("step:Q"),
        alt.Tooltip("value:Q", title=measure.title, format=".4~%" if share else ".4~g"),
    ]
    dot = alt.OverlayMarkDef(size=60 if smoothed else 25, opacity=0 if smoothed else 1)
    line = base.mark_line(point=dot, strokeWidth=1 if smoothed else 2, opacity=0.45 if smoothed else 1)
    yield line.encode(**shared, y=value, strokeDash=_run_dash(runs), tooltip=tooltip)
    if smoothed:
        window = base.transform_window(
            mean="mean(value)", frame=[1 - WINDOW, 0], groupby=["run"], sort=[alt.SortField("step")]
        )
        mean = alt.Y("mean:Q", title=None, scale=scale, axis=axis)
        yield window.mark_line(strokeWidth=2.5).encode(**shared, y=mean, strokeDash=_run_dash(runs))


def _validations(measure: Measure, runs: Sequence[Run]) -> Rows:
    """Return the runs' validations of a measure; only rewards and lengths are validated."""
    return [
        {"step": each.number, "value": value, "run": run.name}
        for run in runs
        for each in run.validations
        if each.number is not None and (value := getattr(each, measure.name, None)) is not None and isfinite(value)
    ]


def _diamonds(rows: Rows, runs: Sequence[Run]) -> Iterator[alt.Chart]:
    if rows:
        tooltip = [alt.Tooltip("run:N"), alt.Tooltip("step:Q"), alt.Tooltip("value:Q", title="Validation")]
        mark = alt.Chart(alt.InlineData(values=rows)).mark_point(
            shape="diamond", size=150, filled=True, opacity=1, stroke="var(--ink)", strokeWidth=1.5
        )
        yield mark.encode(x="step:Q", y="value:Q", color=_run_colour(runs), tooltip=tooltip)


def _marks(runs: Sequence[Run]) -> Iterator[alt.Chart]:
    """Yield a vertical line at each step where a finding begins."""
    rows = [
        {"step": sign.step, "finding": f"run/{sign.id}", "run": run.name, "severity": sign.severity}
        for run in runs
        for sign, _ in run.signs
    ]
    for severity in ("warning", "error"):
        if chosen := [row for row in rows if row["severity"] == severity]:
            mark = alt.Chart(alt.InlineData(values=chosen)).mark_rule(
                color=f"var(--{severity})", strokeDash=[3, 3], opacity=0.7
            )
            yield mark.encode(x="step:Q", tooltip=["finding:N", "step:Q", "run:N"])


def _of_times(runs: Sequence[Run], drawn: Sequence[Run], size: int) -> Iterator[Graph]:
    """Yield a graph of each run's step times, all with the same axes."""
    names = phases.longest(runs)
    timed = [pair for pair in zip(runs, drawn, strict=True) if pair[0].values("seconds")]
    highest = max((_highest_time(each, names) for _, each in timed), default=1.0)
    for run, each in timed:
        parts = phases.parts(each, names)
        rows: Rows = [{"step": part.step, "phase": part.phase, "seconds": part.seconds} for part in parts]
        rows = rows or [
            {"step": step.number, "phase": phases.REST, "seconds": step.seconds}
            for step in each.steps
            if step.seconds is not None
        ]
        last = run.steps[-1].number
        for row in rows:
            # A bar reaches half a step to each side, and over all steps of its point.
            row["start"], row["end"] = row["step"] - 0.5, min(-(-row["step"] // size) * size, last) + 0.5
        title = f"{SECONDS.label} by phase" + (f": {run.name}" if len(runs) > 1 else "")
        notes = _point_notes(size)
        notes += ["phases overlap: they add up to more than the step"] if phases.overlap(run, names) else []
        stack = _stack(rows, [*names, phases.REST], highest, _steps(runs))
        yield Graph(title, _told_times(run, names), ", ".join(notes), stack)


def _point_notes(size: int) -> list[str]:
    return [f"a point is the mean of {size} steps"] if size > 1 else []


def _stack(rows: Rows, names: Sequence[str], highest: float, steps: alt.Scale) -> Mapping[str, Any]:
    shown = [name for name in names if any(row["phase"] == name for row in rows)]
    colours = {name: colour for name, colour in zip(names, _PHASE_COLOURS, strict=False) if name != phases.REST}
    order = {name: index for index, name in enumerate(shown)}
    for row in rows:
        row["order"] = order[row["phase"]]
    phase = alt.Color(
        "phase:N",
        title=None,
        sort=shown,
        scale=alt.Scale(domain=shown, range=[colours.get(name, _REST_COLOUR) for name in shown]),
        legend=alt.Legend(orient="bottom", columns=2, labelLimit=260, symbolType="square"),
    )
    bars = alt.Chart(alt.InlineData(values=rows)).mark_bar(binSpacing=0)
    return _specification(
        bars.encode(
            x=alt.X("start:Q", bin="binned", axis=_STEP_AXIS, scale=steps),
            x2="end:Q",
            y=alt.Y("seconds:Q", title=None, stack="zero", scale=alt.Scale(domain=[0, highest])),
            color=phase,
            order="order:Q",
            tooltip=["step:Q", "phase:N", alt.Tooltip("seconds:Q", format=".2f")],
        )
    )


def _highest_time(run: Run, names: Sequence[str]) -> float:
    """Return the height of the highest bar."""
    times = [
        max(step.seconds, sum(step.phases.get(name, 0.0) for name in names))
        for step in run.steps
        if step.seconds is not None
    ]
    return max(filter(isfinite, times), default=1.0)


def _told_times(run: Run, names: Sequence[str]) -> str:
    seconds = [step.seconds for step in run.steps if step.seconds is not None and step.seconds > 0]
    if not seconds:
        return f"{run.name} has no times"
    whole = sum(seconds)
    shares = [
        f"{name} {sum(step.phases.get(name, 0.0) for step in run.steps) / whole:.0%}"
        for name in names
        if any(name in step.phases for step in run.steps)
    ]
    return f"{run.name}: {median(seconds):.1f} s a step (median)" + (f"; {', '.join(shares)}" if shares else "")


def _told(measure: Measure, run: Run) -> str:
    """Describe in words what a run's line shows."""
    known = [(step.number, value) for step in run.steps if (value := getattr(step, measure.name)) is not None]
    finite = [point for point in known if isfinite(point[1])]
    if not finite:
        return f"{run.name}: not in the log" if not known else f"{run.name}: not a number in all {len(known)} steps"
    low, high = min(finite, key=lambda point: point[1]), max(finite, key=lambda point: point[1])
    ends = [f"{measure.text(value)} at step {step}" for step, value in (finite[0], finite[-1])]
    lowest, highest = (f"{measure.text(value)} at step {step}" for step, value in (low, high))
    return f"{run.name}: from {ends[0]} to {ends[1]}, lowest {lowest}, highest {highest}"


def _many(runs: Sequence[Run]) -> bool:
    return any(len(run.steps) >= MANY for run in runs)


def line_style(index: int) -> tuple[str, str]:
    """Return the colour and the dash pattern of a run's line, for the legend."""
    return _RUN_COLOURS[index], " ".join(map(str, _DASHES[index])) if index else ""


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _steps(runs: Sequence[Run]) -> alt.Scale:
    """Return the step scale, which all graphs on a page share."""
    # A step's bar reaches half a step to each side.
    numbers = [step.number for run in runs for step in run.steps]
    numbers += [each.number for run in runs for each in run.validations if each.number is not None]
    return alt.Scale(domain=[min(numbers) - 0.5, max(numbers) + 0.5], nice=False)


def _run_colour(runs: Sequence[Run]) -> alt.Color:
    names = [run.name for run in runs]
    return alt.Color("run:N", legend=None, scale=alt.Scale(domain=names, range=_RUN_COLOURS[: len(names)]))


def _run_dash(runs: Sequence[Run]) -> alt.StrokeDash:
    names = [run.name for run in runs]
    return alt.StrokeDash("run:N", legend=None, scale=alt.Scale(domain=names, range=_DASHES[: len(names)]))


def _specification(chart: alt.Chart | alt.LayerChart | alt.FacetChart) -> Mapping[str, Any]:
    ink, muted, line = "var(--ink)", "var(--muted)", "var(--line)"
    font = "system-ui, sans-serif"
    drawn = chart.properties(
        width="container", height=_HEIGHT, autosize=alt.AutoSizeParams(type="fit-x", contains="padding")
    )
    found: dict[str, Any] = drawn.to_dict()
    found["background"] = "transparent"
    found["config"] = {
        "font": font,
        "view": {"stroke": None},
        "axis": {
            "labelColor": muted,
            "titleColor": muted,
            "titleFontWeight": "normal",
            "gridColor": line,
            "domainColor": line,
            "tickColor": line,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "tickCount": 5,
        },
        "legend": {"labelColor": ink, "labelFontSize": 12},
    }
    return found
