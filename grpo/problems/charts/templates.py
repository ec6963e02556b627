"""Find which function in Helm's templates makes two renders differ, without parsing the templates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from postrender.errors import Location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.manifests.chart_files import Chart

# Functions whose result changes with each call: random, time, salt, order of a map.
_CHANGING: Final = frozenset(
    (
        *("randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes", "randInt", "shuffle", "uuidv4", "now"),
        *("genCA", "genCAWithKey", "genPrivateKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert"),
        *("genSignedCertWithKey", "bcrypt", "htpasswd", "encryptAES", "getHostByName"),
    )
)
_UNSORTED: Final = frozenset(("keys", "values"))
# An action without an end is matched to the end of the text, so that none is looked for from each of its braces.
_ACTION: Final = re.compile(r"\{\{(?!-?\s*/\*).*?(?:\}\}|(?P<open>\Z))", re.DOTALL)
_TEXT: Final = re.compile(r'"(?:\\.|[^"\\])*+(?:"|(?P<open>\Z))|`[^`]*+(?:`|(?P<raw>\Z))')
_CALLS: Final = re.compile(rf"(?<![\w.$])(?:{'|'.join(sorted(_CHANGING | _UNSORTED))})(?![\w.])")
_SORTED: Final = re.compile(r"\bsortAlpha\b")
_NOW: Final = re.compile(r"(?<![\w.$])now(?![\w.])")
_DEFINE: Final = re.compile(r'\{\{-?\s*define\s+"([^"]+)"')
_NAMES: Final = re.compile(r'\b(?:include|template|tpl)\s+"([^"]+)"|\.BasePath((?:\s+"[^"]*")+)')
# A time in the past.
_ANOTHER: Final = '(toDate "2006-01-02" "2001-02-03")'

# A line of a template needs this many characters outside actions to be recognized.
_LITERAL: Final = 4


class Part:
    """A define, or the part of a file outside defines: its file, its start offset and its text."""

    __slots__ = ("file", "start", "text")

    def __init__(self, file: str, start: int, text: str) -> None:
        self.file = file
        self.start = start
        self.text = text

    def functions(self) -> Iterator[tuple[int, str]]:
        """Yield calls of functions whose results may vary, with their offsets."""
        for action in _actions(self.text):
            code = _without_texts(action[0])
            for call in _CALLS.finditer(code):
                if call[0] not in _UNSORTED or not _SORTED.search(code):
                    yield action.start() + call.start(), call[0]

    def names(self) -> Iterator[tuple[int, str, bool]]:
        """Yield includes with their offsets: a define by its name, a file by its path below templates/."""
        for action in _actions(self.text):
            for name in _NAMES.finditer(action[0]):
                file = "".join(re.findall('"([^"]*)"', name[2] or "")).lstrip("/")
                yield action.start() + name.start(), name[1] or file, not name[1]


class Templates:
    """All templates in a chart and its subcharts."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self._files: dict[str, Part] = {}
        self._defines: dict[str, Part] = {}
        # Of two defines with one name, Helm uses that of the parent chart.
        for file in sorted(chart.templates(), key=lambda file: file.count("charts/")):
            text = chart.text(file)
            starts = [*_DEFINE.finditer(text)]
            self._files[file] = Part(file, 0, text[: starts[0].start()] if starts else text)
            ends = [*(each.start() for each in starts[1:]), len(text)]
            for start, end in zip(starts, ends, strict=False):
                self._defines.setdefault(start[1], Part(file, start.start(), text[start.start() : end]))

    def cause(self, source: str, key: str) -> tuple[str, Location, Location] | None:
        """Return a difference's likely cause: the function, where the template leads to it, and the call's place.

        `source` is the path that Helm writes above a document, `key` the last key of the difference: a call on that
        key's line is more likely than others. Map order is the cause only if there is no other candidate.
        """
        part = self._files.get(source.partition("/")[2])
        if part is None:
            return None
        for functions in (_CHANGING, _UNSORTED):
            if found := self._search(part, key, functions, {id(part)}):
                return found
        return None

    def _search(
        self, part: Part, key: str, functions: frozenset[str], seen: set[int]
    ) -> tuple[str, Location, Location] | None:
        calls = [(offset, name) for offset, name in part.functions() if name in functions]
        near = next((call for call in calls if self._is_on(part, call[0], key)), None)
        names = [*part.names()]
        found = (
            None
            if near
            else self._below(part, [each for each in names if self._is_on(part, each[0], key)], functions, seen)
        )
        if found is None and (near or calls):
            offset, name = near or calls[0]
            at = self._place(part, offset)
            found = name, at, at
        if found is None and functions is _CHANGING:
            found = self._below(part, names, functions, seen)
        return found

    def _below(
        self, part: Part, names: list[tuple[int, str, bool]], functions: frozenset[str], seen: set[int]
    ) -> tuple[str, Location, Location] | None:
        for offset, name, is_file in names:
            below = self._named(part.file, name) if is_file else self._defines.get(name)
            if below and id(below) not in seen:
                seen.add(id(below))
                if found := self._search(below, "", functions, seen):
                    return found[0], self._place(part, offset), found[2]
        return None

    def _named(self, file: str, name: str) -> Part | None:
        folder = file[: file.rfind("templates/") + len("templates/")]
        return self._files.get(folder + name)

    def _is_on(self, part: Part, offset: int, key: str) -> bool:
        end = part.text.find("\n", offset)
        line = part.text[part.text.rfind("\n", 0, offset) + 1 : end if end >= 0 else len(part.text)]
        return bool(key) and key in line

    def _place(self, part: Part, offset: int) -> Location:
        text = self._chart.text(part.file)
        at = part.start + offset
        line_start = text.rfind("\n", 0, at) + 1
        return self._chart.at(part.file, text.count("\n", 0, at) + 1, at - line_start + 1)


