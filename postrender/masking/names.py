"""Mask what follows a secret's name, in any program's text.

Every pattern reads a bounded part of a line, or a part that is then masked, so the time is linear in a line's
length, not quadratic.
"""

from __future__ import annotations

import re
from typing import Final

from postrender import secrets

HIDDEN: Final = "<hidden>"
# A longer name is none of a secret, and what makes a value one stands at its beginning.
_LONGEST_NAME: Final = 60
_JUDGED: Final = 200
_IN_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_REST: Final = re.compile(r"[\w-]{0,60}")
# Between a name and its value: a sign, or the second key of an entry, as in {"name": …, "value": …}. YAML may name the
# type of the value.
_SIGN: Final = re.compile(
    r"[\\'\"]{0,8}\]?[ \t]*(?:={1,3}>?|:=|:|>|%3[DA])[ \t]*(?:!{1,2}[a-z]{1,10}[ \t]+)?"
    r"|[\\'\"]{0,8}[ \t]*(?:,[ \t]*)?[\\'\"]{0,8}value[\\'\"]{0,8}[ \t]*[=:][ \t]*"
)
_QUOTED_KEY: Final = re.compile(r"\\{0,3}['\"][ \t]?:[ \t]?\\{0,3}['\"]")
# The next cell of a table.
_CELL: Final = re.compile("[`*'\"]{0,3}[ \\t]*[|\u2502]([^|\u2502\\r\\n]{1,300})[|\u2502]")
_BEFORE_CELL: Final = re.compile("[|\u2502][ \\t]{0,9}[`*'\"]{0,3}$")
# Between a flag and its word, in a list and in a shell.
_NEXT_WORD: Final = re.compile(r"[\\'\"]{1,8},[ \t]*(?=[\\'\"])|[ \t]+(?![-\s])")
# Between a name and a value in a sentence.
_SAYS: Final = re.compile(r"[\\'\"]{0,8}[ \t]+((?:is|was|to)[ \t]+)?([\\'\"`]{0,8})")
_SAYS_FOR: Final = re.compile(r"[ \t]+for[ \t]+\S{1,200}:[ \t]+")
_SAID: Final = re.compile(r"[^\s'\"\\`,;]+")
# Before a quoted value: a list, or what a language writes around a text.
_OPENING: Final = re.compile(r"(?:[\[(]{1,2}|(?:Some|SecretStr|Secret)\(|[bfru])?(\\{0,8}['\"])")
_TO_QUOTE: Final = {each: re.compile(rf"[^{each}\\]*(?:\\.[^{each}\\]*)*") for each in "'\""}
# A value without quotes: of a variable, of a key that begins its line, of an element, and elsewhere.
_OF_VARIABLE: Final = re.compile(r"[^\s'\"\\]+")
_OF_LINE: Final = re.compile(r"[^\r\n#]+(?:(?<!\s)#[^\r\n#]*)*")
_OF_ELEMENT: Final = re.compile(r"[^<\r\n]+")
_OF_TEXT: Final = re.compile(r"[^\s'\"\\&,;}{<]+")
_CLOSING: Final = ")].:>"
# What `kubectl logs` and Ray write before a line.
_PREFIX: Final = re.compile(
    r"(?:\[[\w./-]{1,300}\] |\([\w.:@ =\[\]-]{1,100}pid=\d{1,9}[^()\r\n]{0,100}\) ?"
    r"|\d{4}-\d\d-\d\dT[\d:.]{8,30}(?:Z|[+-]\d\d:\d\d) |[ \t]{0,9}[|>+] )*"
)
# The end of a call that the value is an argument of.
_CLOSED: Final = re.compile(r"[)\]]")
_BEGINS_LINE: Final = re.compile(r"[ \t]*(?:- |# ?)?[\"']?\.?")
_BLOCK: Final = re.compile(r"[|>][+-]?\d?\s*")
_INDENTED: Final = re.compile(r"[ \t]*")
_CALL: Final = re.compile(r"[A-Za-z_][\w.]{0,200}[(\[]")
# What messages say about a secret.
_PROSE: Final = re.compile(
    r"(?i)(?:an?|and|are|at|authentication|can|cannot|could|denied|does|expected|expired|failed|field|for|from|has|have"
    r"|in|incorrect|input|invalid|is|may|missing|must|no|none|not|of|or|required|should|stale|store|the|this|to|too"
    r"|unknown|value|was|when|will|with|wrong|you|your)(?=$|[\s,.:;)])"
)
_WORDS: Final = re.compile(r"[A-Za-z][a-z]*[,.]?[ \t]+[A-Za-z(]")
_OPAQUE: Final = re.compile(r"\A(?=[^A-Za-z]*[A-Za-z])(?=[^0-9!#%^&*@$+=~]*[0-9!#%^&*@$+=~]).{6,}")
_RANDOM: Final = re.compile(r"\A(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9]*[0-9][^0-9]*[0-9])[A-Za-z0-9+/_.=-]{20,}$")
# A variable in two lines, as manifests have it; a flag and its word; what curl and git read from a file.
_NAME_LINE: Final = re.compile(r"[ \t]*(?:- )?[{ ]{0,4}[\"']?name[\"']?[ \t]*:[ \t]*[\"']?([\w.-]{1,100})[\"']?,?\s*$")
_VALUE_LINE: Final = re.compile(r"[ \t]*[\"']?value[\"']?[ \t]*:[ \t]*")
_FLAG_LINE: Final = re.compile(r"[ \t]*(?:- )?[\"']?(--[\w-]{1,100})[\"']?,?\s*$")
_WORD_LINE: Final = re.compile(r"[ \t]*(?:- )?[\"']?([^\s\"'-][^\s\"']*)[\"']?,?\s*$")
_LOGIN_LINE: Final = re.compile(r"\s*(?:machine\s+\S+|default|(?:login|user|account)\s+\S+)\s*$")
_LOGIN: Final = re.compile(r"\b(?:machine|default|login|user|account)\b")
_PASSWORD_LINE: Final = re.compile(r"\s*(password|requirepass|masterauth)[ \t]+(\S+)\s*$")
_VALUE_FIRST: Final = re.compile(
    r"value[\\'\"]{0,8}[ \t]?[:=][ \t]?(?P<quote>[\\'\"]{1,8})(?P<value>[^\\'\"\r\n]{1,400})(?P=quote)[ \t]?,[ \t]?"
    r"[\\'\"]{0,8}name[\\'\"]{0,8}[ \t]?[:=][ \t]?[\\'\"]{0,8}(?P<name>[\w.-]{1,100})"
)
_LINES: Final = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])?")

