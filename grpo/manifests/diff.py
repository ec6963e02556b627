"""Compare the rendered objects of several stacks field by field, layer by layer."""

from __future__ import annotations

import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from grpo.manifests import folds, runs
from grpo.manifests.folds import Folded
from grpo.manifests.runs import Ending
from postrender import json_text
from postrender.counting import counted
from postrender.manifests import apiserver
from postrender.manifests.apiserver import Refusal
from postrender.manifests.pods import mapping
from postrender.types import Json, Path

_WIDTH = 100
# Compare lists of named entries by name: one more volume must not make all later ones differ.
_NAMES = ("name", "mountPath", "key", "topologyKey")
_NOT_SET = "(not set)"
_HOOK = "helm.sh/hook"
_NUMBER = re.compile(r"\d+")

# Kinds of what a change does to runs, with what a side does.
_HEADINGS = {"ends": "ends a run or starts it again", "ignored": "changes what a resume does not read"}

Objects = Sequence[Mapping[str, Any]]
# A field: the name of its object and its path.
_Key = tuple[str, str]


class _Whole(str):
    """A text whose parts are compared separately; the text itself is a difference only if none of its parts is."""

    __slots__ = ()


@dataclass(frozen=True)
class Difference:
    """One field that differs: `values` by side, without sides that lack the field."""

    object: str
    path: str
    values: Mapping[str, Any]


class Locked(NamedTuple):
    """What the API server or a chart rejects in one layer of a side."""

    layer: str
    side: str
    refusal: Refusal


class Ended(NamedTuple):
    """What applying a side's layer does to a run."""

    layer: str
    side: str
    ending: Ending


def compare(sides: Mapping[str, Objects], *, full: bool = False) -> list[Difference]:
    """Return the differences between one layer's objects; `sides` maps a name to its rendered documents.

    A run's entrypoint is compared part by part, and the plan in it field by field. Programs and the run's lock are
    folded, unless `full`.
    """
    flat = {side: dict(_fields(objects, full=full)) for side, objects in _paired(sides).items()}
    keys = dict.fromkeys(key for fields in flat.values() for key in fields)
    found: list[Difference] = []
    wholes: list[Difference] = []
    for key in keys:
        values = {side: fields[key] for side, fields in flat.items() if key in fields}
        texts = {json.dumps(value, sort_keys=True) for value in values.values()}
        if len(values) < len(flat) or len(texts) > 1:
            is_whole = all(isinstance(value, _Whole) for value in values.values())
            (wholes if is_whole else found).append(Difference(*key, values))
    told = {(one.object, path) for one in found for path in _above(one.path)}
    return found + [one for one in wholes if (one.object, one.path) not in told]


def _above(path: str) -> Iterator[str]:
    """Yield the paths of all ancestors of a field."""
    return (path[:end] for end, character in enumerate(path) if character in ".[(")


