"""Judge manifests by all rules about objects."""

from __future__ import annotations

from itertools import groupby

from postrender import pods, twofold
from postrender.errors import Location
from postrender.finding import Finding
from postrender.judge import judge
from postrender.progress import Progress
from postrender.rules import Hit, Item, Manifests, secret_texts
from postrender.rules.objects import asked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from postrender.documents import Document
    from postrender.kinds import Kinds
    from postrender.pods import Path
    from postrender.rules import Rule
    from postrender.wiring import Wiring

    Packed = tuple[Any, ...]
    Checked = tuple[Finding, Document, Path]

_SCHEMA = "kubernetes/"


def check(documents: Sequence[Document], wiring: Wiring | None, kinds: Kinds | None = None) -> list[Finding]:
    """Judge what is installed together; rules about a machine need the wiring, rules about schemas the kinds.

    Findings are sorted by place.
    """
    return [finding for finding, _, _ in checked(documents, wiring, kinds)]


def checked(documents: Sequence[Document], wiring: Wiring | None, kinds: Kinds | None) -> list[Checked]:
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
    for rule, hit in _judged(manifests):
        document = documents[hit.document]
        at = (
            Location(document.file, document.line + hit.line, hit.col)
            if hit.line
            else document.place(hit.path, key=hit.key)
        )
        secret = hit.secret or lines.show_secret(hit.document, at.line)
        finding = Finding(rule.id, at, hit.what, rule.why, rule.fix, severity=rule.severity, secret=secret)
        found.append((finding, document, () if hit.line else hit.path))
    return sorted(_once(found), key=lambda each: each[0].key())


class _Lines:
    """Know the lines of documents that have findings, and what nobody should see in them."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self._known: dict[int, tuple[list[str], set[str]]] = {}

    def show_secret(self, number: int, line: int) -> bool:
        """Say whether a secret stands in the line of a finding about something else: `{name: a, value: b}`."""
        document = self._documents[number]
        if number not in self._known:
            self._known[number] = document.text.split("\n"), set(secret_texts(document.plain))
        texts, secrets = self._known[number]
        return any(each in texts[line - document.line - 1] for each in secrets)


def _judged(manifests: Manifests) -> list[tuple[Rule, Hit]]:
    """Ask the rules, those of one topic together: they share what they look at."""
    topics = [[*rules] for _, rules in groupby(asked(manifests), key=lambda rule: rule.id.partition("/")[0])]

    def ask(number: int) -> list[tuple[int, Packed]]:
        rules = topics[number]
        return [(rules.index(rule), hit.packed()) for rule, hit in judge(manifests, rules)]

    size = sum(map(len, manifests.texts))
    said = twofold.run(ask, len(topics), Progress("topics of rules"), alone=size < twofold.LARGE)
    found = [(rules[at], Hit.unpacked(hit)) for rules, hits in zip(topics, said, strict=True) for at, hit in hits]
    return sorted(found, key=lambda each: each[1].document)


def _once(found: Sequence[Checked]) -> Iterator[Checked]:
    """Leave out what a schema says at a place of which a rule says why."""
    told = {(id(document), path) for finding, document, path in found if not finding.rule.startswith(_SCHEMA)}
    for finding, document, path in found:
        if not finding.rule.startswith(_SCHEMA) or (id(document), path) not in told:
            yield finding, document, path
