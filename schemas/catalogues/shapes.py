"""What may stand at a place of a configuration, read from the annotations of a source tree that is never imported."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass, field
from pathlib import Path

import compared

# The order in which a type is written: integer|string, never string|integer.
KINDS = ("boolean", "integer", "number", "string", "list", "map", "any", "null")
_NAMES = {
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "PositiveInt": "integer",
    "NonNegativeInt": "integer",
    "PositiveFloat": "number",
    "NonNegativeFloat": "number",
    "str": "string",
    "Path": "string",
    "PathLike": "string",
    "None": "null",
    "list": "list",
    "List": "list",
    "Sequence": "list",
    "tuple": "list",
    "Tuple": "list",
    "set": "list",
}
_MAPS = ("dict", "Dict", "Mapping", "MutableMapping", "DictConfig")
_WRAPPERS = ("NotRequired", "Required", "Annotated", "Optional", "Union", "ReadOnly", "ClassVar", "Final")


@dataclass
class Shape:
    """Hold the kinds of value that fit, the words where only some do, and the keys of a map or of maps in a list."""

    kinds: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)
    fields: dict[str, Shape] = field(default_factory=dict)
    required: set[str] = field(default_factory=set)
    is_open: bool = False

    def add(self, other: Shape) -> None:
        """Let fit what fits the other one, too."""
        if self.fields and other.fields:
            self.required &= other.required
        else:
            self.required |= other.required
        self.kinds |= other.kinds
        self.words += [word for word in other.words if word not in self.words]
        self.is_open = self.is_open or other.is_open
        for key, shape in other.fields.items():
            self.fields.setdefault(key, Shape()).add(shape)

    def written(self) -> str | list[str | None]:
        """Return the type as a catalogue spells it; a list of words where only these may stand."""
        kinds = set(self.kinds)
        if "any" in kinds or not (kinds - {"null"} or self.words):
            return "any"
        if self.words and kinds <= {"null"}:
            return [*self.words, *([None] if kinds else [])]
        kinds |= {"string"} if self.words else set()
        kinds -= {"integer"} if "number" in kinds else set()
        return "|".join(kind for kind in KINDS if kind in kinds)


class Sources:
    """Find modules and classes of a package by name."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree

    @functools.cache  # noqa: B019 - one run, one tree
    def module(self, name: str) -> ast.Module | None:
        """Return the parsed module, or None where it is not of this tree."""
        base = self.tree.joinpath(*name.split("."))
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.is_file():
                return ast.parse(file.read_text("utf-8"))
        return None

    def find(self, module: str, name: str) -> tuple[str, ast.stmt] | None:
        """Return where a name comes from: its module, and the class or assignment there."""
        tree = self.module(module)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.ClassDef) and node.name == name:
                return module, node
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                return module, node
            if isinstance(node, ast.ImportFrom) and any(name == (alias.asname or alias.name) for alias in node.names):
                original = next(alias.name for alias in node.names if name == (alias.asname or alias.name))
                return self.find(self._absolute(module, node), original)
        starred = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)) if tree else ()
        modules = [self._absolute(module, node) for node in starred if node.names[0].name == "*"]
        return next((found for each in modules if (found := self.find(each, name))), None)

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        is_package = (self.tree.joinpath(*module.split(".")) / "__init__.py").is_file()
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + is_package]
        return ".".join([*parts, node.module] if node.module else parts)


