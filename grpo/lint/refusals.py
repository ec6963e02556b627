"""Turn a chart's error into a finding in the values, unless lint has already reported the mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from grpo.lint.locate import ValueLocator
from postrender.errors import Location, RenderError
from postrender.finding import ERROR, Finding
from postrender.types import Path
from postrender.values.merge import Values

_REFUSED = "The chart refuses to render, so an install would fail."
_RULE = "values/refused-by-chart"
_DOMAIN = "values/"
# With this a message of our charts ends that enforces a problem which lint finds too.
_ID = re.compile(r" \[([a-z-]+/[a-z0-9-]+)\]\Z")
# Helm's words before the message of a template, for instance
# `execution error at (grpo-job/templates/rayjob.yaml:5:4): job.nodes is 3 …`.
_BEFORE = re.compile(r"\A.*?\([^\s()]+\.(?:yaml|tpl|txt):\d+:\d+\): (?:.*?error calling fail: )?", re.DOTALL)
# The end of a message that says what to do.
_VERBS = "add|call|change|choose|correct|enable|give|leave|lower|make|move|name|put|remove|set|shorten|switch|use|write"
_ADVICE = re.compile(rf"(?:: |\. )((?:{_VERBS})\b.*)", re.DOTALL | re.IGNORECASE)


def explained(error: RenderError, merged: Values, reported: Sequence[Finding]) -> list[Finding]:
    """Return the reported findings that are about a chart's error, or else the error itself as a finding."""
    errors = [each for each in reported if each.severity == ERROR]
    if named := _ID.search(error.message):
        same = [each for each in errors if each.rule == named[1]]
        return same or [finding(error, merged)._replace(rule=named[1])]
    found = finding(error, merged)
    if error.is_of_schema:
        # The same schemas have made these findings, with better words.
        same = [each for each in errors if each.rule.startswith(_DOMAIN)]
    else:
        place, subjects = (found.at.file, found.at.line), _subjects(found.what)
        same = [each for each in errors if (each.at.file, each.at.line) == place or subjects & _subjects(each.what)]
    return same or [found]


def findings(error: RenderError, merged: Values, reported: Sequence[Finding]) -> list[Finding]:
    """Return a chart's error as a finding, or nothing if a reported finding is about the same mistake."""
    return [each for each in explained(error, merged, reported) if each not in reported]


def finding(error: RenderError, merged: Values) -> Finding:
    """Return a chart's error as a finding, at the first key in its message that a file sets."""
    message = _ID.sub("", _BEFORE.sub("", error.message))
    advice = _ADVICE.search(message)
    what, fix = (message[: advice.start()], advice[1]) if advice else (message, "change the keys in the message")
    return Finding(what, _place(message, merged), rule=_RULE, why=_REFUSED, fix=fix[:1].lower() + fix[1:])


def _place(message: str, merged: Values) -> Location:
    """Return the place of the first key that a file sets, or else of the nearest section above the first key."""
    locator = ValueLocator.of(merged)
    words = [word.strip(".:,;()\"'") for word in message.split()]
    keys = [word.partition("[")[0] for word in words if "." in word.strip(".")]
    paths = (path for key in keys if (path := locator.path(key) or _spelled(key.split("."), merged)))
    at = next((merged.at(path) for path in paths), None) or next(_sections(keys, merged), None)
    return at or Location(merged.files[-1], 1, 1)


def _sections(keys: Sequence[str], merged: Values) -> Iterator[Location]:
    """Yield the place of the nearest section above each key."""
    for key in keys:
        at = merged.at(tuple(key.split(".")))
        if at != merged.root.at:
            yield at


def _spelled(parts: Sequence[str], merged: Values, path: Path = ()) -> Path | None:
    """Return the path that these parts spell; names in it may contain dots."""
    node = merged.node(path)
    if not parts:
        return path
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if node and isinstance(node.value, dict) and name in node.value:
            return _spelled(parts[end:], merged, (*path, name))
    return None


def _subjects(text: str) -> set[str]:
    """Return the keys at the start of a message, such as `job.volume and job.name`, without a leading job.config."""
    first = re.match(r"\S*(?: and \S+)*", text)
    words = (word.strip(":,") for word in (first[0] if first else "").split(" and "))
    return {word.removeprefix("job.config.") for word in words if "." in word}
