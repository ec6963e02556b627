"""The input of rules over objects: all objects in a stream, their pods, and the wiring that the values require."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from postrender.finding import Finding, Place
from postrender.manifests.pods import machines, mapping, pods, sequence
from postrender.secrets import names_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from postrender.manifests.pods import Path, Pod
    from postrender.manifests.schemas import Kinds
    from postrender.manifests.violations import Violation
    from postrender.types import Json
    from postrender.values.profiles import Machine
    from postrender.wiring.plan import Wiring

T = TypeVar("T")
Check = Callable[["Manifests"], Iterable[Finding]]


class Item:
    """One object in a stream, and its origin: the document's position, and the path below the document's root."""

    __slots__ = ("document", "object", "path", "pods")

    def __init__(self, document: int, path: Path, item: dict[str, Any], pods: Sequence[Pod]) -> None:
        self.document = document
        self.path = path
        self.object = item
        self.pods = pods

    @property
    def title(self) -> str:
        """Return the kind and name, for messages."""
        metadata = self.object.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        return f"{self.object.get('kind')} {name}".strip()

    def finding(self, path: Path, what: str, *, of_key: bool = False) -> Finding:
        """Return a finding at a path below the object; a line that may contain a secret is not shown in reports."""
        place = Place(self.document, (*self.path, *path), of_key=of_key)
        return Finding(f"{self.title}: {what}", place=place, secret=_is_secret(self.object, path))


def _number(document: int) -> str:
    return f"document {document + 1}"


class Manifests:
    """The input of rules over objects: the objects, those whose pods are checked, and the values' wiring if any.

    `texts` are the documents' texts, `name` returns a document's name for messages, and `kinds` are the objects'
    schemas, if objects are validated too.
    """

    __slots__ = (
        *("_by_kind", "_made", "_pods", "_violations", "_whole"),
        *("items", "kinds", "name", "texts", "wiring"),
    )

    def __init__(
        self,
        items: Sequence[Item],
        texts: Sequence[str],
        wiring: Wiring | None,
        name: Callable[[int], str] = _number,
        kinds: Kinds | None = None,
    ) -> None:
        self.items = items
        self.texts = texts
        self.wiring = wiring
        self.name = name
        self.kinds = kinds
        self._pods = [(item, pod) for item in items for pod in item.pods]
        self._by_kind: dict[str, list[Item]] = {}
        for item in items:
            self._by_kind.setdefault(str(item.object.get("kind")), []).append(item)
        self._made: dict[Callable[[Manifests], Any], Any] = {}
        self._violations: list[tuple[Item, Violation]] | None = None
        self._whole: list[tuple[Item, Pod, Wiring]] | None = None

    def pods(self) -> Sequence[tuple[Item, Pod]]:
        """Return the pod templates with their objects."""
        return self._pods

    def containers(self) -> Iterator[tuple[Item, Path, dict[str, Any]]]:
        """Yield every container with its object and its path there, also of pods that are not checked otherwise."""
        for item in self.items:
            for pod in item.pods or pods(item.object):
                for kind in ("initContainers", "containers"):
                    for position, container in enumerate(map(mapping, sequence(pod.spec.get(kind)))):
                        yield item, (*pod.path, "spec", kind, position), container

    def of_kinds(self, kinds: Iterable[str]) -> list[Item]:
        """Return the objects of these kinds, in stream order."""
        found = [item for kind in kinds for item in self._by_kind.get(kind, ())]
        return sorted(found, key=lambda item: (item.document, item.path)) if len(found) > 1 else found

    def once(self, make: Callable[[Manifests], T]) -> T:
        """Return the result of a function over the manifests, computed once for all rules."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def device_classes(self, pod: Pod) -> set[str]:
        """Return the device classes of the claims that a pod creates from the stream's templates."""
        claims = map(mapping, sequence(pod.spec.get("resourceClaims")))
        wanted = {str(each.get("resourceClaimTemplateName")) for each in claims}
        found = set()
        for item in self.of_kinds(["ResourceClaimTemplate"]):
            if str(mapping(item.object.get("metadata")).get("name")) in wanted:
                devices = mapping(mapping(mapping(item.object.get("spec")).get("spec")).get("devices"))
                for request in map(mapping, sequence(devices.get("requests"))):
                    found.add(str(mapping(request.get("exactly")).get("deviceClassName")))
        return found

    def violations(self) -> Sequence[tuple[Item, Violation]]:
        """Return the violations of the kinds' schemas, with their objects; skip objects without a schema."""
        if self._violations is None:
            known = [item for item in self.items if self._known(item)]
            judged = self.kinds.judge([item.object for item in known]) if self.kinds else []
            pairs = zip(known, judged, strict=True)
            self._violations = [(item, violation) for item, found in pairs for violation in found]
        return self._violations

    def unknown(self) -> Iterator[Item]:
        """Yield the objects whose kinds have no schema."""
        for item in self.items:
            if not self._known(item):
                yield item

    def _known(self, item: Item) -> bool:
        return bool(self.kinds and self.kinds.has(item.object))

    def whole_pods(self) -> Sequence[tuple[Item, Pod, Wiring]]:
        """Return the pods that use a complete node of the wiring's accelerator and select no other accelerator."""
        if self._whole is None:
            wiring = self.wiring
            found = self.pods() if wiring and wiring.gpus else ()
            self._whole = [
                (item, pod, wiring)
                for item, pod in found
                if wiring and pod.gpu_container()[1] and not wiring.unfit(pod)
            ]
        return self._whole

    def other_pods(self, matters: Callable[[Item, Pod], bool]) -> Iterator[tuple[Item, Pod, list[Machine]]]:
        """Yield the other pods that select machines, if all these machines have installed profiles.

        The profiles are read only for pods that matter: a chart's stream has many others, and reading takes 0.1 s.
        """
        whole = {id(pod) for _, pod, _ in self.whole_pods()}
        for item, pod in self.pods():
            known = machines(pod.spec) if id(pod) not in whole and matters(item, pod) else []
            if known:
                yield item, pod, known


