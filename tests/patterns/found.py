"""Find every regular expression of the packages and of jobs/, where it stands and how it is used; print them as JSON.

A program of its own: it imports all modules, and looks at all objects that they made.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import gc
import importlib
import importlib.util
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parents[2]
# How a pattern is tried: at the beginning, over the whole text, or at each place.
_MODES: Final = {"match": "match", "fullmatch": "fullmatch"} | dict.fromkeys(
    ("search", "finditer", "findall", "sub", "subn", "split"), "finditer"
)
_CALLS: Final = (*_MODES, "compile", "template")
# Of the arguments of `re.sub` and of a pattern's `sub`, which one is the text.
_TEXT: Final = {"sub": 1, "subn": 1}
# A text that our own code cuts to so many characters is tried at this size; a longer cut counts for nothing.
MOST_BOUND: Final = 4_096
# What a comment says beside a pattern that comes with the data.
_OF_USER: Final = re.compile(r"# .*\bpattern of the user\b")


@dataclasses.dataclass(frozen=True)
class Found:
    """A pattern, its place, and how it is tried: a mode, and the longest text, 0 if nothing bounds it."""

    pattern: str
    flags: int
    is_bytes: bool
    place: str
    uses: tuple[tuple[str, int], ...]


class _Names(dict[str, Any]):
    """The names of a module; a local name of a function is a short text."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        return "name"


@dataclasses.dataclass
class Source:
    """A module: its tree, its names and its lines."""

    path: str
    tree: ast.Module
    names: dict[str, Any]
    lines: list[str]

    def __post_init__(self) -> None:
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def value(self, node: ast.expr, more: dict[str, Any] | None = None, is_part: bool = False) -> Any:
        """Return the value of an expression; with `is_part`, a local name in it is a short text."""
        names = self.names | (more or {})
        code = compile(ast.Expression(node), self.path, "eval")
        # What an expression asks of a name inside of a comprehension it looks up in the globals.
        return eval(code, {**names, "__builtins__": builtins}, _Names(names) if is_part else {})  # noqa: S307 (our own source)


def sources() -> list[Source]:
    """Return all modules, imported; of one that needs a framework, what can be run without it."""
    found = []
    folders = [str(each) for each in (REPOSITORY / "jobs").iterdir() if each.is_dir()]
    sys.path[:0] = [str(REPOSITORY), *folders]
    for file in sorted(path for name in ("grpo", "jobs", "postrender") for path in (REPOSITORY / name).rglob("*.py")):
        path = file.relative_to(REPOSITORY)
        if path.name == "__main__.py":
            continue
        text = file.read_text()
        tree = ast.parse(text)
        dotted = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        names = _imported(dotted if path.parts[0] != "jobs" else path.stem, tree)
        found.append(Source(str(path), tree, names, text.splitlines()))
    return found


def _imported(name: str, tree: ast.Module) -> dict[str, Any]:
    try:
        return vars(importlib.import_module(name))
    except Exception:
        names: dict[str, Any] = {"__name__": name}
        for statement in tree.body:
            try:
                exec(compile(ast.Module([statement], []), name, "exec"), names)  # noqa: S102
            except Exception:  # noqa: S112 (what follows from the import that failed)
                continue
        return names


def _calls(source: Source) -> Iterator[ast.Call]:
    """Return the calls of functions of `re` that take a pattern."""
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and source.names.get(node.func.value.id) is re
            and node.func.attr in _CALLS
        ):
            yield node


def _window(source: Source, begin: ast.expr, end: ast.expr) -> int:
    """Return the size of the part of a text that a pattern looks at, from `at - SIZE` to `at + SIZE`; 0 for another."""
    if isinstance(begin, ast.BinOp) and isinstance(end, ast.BinOp) and ast.dump(begin.left) == ast.dump(end.left):
        size = source.value(begin.right) + source.value(end.right)
        return size if isinstance(begin.op, ast.Sub) and 0 < size <= MOST_BOUND else 0
    return 0


