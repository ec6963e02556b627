"""Work out what OmegaConf's `${...}` stands for in a configuration, without OmegaConf, which takes long to load.

Source: OmegaConf 2.3, with which tests/postrender/test_interpolation.py compares, and the resolvers that NeMo RL
registers (mul, div, max). What depends on the place where the job runs, as `${oc.env:NAME}`, is not known here.
"""

from __future__ import annotations

from postrender import grammar
from postrender.grammar import OPEN, Call, MalformedError, Node, OddError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any, Final

    from postrender.grammar import Piece
    from postrender.plain import Plain

    Path = tuple[str, ...]
    # A value, and where it stands if it is a map or a list of the configuration.
    Found = tuple[Plain, Path | None]

# Those of OmegaConf itself.
BUILT_IN: Final = (
    "oc.create",
    "oc.decode",
    "oc.deprecated",
    "oc.dict.keys",
    "oc.dict.values",
    "oc.env",
    "oc.select",
)
# Beyond it Python, and OmegaConf too, would not come back: a chain of references, and a text that grows.
_MAX_DEPTH = 40
_MAX_LENGTH = 1_000_000


class UnknownError(Exception):
    """A value that only the running job knows, or that is not what the asker can use."""


class RefusedError(UnknownError):
    """A reference at which the framework stops when it reads the configuration; `place` is where it stands."""

    place: Path = ()


class BrokenError(RefusedError):
    """A text that is no reference; `is_open` says that it is opened and not closed."""

    def __init__(self, text: str, *, is_open: bool) -> None:
        super().__init__(text)
        self.is_open = is_open


class CycleError(RefusedError):
    """References that lead back to where they stand; `paths` are the keys that hold them, the first one first.

    `section` is where the only one refers to a section that it stands in.
    """

    def __init__(self, paths: Sequence[Path], section: Path | None = None) -> None:
        super().__init__(".".join(paths[0]))
        self.paths = [".".join(path) for path in paths]
        self.section = ".".join(section) if section else ""


class AboveError(RefusedError):
    """A relative reference that leads above the configuration; `most` are the dots that it may have."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__(name)
        self.name = name
        self.most = most


class ResolverError(RefusedError):
    """A call of a resolver that nobody registers."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _NoPositionError(KeyError):
    """A name where the position in a list is needed, for which not even a default is taken."""


class EscapedError(RefusedError):
    """A reference that a backslash makes a plain text, and that is refused when it is resolved once more."""


class DanglingError(Exception):
    """A reference to a key that does not exist; `name` is what was looked for, `place` where the reference stands."""

    place: Path = ()

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _divided(left: Plain, right: Plain) -> Plain:
    return left / right


def _product(left: Plain, right: Plain) -> Plain:
    if not all(isinstance(value, (int, float)) for value in (left, right)):
        # Python repeats a text as often as it is told.
        raise TypeError("mul")
    return left * right


_COMPUTED: Mapping[str, Callable[[Plain, Plain], Plain]] = {"mul": _product, "div": _divided, "max": max}


def value_at(tree: Plain, path: Path) -> Plain:
    """Return the value at a path of keys and list positions; raise KeyError where nothing stands there."""
    for part in path:
        if isinstance(tree, dict):
            tree = tree[part]
        elif isinstance(tree, list):
            tree = _item(tree, part)
        else:
            raise KeyError(part)
    return tree


def _item(items: list[Plain], part: str) -> Plain:
    if not part.isdecimal():
        raise _NoPositionError(part)
    if int(part) >= len(items):
        raise KeyError(part)
    return items[int(part)]


def resolved(tree: Mapping[str, Any], path: Path) -> Plain:
    """Return the value at a path with what its text refers to put in.

    Raises KeyError where nothing stands there, UnknownError, RefusedError and DanglingError.
    """
    return Resolver(tree).at(path)[0]


