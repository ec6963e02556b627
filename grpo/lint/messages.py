"""Turn a schema's problems into findings that say what to write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from grpo.values import catalogue, images
from postrender import masking, paths, secrets, spelling
from postrender.errors import Location
from postrender.finding import Finding, NewName
from postrender.schema import Schema, SchemaError, matches
from postrender.types import Json, Path
from postrender.values import merge, quantity
from postrender.values.merge import Values
from postrender.values.mutations import dotted
from postrender.yaml.reader import Node
from postrender.yaml.scalars import resolve

_SHOWN_CHARACTERS = 60
_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "minProperties": "at least {} entries",
    "maxProperties": "at most {} entries",
    "const": "{}",
}
_NUMBER = re.compile(r"\d+")
_PART = 10**6
_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?")
# A pattern that lists names: ^(a|b)$.
_LISTED = re.compile(r"\^\(([-\w.|]+)\)\$")
_KINDS: Mapping[str, Callable[[str], bool]] = {
    "capital letters": str.isupper,
    "digits": str.isdecimal,
    "blanks": str.isspace,
    "other characters": lambda each: not each.isalnum() and not each.isspace(),
}
_SEPARATORS = re.compile(r"[-_. ]+")
_TYPES = {"object": "a map", "array": "a list", "string": "text", "integer": "an integer", "null": "null"}


def format_value(value: Json) -> str:
    """Format a value for a message, shortened; for a secret, show only its kind."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        text = masking.text(value)
        return f'"{text[:_SHOWN_CHARACTERS]}…"' if len(text) > _SHOWN_CHARACTERS else f'"{text}"'
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meaning(description: str) -> str:
    """Return the key's description, without the note about its source."""
    return description.partition(" Source: ")[0] or "the chart's schema says so"


