"""Check manifests with all rules over objects."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence

from grpo.check import stacks
from grpo.manifests.loader import ManifestDocument, kustomize_changes
from grpo.problems import registry
from postrender.errors import Location
from postrender.finding import ERROR, WARNING, Finding, Place
from postrender.gate import object_twice
from postrender.gate.manifests import Item, Manifests, secret_texts
from postrender.judge import judge
from postrender.manifests import pods
from postrender.manifests.pods import Path
from postrender.manifests.schemas import Kinds
from postrender.problem import OBJECTS
from postrender.wiring.plan import Wiring

Checked = tuple[Finding, ManifestDocument, Path]

_SCHEMA = "kubernetes/"
_APART = "if the files are for several clusters, give --apart"


def check(documents: Sequence[ManifestDocument], wiring: Wiring | None, kinds: Kinds | None = None) -> list[Finding]:
    """Check objects that are installed together; rules over a machine need the wiring, rules over schemas the kinds.

    Findings are sorted by place; schema findings may be marked as covered by others.
    """
    return [finding for finding, _, _ in checked(documents, wiring, kinds)]


def checked(documents: Sequence[ManifestDocument], wiring: Wiring | None, kinds: Kinds | None) -> list[Checked]:
    """Return the findings, each with its document and its path in the document."""
    items = [
        Item(number, path, item, pods.pods(item))
        for number, document in enumerate(documents)
        for path, item in pods.objects(document.plain)
    ]

    def name(number: int) -> str:
        return f"{documents[number].file}:{documents[number].start}"

    texts = [document.text for document in documents]
    found = []
    lines = _Lines(documents)
    for finding in _judged(Manifests(items, texts, wiring, name, kinds)):
        place = finding.place
        document = documents[place.document]
        at = _location(document, place)
        secret = finding.secret or lines.show_secret(place.document, at.line)
        found.append((finding._replace(at=at, secret=secret), document, place.path))
    return sorted(_covered(found), key=lambda each: each[0].key())


def _judged(manifests: Manifests) -> list[Finding]:
    """Judge the objects of other stacks than the values' as if there were no values."""
    rules = registry.rules(OBJECTS)
    others = stacks.others((item.object for item in manifests.items), manifests.wiring)
    if not others:
        return judge(manifests, rules)
    bare = judge(Manifests(manifests.items, manifests.texts, None, manifests.name, manifests.kinds), rules)
    foreign = {id(item) for item in manifests.items if stacks.stack_of(item.object) in others}
    if len(foreign) == len(manifests.items):
        return bare

    def is_foreign(finding: Finding) -> bool:
        return id(stacks.item_of(finding, manifests.items)) in foreign

    own = [each for each in judge(manifests, rules) if not is_foreign(each)]
    return [*own, *filter(is_foreign, bare)]


def twice(words: Sequence[Sequence[ManifestDocument]]) -> list[Finding]:
    """Return warnings about objects that occur in several arguments of one command, in case these are for one cluster.

    An object without a namespace is skipped, because each argument may go into a different namespace; so is a
    kustomize patch, which is not an object.
    """
    everything = [document for documents in words for document in documents]
    word_of = [number for number, documents in enumerate(words) for _ in documents]
    folders = {os.path.dirname(document.file) for document in everything}
    changed = {folder for folder in folders if kustomize_changes(folder)}
    seen: dict[tuple[str, ...], int] = {}
    found = []
    for number, document in enumerate(everything):
        if os.path.dirname(document.file) in changed:
            continue
        for path, item in pods.objects(document.plain):
            identity = object_twice.identity_of(item)
            if identity is None or not stacks.has_owner(identity):
                continue
            first = seen.setdefault(identity, number)
            if word_of[first] != word_of[number]:
                place = f"{everything[first].file}:{everything[first].start}"
                one = object_twice.again(Item(number, path, item, ()), identity, place)
                found.append(one._replace(at=_location(document, one.place), fix=f"{stacks.own_name(item)}; {_APART}"))
    return judge(found, [object_twice.RULE._replace(check=iter, severity=WARNING)])


def _location(document: ManifestDocument, place: Place) -> Location:
    if place.line:
        return Location(document.file, document.line + place.line, place.col)
    return document.place(place.path, key=place.of_key)


class _Lines:
    """The lines of documents with findings, and which of these lines contain secrets."""

    def __init__(self, documents: Sequence[ManifestDocument]) -> None:
        self._documents = documents
        self._known: dict[int, tuple[list[str], set[str]]] = {}

    def show_secret(self, number: int, line: int) -> bool:
        """Return whether the line of a finding also contains a secret, as in `{name: a, value: b}`."""
        document = self._documents[number]
        if number not in self._known:
            self._known[number] = document.text.split("\n"), set(secret_texts(document.plain))
        texts, secrets = self._known[number]
        return any(each in texts[line - document.line - 1] for each in secrets)


def _covered(found: Sequence[Checked]) -> Iterator[Checked]:
    """Mark each schema finding with the rules that report the same place better."""
    better = defaultdict(set)
    for finding, document, path in found:
        # A schema's findings are errors. A warning does not say that the API server refuses the object.
        if finding.severity == ERROR and not finding.rule.startswith(_SCHEMA):
            better[id(document), path].add(finding.rule)
    for finding, document, path in found:
        covering = better.get((id(document), path)) if finding.rule.startswith(_SCHEMA) else None
        yield (finding._replace(covered_by=frozenset(covering)) if covering else finding), document, path
