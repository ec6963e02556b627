"""The built-in rewards: small functions of the texts.

A reward takes (ground_truth, response, **kwargs) and returns (score, correct); correct is None if the reward does not
judge the answer. Rewards do not see tokens, so lengths are counted in characters or words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import reward_limits
from reward_answers import MARKERS, equal, find_answer

Verdict = tuple[float, bool | None]


def section(response: str, tag: str) -> tuple[int, int] | None:
    """Return the start and end of <tag>…</tag> if there is exactly one such section and it is not blank."""
    start, end = response.find(f"<{tag}>"), response.find(f"</{tag}>")
    once = response.count(f"<{tag}>") == 1 and response.count(f"</{tag}>") == 1
    return (start, end) if once and start < end and response[start + len(tag) + 2 : end].strip() else None


def format_reward(
    ground_truth: str, response: str, think_tag: str = "think", answer_tag: str = "answer", pattern: str = ""
) -> Verdict:
    """Score the format: 0.25 for one <think>…</think>, 0.75 for one <answer>…</answer> after it; other text is allowed.

    With `pattern`, a Python regular expression whose dot also matches line ends: 1 if it is found, else 0.
    """
    if pattern:
        re.compile(pattern)  # a mistake in it is raised here; pattern of the user
        return float(reward_limits.is_found(pattern, response)), None
    think, answer = section(response, think_tag), section(response, answer_tag)
    if think and answer and answer[0] < think[1]:
        think = None
    return 0.25 * bool(think) + 0.75 * bool(answer), None


def exact_answer(
    ground_truth: str,
    response: str,
    markers: list[str] | tuple[str, ...] = MARKERS,
    answer_tag: str = "answer",
    math: bool = True,
    think_tag: str = "think",
) -> Verdict:
    r"""Score 1 for the correct final answer, else 0; a response without a complete marker has no answer.

    `markers` selects the markers: boxed (\boxed{…}), answer (<answer_tag>…</answer_tag>), #### (rest of the line); the
    last one after </think_tag> is used. If the ground truth is a full solution, its answer is found in the same way.
    `math: false` compares only numbers and texts, even if math-verify is installed.
    """
    chosen = tuple(markers)
    if not chosen or not set(chosen) <= set(MARKERS):
        raise ValueError(f"markers must be a list of some of {', '.join(MARKERS)}")
    answer, truth = find_answer(response, chosen, answer_tag, think_tag), find_answer(ground_truth)
    right = answer is not None and equal(ground_truth if truth is None else truth, answer, math)
    return float(right), right


def length(ground_truth: str, response: str, limit: int, unit: str = "characters", ramp: int = 0) -> Verdict:
    """Score 0 up to `limit` characters or words; above it, drop to -1 over the next `ramp` of them, or immediately."""
    if unit not in ("characters", "words") or limit <= 0 or ramp < 0:
        raise ValueError("unit must be characters or words, limit more than 0, ramp 0 or more")
    over = (len(response) if unit == "characters" else len(response.split())) - limit
    return (0.0 if over <= 0 else -1.0 if over >= ramp else -over / ramp), None


class Builtin(NamedTuple):
    """A built-in reward, its lowest and highest score, and whether it judges the answer."""

    function: Callable[..., Any]
    bounds: tuple[float, float]
    judges: bool


BUILTINS = {
    "format": Builtin(format_reward, (0.0, 1.0), judges=False),
    "exact_answer": Builtin(exact_answer, (0.0, 1.0), judges=True),
    "length": Builtin(length, (-1.0, 0.0), judges=False),
}
