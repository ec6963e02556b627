"""The variables of a container: its own, and those of ConfigMaps in the same stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from postrender.manifests.pods import mapping, sequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from postrender.gate.manifests import Item, Manifests
    from postrender.manifests.pods import Path, Pod

    # What ConfigMaps hold, by name and namespace; without a namespace the latter is an empty text.
    ConfigMaps = dict[str, dict[str, dict[str, Any]]]


class Variable(NamedTuple):
    """A variable, with the path below the container of its entry, or of the line that names its ConfigMap.

    `value` is None where it is not known: it comes from elsewhere, or contains another variable. `source` says for
    messages what to remove.
    """

    path: Path
    name: str
    value: str | None
    source: str


def variables(manifests: Manifests, item: Item, container: Mapping[str, Any]) -> list[Variable]:
    """Return the variables in the stream, those of `env` last: of two with one name the last one counts."""
    shared = [each for found in _shared(manifests, item, container) for each in found or ()]
    own = [
        Variable(("env", at), name := str(each.get("name", "")), _value(manifests, item, each), name)
        for at, each in enumerate(map(mapping, sequence(container.get("env"))))
    ]
    return shared + own


def is_complete(manifests: Manifests, item: Item, container: Mapping[str, Any]) -> bool:
    """Return whether the stream has all that a container takes variables from."""
    return None not in _shared(manifests, item, container)


def effective(manifests: Manifests, item: Item, container: Mapping[str, Any], *names: str) -> dict[str, Variable]:
    """Return the variables with these names that count; the value of one that a script names is not known."""
    text = script(container)
    found = {each.name: each for each in variables(manifests, item, container) if each.name in names}
    return {name: each._replace(value=None) if name in text else each for name, each in found.items()}


def is_known(manifests: Manifests, item: Item, pod: Pod, name: str) -> bool:
    """Return whether the value of a variable is known in some container of a pod."""
    found = (effective(manifests, item, each, name).get(name) for each in pod.containers())
    return any(each and each.value is not None for each in found)


def script(container: Mapping[str, Any]) -> str:
    """Return the words of a container's command, one a line."""
    return "\n".join(str(word) for key in ("command", "args") for word in sequence(container.get(key)))


def config_maps(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the ConfigMaps that a container takes variables from."""
    sources = [mapping(each).get("configMapRef") for each in sequence(container.get("envFrom"))]
    entries = [mapping(mapping(each).get("valueFrom")) for each in sequence(container.get("env"))]
    for each in (*sources, *(entry.get("configMapKeyRef") for entry in entries)):
        if name := mapping(each).get("name"):
            yield str(name)


def _shared(manifests: Manifests, item: Item, container: Mapping[str, Any]) -> Iterator[list[Variable] | None]:
    """Yield the variables of each source in `envFrom`, None for one that is elsewhere or a Secret."""
    for at, source in enumerate(map(mapping, sequence(container.get("envFrom")))):
        name, prefix = mapping(source.get("configMapRef")).get("name"), str(source.get("prefix") or "")
        data = _data(manifests, item, str(name)) if name else None
        given = [(f"{prefix}{key}", str(value), f"{key} from ConfigMap {name}") for key, value in (data or {}).items()]
        yield None if data is None else [Variable(("envFrom", at), *each) for each in given]


def _value(manifests: Manifests, item: Item, entry: dict[str, Any]) -> str | None:
    """Return the value of an entry of `env`, by way of a ConfigMap of the stream too; None if it is not known."""
    if entry.get("valueFrom") is None:
        value = str(entry.get("value") or "")
        return None if "$(" in value else value
    key = mapping(mapping(entry["valueFrom"]).get("configMapKeyRef"))
    found = (_data(manifests, item, str(key.get("name"))) or {}).get(str(key.get("key")))
    return None if found is None else str(found)


def _data(manifests: Manifests, item: Item, name: str) -> dict[str, Any] | None:
    """Return what a ConfigMap in the namespace of an object holds; None if the stream does not tell."""
    found = manifests.once(_by_name).get(name, {})
    namespace = _namespace(item)
    # Helm and kubectl put both into one namespace where only one of them names it.
    others = [found[each] for each in found if not each or not namespace]
    return found.get(namespace, others[0] if len(others) == 1 else None)


def _by_name(manifests: Manifests) -> ConfigMaps:
    found: ConfigMaps = {}
    for each in manifests.of_kinds(["ConfigMap"]):
        name = str(mapping(each.object.get("metadata")).get("name"))
        found.setdefault(name, {})[_namespace(each)] = mapping(each.object.get("data"))
    return found


def _namespace(item: Item) -> str:
    return str(mapping(item.object.get("metadata")).get("namespace") or "")
