"""One line per training step or validation, as text and as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from grpo.report import json as findings_json
from grpo.runlog.shared import Event, Phase, Step, Validation
from postrender.finding import Finding

# What a line shows of a step, with the format of the number.
_MEASURES: Final = {
    "reward": ("reward", "{:.4f}"),
    "length": ("length", "{:.0f}"),
    "truncated": ("truncated", "{:.0%}"),
    "loss": ("loss", "{:.4f}"),
    "kl": ("KL", "{:.3g}"),
    "generation_kl": ("generation KL", "{:.3g}"),
    "importance_ratio": ("importance ratio", "{:.3f}"),
    "entropy": ("entropy", "{:.3g}"),
    "grad_norm": ("gradient norm", "{:.3g}"),
}
# How many phases a line names: the longest ones.
_PHASES: Final = 2
_BARS: Final = "▁▂▃▄▅▆▇█"


def text(event: Event) -> str:
    """Return the line for a step or a validation; empty for a phase."""
    if isinstance(event, Step):
        return "  ".join([f"step {event.number}", *_measures(event), *_speed(event)])
    if isinstance(event, Validation):
        after = f" after step {event.number}" if event.number else ""
        return "  ".join([f"validation{after}", *_measures(event), *_speed(event)])
    return ""


def _measures(event: Step | Validation) -> Iterator[str]:
    for name, (title, form) in _MEASURES.items():
        if (value := getattr(event, name, None)) is not None:
            yield f"{title} {form.format(value)}"


def _speed(event: Step | Validation) -> Iterator[str]:
    if event.seconds is not None:
        phases = _phases(event, event.seconds) if isinstance(event, Step) else ""
        yield f"{event.seconds:.1f} s{phases}"
    if isinstance(event, Step) and event.tokens_per_second_per_gpu is not None:
        yield f"{event.tokens_per_second_per_gpu:.0f} tokens/s/GPU"
    if isinstance(event, Step) and event.memory_gib is not None:
        yield f"{event.memory_gib:.1f} GiB"


def _phases(step: Step, seconds: float) -> str:
    """Return the longest phases with their shares of a step."""
    longest = sorted(step.phases.items(), key=lambda item: -item[1])[:_PHASES]
    shares = [f"{name} {value / seconds:.0%}" for name, value in longest if seconds > 0]
    return f" ({', '.join(shares)})" if shares else ""


def sparkline(values: list[float]) -> str:
    """Return one bar per value, scaled between the lowest and the highest value; NaN becomes a blank."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(_BARS[int((value - low) / step)] if math.isfinite(value) else " " for value in values)


def record(event: Event | Finding) -> str:
    """Return an event or a finding as a JSON line, without unknown measures."""
    if isinstance(event, Finding):
        fields: Mapping[str, Any] = {
            "event": "finding",
            "rule": event.rule,
            "severity": event.severity,
            "message": event.what,
            "file": event.at.file,
            "line": event.at.line or None,
            "why": event.why,
            "fix": event.fix,
        }
    else:
        names = {Step: "step", Validation: "validation", Phase: "phase"}
        fields = {"event": names[type(event)], **dataclasses.asdict(event)}
        fields = {name: value for name, value in fields.items() if name != "line" or value}
    known = {name: findings_json.plain(value) for name, value in fields.items() if value is not None}
    return json.dumps(known, ensure_ascii=False)