def joined(*checks: Check) -> Check:
    """Combine several checks into one."""

    def run(manifests: Manifests) -> Iterator[Finding]:
        for check in checks:
            yield from check(manifests)

    return run


def secret_texts(item: Json) -> Iterator[str]:
    """Yield the lines of Secrets' data, and of values whose names mark them as secrets."""
    if isinstance(item, str):
        name, sign, value = item.partition("=")
        if sign and names_secret(name):
            yield from _lines([value])
    elif isinstance(item, list):
        for each in item:
            yield from secret_texts(each)
    elif isinstance(item, dict):
        named = [each for key, each in item.items() if names_secret(str(key)) and not isinstance(each, dict | list)]
        yield from _lines([*named, item.get("value")] if names_secret(str(item.get("name"))) else named)
        if item.get("kind") == "Secret":
            held = (mapping(each) for key, each in item.items() if str(key).lower() in ("data", "stringdata"))
            yield from _lines(value for each in held for value in each.values())
        for each in item.values():
            yield from secret_texts(each)


def _lines(values: Iterable[Json]) -> Iterator[str]:
    for value in values:
        if value is not None:
            yield from (line.strip() for line in str(value).split("\n") if line.strip())


def _is_secret(item: Json, path: Path) -> bool:
    """Return whether a path leads into a Secret's data, or to a variable whose name marks it as a secret."""
    if isinstance(item, dict) and item.get("kind") == "Secret" and path[:1] in (("data",), ("stringData",)):
        return True
    for part, below in pairwise(path):
        item = _below(item, part)
        if part == "env" and names_secret(str(mapping(_below(item, below)).get("name"))):
            return True
    return False


def _below(item: Json, part: str | int) -> Json:
    if isinstance(item, list):
        return item[part] if isinstance(part, int) and part < len(item) else None
    return mapping(item).get(str(part))