def _paired(sides: Mapping[str, Objects]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Return each side's objects under the names that the first side uses for them.

    Each object is compared with its counterpart. Names contain the stack's and the run's names, which two sites may
    choose differently, and the attempt's number. So objects that only one of two sides has are paired first with
    objects whose names differ only in a number, and then with objects of the same kind, in rendering order, if both
    sides have equally many.
    """
    named = {side: _named(objects) for side, objects in sides.items()}
    first = next(iter(named.values()))
    found = {}
    for side, objects in named.items():
        partners = _partners(objects, first)
        alone = _alone([name for name in objects if name not in partners], first)
        found[side] = {partners.get(name) or alone[name]: item for name, item in objects.items()}
    return found


def _alone(names: Sequence[str], taken: Container[str]) -> dict[str, str]:
    """Return names for unpaired objects, none of which is the name of a pair."""
    return {name: f"{name} (another one)" if name in taken else name for name in names}


def _named(objects: Objects) -> dict[str, Mapping[str, Any]]:
    """Return objects by kind and name. Two hooks of a chart may share both, if Helm creates them at different times."""
    seen: Counter[str] = Counter()
    found = {}
    for item in objects:
        metadata = mapping(item.get("metadata"))
        hook = mapping(metadata.get("annotations")).get(_HOOK)
        name = f"{item.get('kind', '?')}/{metadata.get('name', '?')}{f' ({hook})' if hook else ''}"
        seen[name] += 1
        found[name if seen[name] == 1 else f"{name} ({seen[name]})"] = item
    return found


def _partners(objects: Mapping[str, Mapping[str, Any]], first: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return, for another side's objects, the first side's names with which they are compared."""
    known = {key: name for name, key in _identities(first).items()}
    found = {name: known[key] for name, key in _identities(objects).items() if key in known}
    found |= {name: name for name in objects if name in first and name not in found and name not in found.values()}
    for alike in (_without_numbers, _kind):
        own = _grouped((name for name in objects if name not in found), alike)
        theirs = _grouped((name for name in first if name not in found.values()), alike)
        for key, names in own.items():
            if len(names) == len(theirs.get(key, ())):
                found.update(zip(names, theirs[key], strict=True))
    return found


def _identities(objects: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Return the identity of each object; a number distinguishes copies."""
    numbers: Counter[tuple[str, ...]] = Counter()
    found: dict[str, tuple[str, ...]] = {}
    for name, item in objects.items():
        hook = str(mapping(mapping(item.get("metadata")).get("annotations")).get(_HOOK, ""))
        key = (*apiserver.identity(item), hook)
        numbers[key] += 1
        found[name] = (*key, str(numbers[key]))
    return found


def _grouped(names: Iterator[str], alike: Callable[[str], str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(alike(name), []).append(name)
    return groups


def _without_numbers(name: str) -> str:
    return _NUMBER.sub("0", name)


def _kind(name: str) -> str:
    return name.partition("/")[0]


def _fields(objects: Mapping[str, Mapping[str, Any]], *, full: bool) -> Iterator[tuple[_Key, Any]]:
    for name, item in objects.items():
        for path, value in _leaves(item if full else folds.fold_object(item), "", full=full):
            yield (name, path), value


def _leaves(value: Json, path: str, *, full: bool) -> Iterator[tuple[str, Any]]:
    """Yield every scalar, and every empty map or list, with its path."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from _leaves(child, _below(path, key), full=full)
    elif isinstance(value, list) and value:
        entries = dict(_entries(value))
        for part, child in entries.items():
            yield from _leaves(child, f"{path}[{part}]", full=full)
        yield path, _Whole(", ".join(part.partition("=")[2] or part for part in entries))
    else:
        parts = dict(_parts(value, full=full))
        for part, child in parts.items():
            yield from _leaves(child, f"{path}({part})", full=full)
        yield path, _Whole(value) if parts else value


def dotted(path: Path) -> str:
    """Return a path of keys in the notation used for differences."""
    return functools.reduce(_below, map(str, path), "")


def _below(path: str, key: str) -> str:
    return path + (f'["{key}"]' if "." in key or "/" in key else f".{key}" if path else key)


def _parts(value: Json, *, full: bool) -> Iterator[tuple[str, Json]]:
    """Yield a text's parts that are compared separately: the map in a JSON text, or the parts of an entrypoint."""
    if isinstance(value, Folded) or not isinstance(value, str):
        return
    if value.startswith("{"):
        try:
            tree = json_text.loads(value)
        except ValueError:
            return
        if tree and isinstance(tree, dict):
            yield "JSON", tree
    else:
        yield from folds.parts(value, full=full)


def _entries(items: list[Any]) -> Iterator[tuple[str, Any]]:
    for key in _NAMES:
        names = [item.get(key) for item in items if isinstance(item, dict)]
        if len(names) == len(items) and all(isinstance(name, str) for name in names) and len({*names}) == len(names):
            yield from zip((f"{key}={name}" for name in names), items, strict=True)
            return
    yield from ((str(at), item) for at, item in enumerate(items))


def locked(layers: Mapping[str, Mapping[str, Objects]]) -> list[Locked]:
    """Return what is rejected if another side is applied over the first one; `layers` maps each layer to its sides."""
    return [
        Locked(layer, side, refusal)
        for layer, sides in layers.items()
        for side, objects in [*sides.items()][1:]
        for refusal in runs.refusals(next(iter(sides.values())), objects)
    ]


def ended(layers: Mapping[str, Mapping[str, Objects]], *, is_there: bool) -> list[Ended]:
    """Return which runs end or restart if another side is applied over the first one.

    `is_there` says whether the first side is what a cluster has; if so, whatever another side lacks is deleted.
    """
    every: dict[str, list[Mapping[str, Any]]] = {}
    for sides in layers.values():
        for side, objects in sides.items():
            every.setdefault(side, []).extend(objects)
    return [
        Ended(layer, side, ending)
        for layer, sides in layers.items()
        for side, objects in [*sides.items()][1:]
        for ending in runs.endings(next(iter(sides.values())), objects, is_there=is_there, elsewhere=every[side])
    ]


def as_json(
    layers: Mapping[str, Sequence[Difference]], refused: Sequence[Locked] = (), ending: Sequence[Ended] = ()
) -> str:
    """Write differences as JSON: layer → list of object, path, values by side; what is rejected, and which runs end."""
    tree = {
        layer: [{"object": one.object, "path": one.path, "values": dict(one.values)} for one in found]
        for layer, found in layers.items()
    }
    listed = [
        {
            "layer": layer,
            "side": side,
            "object": each.object,
            "paths": [*map(dotted, each.fields)],
            "why": each.why or "the API server refuses it",
            "fix": each.fix,
            "source": each.source,
        }
        for layer, side, each in refused
    ]
    said = {
        kind: [
            {"layer": layer, "side": side, "object": each.object, "why": each.why, "fix": each.fix}
            for layer, side, each in ending
            if each.kind == kind
        ]
        for kind in _HEADINGS
    }
    return json.dumps({"layers": tree, "locked": listed, **said}, indent=2, ensure_ascii=False) + "\n"


def as_text(
    layers: Mapping[str, Sequence[Difference]],
    sides: Sequence[str],
    refused: Sequence[Locked] = (),
    ending: Sequence[Ended] = (),
    *,
    full: bool = False,
) -> str:
    """Write differences as text: a heading for each layer and object, then one line for each side of a field.

    A folded text takes one line for both sides, and so does an object that some sides lack. Long lines are cut. `full`
    turns off both. What ends a run and what is rejected come last.
    """
    lines: list[str] = []
    for layer, found in layers.items():
        count = f"{len(found)} field{'s' if len(found) > 1 else ''}" if found else "no field"
        lines.append(f"{layer}: {count} differ{'s' if len(found) <= 1 else ''}")
        for name in dict.fromkeys(one.object for one in found):
            own = [one for one in found if one.object == name]
            if (fold := _whole_object(own, sides)) and not full:
                lines.append(f"  {name}: {fold}")
                continue
            lines.append(f"  {name}")
            for one in own:
                lines += _field(one, sides, full=full)
    for side in sides[1:]:
        lines += _endings([each.ending for each in ending if each.side == side], side, sides[0])
        lines += _refusals([each.refusal for each in refused if each.side == side], side, sides[0])
    return "\n".join(lines) + "\n"


def _whole_object(own: Sequence[Difference], sides: Sequence[str]) -> str:
    """Return the line that replaces the fields of an object missing from some sides; empty if all sides have it."""
    # Objects that are compared have the same kind.
    having = next((one.values for one in own if one.path == "kind"), None)
    if having is None:
        return ""
    # One line says nothing of what differs between the sides that have it.
    if any(one.values.keys() != having.keys() or len({*map(repr, one.values.values())}) > 1 for one in own):
        return ""
    word = "new object" if sides[0] not in having else "object that is gone" if len(sides) == 2 else "object"
    where = ", ".join(side for side in sides if side in having)
    return f"{word}, only in {where} ({counted(len(own), 'field')}; --full shows {'it' if len(own) == 1 else 'them'})"


def _endings(ending: Sequence[Ending], side: str, first: str) -> Iterator[str]:
    for kind, heading in _HEADINGS.items():
        found = [each for each in ending if each.kind == kind]
        if found:
            yield f"{kind}: where {first} is applied, {side} {heading}"
        for each in found:
            yield f"  {each.object}: {each.why}"
            yield f"    fix: {each.fix}"


def _refusals(refused: Sequence[Refusal], side: str, first: str) -> Iterator[str]:
    if refused:
        yield f"locked: {side} is refused where {first} is applied"
    for each in refused:
        yield f"  {each.object}: {each.why or ', '.join(map(dotted, each.fields))}"
        yield f"    fix: {each.fix}"


def _field(one: Difference, sides: Sequence[str], *, full: bool) -> list[str]:
    folded = {side: value.short for side, value in one.values.items() if isinstance(value, Folded)}
    if len(folded) == len(one.values):
        return [f"    {one.path}: {'; '.join(f'{side} {folded.get(side, _NOT_SET)}' for side in sides)}"]
    shared = set.intersection(*({*_lines(one.values.get(side))} for side in sides))
    own = {side: [text for text in _lines(one.values[side]) if text not in shared] for side in one.values}
    if len(own) == len(sides) and not any(own.values()):
        return [f"    {one.path}", "      (the same lines in another order or number)"]
    # Lines may differ only behind the place where they would be cut.
    hides = len({*map(_cut, own.values())}) < len({*map(tuple, own.values())})
    shown = own if full or hides else {side: [_short(text) for text in texts] for side, texts in own.items()}
    width = max(len(side) for side in sides)
    lines = [f"    {one.path}"]
    for side in sides:
        texts = (shown[side] or ["(without these lines)"]) if side in shown else [_NOT_SET]
        lines += [f"      {side:<{width}}  {text}" for text in texts]
    return lines


def _lines(value: Json) -> list[str]:
    """Split long text into lines, so that a diff shows only the lines that changed."""
    if isinstance(value, str):
        return value.splitlines() if "\n" in value else [value]
    return [json.dumps(value, ensure_ascii=False)]


def _cut(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(text[:_WIDTH] for text in texts)


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[:_WIDTH]}… ({len(text)} characters)"
