"""Judge values by a JSON schema. No other module knows the validator, jsonschema-rs."""

# ruff: noqa: TID251 - this is the one module that may import jsonschema_rs

from __future__ import annotations

import sys

from postrender.failures import InstallationError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

    from postrender.plain import Foreign, Plain

    Path = tuple[str | int, ...]

_EXTENSION = "jsonschema_rs.jsonschema_rs"


class Problem:
    """Hold one thing that a schema has to say.

    `keyword` is the schema's keyword, `expected` its argument (for `additionalProperties` the keys in excess), `path`
    leads to the value, `rule` to the keyword in the schema.
    """

    __slots__ = ("expected", "keyword", "path", "rule")

    def __init__(self, keyword: str, expected: Plain, path: Path, rule: Path) -> None:
        self.keyword = keyword
        self.expected = expected
        self.path = path
        self.rule = rule


# What the extension asks of the standard library when it is loaded: a date parser for the time of its own build, and
# two types that no values have. Each is a large import.
_STAND_INS: dict[str, dict[str, object]] = {
    # Only the second one is used.
    "email": {},
    "email.utils": {"parsedate_to_datetime": str},
    "decimal": {"Decimal": type("Decimal", (), {})},
    "enum": {"Enum": type("Enum", (), {}), "EnumMeta": type("EnumMeta", (type,), {})},
}


def _load_extension() -> ModuleType:
    """Load the compiled validator without the most of its start-up that validation does not use."""
    import _imp

    # What `importlib.machinery` offers comes from here; that module itself takes as long to load as a schema.
    from _frozen_importlib_external import PathFinder

    package = PathFinder.find_spec("jsonschema_rs")
    folders = list(package.submodule_search_locations or ()) if package else []
    found = PathFinder.find_spec(_EXTENSION, folders)
    if found is None or found.origin is None or not found.origin.endswith(tuple(_imp.extension_suffixes())):
        raise ImportError(_EXTENSION)
    missing = [name for name in _STAND_INS if name not in sys.modules]
    for name in missing:
        stand_in = type(sys)(name)
        stand_in.__dict__.update(_STAND_INS[name])
        sys.modules[name] = stand_in
    try:
        module = _imp.create_dynamic(found)
        _imp.exec_dynamic(module)
        # The types are asked for by the first value that is judged.
        module.Draft7Validator(True).is_valid("")
    finally:
        for name in missing:
            del sys.modules[name]
    sys.modules[_EXTENSION] = module
    return module


def _validator_module() -> ModuleType:
    loaded = sys.modules.get("jsonschema_rs") or sys.modules.get(_EXTENSION)
    if loaded:
        return loaded
    try:
        return _load_extension()
    except (ImportError, AttributeError, TypeError):
        # Another version may be built differently: then the ordinary, slower way is the right one.
        sys.modules.pop(_EXTENSION, None)
    import jsonschema_rs

    return jsonschema_rs


def load() -> None:
    """Load the validator before it is needed."""
    _validator_module()


def compiled(schema: dict[str, Any] | str) -> Foreign:
    """Return a validator for a draft-07 schema, a tree or its JSON, with patterns as Go reads them.

    Raises ValueError where it is none.
    """
    module = _validator_module()
    return module.Draft7Validator(schema, pattern_options=module.RegexOptions())


def finder(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a search that says whether a text has a match of one of the patterns, in one pass over it.

    It is that of the validator, which looks for many words together: ten times faster than one word after the other.
    """
    validator = compiled({"pattern": "|".join(f"(?:{each})" for each in patterns)})
    found: Callable[[str], bool] = validator.is_valid
    return found


class Schema:
    """Hold one compiled schema file, draft-07; raise InstallationError where it is missing or is no schema."""

    def __init__(self, file: str) -> None:
        try:
            with open(file, encoding="utf-8") as stream:
                self._text = stream.read()
        except (OSError, UnicodeDecodeError) as error:
            raise InstallationError(f"a schema cannot be read: {file}", fix="install grpo-charts again") from error
        try:
            self._validator = _validator_module().Draft7Validator(self._text)
        except ValueError as error:
            raise InstallationError(f"{file} is no schema: {error}", fix="run: make generate") from error

    def is_valid(self, tree: Plain) -> bool:
        """Say whether the tree fits the schema."""
        valid: bool = self._validator.is_valid(tree)
        return valid

    def problems(self, tree: Plain) -> list[Problem]:
        """Return everything that is wrong with the tree; empty where it fits."""
        return [_problem(error) for error in self._validator.iter_errors(tree)]

    def source(self) -> dict[str, Any]:
        """Return the schema itself."""
        import json

        document: dict[str, Any] = json.loads(self._text)
        return document

    def _parts(self, rule: Path) -> list[dict[str, Any]]:
        """Return the parts of the schema on the way to a keyword, outermost first, references followed."""
        root = self.source()
        part: Plain = root
        parts = [root]
        for step in rule[:-1]:
            part = _resolve(root, part["$ref"]) if step == "$ref" else part[step]
            if isinstance(part, dict):
                parts.append(part)
        return parts

    def part(self, rule: Path) -> dict[str, Any]:
        """Return the part of the schema that holds the keyword to which `rule` leads."""
        return self._parts(rule)[-1]

    def description(self, rule: Path) -> str:
        """Return the description that stands nearest to a keyword, going outwards; empty where there is none."""
        texts = [part["description"] for part in self._parts(rule) if isinstance(part.get("description"), str)]
        return texts[-1] if texts else ""


def _resolve(root: Plain, pointer: str) -> Plain:
    for step in pointer.removeprefix("#/").split("/"):
        root = root[step]
    return root


def _problem(error: Foreign) -> Problem:
    kind = error.kind
    expected = kind.value
    if kind.name == "propertyNames":
        expected = getattr(expected, "instance", expected)
    elif kind.name in ("oneOf", "anyOf"):
        expected = None
    return Problem(kind.name, expected, tuple(error.instance_path), tuple(error.evaluation_path))
