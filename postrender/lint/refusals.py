"""Turn a chart's refusal into a finding at the values, unless lint has already reported the mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from postrender.errors import GrpoError, Location, RenderError
from postrender.finding import ERROR, Finding
from postrender.lint.locate import ValueLocator
from postrender.types import Path
from postrender.values import merge
from postrender.values.merge import Values

_REFUSED = "The chart refuses to render, so an install would fail."
_RULE = "values/refused-by-chart"


def finding(error: RenderError, merged: Values) -> Finding:
    """Return a chart's refusal as a finding, at the first key in its message that a file sets."""
    locator = ValueLocator.of(merged)
    paths = (path for word in _message(error.message).split() if (path := _path(word.strip(".:,;()"), merged, locator)))
    at = next((merged.at(path) for path in paths), Location(merged.files[-1]))
    return Finding(error.message, at, rule=_RULE, why=_REFUSED, fix=error.fix or "change the keys in the message")


def _message(text: str) -> str:
    """Return the chart's own message, without the place in its templates."""
    return text.partition("): ")[2] or text


def _path(word: str, merged: Values, locator: ValueLocator) -> Path | None:
    """Return the path of a key in a message: of its overlay if that wins, of a list without the position."""
    if "." not in word:
        return None
    word = word.partition("[")[0]
    return locator.path(word) or _spelled(word.split("."), merged)


def _spelled(parts: Sequence[str], merged: Values, path: Path = ()) -> Path | None:
    """Return the path that these parts spell; a name in it may contain dots."""
    node = merged.node(path)
    if not parts:
        return path
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if node and isinstance(node.value, dict) and name in node.value:
            return _spelled(parts[end:], merged, (*path, name))
    return None


def without_reported(found: Sequence[Finding], reported: Sequence[Finding]) -> list[Finding]:
    """Remove a chart's refusal that lint has already reported, at the same line or about the same key."""
    errors = [each for each in reported if each.severity == ERROR]
    lines = {(each.at.file, each.at.line) for each in errors}
    subjects = {_subject(each.what) for each in errors}
    return [
        each
        for each in found
        if each.rule != _RULE
        or not ((each.at.line and (each.at.file, each.at.line) in lines) or _subject(_message(each.what)) in subjects)
    ]


def _subject(text: str) -> str:
    """Return the key at the start of a message, without job.config in front."""
    return text.partition(" ")[0].strip(":,").removeprefix("job.config.")


def is_reported(error: GrpoError, reported: Sequence[Finding], files: Sequence[str]) -> bool:
    """Say whether lint has reported an error's mistakes: at its line, or at each key that Helm's schema refuses."""
    lines = {(each.at.file, each.at.line) for each in reported if each.severity == ERROR}
    if error.at and error.at.line:
        return (error.at.file, error.at.line) in lines
    if not isinstance(error, RenderError) or not error.is_of_schema:
        return False
    merged = merge.load(files)
    refused = [line.strip() for line in error.message.splitlines() if line.strip().startswith("- at ")]
    return bool(refused) and all(lines & {(at.file, at.line) for at in _places(line, merged)} for line in refused)


def _places(line: str, merged: Values) -> Iterator[Location]:
    """Yield possible places of the key in a line such as `- at '/a/b': additional properties 'c' not allowed`."""
    pointer, *names = line.split("'")[1::2]
    path = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    yield merged.at(path)
    for name in names:
        yield merged.at((*path, name))