def _bound(source: Source, text: ast.expr | None) -> int:
    """Return to how many characters a text is cut where it is given to a pattern; 0 if it is not."""
    if isinstance(text, ast.Subscript) and isinstance(text.slice, ast.Slice) and text.slice.upper is not None:
        lower, upper = text.slice.lower, text.slice.upper
        try:
            size = source.value(upper)
        except Exception:
            # A window: text[at : at + 60]
            size = 0
            if isinstance(upper, ast.BinOp) and lower and ast.dump(upper.left) == ast.dump(lower):
                size = source.value(upper.right)
        return size if isinstance(size, int) and 0 < size <= MOST_BOUND else 0
    return 0


def _uses(all_sources: list[Source]) -> dict[tuple[str, str], set[tuple[str, int]]]:
    """Return how the patterns are used by module and name; a public name is used in all modules."""
    found: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for source in all_sources:
        functions = {node.name: node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr in _MODES:
                how = {_use(source, node)}
                names = _names(node.func.value) - _local(source, node.func.value)
            elif isinstance(node.func, ast.Name) and node.func.id in functions:
                # A pattern that is given to a function of the same module.
                function = functions[node.func.id]
                pairs = [*zip(node.args, function.args.args, strict=False)]
                given = {each.arg: name for value, each in pairs if isinstance(value, ast.Name) for name in [value.id]}
                how, names = set(), set(given.values())
                for inner in [each for each in ast.walk(function) if isinstance(each, ast.Call)]:
                    method = inner.func.attr if isinstance(inner.func, ast.Attribute) else ""
                    if method in _MODES and _names(inner.func) & given.keys():
                        how.add(_use(source, inner))
            else:
                continue
            for name in names if how else ():
                found.setdefault((source.path if name.startswith("_") else "", name), set()).update(how)
    return found


def _names(node: ast.expr) -> set[str]:
    """Return the names in an expression, also those of attributes."""
    inner = list(ast.walk(node))
    return {each.id for each in inner if isinstance(each, ast.Name)} | {
        each.attr for each in inner if isinstance(each, ast.Attribute)
    }


def _local(source: Source, node: ast.expr) -> set[str]:
    """Return the names in an expression that are no names of its module."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id not in source.names}


def _use(source: Source, call: ast.Call) -> tuple[str, int]:
    """Return the mode and the bound of a call of a pattern's method."""
    method = ast.unparse(call.func).rpartition(".")[2]
    at = _TEXT.get(method, 0)
    if len(call.args) == 3 and not at:
        return _MODES[method], _window(source, *call.args[1:])
    return _MODES[method], _bound(source, call.args[at] if len(call.args) > at else None)


def _target(source: Source, call: ast.Call) -> str:
    """Return the name that a pattern is assigned to, or that of the function or property that returns it."""
    for node in source.above(call):
        if isinstance(node, ast.AnnAssign):
            return ast.unparse(node.target)
        if isinstance(node, ast.Assign):
            return ast.unparse(node.targets[0])
        if isinstance(node, ast.FunctionDef):
            return node.name
        if isinstance(node, ast.stmt) and not isinstance(node, ast.Return):
            break
    return ""


def _values(source: Source, call: ast.Call, pattern: ast.expr) -> Iterator[str | bytes]:
    """Return what the pattern of a call can be."""
    if isinstance(pattern, ast.Name) and pattern.id not in source.names:
        yield from _locals(source, call, pattern.id)
        return
    owner = next((node for node in source.above(call) if isinstance(node, ast.ClassDef)), None)
    if owner and any(isinstance(node, ast.Name) and node.id == "self" for node in ast.walk(pattern)):
        kind = source.names[owner.name]
        for each in [each for each in gc.get_objects() if type(each) is kind]:
            yield source.value(pattern, {"self": each})
        return
    yield source.value(pattern, is_part=True)


def _locals(source: Source, call: ast.Call, name: str) -> Iterator[str | bytes]:
    """Return the values of a name that a loop goes through, that a function assigns, or that its callers give it."""
    for node in source.above(call):
        for loop in getattr(node, "generators", [node] if isinstance(node, ast.For) else []):
            if isinstance(loop.target, ast.Name) and loop.target.id == name:
                yield from source.value(loop.iter)
                return
        if isinstance(node, ast.FunctionDef):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Assign) and ast.unparse(inner.targets[0]) == name:
                    yield source.value(inner.value, is_part=True)
                    return
            names = [each.arg for each in node.args.args]
            callers = [each for each in ast.walk(source.tree) if isinstance(each, ast.Call)]
            for each in callers if name in names else ():
                if isinstance(each.func, ast.Name) and each.func.id == node.name:
                    yield source.value(each.args[names.index(name)])
            return


