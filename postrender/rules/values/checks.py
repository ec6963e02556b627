"""Checks that rules over values share: one of a list, in a range, two switches that exclude or need each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from postrender.values.config import Effective

Test = Callable[[Effective], str | None]


def shown(value: object) -> str:
    """Write a value as YAML does; text in quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def one_of(path: str, allowed: Iterable[object]) -> Test:
    """Return a check that a value is one of a list; a key that is not there is for others to tell."""
    words = tuple(allowed)

    def check(run: Effective) -> str | None:
        if not run.has(path):
            return None
        value = run.at(path)
        if any(value == word and isinstance(value, bool) == isinstance(word, bool) for word in words):
            return None
        return f"{path} is {shown(value)}, expected one of {', '.join(map(shown, words))}"

    return check


def excludes(first: str, second: str) -> Test:
    """Return a check that two switches are not on together."""

    def check(run: Effective) -> str | None:
        return f"{first} and {second} are both on" if run.on(first) and run.on(second) else None

    return check


def requires(first: str, second: str) -> Test:
    """Return a check that a switch is on where another one is."""

    def check(run: Effective) -> str | None:
        return f"{first} is on, and {second} is off" if run.on(first) and not run.on(second) else None

    return check


def within(path: str, *, above: float | None = None, least: float | None = None, most: float | None = None) -> Test:
    """Return a check that a number lies in a range; null and what is no number are for others to tell."""

    def check(run: Effective) -> str | None:
        value = run.number(path)
        if above is not None and value <= above:
            return f"{path} is {shown(value)}, expected more than {shown(above)}"
        if least is not None and value < least:
            return f"{path} is {shown(value)}, expected {shown(least)} or more"
        if most is not None and value > most:
            return f"{path} is {shown(value)}, expected {shown(most)} or less"
        return None

    return check
