"""Rules judge objects, ours or foreign: one rule a module, under the domain that its id names.

A rule's `check` gets all objects at once and yields what it found; it knows nothing of text, places and reports.
"""

from __future__ import annotations

from itertools import pairwise

from postrender import machines
from postrender.finding import ERROR, INFO, WARNING
from postrender.pods import accelerators, mapping
from postrender.tokens import names_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, TypeVar

    from postrender.kinds import Kinds
    from postrender.machines import Machine
    from postrender.plain import Plain
    from postrender.pods import Path, Pod
    from postrender.violations import Violation
    from postrender.wiring import Wiring

    T = TypeVar("T")

__all__ = ["ERROR", "INFO", "WARNING", "Hit", "Item", "Manifests", "Rule", "at"]


class Rule:
    """Say what is judged and why: `source` is the evidence, `fix` what to do."""

    __slots__ = ("check", "fix", "id", "severity", "source", "title", "why")

    def __init__(
        self,
        id: str,  # noqa: A002 (what the field calls it)
        *,
        severity: str,
        title: str,
        why: str,
        fix: str,
        source: str,
        check: Callable[[Manifests], Iterator[Hit]],
    ) -> None:
        self.id = id
        self.severity = severity
        self.title = title
        self.why = why
        self.fix = fix
        self.source = source
        self.check = check


class Item:
    """One object of a stream, and where it comes from: position of the document, path below its root."""

    __slots__ = ("document", "object", "path", "pods")

    def __init__(self, document: int, path: Path, item: dict[str, Any], pods: Sequence[Pod]) -> None:
        self.document = document
        self.path = path
        self.object = item
        self.pods = pods

    @property
    def title(self) -> str:
        """Return kind and name, as messages call the object."""
        metadata = self.object.get("metadata")
        name = metadata.get("name", "") if isinstance(metadata, dict) else ""
        return f"{self.object.get('kind')} {name}".strip()


def _number(document: int) -> str:
    return f"document {document + 1}"


class Manifests:
    """Hold what rules judge: objects, those of them whose pods are judged too, and the wiring of the values if any.

    `texts` are those of the documents, `name` says what messages call them, `kinds` the schemas of objects where these
    are judged too, `suspects` the numbers of the documents whose texts may hold a secret, where that is known.
    """

    __slots__ = (
        *("_by_kind", "_made", "_pods", "_violations", "_whole"),
        *("items", "kinds", "name", "suspects", "texts", "wiring"),
    )

    def __init__(
        self,
        items: Sequence[Item],
        texts: Sequence[str],
        wiring: Wiring | None,
        name: Callable[[int], str] = _number,
        kinds: Kinds | None = None,
        *,
        suspects: Sequence[int] | None = None,
    ) -> None:
        self.items = items
        self.suspects = suspects
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

    def of_kinds(self, kinds: Iterable[str]) -> list[Item]:
        """Return the objects of these kinds in the order in which they stand."""
        found = [item for kind in kinds for item in self._by_kind.get(kind, ())]
        return sorted(found, key=lambda item: (item.document, item.path)) if len(found) > 1 else found

    def once(self, make: Callable[[Manifests], T]) -> T:
        """Return what a function makes of the manifests; it is called for the first rule that asks."""
        if make not in self._made:
            self._made[make] = make(self)
        made: T = self._made[make]
        return made

    def violations(self) -> Sequence[tuple[Item, Violation]]:
        """Return what does not fit the schemas of kinds, with the objects; those without a schema are left out."""
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
        """Return the pods that take a whole node of the wiring's accelerator and select no other one."""
        if self._whole is None:
            wiring = self.wiring
            found = self.pods() if wiring and wiring.gpus else ()
            self._whole = [
                (item, pod, wiring)
                for item, pod in found
                if wiring and pod.gpu_container()[1] and not wiring.unfit(pod)
            ]
        return self._whole

    def other_pods(self) -> Iterator[tuple[Item, Pod, list[Machine]]]:
        """Yield the other pods that select machines, where profiles of all these are installed."""
        whole = {id(pod) for _, pod, _ in self.whole_pods()}
        for item, pod in self.pods():
            asked = accelerators(pod.spec)
            if asked and id(pod) not in whole:
                known = [machine for label, machine in machines.by_label().items() if label in asked]
                if len(known) == len(asked):
                    yield item, pod, known


class Hit:
    """One thing that a rule found: a path below an object, or a line and a column of a document's text.

    `key` says that it is about the last key of the path, and not about its value.
    """

    __slots__ = ("col", "document", "key", "line", "path", "secret", "what")

    def __init__(
        self,
        document: int,
        what: str,
        *,
        path: Path = (),
        line: int = 0,
        col: int = 0,
        secret: bool = False,
        key: bool = False,
    ) -> None:
        self.document = document
        self.what = what
        self.path = path
        self.line = line
        self.col = col
        self.secret = secret
        self.key = key

    def packed(self) -> tuple[Any, ...]:
        """Return all of it as plain data, for another process."""
        return tuple(getattr(self, name) for name in sorted(Hit.__slots__))

    @staticmethod
    def unpacked(packed: tuple[Any, ...]) -> Hit:
        """Return what was packed."""
        return Hit(**dict(zip(sorted(Hit.__slots__), packed, strict=True)))


def at(item: Item, path: Path, what: str, *, key: bool = False) -> Hit:
    """Return a hit at a path below an object; its line is not shown where a secret may stand."""
    secret = _is_secret(item.object, path)
    return Hit(item.document, f"{item.title}: {what}", path=(*item.path, *path), secret=secret, key=key)


def secret_texts(item: Plain) -> Iterator[str]:
    """Yield the lines of what Secrets hold, and of what is named as a secret is, in whatever shape."""
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


def _lines(values: Iterable[Plain]) -> Iterator[str]:
    for value in values:
        if value is not None:
            yield from (line.strip() for line in str(value).split("\n") if line.strip())


def _is_secret(item: Plain, path: Path) -> bool:
    """Say whether a path leads into what a Secret holds, or to a variable that is named as one for a secret is."""
    if isinstance(item, dict) and item.get("kind") == "Secret" and path[:1] in (("data",), ("stringData",)):
        return True
    for part, below in pairwise(path):
        item = _below(item, part)
        if part == "env" and names_secret(str(mapping(_below(item, below)).get("name"))):
            return True
    return False


def _below(item: Plain, part: str | int) -> Plain:
    if isinstance(item, list):
        return item[part] if isinstance(part, int) and part < len(item) else None
    return mapping(item).get(str(part))