def _compiled(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """Return the compiled patterns within a value."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 5 and isinstance(value, Mapping):
        yield from (found for each in value.values() for found in _compiled(each, depth + 1))
    elif depth < 5 and isinstance(value, (tuple, list, set, frozenset)):
        yield from (found for each in value for found in _compiled(each, depth + 1))
    elif depth < 5 and dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (
            found for each in dataclasses.fields(value) for found in _compiled(getattr(value, each.name, 0), depth + 1)
        )


def _of_function(source: Source, call: ast.Call) -> Iterator[re.Pattern[Any]]:
    """Return the patterns that the function around a call makes, if it needs no arguments."""
    for node in source.above(call):
        if isinstance(node, ast.FunctionDef):
            function = source.names.get(node.name)
            if function and not any(
                each.default is each.empty for each in inspect.signature(function).parameters.values()
            ):
                yield from _compiled(function())


def found() -> tuple[list[Found], list[str]]:
    """Return all patterns, and the places of those that cannot be known."""
    patterns: dict[tuple[str | bytes, int], tuple[str, set[tuple[str, int]]]] = {}
    unknown: list[str] = []
    every = sources()
    uses = _uses(every)

    def add(pattern: str | bytes, flags: int, place: str, how: set[tuple[str, int]]) -> None:
        flags = re.compile(pattern, flags).flags & ~(re.UNICODE | re.DEBUG)
        known = patterns.setdefault((pattern, flags), (place, set()))[1]
        known |= how or {("finditer", 0)}

    def used(source: Source, name: str) -> set[tuple[str, int]]:
        return uses.get((source.path if name.startswith("_") else "", name), set()) if name else set()

    for source in every:
        for call in _calls(source):
            place = f"{source.path}:{call.lineno}"
            method = ast.unparse(call.func).rpartition(".")[2]
            keywords = {each.arg: each.value for each in call.keywords}
            pattern = keywords.get("pattern") or call.args[0]
            at = {"compile": 1, "sub": 4, "subn": 4, "split": 3}.get(method, 2)
            given = keywords.get("flags") or (call.args[at] if len(call.args) > at else None)
            flags = source.value(given) if given else 0
            text = call.args[1 + _TEXT.get(method, 0)] if method in _MODES else None
            how = {(_MODES[method], _bound(source, text))} if text else used(source, _target(source, call))
            try:
                values = list(_values(source, call, pattern))
            except Exception:
                values = []
            for each in values:
                add(each, flags, place, how)
            if not values:
                more = list(_of_function(source, call))
                for one in more:
                    add(one.pattern, one.flags & ~re.UNICODE, place, how)
                lines = source.lines[call.lineno - 1 : call.end_lineno]
                if not more and not any(map(_OF_USER.search, lines)):
                    unknown.append(place)
        for name, value in list(source.names.items()):
            if name.startswith("__") or isinstance(value, ModuleType):
                continue
            for one in _compiled(value):
                if (one.pattern, one.flags & ~re.UNICODE) not in patterns:
                    add(one.pattern, one.flags & ~re.UNICODE, f"{source.path} {name}", used(source, name))
    result = [
        Found(
            pattern if isinstance(pattern, str) else pattern.decode("latin-1"),
            flags,
            isinstance(pattern, bytes),
            place,
            tuple(sorted(how)),
        )
        for (pattern, flags), (place, how) in patterns.items()
    ]
    return result, unknown


if __name__ == "__main__":
    known, places = found()
    json.dump({"found": [dataclasses.asdict(each) for each in known], "unknown": places}, sys.stdout)
