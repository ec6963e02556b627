"""Draw what good and bad look like for each sign of a training run, for docs/howto/metrics.md.

docs/metrics/learn.jsonl has the measures of a `make learn` run with verl 0.9.1 on a CPU (seed 1): these curves are
real. The bad curves are the same run, modified from some step on by the functions here, as each picture states. The
judge of `grpo watch` must find the sign in the bad curve and not in the good one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from grpo.generate.sources import SourceError
from grpo.runlog.shared import Judge, Step

FOLDER: Final = "docs/metrics"
# The last step that is not changed.
_BEFORE: Final = 30
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 300, 110, 46, 22, 18
_REAL: Final = "real: a run that learns"
_BAD: Final = f"synthetic from step {_BEFORE + 1}"


class Sign(NamedTuple):
    """A sign: the measure that shows it, its title, and a function that changes a step, given the sign's duration."""

    measure: str
    title: str
    change: Callable[[Step, int], None]
    # Is added to the measure of all steps.
    shift: float = 0.0


def _set(**measures: float) -> Callable[[Step, int], None]:
    def change(step: Step, _: int) -> None:
        vars(step).update(measures)

    return change


def _grow(measure: str, factor: float, *, start: float | None = None, **others: float) -> Callable[[Step, int], None]:
    """Multiply a measure by a factor at each step, starting from its own value or from a given one."""

    def change(step: Step, count: int) -> None:
        first = getattr(step, measure) if start is None else start
        vars(step).update(others | {measure: first * factor**count})

    return change


def _multiply(measure: str, factor: float, **others: float) -> Callable[[Step, int], None]:
    def change(step: Step, _: int) -> None:
        vars(step).update(others | {measure: getattr(step, measure) * factor})

    return change


SIGNS: Final = {
    "dead-reward": Sign("reward", "Reward", _set(reward=0.0, reward_min=0.0, reward_max=0.0, loss=0.0)),
    "reward-collapse": Sign("reward", "Reward", _multiply("reward", 0.3)),
    "reward-below-start": Sign("reward", "Reward", _grow("reward", 1.02, start=-0.75), shift=-1.0),
    "not-a-number": Sign("grad_norm", "Gradient norm", _set(grad_norm=math.nan, loss=math.nan)),
    "kl-blow-up": Sign("kl", "KL from the reference model", _grow("kl", 1.25)),
    "entropy-collapse": Sign("entropy", "Entropy", _grow("entropy", 0.75, reward=0.6)),
    "length-explosion": Sign("length", "Length of the answers", _grow("length", 1.3)),
    "length-collapse": Sign("length", "Length of the answers", _multiply("length", 0.4, reward=0.4)),
    "generation-mismatch": Sign(
        "generation_kl", "KL between policy and generation", _grow("generation_kl", 1.2, start=0.001)
    ),
    "importance-ratio": Sign("importance_ratio", "Importance ratio", _grow("importance_ratio", 0.98)),
    "grad-norm-spikes": Sign("grad_norm", "Gradient norm", _multiply("grad_norm", 15.0)),
    "slow-steps": Sign("seconds", "Time of a step (s)", _multiply("seconds", 4.0)),
}


def render(root: Path) -> dict[str, str]:
    """Return each sign's picture by its path; raise SourceError if the judge disagrees with a picture."""
    lines = (root / FOLDER / "learn.jsonl").read_text("utf-8").splitlines()
    found = {f"{FOLDER}/{name}.svg": _picture(name, sign, lines) for name, sign in SIGNS.items()}
    # The limit of this run is five tokens: its own start shows the sign.
    steps = _steps(lines)
    panel = _panel(steps, "truncated", "real: a limit of 5 tokens, too low at the start", _first(steps, "truncated"), 0)
    return {**found, f"{FOLDER}/truncated.svg": _svg("Truncated answers (share)", panel)}


def _steps(lines: Sequence[str]) -> list[Step]:
    steps = [Step(**json.loads(line)) for line in lines]
    for step in steps:
        # The run has no importance ratio: policy and generation were one model.
        step.importance_ratio = 1 + 0.01 * math.sin(step.number)
    return steps


def _picture(name: str, sign: Sign, lines: Sequence[str]) -> str:
    good, bad = _steps(lines), _steps(lines)
    for step in (*good, *bad) if sign.shift else ():
        vars(step)[sign.measure] += sign.shift
    for step in bad[_BEFORE:]:
        sign.change(step, step.number - _BEFORE)
    shown = _first(bad, name)
    if _first(good, name) or shown <= _BEFORE:
        raise SourceError(f"{FOLDER}: the sign {name} is at step {shown} of the bad curve, or in the good one")
    title = "synthetic: near 1" if sign.measure == "importance_ratio" else _REAL
    title += f", less {-sign.shift:g}" if sign.shift else ""
    return _svg(
        sign.title, _panel(good, sign.measure, title, 0, 0) + _panel(bad, sign.measure, _BAD, shown, _WIDTH + 20)
    )


def _first(steps: Sequence[Step], name: str) -> int:
    """Return the first step that shows a sign, or 0 if none does."""
    judge = Judge()
    return next((step.number for step in steps for sign in judge.add(step) if sign.id == name), 0)


def _panel(steps: Sequence[Step], measure: str, title: str, shown: int, left: int) -> list[str]:
    """Return a curve labelled with its lowest and highest value; a line marks the step that shows the sign."""
    points = [(step.number, value) for step in steps if math.isfinite(value := getattr(step, measure))]
    low, high = min(0.0, *(value for _, value in points)), max(value for _, value in points)
    wide, tall = _WIDTH - _LEFT - 8, _HEIGHT - _TOP - _BOTTOM

    def across(number: int) -> float:
        return left + _LEFT + (number - 1) / (len(steps) - 1) * wide

    line = " ".join(
        f"{across(number):.1f},{_TOP + tall - (value - low) / (high - low) * tall:.1f}" for number, value in points
    )
    found = [
        f'<text x="{left + _LEFT}" y="14">{title}</text>',
        f'<text x="{left + _LEFT - 6}" y="{_TOP + 8}" text-anchor="end">{high:.2g}</text>',
        f'<text x="{left + _LEFT - 6}" y="{_TOP + tall}" text-anchor="end">{low:.2g}</text>',
        f'<polyline class="axis" points="{across(1):.1f},{_TOP} {across(1):.1f},{_TOP + tall} '
        f'{across(len(steps)):.1f},{_TOP + tall}"/>',
        f'<polyline class="curve" points="{line}"/>',
        f'<text x="{across(len(steps)):.1f}" y="{_HEIGHT - 4}" text-anchor="end">step {len(steps)}</text>',
    ]
    if shown:
        at = f"{across(shown):.1f}"
        found.append(f'<polyline class="sign" points="{at},{_TOP} {at},{_TOP + tall}"/>')
        found.append(f'<text class="sign" x="{at}" y="{_HEIGHT - 4}" text-anchor="middle">found at {shown}</text>')
    return found


def _svg(title: str, parts: Sequence[str]) -> str:
    style = (
        "polyline{fill:none;stroke-width:1.5}.axis{stroke:#8888;stroke-width:1}.curve{stroke:#0b6e99}text{fill:#777}"
        "polyline.sign{stroke:#c2571a;stroke-dasharray:4 3}text.sign{fill:#c2571a}"
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _WIDTH + 20} {_HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="11">'
    )
    return "\n".join([head, f"<title>{title}</title>", f"<style>{style}</style>", *parts, "</svg>", ""])
