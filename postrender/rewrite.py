"""Wire a stream of manifests and judge the result: what is no target keeps every byte."""

from __future__ import annotations

from postrender import blocks, pods, quoted, splice, stream, tokens, wire, yamlfast
from postrender.decisions import FAIL
from postrender.errors import InputError
from postrender.location import Location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from postrender.plain import Plain
    from postrender.rules import Hit, Item
    from postrender.spots import Spot
    from postrender.stream import Document
    from postrender.wire import Options, Wired
    from postrender.wiring import Wiring


# One of these is in the text of every target, or a kind that an option names; the second one begins the kinds of Ray.
_WORDS = (pods.GPU.encode(), b"Ray")
# Where a ConfigMap holds bytes in base64, which hides text from a search; a Secret always does, a list may hold one.
_ENCODED = "binaryData"
_WHOLE = ("Secret", *pods.HOLDERS)
_DOMAIN = "ComputeDomain"


class Refusal:
    """One reason not to pass a stream on; `at` names the document and the line in the stream."""

    __slots__ = ("at", "fix", "rule", "what")

    def __init__(self, rule: str, at: Location, what: str, fix: str) -> None:
        self.rule = rule
        self.at = at
        self.what = what
        self.fix = fix


class Result:
    """Hold the parts of the new stream in order, what was done, and what speaks against it."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.wired: list[tuple[Document, Wired]] = []
        self.added: list[tuple[Document, dict[str, Any]]] = []
        self.refusals: list[Refusal] = []


class Rewriter:
    """Wire one stream; with `gate` the whole stream is read and judged."""

    def __init__(self, data: bytes, wiring: Wiring, options: Options, *, gate: bool) -> None:
        self._data = data
        self._wiring = wiring
        self._options = options
        self._gate = gate
        self._words = stream.Words(data, (*_WORDS, *(kind.encode() for kind in options.templates)))
        self._documents: list[Document] = []
        self._texts: list[str] = []
        self._items: list[Item] = []
        self._edits: list[tuple[int, int, bytes]] = []
        self._result = Result()

    def run(self) -> Result:
        """Return the wired stream; raise InputError where it is no stream of manifests."""
        for document in stream.split(self._data):
            if self._gate:
                self._documents.append(document)
                self._texts.append(document.text())
            if self._is_candidate(document):
                self._wire(document)
            elif self._gate:
                self._read(document)
        self._add_objects()
        self._refuse_missing_selection()
        self._refuse_conflicts()
        if self._gate:
            self._judge()
        self._result.parts = list(self._parts())
        return self._result

    def _is_candidate(self, document: Document) -> bool:
        """Say whether a document may hold a target; bytes are searched, as most documents need not be read."""
        if not self._words.are_in(document.start, document.end):
            return False
        kind = _kind(document)
        return kind is None or pods.is_known(kind) or kind in self._options.templates

    def _wire(self, document: Document) -> None:
        text = self._texts[-1] if self._gate else document.text()
        plain = blocks.is_plain(text) and _has_plain_gpus(text)
        before, after, done = self._wired(document, text, plain=plain)
        if plain and any(each.conflicts for each in done):
            # What differs may be one value in two spellings: `readOnly: yes`.
            plain = False
            before, after, done = self._wired(document, text, plain=False)
        self._note(document, before, done)
        changed = any(each.changed for each in done)
        if any(each.path for each in done):
            changed |= self._put_into_holder(document, after, done)
        if changed and not any(each.conflicts for each in done if self._options.policy == FAIL):
            new = self._spliced(document, text, before, after, plain=plain)
            self._edits.append((document.start, document.end, new.encode("utf-8")))
        self._result.wired += [(document, each) for each in done]

    def _wired(self, document: Document, text: str, *, plain: bool) -> tuple[Plain, Plain, list[Wired]]:
        before = _parse(document, text, plain=plain)
        try:
            return before, *wire.wire(before, self._wiring, self._options)
        except InputError as error:
            raise document.moved(error) from error

    def _spliced(self, document: Document, text: str, before: Plain, after: Plain, *, plain: bool) -> str:
        def scan(text: str) -> Spot:
            from postrender import composed

            if plain:
                # The fast reader takes a key that stands twice, and what is behind the end of a root.
                document.parse(text, plain=False)
            return composed.scan(text, document.name)

        def parse(text: str) -> Plain:
            return _parse(document, text, plain=plain)

        try:
            return splice.edited(text, before, after, parse, scan, plain=plain)
        except InputError as error:
            raise document.moved(error) from error

    def _read(self, document: Document) -> None:
        """Read a document that is no target: only which object it is, where that suffices to judge it.

        The last one is read in full, as a stream that was cut off ends in it; so are objects whose data hide text.
        """
        from postrender import heads

        text = self._texts[-1]
        whole = document.end == len(self._data) or tokens.may_be_hidden(text)
        value = None if whole else heads.read(text)
        if value is None or value["kind"] in _WHOLE or (value["kind"] == "ConfigMap" and _ENCODED in text):
            try:
                value = yamlfast.parse(text)
            except ValueError:
                value = document.parse(text, plain=False)
        self._note(document, value, [])

    def _note(self, document: Document, value: Plain, done: list[Wired]) -> None:
        """Keep what the gate judges: every object by its identity, and the pods of those that were wired."""
        if value is None or not self._gate:
            return
        if not isinstance(value, dict):
            found = "a list" if isinstance(value, list) else "a single value"
            raise InputError(f"expected a Kubernetes object, found {found}", at=Location(document.name, document.line))
        from postrender.rules import Item

        judged = {each.path: each for each in done if each.pods or each.variables or each.elsewhere}
        for path, item in pods.objects(value):
            each = judged.get(path)
            number = len(self._documents) - 1
            self._items.append(Item(number, path, each.item if each else item, each.found if each else ()))

    def _put_into_holder(self, document: Document, after: dict[str, Any], done: list[Wired]) -> bool:
        """Put new objects into a List: a function of kustomize answers with one document."""
        new = []
        for wired in done:
            for each in self._lacking(wired.beside):
                self._result.added.append((document, each))
                new.append(each)
        after["items"] = [*new, *after["items"]]
        return bool(new)

    def _add_objects(self) -> None:
        self._refuse_shared_domains()
        for document, wired in list(self._result.wired):
            for each in self._lacking(wired.beside):
                body = "".join(f"{line}\n" for line in quoted.block(each))
                text = f"---\n{body}" if document.has_mark else f"{body}---\n"
                self._edits.append((document.start, document.start, text.encode("utf-8")))
                self._result.added.append((document, each))

    def _refuse_shared_domains(self) -> None:
        """Refuse two objects of one name whose claims cannot share an object.

        An NVLink domain would count the nodes of one alone, and what belongs to a hook is removed with the hook.
        """
        owners: dict[tuple[str, str, str], tuple[str, Plain]] = {}
        for document, wired in self._result.wired:
            for each in wired.beside:
                owner = f"{wired.kind} {wired.name}"
                first, hooks = owners.setdefault(_name(each), (owner, each["metadata"].get("annotations")))
                if first != owner and (each["kind"] == _DOMAIN or hooks != each["metadata"].get("annotations")):
                    raise InputError(
                        f"{owner} and {first} would share {each['kind']} {each['metadata']['name']}",
                        at=Location(document.name, document.line),
                        fix="give the two objects different names",
                    )

    def _lacking(self, objects: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the objects that neither the stream nor what was added to it has."""
        for each in objects:
            there = [*(item for _, item in self._result.added), *self._of_kind(each["kind"])]
            same = [item for item in there if _name(item) == _name(each)]
            if not same:
                yield each
            elif any(item.get("spec") != each["spec"] for item in same):
                what = f"{each['kind']} {each['metadata']['name']} is there with another spec than the wiring needs"
                raise InputError(what, fix="remove it, or rename the object that claims it")

    def _of_kind(self, kind: str) -> Iterator[dict[str, Any]]:
        for document in stream.split(self._data):
            if self._data.find(kind.encode(), document.start, document.end) >= 0:
                text = document.text()
                value = _parse(document, text, plain=blocks.is_plain(text))
                yield from (item for _, item in pods.objects(value) if item.get("kind") == kind)

    def _refuse_missing_selection(self) -> None:
        there = {(each.kind.lower(), each.name) for _, each in self._result.wired}
        for kind, name in sorted(self._options.select - there):
            what = f"--select {kind}/{name}: the stream has no such object with pods to wire"
            raise InputError(what, fix="write KIND/NAME as in the stream")
        for kind in self._options.templates.keys() - {each.kind for _, each in self._result.wired}:
            what = f"--pod-template-path {kind}=…: no object of this kind has a pod template there"
            raise InputError(what, fix="write KIND and path as in the stream; * is every entry of a list or map")

    def _refuse_conflicts(self) -> None:
        if self._options.policy != FAIL:
            return
        for document, wired in self._result.wired:
            for each in wired.conflicts:
                what = f"{wired.kind} {wired.name}: {each['at']} is {_short(each['there'])}, the wiring wants"
                fix = "remove it, or choose with --on-conflict keep or --on-conflict replace"
                from postrender import places

                at = Location(document.name, document.line + places.line(document, wired.path, None) - 1)
                self._result.refusals.append(Refusal("wiring/conflict", at, f"{what} {_short(each['wanted'])}", fix))

    def _judge(self) -> None:
        from postrender.judge import judge
        from postrender.rules import Manifests
        from postrender.rules.gate import RULES

        for rule, hit in judge(Manifests(self._items, self._texts, self._wiring), RULES):
            from postrender import places

            document = self._documents[hit.document]
            line = hit.line or places.line(document, hit.path, self._judged(hit))
            at = Location(document.name, document.line + line - 1)
            self._result.refusals.append(Refusal(rule.id, at, hit.what, rule.fix))
        self._result.refusals.sort(key=lambda each: each.at.line)

    def _judged(self, hit: Hit) -> Item | None:
        """Return the object in which something was found."""
        there = (item for item in self._items if item.document == hit.document)
        return next((item for item in there if hit.path[: len(item.path)] == item.path), None)

    def _parts(self) -> Iterator[bytes | memoryview]:
        view, at = memoryview(self._data), 0
        for start, end, new in sorted(self._edits, key=lambda edit: edit[:2]):
            if start > at:
                yield view[at:start]
            yield new
            at = max(at, end)
        yield view[at:]