class Resolver:
    """Resolve the references of one configuration; `registered` are the resolvers that are there, None for any."""

    def __init__(self, tree: Mapping[str, Any], registered: Collection[str] | None = None) -> None:
        self._tree = tree
        self._registered = registered
        # Where a text is being resolved, and where a reference to a map is being looked through.
        self._active: list[Path] = []
        self._known: dict[Path, Found] = {}
        self._lost: dict[Path, UnknownError | DanglingError] = {}
        self._whole: set[Path] = set()

    def check(self, path: Path) -> None:
        """Raise what is wrong with a text, and with all that it brings in, as OmegaConf does that resolves it all."""
        value, place = self.at(path)
        if place is None or not isinstance(value, (dict, list)):
            return
        self._enter(path)
        try:
            for each in _texts(value, place):
                if each not in self._whole:
                    self._check_within(each)
        finally:
            self._active.pop()

    def _check_within(self, path: Path) -> None:
        try:
            self.check(path)
        except RefusedError:
            raise
        except UnknownError:
            # What only the running job knows says nothing of the texts beside it.
            pass
        self._whole.add(path)

    def check_again(self, path: Path) -> None:
        """Raise EscapedError for a text that OmegaConf refuses the second time, when no backslash is left."""
        value = self.at(path)[0]
        try:
            self._joined(_parsed(value), path) if isinstance(value, str) and OPEN in value else None
        except (RefusedError, DanglingError) as error:
            raise EscapedError(".".join(path)) from error

    def at(self, path: Path) -> Found:
        """Return what stands at a path; what stands above it may be a reference."""
        place: Path | None = ()
        value: Plain = self._tree
        for part in path:
            if place is None:
                raise UnknownError(".".join(path))
            value = value_at(value, (part,))
            place = (*place, part)
            if isinstance(value, str) and OPEN in value:
                value, place = self._text(value, place)
        return value, place

    def _text(self, text: str, place: Path) -> Found:
        if place in self._known:
            return self._known[place]
        if place in self._lost:
            raise self._lost[place]
        self._enter(place)
        try:
            found = self._joined(_parsed(text), place)
        except (UnknownError, DanglingError) as error:
            if isinstance(error, (RefusedError, DanglingError)):
                error.place = error.place or place
            self._lost[place] = error
            raise
        finally:
            self._active.pop()
        self._known[place] = found
        return found

    def _enter(self, place: Path) -> None:
        if place in self._active:
            raise CycleError(self._active[self._active.index(place) :])
        if len(self._active) > _MAX_DEPTH:
            raise UnknownError(".".join(place))
        self._active.append(place)

    def _joined(self, pieces: list[Piece], place: Path) -> Found:
        if len(pieces) == 1 and not isinstance(pieces[0], str):
            return self._reference(pieces[0], place)
        values = [*self._each(pieces, place)]
        if any(isinstance(value, (dict, list)) for value in values):
            raise UnknownError(".".join(place))
        texts = [*map(str, values)]
        if sum(map(len, texts)) > _MAX_LENGTH:
            raise UnknownError(".".join(place))
        return "".join(texts), None

    def _each(self, pieces: list[Piece], place: Path) -> Iterator[Plain]:
        """Yield the values of pieces. All are looked at before one that is not known is told of."""
        unknown = None
        for piece in pieces:
            try:
                yield piece if isinstance(piece, str) else self._reference(piece, place)[0]
            except RefusedError:
                raise
            except UnknownError as error:
                unknown = unknown or error
        if unknown:
            raise unknown

    def _reference(self, piece: Node | Call, place: Path) -> Found:
        return self._node(piece, place) if isinstance(piece, Node) else self._call(piece, place)

    def _node(self, node: Node, place: Path) -> Found:
        parts = [*self._each(node.parts, place)]
        if not all(isinstance(part, str) and part[:1] != "." and "[" not in part for part in parts):
            raise UnknownError(node.text)
        # The name that a reference gives may have dots of its own.
        path = (*_base(node.dots, node.text, place), *".".join(parts).split("."))
        try:
            value, found = self.at(path)
        except KeyError as error:
            raise DanglingError(node.text) from error
        if found is not None and isinstance(value, (dict, list)) and place[: len(found)] == found:
            raise CycleError([place], found)
        return value, found

    def _call(self, call: Call, place: Path) -> Found:
        given, unknown = self._arguments(call, place)
        if call.name and self._registered is not None and call.name not in self._registered:
            raise ResolverError(call.name)
        if unknown:
            raise unknown
        if call.name == "oc.select" and given:
            return self._selected(given, call.text, place)
        if call.name not in _COMPUTED or len(given) != 2:
            raise UnknownError(call.text)
        try:
            return _COMPUTED[call.name](*given), None
        except (TypeError, ArithmeticError, ValueError) as error:
            raise UnknownError(call.text) from error

    def _arguments(self, call: Call, place: Path) -> tuple[list[Plain], UnknownError | None]:
        """Return the arguments, and that one is not known: what is refused of them all comes first."""
        given: list[Plain] = []
        unknown = None if call.name and None not in call.arguments else UnknownError(call.text)
        references: list[list[Piece]] = [[each] for each in call.within]
        for argument in [*references, *call.arguments]:
            try:
                given.append(self._argument(argument or [], place))
            except RefusedError:
                raise
            except UnknownError as error:
                unknown = error
        return given, unknown

    def _selected(self, given: list[Plain], text: str, place: Path) -> Found:
        name = given[0]
        if not isinstance(name, str) or len(given) > 2:
            raise UnknownError(text)
        rest = name.lstrip(".")
        if not rest or "[" in rest:
            raise UnknownError(text)
        path = (*_base(len(name) - len(rest), name, place), *rest.split("."))
        try:
            return self.at(path)
        except _NoPositionError as error:
            raise UnknownError(text) from error
        except KeyError:
            return (given[1] if len(given) > 1 else None), None

    def _argument(self, pieces: list[Piece], place: Path) -> Plain:
        if len(pieces) == 1 and isinstance(pieces[0], str):
            return grammar.primitive(pieces[0])
        return self._joined(pieces, place)[0] if pieces else ""


def _base(dots: int, name: str, place: Path) -> Path:
    """Return where a name is looked for: from the root, or with leading dots from where the text stands."""
    if dots > len(place):
        raise AboveError(name, len(place))
    return place[: len(place) - dots] if dots else ()


def _parsed(text: str) -> list[Piece]:
    try:
        return grammar.parse(text)
    except OddError as error:
        raise UnknownError(text) from error
    except MalformedError as error:
        raise BrokenError(text, is_open=error.is_open) from error


def _texts(value: Plain, place: Path) -> Iterator[Path]:
    """Yield the places of the texts with references in a map or a list."""
    if isinstance(value, str):
        if OPEN in value:
            yield place
    elif isinstance(value, (dict, list)):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(each, (*place, str(key)))
