"""Every pattern in a schema is valid in Go's RE2, which Helm uses and which lacks features of other dialects.

Patterns that are invalid in every dialect, such as `(`, are not reported. The tests compare the results with Helm.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.charts.jsonschemas import entry, named, subschemas
from postrender.finding import ERROR, Finding
from postrender.problem import CHART, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart
    from postrender.errors import Location


_TOKEN: Final = re.compile(
    r"(?P<quoted>\\Q.*?(?:\\E|$))|(?P<escape>\\(?:[pP]\{[^}]*\}|x\{[0-9a-fA-F]+\}|x[0-9a-fA-F]{2}|[1-7][0-7]+|.))"
    r"|(?P<group>\(\?(?:P?<[A-Za-z_]\w*>|P=\w+|<[=!]|[A-Za-z-]*[:)]|.?))"
    r"|(?P<repeat>(?:[*+?]|\{\d+(?:,\d*)?\})\??)|(?P<other>.)",
    re.DOTALL,
)
_GROUP: Final = re.compile(r"\(\?(?:P?<[A-Za-z_]\w*>|(?:[imsU]+(?:-[imsU]+)?|-[imsU]+)?[:)])$")
_GROUPS: Final = {
    "(?=": "a lookahead",
    "(?!": "a lookahead",
    "(?<=": "a lookbehind",
    "(?<!": "a lookbehind",
    "(?>": "an atomic group",
    "(?#": "a comment",
}
# Letters and digits with a meaning after a backslash; all other characters are literal there.
_ESCAPES: Final = frozenset("afnrtvdDsSwWpP0")
_OUTSIDE: Final = _ESCAPES | frozenset("AbBzQE")
_MOST: Final = 1000


def check(chart: Chart) -> Iterator[Finding]:
    """Check `pattern`, and the keys in `patternProperties`."""
    if chart.schema:
        for _, node in subschemas(chart.schema):
            if pattern := entry(node, "pattern"):
                yield from _findings(pattern.at, str(pattern.value))
            for key, each in named(entry(node, "patternProperties")).items():
                yield from _findings(each.key_at, key)


def _findings(at: Location, text: str) -> Iterator[Finding]:
    if wrong := refused(text):
        yield Finding(f"the pattern has {wrong}", at)


def refused(pattern: str) -> str:
    """Describe what RE2 does not support in a pattern; return an empty text if it is valid."""
    inside = repeated = False
    at = 0
    while found := _TOKEN.match(pattern, at):
        kind, text = str(found.lastgroup), found[0]
        at = found.end()
        if inside:
            if kind == "escape" and (wrong := _escape(text, _ESCAPES)):
                return wrong
            # A bracket at the start is literal, and [:alpha:] is one unit.
            inside = not text.startswith("]")
            at = found.end() if kind in ("escape", "other") else found.start() + 1
        elif wrong := _wrong(kind, text, repeated):
            return wrong
        elif text == "[":
            inside = True
            at += len(re.match(r"\^?\]?", pattern[at:])[0])  # type: ignore[index]
        repeated = kind == "repeat"
        if inside and (named := re.match(r"\[:\^?[a-z]+:\]", pattern[at:])):
            at += named.end()
    return ""


def _wrong(kind: str, text: str, repeated: bool) -> str:
    if kind == "escape":
        return _escape(text, _OUTSIDE)
    if kind == "group" and not _GROUP.match(text):
        return _GROUPS.get(text, f"the group {text}")
    if kind == "repeat":
        if repeated:
            return f"{text} after another repetition"
        if any(int(number) > _MOST for number in re.findall(r"\d+", text)):
            return f"a repetition of more than {_MOST}"
    return ""


def _escape(text: str, known: frozenset[str]) -> str:
    letter = text[1]
    if not letter.isalnum() or letter in known or len(text) > 2:
        return ""
    return f"the reference {text} to a group" if letter.isdigit() or letter == "k" else f"the escape {text}"


RULE = Problem(
    "chart/pattern-not-re2",
    target=CHART,
    severity=ERROR,
    title="a pattern of the schema is not valid in RE2",
    why="Helm parses patterns with RE2; one invalid pattern makes the schema invalid, and every install fails",
    fix="write the pattern without it; use not with a second pattern for what must not match",
    source="https://github.com/google/re2/wiki/Syntax",
    check=check,
)