class Annotations:
    """Turn annotations of one tree into shapes."""

    def __init__(self, sources: Sources, classes: tuple[str, ...]) -> None:
        self.sources = sources
        self.classes = classes

    def named(self, module: str, name: str, seen: tuple[str, ...] = ()) -> Shape:
        """Return the shape of a class or an alias; anything fits what is neither."""
        found = self.sources.find(module, name)
        if found is None or name in seen:
            return Shape({"any"})
        where, node = found
        if isinstance(node, ast.Assign):
            return self.shape(where, node.value, (*seen, name))
        assert isinstance(node, ast.ClassDef)
        return self.of_class(where, node, (*seen, name)) if self.is_known(where, node) else Shape({"any"})

    def is_known(self, module: str, node: ast.ClassDef) -> bool:
        """Say whether a class lists keys of a configuration, itself or by its bases."""
        for base in node.bases:
            name = _last(base)
            if name in self.classes:
                return True
            found = self.sources.find(module, name) if name else None
            if found and isinstance(found[1], ast.ClassDef) and found[1] is not node and self.is_known(*found):  # type: ignore[arg-type]
                return True
        return any(_last(decorator) in self.classes for decorator in node.decorator_list)

    def of_class(self, module: str, node: ast.ClassDef, seen: tuple[str, ...]) -> Shape:
        """Return the keys of a class and of its bases."""
        result = Shape({"map"})
        for base in node.bases:
            name = _last(base)
            if name and name not in self.classes and self.sources.find(module, name):
                inherited = self.named(module, name, seen)
                result.fields |= inherited.fields
                result.required |= inherited.required
        for line in node.body:
            if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
                continue
            key = line.target.id
            if isinstance(line.value, ast.Call) and any(_is_false(word, "init") for word in line.value.keywords):
                continue
            result.fields[key] = self.shape(module, line.annotation, seen)
            optional = line.value is not None or _last(line.annotation) == "NotRequired"
            (result.required.discard if optional else result.required.add)(key)
        for key, words in compared.words(node, self.sources.module(module) or ast.Module([], [])).items():
            kinds = {"null"} if None in words else set()
            result.fields[key] = Shape(kinds, [word for word in words if word is not None])
        if any(_is_false(word, "total") for word in node.keywords):
            result.required = set()
        return result

    def shape(self, module: str, node: ast.expr, seen: tuple[str, ...] = ()) -> Shape:
        """Return the shape of an annotation."""
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                return self.shape(module, ast.parse(node.value, mode="eval").body, seen)
            return Shape({"null"} if node.value is None else {"any"})
        if isinstance(node, ast.BinOp):
            return self._either(module, [node.left, node.right], seen)
        if isinstance(node, ast.Subscript):
            return self._subscript(module, node, seen)
        name = _last(node)
        if name in _NAMES:
            return Shape({_NAMES[name]})
        if name in _MAPS:
            return Shape({"map"}, is_open=True)
        return self.named(module, name, seen) if isinstance(node, ast.Name) else Shape({"any"})

    def _subscript(self, module: str, node: ast.Subscript, seen: tuple[str, ...]) -> Shape:
        name = _last(node.value)
        inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Literal":
            return _literal(inside)
        if name in _MAPS:
            return Shape({"map"}, is_open=True)
        if name in _WRAPPERS:
            result = self._either(module, inside[:1] if name == "Annotated" else inside, seen)
            result.kinds |= {"null"} if name == "Optional" else set()
            return result
        if _NAMES.get(name) == "list":
            items = self._either(module, inside, seen)
            # Keys of the maps in a list have the path of the list.
            return Shape({"list"}, fields=items.fields, is_open=items.is_open)
        return Shape({"any"})

    def _either(self, module: str, choices: list[ast.expr], seen: tuple[str, ...]) -> Shape:
        result = Shape()
        for choice in choices:
            # What says no more than that a section is off requires nothing of one that is on.
            off = _last(choice).endswith("Disabled")
            shape = self.shape(module, choice, seen)
            required = set(result.required)
            result.add(shape)
            if off:
                result.required = required
        return result


def _is_false(word: ast.keyword, name: str) -> bool:
    return word.arg == name and getattr(word.value, "value", True) is False


def _literal(choices: list[ast.expr]) -> Shape:
    if not all(isinstance(choice, ast.Constant) for choice in choices):
        # The name of another list of words, for instance.
        return Shape({"any"})
    values = [choice.value for choice in choices if isinstance(choice, ast.Constant)]
    kinds = {"boolean" if isinstance(value, bool) else "integer" for value in values if isinstance(value, int)}
    kinds |= {"null"} if None in values else set()
    return Shape(kinds, [value for value in values if isinstance(value, str)])


def _last(node: ast.expr) -> str:
    """Return the last word of a dotted name, of a call or of a subscript; nothing for anything else."""
    if isinstance(node, ast.Call):
        return _last(node.func)
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
