"""Write the values reference for a terminal, from the schema that lint uses: path, type, default, meaning."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import click

from postrender import paths, spelling
from postrender.errors import UsageError
from postrender.schema import read_schema

_WIDTH = 100
# Helm's own keys, which these charts do not read.
_NOT_OURS = frozenset(("global", "common", "enabled", "tags"))


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the dotted path of a value in a shell, down to the next dot."""
    depth = incomplete.count(".") + 1
    found = dict.fromkeys(".".join(path.split(".")[:depth]) for path, _ in _listed(_source()))
    return [path for path in found if path.startswith(incomplete)]


def reference(section: str | None = None) -> str:
    """Return the reference for one section or key, such as `ray` or `ray.workers`, or for all of them.

    Raises UsageError if there is no such key.
    """
    known = listed = _listed(_source())
    if section is not None:
        listed = [(path, node) for path, node in known if _is_within(path.split("."), section.split("."))]
        if not listed:
            fix = _instead(section, [path for path, _ in known])
            raise UsageError(f"grpo values: there is no key called {section!r}", fix=fix)
    return "\n".join(_entry(path, node) for path, node in listed)


def _instead(key: str, known: Sequence[str]) -> str:
    """Return what to look up instead of a nonexistent key: the key that replaced it, a similar key, or a section."""
    right = spelling.guess(key) or next(iter(spelling.near(key, known)), "")
    if " " in right:
        return right
    sections = dict.fromkeys(path.partition(".")[0] for path in known)
    return f"did you mean {right}?" if right else f"the sections are {', '.join(sections)}"


def _source() -> dict[str, Any]:
    """Return the schema of the chart that reads every section."""
    return read_schema(paths.schema("grpo-job")).source


def _listed(root: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(path, node) for path, node in _keys(root, root) if path.split(".")[0] not in _NOT_OURS]


def _is_within(path: list[str], asked: list[str]) -> bool:
    """Return whether a path is the requested one or below it; any word matches the name of an entry in a map."""
    return len(path) >= len(asked) and all(one in (other, "NAME") for one, other in zip(path, asked, strict=False))


def _keys(root: dict[str, Any], node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every key below a node with its dotted path; an entry of a map is written as NAME."""
    for key, raw in node.get("properties", {}).items():
        here = f"{path}.{key}" if path else key
        yield from _key(root, raw, here)
    for raw in (*node.get("patternProperties", {}).values(), node.get("additionalProperties")):
        if isinstance(raw, dict):
            yield from _key(root, raw, f"{path}.NAME")


def _key(root: dict[str, Any], raw: dict[str, Any] | bool, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(raw, dict):
        return
    target = root["definitions"][raw["$ref"].rpartition("/")[2]] if "$ref" in raw else {}
    node = {**target, **raw}
    # The Kubernetes documentation describes these fields.
    if definition := _kubernetes(raw):
        yield path, {**node, "type": f"Kubernetes {definition}"}
        return
    yield path, node
    yield from _keys(root, node, path)


def _kubernetes(raw: dict[str, Any]) -> str:
    """Return the name of a key's Kubernetes definition, or an empty text."""
    _, overlay, name = str(raw.get("else", raw).get("$ref", "")).partition("#/definitions/overlay.")
    return name if overlay else ""


def _entry(path: str, node: dict[str, Any]) -> str:
    rules = node
    while "else" in rules:
        rules = {**{k: v for k, v in rules.items() if k != "else"}, **rules["else"]}
    kind = rules.get("type", "string")
    words = [" or ".join(kind) if isinstance(kind, list) else "map" if kind == "object" else str(kind)]
    if "enum" in rules:
        words.append("one of " + ", ".join(map(str, rules["enum"])))
    if "default" in node:
        words.append(f"default {json.dumps(node['default'], ensure_ascii=False)}")
    meaning, _, source = str(rules.get("description", "")).partition(" Source: ")
    lines = textwrap.wrap(meaning, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    lines += [f"    source: {source.rstrip('.')}"] if source else []
    return "\n".join([f"{path}  ({', '.join(words)})", *lines, ""])
