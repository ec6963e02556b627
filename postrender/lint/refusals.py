"""What a chart says against values: where it belongs in the files, and whether lint has said it already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from postrender.errors import GrpoError, Location, RenderError
from postrender.finding import ERROR, Finding
from postrender.lint.locate import Written
from postrender.types import Path
from postrender.values import merge
from postrender.values.merge import Values

_REFUSED = "The chart refuses to render, so an install would fail."
_RULE = "values/refused-by-chart"


def finding(error: RenderError, merged: Values) -> Finding:
    """Return what a chart refuses as a finding at the first key that it names and a file has."""
    written = Written.of(merged)
    paths = (path for word in _message(error.message).split() if (path := _path(word.strip(".:,;()"), merged, written)))
    at = next((merged.at(path) for path in paths), Location(merged.files[-1]))
    return Finding(error.message, at, rule=_RULE, why=_REFUSED, fix=error.fix or "change what it names")


def _message(text: str) -> str:
    """Return what the chart itself says, without the place in its templates."""
    return text.partition("): ")[2] or text


def _path(word: str, merged: Values, written: Written) -> Path | None:
    """Return the path of a key as a message writes it: of an overlay where that counts, of a list without position."""
    if "." not in word:
        return None
    word = word.partition("[")[0]
    return written.path(word) or _spelled(word.split("."), merged)


def _spelled(parts: Sequence[str], merged: Values, path: Path = ()) -> Path | None:
    """Return the path whose names, some with dots in them, are these parts together."""
    node = merged.node(path)
    if not parts:
        return path
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if node and isinstance(node.value, dict) and name in node.value:
            return _spelled(parts[end:], merged, (*path, name))
    return None


def unsaid(found: Sequence[Finding], said: Sequence[Finding]) -> list[Finding]:
    """Return findings without a chart's refusal that lint has told, by its place or by the key that both begin with."""
    errors = [each for each in said if each.severity == ERROR]
    lines = {(each.at.file, each.at.line) for each in errors}
    subjects = {_subject(each.what) for each in errors}
    return [
        each
        for each in found
        if each.rule != _RULE
        or not ((each.at.line and (each.at.file, each.at.line) in lines) or _subject(_message(each.what)) in subjects)
    ]


def _subject(text: str) -> str:
    """Return the key with which a message begins, without the section of the framework's own keys."""
    return text.partition(" ")[0].strip(":,").removeprefix("job.config.")


def is_said(error: GrpoError, said: Sequence[Finding], files: Sequence[str]) -> bool:
    """Say whether lint has told what an error says: at its place, or at each of the keys that Helm's schema refuses."""
    lines = {(each.at.file, each.at.line) for each in said if each.severity == ERROR}
    if error.at and error.at.line:
        return (error.at.file, error.at.line) in lines
    if not isinstance(error, RenderError) or not error.is_of_schema:
        return False
    merged = merge.load(files)
    refused = [line.strip() for line in error.message.splitlines() if line.strip().startswith("- at ")]
    return bool(refused) and all(lines & {(at.file, at.line) for at in _places(line, merged)} for line in refused)


def _places(line: str, merged: Values) -> Iterator[Location]:
    """Yield where the key of a line such as `- at '/a/b': additional properties 'c' not allowed` may stand."""
    pointer, *names = line.split("'")[1::2]
    path = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    yield merged.at(path)
    for name in names:
        yield merged.at((*path, name))