Span = tuple[int, int]


def hints(text: str) -> bool:
    """Return whether a text may contain a secret's name; the full search for names takes a hundred times as long."""
    lower = text.lower()
    return any(each in lower for each in secrets.NAME_HINTS)


class Names:
    """Mask the values of named secrets in consecutive lines."""

    def __init__(self) -> None:
        """Start without a pending name."""
        self._variable = self._flag = ""
        self._is_login = False
        self._block: int | None = None

    def masked(self, text: str) -> str:
        """Return a text's next lines with the values masked."""
        if not (self._awaits() or hints(text)):
            return text
        return "".join(map(self._line, _LINES.findall(text)))

    def _awaits(self) -> bool:
        return bool(self._variable or self._flag or self._is_login or self._block is not None)

    def _line(self, line: str) -> str:
        is_named = hints(line)
        if not (is_named or self._awaits() or _LOGIN.search(line)):
            return line
        at = _begin(line)
        if self._block is not None and (not line[at:].strip() or _indent(line, at) > self._block):
            return _hidden(line, [(at + _indent(line, at), len(line.rstrip()))]) if line[at:].strip() else line
        span = self._completed(line, at)
        self._block = None
        spans = [span] if span else self._spans(line, at) if is_named else []
        if not line[at:].strip():
            return line
        variable, flag = _NAME_LINE.match(line, at), _FLAG_LINE.match(line, at)
        self._variable = variable[1] if variable and secrets.names_secret(variable[1]) else ""
        self._flag = flag[1] if flag and secrets.names_secret(flag[1]) else ""
        self._is_login = _LOGIN_LINE.match(line, at) is not None
        return _hidden(line, spans)

    def _completed(self, line: str, at: int) -> Span | None:
        """Return the span of the value that the preceding lines announce."""
        if found := _PASSWORD_LINE.match(line, at):
            is_value = self._is_login or found[1] != "password" or _OPAQUE.match(found[2])
            return found.span(2) if is_value else None
        if self._variable and (found := _VALUE_LINE.match(line, at)):
            return _value(line, found.end(), self._variable, _OF_LINE)
        if self._flag and (found := _WORD_LINE.match(line, at)) and secrets.holds_secret(self._flag, found[1]):
            return found.span(1)
        return None

    def _spans(self, line: str, start: int) -> list[Span]:
        spans = [
            found.span("value") for found in _VALUE_FIRST.finditer(line) if _is_value(found["name"], found["value"])
        ]
        last = 0
        for found in secrets.NAME_PART.finditer(line):
            if found.start() < last:
                continue
            rest = _REST.match(line, found.end())
            end = rest.end() if rest else found.end()
            begin = found.start()
            while begin > max(last, found.start() - _LONGEST_NAME) and line[begin - 1] in _IN_NAME:
                begin -= 1
            name = line[begin:end]
            if name == "pass" and _QUOTED_KEY.match(line, end):
                # Elsewhere something has passed.
                name = "password"
            if end - found.end() < _LONGEST_NAME and secrets.names_secret(name):
                span = self._of_name(line, start, begin, end, name)
                if span:
                    spans.append(span)
                    last = span[1]
        return spans

    def _of_name(self, line: str, start: int, begin: int, end: int, name: str) -> Span | None:
        before = line[begin - 1 : begin]
        sign = _SIGN.match(line, end)
        if sign and not (before == "/" or (sign[0][0] == ">" and before != "<")):
            at, is_key = sign.end(), sign[0].split("!")[0].rstrip().endswith(":")
            if is_key and begin - start <= _JUDGED and _BEGINS_LINE.fullmatch(line, start, begin):
                if _BLOCK.fullmatch(line, at):
                    self._block = _indent(line, start)
                is_in_quotes = line[begin - 1 : begin] in ("'", '"') and sign[0][0] == ":"
                return _value(line, at, name, _OF_TEXT if is_in_quotes else _OF_LINE)
            if sign[0].endswith(">") and before == "<":
                return _value(line, at, name, _OF_ELEMENT)
            is_variable = name.isupper() and "=" in sign[0]
            return _value(line, at, name, _OF_VARIABLE if is_variable else _OF_TEXT, is_key=is_key)
        if name.startswith("-") and (word := _NEXT_WORD.match(line, end)):
            return _value(line, word.end(), name, _OF_VARIABLE)
        cell = _CELL.match(line, end)
        if cell and secrets.is_sure(name) and _BEFORE_CELL.search(line[max(0, begin - 20) : begin]):
            value = cell[1].strip(" \t")
            at = line.index(value, cell.start(1))
            return (at, at + len(value)) if _OPAQUE.match(value) and _is_value(name, value) else None
        return _said(line, end, name)


