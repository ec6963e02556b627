"""Checks shared by rules over values: one of a list, in a range, switches that exclude or require each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from grpo.values.config import RunConfig
from postrender import spelling
from postrender.types import Json

Test = Callable[[RunConfig], str | None]

_ALLOCATOR: Final = "PYTORCH_CUDA_ALLOC_CONF"
# Where the variables of the processes on the GPUs are, by framework, with the section that wins first. NeMo RL passes
# on all that the driver has on the head, verl only job.env.
_ON_GPUS: Final = {
    "nemo-rl": ("job.env", "ray.head.env", "ray.env", "ray.workers.env"),
    "verl": ("job.env", "ray.workers.env", "ray.env"),
}
# The keys that expands_segments returns.
ALLOCATOR_KEYS: Final = " ".join(f"={section}.{_ALLOCATOR}" for section in _ON_GPUS["nemo-rl"])


def texts(value: Json, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in a configuration with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from texts(each, f"{path}.{key}" if path else str(key))


def quoted(value: object) -> str:
    """Format a value for a message, as in YAML and with text in quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return f"[{', '.join(map(quoted, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def one_of(path: str, allowed: Iterable[object]) -> Test:
    """Return a check that a value is in a list; other rules report a missing key."""
    words = tuple(allowed)

    def check(run: RunConfig) -> str | None:
        if not run.has(path):
            return None
        value = run.at(path)
        if any(value == word and isinstance(value, bool) == isinstance(word, bool) for word in words):
            return None
        return f"{path} is {quoted(value)}, expected one of {', '.join(map(quoted, words))}"

    return check


def nearest(run: RunConfig, path: str, allowed: Iterable[str]) -> str:
    """Return what to use instead of a misspelt word; empty if no word in the list is similar."""
    close = spelling.near(str(run.at(path)), allowed)
    return f"did you mean {close[0]}?" if close else ""


def excludes(first: str, second: str) -> Test:
    """Return a check that two switches are not both on."""

    def check(run: RunConfig) -> str | None:
        return f"{first} and {second} are both on" if run.on(first) and run.on(second) else None

    return check


def requires(first: str, second: str) -> Test:
    """Return a check that the second switch is on if the first one is."""

    def check(run: RunConfig) -> str | None:
        return f"{first} is on, and {second} is off" if run.on(first) and not run.on(second) else None

    return check


def within(
    path: str,
    *,
    above: float | None = None,
    below: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Test:
    """Return a check that a number is in a range; other rules report null and values that are not numbers."""

    def check(run: RunConfig) -> str | None:
        value = run.number(path)
        if above is not None and value <= above:
            return f"{path} is {quoted(value)}, expected more than {quoted(above)}"
        if least is not None and value < least:
            return f"{path} is {quoted(value)}, expected {quoted(least)} or more"
        if most is not None and value > most:
            return f"{path} is {quoted(value)}, expected {quoted(most)} or less"
        if below is not None and value >= below:
            return f"{path} is {quoted(value)}, expected less than {quoted(below)}"
        return None

    return check


def expands_segments(run: RunConfig) -> str:
    """Return the key that turns on torch's expandable segments of GPU memory; empty if none does.

    vLLM up to 0.20.0 rejects this setting together with its sleep mode.
    """
    given = ((section, run.variable(_ALLOCATOR, [section])) for section in _ON_GPUS[run.framework])
    section, text = next((each for each in given if each[1]), ("", ""))
    return f"={section}.{_ALLOCATOR}" if "expandable_segments:true" in text.replace(" ", "").lower() else ""