class Explainer:
    """Turns one schema's problems with one set of values into findings."""

    def __init__(self, schema: Schema, values: Values) -> None:
        self._schema = schema
        self._values = values
        self._before: dict[Path, Mapping[Any, Any]] = {}

    @cached_property
    def _places(self) -> Mapping[str, list[str]]:
        """Return the paths of each key that the schema names; cached, because each unknown key looks up its own."""
        found: dict[str, list[str]] = {}
        for path in _paths(self._schema.source):
            found.setdefault(str(path[-1]), []).append(dotted(path))
        return found

    def findings(self, problem: SchemaError) -> Iterator[Finding]:
        """Yield one finding, or one for every unknown key."""
        part = self._schema.part(problem.rule)
        if problem.keyword == "additionalProperties":
            for key in problem.expected:
                yield self._unknown(problem.path, key, part)
        elif problem.keyword == "propertyNames":
            yield self._unknown(problem.path, str(problem.expected), part)
        elif problem.keyword == "required":
            yield self._missing(problem, part)
        else:
            yield self._wrong(problem, part)

    def _finding(self, rule: str, path: Path, what: str, why: str, fix: str) -> Finding:
        node = self._values.node(path)
        # A wrong scalar is edited after the colon; everything else at the key.
        inside = rule.startswith("wrong-") and node is not None and not isinstance(node.value, (dict, list))
        at = node.at if inside and node else self._values.at(path)
        return Finding(what, at, rule=f"values/{rule}", why=why, fix=fix)

    def _unknown(self, path: Path, key: str, part: dict[str, Any]) -> Finding:
        here = (*path, key)
        if not path and key == "values":
            return self._finding(
                "wrong-prefix",
                here,
                "there is no section called values: the sections belong at the top of the file",
                "Helm would put everything under .Values.values, where no chart looks.",
                "delete the line `values:` and move what is below it to the left; with --set, write"
                " ray.workers.replicas=4, not values.ray.workers.replicas=4",
            )
        if "." in key and key.partition(".")[0] in self._schema.source["properties"]:
            guessed = _guessed(tuple(key.split(".")), self._values.node(here))
            return self._finding(
                "dotted-key",
                here,
                f"the key {key} has a dot in its name",
                "In a values file a dot opens no section; only --set reads it so.",
                guessed or f"write {_nested(tuple(key.split('.')), '…')}, or the same on separate lines, indented",
            )
        patterns = [*part.get("patternProperties", {})]
        known = [*part.get("properties", {}), *(name for each in patterns for name in _listed(each))]
        like = next(iter(part.get("propertyNames", {}).get("examples", ())), "")
        form = f"; a name here is one like {like}" if like and not known else ""
        fix, meant = self._suggestion(here, known, patterns, like)
        finding = self._finding(
            "unknown-key",
            here,
            f"{dotted(path)} has no key called {key}{form}" if path else f"there is no section called {key}",
            "Helm would refuse it, or without the schema ignore it silently.",
            fix,
        )
        node = self._values.node(here)
        # The keys of a finding are sections that it is about (refined.py).
        section = [dotted((*path, meant))] if meant and node and isinstance(node.value, dict) else []
        return finding._replace(keys=section, edits={here: NewName(meant)} if meant else {})

    def _suggestion(self, path: Path, known: list[str], patterns: list[str], like: str) -> tuple[str, str]:
        """Return what to write, and the key's new name if only one name can be meant."""
        key = str(path[-1])
        if split := self._split_text(path):
            return split, ""
        guessed = _guessed(path, self._values.node(path))
        if guessed:
            return guessed, ""
        repaired = _repaired(key, patterns)
        close = spelling.near(key, known) or ([repaired] if repaired else [])
        elsewhere = self._places.get(key, [])
        if close or elsewhere:
            # A name that is right elsewhere is misplaced, and not misspelt for certain.
            meant = "" if elsewhere else spelling.meant(key, known) or repaired
            return f"did you mean {' or '.join([*close, *elsewhere])}?", meant
        if known:
            return f"the keys here are {', '.join(known)}", ""
        return (f"write a name like {like}, or delete the line" if like else "delete the line"), ""

    def _keys_before(self, path: Path) -> Mapping[Any, Any]:
        """Return, for each key of a map, the key before it; cached, because each unknown key looks up its own."""
        if path not in self._before:
            node = self._values.node(path)
            keys = [*node.value] if node and isinstance(node.value, dict) else []
            self._before[path] = dict(zip(keys[1:], keys, strict=False))
        return self._before[path]

    def _split_text(self, path: Path) -> str:
        """Return how to write text whose comma splits a map in braces, as in {value: eth0,eth1}; empty otherwise."""
        node = self._values.node(path)
        if node is None or node.value is not None:
            return ""
        name = self._keys_before(path[:-1]).get(path[-1])
        if name is None:
            return ""
        cut = self._values.node((*path[:-1], name))
        if cut is None or not isinstance(cut.value, str) or cut.at.line != node.key_at.line:
            return ""
        return f"put a text with a comma in quotes: {name}: {format_value(f'{cut.value},{path[-1]}')}"

    def _missing(self, problem: SchemaError, part: dict[str, Any]) -> Finding:
        path = (*problem.path, problem.expected)
        child = part.get("properties", {}).get(problem.expected, {})
        above = self._values.at(problem.path)
        own = paths.own(self._values.files)
        # A section of a packaged file is no place to edit.
        at = Location(own[-1]) if own and paths.is_packaged(above.file) else above
        finding = self._finding(
            "missing-key",
            problem.path,
            f"{dotted(path)} is missing: none of the values files sets it",
            _meaning(str(child.get("description", ""))),
            f"write {_nested(path, self._of_stack(path) or self._example(child))} in {at.file}",
        )
        return finding._replace(at=at, keys=[dotted(path)])

    def _framework(self) -> str:
        """Return the stack's framework, or an empty text if it is unknown."""
        framework = str(self._values.get("job.framework") or merge.defaults()["job"]["framework"])
        return framework if framework in images.REPOSITORIES else ""

    def _of_stack(self, path: Path) -> str:
        """Return a key's value that belongs to the stack's framework and its version, or an empty text."""
        framework = self._framework()
        if not framework:
            return ""
        version = str(self._values.get("job.version") or catalogue.newest(framework))
        if path == ("job", "version"):
            return version
        is_image = path[:-1] == ("images", "training")
        return str(images.of_version(framework, version).get(str(path[-1]), "")) if is_image else ""

    def _example(self, schema: dict[str, Any]) -> str:
        """Return an allowed value for a key, for a message."""
        named = schema.get("$ref", "").rpartition("/")[2]
        rules = self._schema.source["definitions"][named] if named else schema
        rules = {**rules, **rules.get("else", {})}
        examples = [*rules.get("examples", ()), *rules.get("enum", ())]
        return str(examples[0]) if examples else "…"

    def _wrong(self, problem: SchemaError, part: dict[str, Any]) -> Finding:
        node = self._values.node(problem.path)
        value = node.plain() if node else None
        if example := self._of_stack(problem.path):
            part = {**part, "examples": [example]}
        is_secret = isinstance(value, str) and any(secrets.names_secret(str(part)) for part in problem.path)
        # A repaired secret would still be one.
        is_hidden = is_secret and problem.keyword == "pattern"
        wanted, fix = self._wanted(problem, part, None if is_hidden else value)
        fix += f", such as {example}" if example and problem.keyword == "const" else ""
        name = dotted(problem.path) or "the values"
        rule = "wrong-type" if problem.keyword == "type" else "wrong-value"
        size = f", {len(value)} characters long" if isinstance(value, str) and "Length" in problem.keyword else ""
        what = f"{name} is {'a text' if is_secret else format_value(value)}{size}, expected {wanted}"
        if is_hidden:
            what = f"{name} {_fault(value, str(problem.expected))} (the value is not shown), expected {wanted}"
        finding = self._finding(rule, problem.path, what, _meaning(self._schema.description(problem.rule)), fix)
        replaces_map = rule == "wrong-type" and "object" in problem.expected and value is not None
        meant = _meant(problem, value)
        edits = {problem.path: meant} if meant and not is_secret else {}
        return finding._replace(secret=is_secret, keys=[name] if replaces_map else (), edits=edits)

    def _wanted(self, problem: SchemaError, part: dict[str, Any], value: Json) -> tuple[str, str]:
        """Return what the schema expects, and what to write."""
        keyword, expected = problem.keyword, problem.expected
        if keyword == "type":
            guessed = _guessed(problem.path, self._values.node(problem.path))
            wanted, fix = _type(expected, value, part)
            return wanted, guessed or _wrapped(problem.path, part, value) or fix
        if keyword == "enum":
            if problem.path == ("job", "version") and (framework := self._framework()):
                expected = catalogue.versions(framework)
            options = [str(option) for option in expected if option is not None]
            is_version = problem.path == ("job", "version")
            close = _near_version(str(value), options) if is_version else spelling.near(str(value), options)
            listed = " or ".join(format_value(option) for option in expected if option is not None)
            return listed, f"did you mean {close[0]}?" if close else f"write one of {listed}"
        if keyword == "pattern":
            return _form(part, str(expected), value)
        if keyword in ("oneOf", "anyOf"):
            names = [name for option in part.get(keyword, ()) for name in option.get("required", ())]
            listed = ", ".join(dict.fromkeys(names))
            return f"exactly one of {listed or 'the alternatives'}", f"keep one of {listed or 'them'}"
        if keyword in _BOUNDS:
            bound = _BOUNDS[keyword].format(expected)
            return bound, f"write {bound}"
        if keyword in ("falseSchema", "not"):
            return "something else here", _meaning(self._schema.description(problem.rule))
        return f"{keyword} {format_value(expected)}", "see the description of the key in values.yaml"


