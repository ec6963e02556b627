"""Walk through a JSON Schema whose values have positions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from postrender.schema import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postrender.yaml.reader import Node

    Path = tuple[str, ...]

_DRAFT: Final = re.compile(r"https?://json-schema\.org/(?:draft-0?([3467])|draft/(2019-09|2020-12)|())(?:/?schema)?#?$")
_YEARS: Final = {"2019-09": 8, "2020-12": 9, None: 9}
LATEST: Final = 9
DRAFT_7: Final = 7

# Keywords whose values are schemas, lists of them, and maps of them.
_ONE: Final = (
    *("additionalProperties", "additionalItems", "items", "contains", "not", "if", "then", "else", "propertyNames"),
    *("unevaluatedProperties", "unevaluatedItems", "contentSchema"),
)
_SEVERAL: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies", "definitions", "$defs")


def draft(root: Node) -> int | None:
    """Return the draft that Helm validates with: 4, 6, 7, 8 (2019-09), 9 (2020-12); None if it is unknown."""
    named = entry(root, "$schema")
    if named is None:
        return LATEST
    found = _DRAFT.match(str(named.value))
    if not found:
        return None
    return int(found[1]) if found[1] else _YEARS[found[2]]


def entry(node: Node | None, key: str) -> Node | None:
    """Return a key's value in a map, or None if there is none."""
    return node.value.get(key) if node and isinstance(node.value, dict) else None


def named(node: Node | None) -> dict[str, Node]:
    """Return a map's entries, or {} for anything else."""
    return node.value if node and isinstance(node.value, dict) else {}


def subschemas(root: Node) -> Iterator[tuple[Path, Node]]:
    """Yield every subschema, the root first, each with the keys that lead to it."""
    queue: list[tuple[Path, Node]] = [((), root)]
    while queue:
        path, node = queue.pop(0)
        if not isinstance(node.value, dict):
            continue
        yield path, node
        for key, value in node.value.items():
            if key in _NAMED and isinstance(value.value, dict):
                queue += [((*path, key, name), each) for name, each in value.value.items()]
            elif key in _SEVERAL and isinstance(value.value, list):
                queue += [((*path, key, str(number)), each) for number, each in enumerate(value.value)]
            elif key in _ONE:
                queue.append(((*path, key), value))


def resolver(root: Node) -> Callable[[Node], Node]:
    """Return a function that resolves a `$ref` inside the file, and returns any other schema unchanged."""

    def resolve(node: Node) -> Node:
        for _ in range(20):
            target = entry(node, "$ref")
            if target is None or not str(target.value).startswith("#/"):
                return node
            found: Node | None = root
            for part in str(target.value)[2:].split("/"):
                found = entry(found, part.replace("~1", "/").replace("~0", "~"))
            if found is None:
                return node
            node = found
        return node

    return resolve


def is_closed(node: Node) -> bool:
    """Return whether a schema rejects keys that it does not list, or validates them with another schema."""
    found = [entry(node, key) for key in ("additionalProperties", "unevaluatedProperties", "propertyNames")]
    return any(each is not None and each.value not in (True, {}) for each in found)


def lets_in(node: Node, key: str, resolve: Callable[[Node], Node]) -> bool:
    """Return whether a schema accepts a key in its map; a schema with $ref or allOf counts as accepting it."""
    node = resolve(node)
    closed = entry(node, "additionalProperties")
    if closed is None or closed.value is not False:
        return True
    if entry(entry(node, "properties"), key):
        return True
    patterns = entry(node, "patternProperties")
    return any(_matches(pattern, key) for pattern in named(patterns))


def _matches(pattern: str, key: str) -> bool:
    try:
        return matches(pattern, key)
    except ValueError:
        return True
