"""Read the text of OmegaConf's references, `${a.b}` and `${name:arguments}`, into their parts.

Source: the grammar of OmegaConf 2.3. What is read is exact, or said not to be: arguments in quotes, brackets or with
backslashes are looked through for references, and their value is not known here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final, TypeAlias

    from postrender.plain import Plain

    Piece: TypeAlias = "str | Node | Call"

OPEN: Final = "${"
_WORDS: Final[Mapping[str, bool | None]] = {"null": None, "true": True, "false": False}
_BLANK: Final = " \t"
_NO_KEY: Final = "\\{}()[]:. \t'\""
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
_NAME: Final = _LETTERS + "0123456789-"
_ARGUMENT: Final = f"{_NAME}/+.$%*@?| \t:"
_PAIRS: Final = {"[": "]", "{": "}"}
_ESCAPED: Final = "\\()[]{}:=, \t"
# Nobody writes references within references that deep, and Python does not read them deeper.
_MAX_DEPTH = 20


class OddError(Exception):
    """A text that OmegaConf may read, and that is not read here."""


class MalformedError(Exception):
    """A text that OmegaConf refuses; `is_open` says that a brace is missing."""

    def __init__(self, text: str, *, is_open: bool = False) -> None:
        super().__init__(text)
        self.is_open = is_open


class Node:
    """A reference to a key: `dots` in front, and its parts; a part that is a reference itself gives its name.

    `text` is its name for messages, without what stands in references within: that may be a secret.
    """

    __slots__ = ("dots", "parts", "text")

    def __init__(self, dots: int, parts: list[Piece]) -> None:
        self.dots = dots
        self.parts = parts
        self.text = "." * dots + ".".join(part if isinstance(part, str) else "${...}" for part in parts)


class Call:
    """A call of a resolver; `name` is empty where a reference gives a part of it.

    An argument is its pieces, or None where its value is not known here. `within` are the references in the name and in
    such arguments.
    """

    __slots__ = ("arguments", "name", "text", "within")

    def __init__(self, name: str, within: list[Node | Call]) -> None:
        self.name = name
        self.within = within
        self.arguments: list[list[Piece] | None] = []
        self.text = ""


def parse(text: str) -> list[Piece]:
    """Cut a text into what is plain, with its escapes undone, and references; raise OddError and MalformedError."""
    pieces: list[Piece] = []
    plain, at_ = "", 0
    while (start := text.find(OPEN, at_)) >= 0:
        before = text[at_:start]
        bare = before.rstrip("\\")
        slashes = len(before) - len(bare)
        # Only here a backslash is more than itself: two stand for one, and an odd one keeps the reference a text.
        plain += bare + "\\" * (slashes // 2)
        if slashes % 2:
            plain, at_ = plain + OPEN, start + 2
            continue
        if plain:
            pieces.append(plain)
        reference, at_ = _Reader(text).reference(start, 0)
        pieces.append(reference)
        plain = ""
    plain += text[at_:]
    return [*pieces, plain] if plain else pieces


class _Argument:
    """Collect one argument of a call."""

    def __init__(self) -> None:
        self.references: list[Node | Call] = []
        self._pieces: list[Piece] = []
        self._is_plain = True

    def add(self, letter: str) -> None:
        self._is_plain = self._is_plain and letter in _ARGUMENT
        if self._pieces and isinstance(self._pieces[-1], str):
            self._pieces[-1] += letter
        else:
            self._pieces.append(letter)

    def add_reference(self, reference: Node | Call) -> None:
        self._pieces.append(reference)
        self.references.append(reference)

    def pieces(self) -> list[Piece] | None:
        """Return its pieces without the blanks around it, None where they do not say what its value is."""
        found = list(self._pieces)
        if found and isinstance(found[0], str):
            found[0] = found[0].lstrip(_BLANK)
        if found and isinstance(found[-1], str):
            found[-1] = found[-1].rstrip(_BLANK)
        # A colon keeps the blanks beside it.
        keeps = any(isinstance(piece, str) and ":" in (piece[:1], piece[-1:]) for piece in found)
        return None if keeps or not self._is_plain else [piece for piece in found if piece != ""]


class _Reader:
    """Read one text; every method takes where it begins and returns where it ends."""

    def __init__(self, text: str) -> None:
        self._text = text

    def reference(self, start: int, depth: int) -> tuple[Node | Call, int]:
        if depth > _MAX_DEPTH:
            raise OddError(self._text)
        at_ = self._blank(start + 2)
        dots = 0
        while self._letter(at_) == ".":
            dots, at_ = dots + 1, at_ + 1
        parts, at_, is_name = self._parts(at_, depth)
        at_ = self._blank(at_)
        if self._letter(at_) == "}":
            return Node(dots, parts), at_ + 1
        if self._letter(at_) != ":" or dots or not is_name:
            raise self._wrong(at_)
        within = [part for part in parts if not isinstance(part, str)]
        call = Call("" if within else ".".join(map(str, parts)), within)
        at_ = self._arguments(call, at_ + 1, depth)
        call.text = self._text[start + 2 : at_ - 1].strip()
        return call, at_

    def _parts(self, at_: int, depth: int) -> tuple[list[Piece], int, bool]:
        """Read `a.b[c]`; say too whether it may be the name of a resolver."""
        parts: list[Piece] = []
        is_name = True
        while True:
            is_bracket = self._letter(at_) == "["
            part, at_ = self._key(at_ + is_bracket, depth)
            if is_bracket:
                at_ = self._expect("]", at_)
            is_name = is_name and not is_bracket and (not isinstance(part, str) or _is_name(part))
            parts.append(part)
            letter = self._letter(at_)
            if letter == ".":
                at_ += 1
                if self._letter(at_) == "[":
                    raise self._wrong(at_)
            elif letter != "[":
                return parts, at_, is_name

    def _key(self, at_: int, depth: int) -> tuple[Piece, int]:
        if self._text.startswith(OPEN, at_):
            return self.reference(at_, depth + 1)
        end = at_
        while end < len(self._text) and self._text[end] not in _NO_KEY:
            end += 1
        if end == at_:
            raise self._wrong(at_)
        return self._text[at_:end], end

    def _arguments(self, call: Call, at_: int, depth: int) -> int:
        """Read arguments and the brace that closes them."""
        while True:
            argument = _Argument()
            begins, at_ = at_, self._argument(argument, at_, depth)
            is_last = self._text[at_] == "}"
            # A call without any has none that is empty.
            if not is_last or call.arguments or self._text[begins:at_].strip(_BLANK):
                pieces = argument.pieces()
                call.arguments.append(pieces)
                call.within += argument.references if pieces is None else ()
            at_ += 1
            if is_last:
                return at_

    def _argument(self, argument: _Argument, at_: int, depth: int) -> int:
        """Read one argument up to the comma or the brace that ends it."""
        text, levels = self._text, [""]
        while at_ < len(text):
            letter = text[at_]
            if letter in ",}" and levels == [""]:
                return at_
            if text.startswith(OPEN, at_):
                found, at_ = self.reference(at_, depth + 1)
                argument.add_reference(found)
                continue
            if letter in "'\"":
                at_ = self._quoted(argument, at_, depth)
                continue
            if letter in _PAIRS:
                levels.append(_PAIRS[letter])
            elif letter == levels[-1]:
                levels.pop()
            elif letter in "]}":
                raise OddError(text)
            argument.add(letter)
            # What is escaped closes nothing.
            at_ += 2 if letter == "\\" and text[at_ + 1 : at_ + 2] in _ESCAPED else 1
        if levels != [""]:
            raise OddError(text)
        raise MalformedError(text, is_open=True)

    def _quoted(self, argument: _Argument, at_: int, depth: int) -> int:
        """Read a text in quotes for the references in it; one with backslashes is not read here."""
        text, quote = self._text, self._text[at_]
        argument.add(quote)
        at_ += 1
        while at_ < len(text) and text[at_] != quote:
            if text[at_] == "\\":
                raise OddError(text)
            if text.startswith(OPEN, at_):
                found, at_ = self.reference(at_, depth + 1)
                argument.add_reference(found)
            else:
                at_ += 1
        if at_ >= len(text):
            raise OddError(text)
        return at_ + 1

    def _blank(self, at_: int) -> int:
        while self._letter(at_) in _BLANK and at_ < len(self._text):
            at_ += 1
        return at_

    def _letter(self, at_: int) -> str:
        return self._text[at_ : at_ + 1]

    def _expect(self, letter: str, at_: int) -> int:
        if self._letter(at_) != letter:
            raise self._wrong(at_)
        return at_ + 1

    def _wrong(self, at_: int) -> MalformedError:
        return MalformedError(self._text, is_open=at_ >= len(self._text))


def _is_name(part: str) -> bool:
    return part[0] in _LETTERS and not part.strip(_NAME)


def primitive(text: str) -> Plain:
    """Return the value of an argument: a word, a number or a text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    digits = text.lstrip("+-")
    if not digits or len(text) - len(digits) > 1 or (digits[0] == "0" and digits[1:2] not in ("", ".", "e", "E")):
        return text
    try:
        return int(text)
    except ValueError:
        return _number(text)


def _number(text: str) -> float | str:
    try:
        return text if "infinity" in text.lower() else float(text)
    except ValueError:
        return text