def _listed(pattern: str) -> list[str]:
    """Return the names that a pattern lists; empty if it is any other pattern."""
    match = _LISTED.fullmatch(pattern)
    return match[1].split("|") if match else []


def _repaired(text: str, patterns: Sequence[str]) -> str:
    """Return a name changed to match a pattern, without a scheme or with other separators; empty if that fails."""
    bare = text.partition("://")[2] or text
    low = bare.lower()
    names = (bare, low, _SEPARATORS.sub("-", low), _SEPARATORS.sub("_", bare), _SEPARATORS.sub("_", low))
    for tried in (*names, quantity.near(text)):
        if tried != text and any(matches(pattern, tried) for pattern in patterns):
            return tried
    return ""


def _fault(value: Json, pattern: str) -> str:
    """Describe which kinds of characters in a text a pattern does not allow, without showing the text."""
    text = str(value)
    if not text:
        return "is empty"
    found = [
        kind
        for kind, holds in _KINDS.items()
        if any(map(holds, text)) and not matches(pattern, "".join(each if holds(each) else "a" for each in text))
    ]
    return f"has {' and '.join(found)} where none may be" if found else "has a form that it may not have"


def _meant(problem: SchemaError, value: Json) -> str:
    """Return the only text that a wrong one can mean, or an empty text."""
    if not isinstance(value, str):
        return ""
    if problem.keyword == "enum":
        options = [option for option in problem.expected if isinstance(option, str)]
        return spelling.meant(value, options, is_value=True)
    return spelling.meant(value, _listed(problem.expected), is_value=True) if problem.keyword == "pattern" else ""