def _parse(document: Document, text: str, *, plain: bool) -> Plain:
    try:
        return document.parse(text, plain=plain)
    except ValueError:
        return document.parse(text, plain=False)


def _has_plain_gpus(text: str) -> bool:
    """Say whether every number of GPUs is written so that all readers see the same one: not 010, 8.0 or 0b1000."""
    for part in text.split(pods.GPU)[1:]:
        name, colon, value = part.partition("\n")[0].partition(":")
        number = value.partition(" #")[0].strip(" \"'\r,}")
        if colon and not name.strip(" \"'") and not (number.isdecimal() and (number[0] != "0" or number == "0")):
            return False
    return True


def _kind(document: Document) -> str | None:
    """Return a document's kind where it is written plainly at the left margin, or None."""
    data = document.data
    at = data.find(b"\nkind:", document.start, document.end)
    if at < 0:
        if not data.startswith(b"kind:", document.start):
            return None
        at = document.start - 1
    if any(data.find(word, at + 1, document.end) >= 0 for word in (b"\nkind:", b'\n"kind"', b"\n'kind'")):
        # Two documents without a mark between them: Kubernetes would take the last one's.
        return None
    end = data.find(b"\n", at + 1, document.end)
    value = data[at + 6 : end if end >= 0 else document.end].partition(b" #")[0].strip()
    return value.decode() if value.isalnum() and value.isascii() else None


def _name(item: dict[str, Any]) -> tuple[str, str, str]:
    metadata = pods.mapping(item.get("metadata"))
    return str(item.get("kind")), str(metadata.get("namespace", "")), str(metadata.get("name"))


def _short(value: Plain) -> str:
    try:
        text = quoted.flow(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"