def _begin(line: str) -> int:
    """Return where a program's own line starts, after any prefix."""
    found = _PREFIX.match(line)
    return found.end() if found else 0


def _indent(line: str, at: int) -> int:
    found = _INDENTED.match(line, at)
    return found.end() - at if found else 0


def _said(line: str, end: int, name: str) -> Span | None:
    """Return the span of a name's value in a sentence."""
    found = _SAYS_FOR.match(line, end)
    if found and secrets.is_sure(name):
        return _value(line, found.end(), name, _OF_LINE)
    found = _SAYS.match(line, end)
    word = _SAID.match(line, found.end(), found.end() + _JUDGED) if found else None
    if not found or not word or secrets.is_no_value(word[0]):
        return None
    is_told = found[1] or (secrets.is_sure(name) and (found[2] or found[0] == "\t"))
    looks = _OPAQUE if is_told else _RANDOM
    is_value = looks.match(word[0].rstrip(_CLOSING))
    return _to_end(_SAID, line, found.end()) if is_value else None


def _value(line: str, at: int, name: str, plain: re.Pattern[str], *, is_key: bool = False) -> Span | None:
    """Return the span of the value that starts here, if its name marks it as secret."""
    opening = _OPENING.match(line, at)
    if opening:
        return _quoted(line, opening.end(), opening[1], name)
    head = plain.match(line, at, at + _JUDGED)
    if not head or _CALL.match(head[0]):
        return None
    value = head[0].strip().rstrip(_CLOSING)
    if secrets.is_no_value(head[0].strip()) or secrets.is_no_value(_CLOSED.split(value, maxsplit=1)[0]):
        return None
    is_prose = _PROSE.match(value) or ((is_key or not secrets.is_sure(name)) and _WORDS.match(line, at))
    if plain is _OF_LINE and " " in value and not secrets.is_sure(name):
        plain, value = _OF_TEXT, value.split()[0]
    if is_prose or not _is_value(name, value):
        return None
    return _to_end(plain, line, at)


def _quoted(line: str, begin: int, quote: str, name: str) -> Span | None:
    """Return the span of a quoted value; without a closing quote, it extends to the end of the line."""
    if len(quote) == 1:
        found = _TO_QUOTE[quote].match(line, begin, begin + _JUDGED)
        end = found.end() if found else begin
    else:
        end = line.find(quote, begin, begin + _JUDGED)
        end = min(len(line), begin + _JUDGED) if end < 0 else end
    if not _is_value(name, line[begin:end].strip()):
        return None
    if len(quote) == 1:
        found = _TO_QUOTE[quote].match(line, begin)
        end = found.end() if found else begin
    else:
        end = line.find(quote, begin)
    return begin, len(line.rstrip()) if end < 0 else end


def _to_end(plain: re.Pattern[str], line: str, at: int) -> Span:
    found = plain.match(line, at)
    value = found[0].rstrip() if found else ""
    return at, at + (len(value) if plain is _OF_VARIABLE else len(value.rstrip(_CLOSING)))


def _is_value(name: str, value: str) -> bool:
    return value != HIDDEN and secrets.holds_secret(name, value)


def _hidden(line: str, spans: list[Span]) -> str:
    parts, last = [], 0
    for begin, end in sorted(spans):
        if begin >= last:
            parts += [line[last:begin], HIDDEN]
            last = end
    return "".join((*parts, line[last:]))
