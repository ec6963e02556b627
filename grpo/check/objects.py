"""Check manifests with all rules over objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from grpo.manifests.loader import ManifestDocument
from grpo.rules import registry
from postrender.errors import Location
from postrender.finding import ERROR, Finding, Place
from postrender.manifests import pods
from postrender.manifests.pods import Path
from postrender.manifests.schemas import Kinds
from postrender.rules.judge import judge
from postrender.rules.manifests import Item, Manifests, secret_texts
from postrender.rules.rule import OBJECTS
from postrender.wiring.plan import Wiring

Checked = tuple[Finding, ManifestDocument, Path]

_SCHEMA = "kubernetes/"


def check(documents: Sequence[ManifestDocument], wiring: Wiring | None, kinds: Kinds | None = None) -> list[Finding]:
    """Check objects that are installed together; rules over a machine need the wiring, rules over schemas the kinds.

    Findings are sorted by place; those of a schema may be covered.
    """
    return [finding for finding, _, _ in checked(documents, wiring, kinds)]


def checked(documents: Sequence[ManifestDocument], wiring: Wiring | None, kinds: Kinds | None) -> list[Checked]:
    """Return the findings with their documents and the paths below these."""
    items = [
        Item(number, path, item, pods.pods(item))
        for number, document in enumerate(documents)
        for path, item in pods.objects(document.plain)
    ]

    def name(number: int) -> str:
        return f"{documents[number].file}:{documents[number].start}"

    manifests = Manifests(items, [document.text for document in documents], wiring, name, kinds)
    found = []
    lines = _Lines(documents)
    for finding in judge(manifests, registry.rules(OBJECTS)):
        place = finding.place
        document = documents[place.document]
        at = _location(document, place)
        secret = finding.secret or lines.show_secret(place.document, at.line)
        found.append((finding._replace(at=at, secret=secret), document, place.path))
    return sorted(_covered(found), key=lambda each: each[0].key())


def _location(document: ManifestDocument, place: Place) -> Location:
    if place.line:
        return Location(document.file, document.line + place.line, place.col)
    return document.place(place.path, key=place.of_key)


class _Lines:
    """The lines of documents with findings, and which of them contain secrets."""

    def __init__(self, documents: Sequence[ManifestDocument]) -> None:
        self._documents = documents
        self._known: dict[int, tuple[list[str], set[str]]] = {}

    def show_secret(self, number: int, line: int) -> bool:
        """Say whether the line of a finding contains a secret beside it, as in `{name: a, value: b}`."""
        document = self._documents[number]
        if number not in self._known:
            self._known[number] = document.text.split("\n"), set(secret_texts(document.plain))
        texts, secrets = self._known[number]
        return any(each in texts[line - document.line - 1] for each in secrets)


def _covered(found: Sequence[Checked]) -> Iterator[Checked]:
    """Note with a schema's finding the rules that have a better one at the same place."""
    better = defaultdict(set)
    for finding, document, path in found:
        # A schema's findings are errors. A warning does not say that the API server refuses the object.
        if finding.severity == ERROR and not finding.rule.startswith(_SCHEMA):
            better[id(document), path].add(finding.rule)
    for finding, document, path in found:
        covering = better.get((id(document), path)) if finding.rule.startswith(_SCHEMA) else None
        yield (finding._replace(covered_by=frozenset(covering)) if covering else finding), document, path