def _without_texts(code: str) -> str:
    """Return an action with its string literals blanked, so that offsets stay the same."""
    return _TEXT.sub(lambda text: text[0] if text.lastgroup else " " * len(text[0]), code)


def _actions(text: str) -> Iterator[re.Match[str]]:
    return (action for action in _ACTION.finditer(text) if not action.lastgroup)


def line_of(template: str, rendered: str) -> int:
    """Return the number of the template line that a rendered line comes from, or 0 if that is not certain.

    The output of an include or toYaml is usually indented differently from the template's own lines.
    """
    wanted = rendered.rstrip()
    lines = template.split("\n")
    found = [number for number, line in enumerate(lines, 1) if line.rstrip() == wanted]
    if not found:
        found = [number for number, line in enumerate(lines, 1) if _can_be(line.rstrip(), wanted)]
    return found[0] if len(found) == 1 and wanted else 0


def _can_be(line: str, wanted: str) -> bool:
    """Return whether a template line can render to a text; one with too little text outside actions cannot."""
    actions = [*_actions(line)]
    starts, ends = [0, *(action.end() for action in actions)], [*(action.start() for action in actions), len(line)]
    parts = [line[start:end] for start, end in zip(starts, ends, strict=True)]
    if len(parts) == 1 or sum(map(len, map(str.strip, parts))) < _LITERAL:
        return False
    if not wanted.startswith(parts[0]) or not wanted.endswith(parts[-1]):
        return False
    at = 0
    for part in parts[:-1]:
        if (start := wanted.find(part, at)) < 0:
            return False
        at = start + len(part)
    return at + len(parts[-1]) <= len(wanted)


def asks_the_clock(text: str) -> bool:
    """Return whether a template calls `now`."""
    return any(_NOW.search(_without_texts(action[0])) for action in _actions(text))


def at_another_time(text: str) -> str:
    """Return a template that renders as if at a different time, because two renders may run within the same second."""

    def action(match: re.Match[str]) -> str:
        code = match[0]
        if match.lastgroup:
            return code
        for call in reversed([*_NOW.finditer(_without_texts(code))]):
            code = code[: call.start()] + _ANOTHER + code[call.end() :]
        return code

    return _ACTION.sub(action, text)