def _form(part: dict[str, Any], pattern: str, value: Json) -> tuple[str, str]:
    """Return what text a pattern requires, and what to write."""
    options, examples = _listed(pattern), part.get("examples") or [part.get("description", "")]
    if options:
        return " or ".join(map(format_value, options)), f"write one of {', '.join(options)}"
    repaired = _repaired(value, [pattern]) if isinstance(value, str) else ""
    shape = f"text such as {examples[0]}" if part.get("examples") else examples[0] or f"text of the form {pattern}"
    bucket, _, folder = value.removeprefix("gs://").partition("/") if isinstance(value, str) else ("", "", "")
    if not repaired and folder.strip("/") and value == f"gs://{bucket}/{folder}":
        return shape, f"write {bucket}, and for its folder mountOptions: {{only-dir: {folder.strip('/')}}}"
    return shape, f"did you mean {repaired}?" if repaired else f"write {shape}"


def _wrapped(path: Path, part: dict[str, Any], value: Json) -> str:
    """Return how to write a scalar given in place of a map under one plain key of the map; empty if no key fits."""
    keys = part.get("properties", {})
    key = "enabled" if isinstance(value, bool) else "value" if "value" in keys else "name"
    if key not in keys or isinstance(value, (dict, list)) or value is None:
        return ""
    shown = "…" if secrets.names_secret(str(path[-1])) else format_value(value)
    if key == "value" and not isinstance(value, str):
        # The value of a variable is text.
        shown = f'"{shown}"'
    return f"write {path[-1]}: {{{key}: {shown}}}"


def _nested(path: Path, value: str) -> str:
    """Return a value at a path as users write it: `ray: {workers: {replicas: 4}}`."""
    text = value
    for depth, part in enumerate(reversed(path)):
        text = f"{part}: {{{text}}}" if depth else f"{part}: {text}"
    return text


def _near_version(text: str, known: Sequence[str]) -> list[str]:
    """Return the known version that is numerically closest; in a tie, the later one."""
    if not _VERSION.fullmatch(text):
        return spelling.near(text, known)

    def place(version: str) -> int:
        # The first number counts most; a third one may be missing.
        major, minor, patch = [*map(int, _NUMBER.findall(version)), 0][:3]
        return (major * _PART + minor) * _PART + patch

    return sorted(known, key=lambda each: (abs(place(each) - place(text)), -place(each)))[:1]


def _type(types: list[str], value: Json, part: dict[str, Any]) -> tuple[str, str]:
    real = [name for name in types if name != "null"] or types
    wanted = " or ".join(_TYPES.get(name, f"a {name}") for name in real)
    if value is None:
        return wanted, "give it a value" + (", or delete the line to keep the default" if "default" in part else "")
    if "string" in types and isinstance(value, (bool, int, float)):
        rules = part.get("else", {})
        if not isinstance(value, bool) and "pattern" in rules and not matches(rules["pattern"], str(value)):
            return _form(rules, rules["pattern"], value)
        return f"{wanted} in quotes", "put the value in quotes: Helm reads the bare word as a number or a boolean"
    if isinstance(value, str) and {*_unquoted(value)} & {*types}:
        return wanted, "write the value without quotes"
    return wanted, f"write {wanted}"


def _unquoted(text: str) -> Sequence[str]:
    """Return the types that a text has without its quotes; empty if it remains a text."""
    read = resolve(text)
    if isinstance(read, bool):
        return ("boolean",)
    return ("integer", "number") if isinstance(read, int) else ("number",) if isinstance(read, float) else ()


def _guessed(path: Path, node: Node | None) -> str:
    """Return replacements for a key and the keys below it; empty if there is no guess for any of them."""
    found = [(each, right) for each in _written(path, node) if (right := spelling.guess(dotted(each)))]
    deepest = [(each, right) for each, right in found if not any(_is_above(each, other) for other, _ in found)]
    return "; ".join(_said(each, right, is_whole=each == path) for each, right in deepest)


def _said(path: Path, right: str, *, is_whole: bool) -> str:
    """Return one guess as a sentence; a key below the reported one is named."""
    if " " not in right:
        return f"did you mean {right}?" if is_whole else f"write {dotted(path)} as {right}"
    return right if is_whole else f"for {dotted(path)}: {right}"


def _written(path: Path, node: Node | None) -> Iterator[Path]:
    """Yield a path and the paths of all keys below it in the values."""
    yield path
    if node is not None and isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from _written((*path, key), child)


def _is_above(path: Path, other: Path) -> bool:
    return len(path) < len(other) and other[: len(path)] == path


def _paths(schema: dict[str, Any], path: Path = ()) -> Iterator[Path]:
    """Yield the path of every key named in a schema, outermost first."""
    properties = schema.get("properties", {})
    for key in properties:
        yield (*path, key)
    for key, child in properties.items():
        if isinstance(child, dict):
            yield from _paths(child, (*path, key))
