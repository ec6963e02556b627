"""Deal with one document of a stream: wire what is a target, and read of the others what the gate has to know."""

from __future__ import annotations

from postrender import pods, splice, tokens, wire, yamlfast
from postrender.errors import InputError, Location
from postrender.transforms import FAIL
from postrender.wire import Wired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from postrender.plain import Plain
    from postrender.pods import Path
    from postrender.spots import Spot
    from postrender.stream import Document
    from postrender.wire import Options
    from postrender.wiring import Wiring

    Objects = list[dict[str, Any]]
    # Puts the objects that must stand beside others into a List: the document after the wiring, and those objects.
    Holder = Callable[[Document, dict[str, Any], Objects], bool]

# Where a ConfigMap holds bytes in base64, which hides text from a search; a Secret always does, a list may hold one.
_ENCODED = "binaryData"
_WHOLE = ("Secret", *pods.HOLDERS)
_HEAD = ("apiVersion", "kind", "metadata")


class Dealt:
    """Say what became of one document.

    `new` is its text where that changed, `wired` what was done to objects with pods, `objects` every object with its
    path and, where the gate judges its pods too, its number in `wired`, else -1.
    """

    __slots__ = ("new", "objects", "wired")

    def __init__(self) -> None:
        self.new: bytes | None = None
        self.wired: list[Wired] = []
        self.objects: list[tuple[Path, int, dict[str, Any]]] = []

    def packed(self) -> tuple[Any, ...]:
        """Return all of it as plain data, for another process."""
        return self.new, [each.packed() for each in self.wired], self.objects

    @staticmethod
    def unpacked(packed: tuple[Any, ...], options: Options) -> Dealt:
        """Return what was packed."""
        dealt = Dealt()
        dealt.new, wired, dealt.objects = packed
        dealt.wired = [Wired.unpacked(each, options) for each in wired]
        return dealt


class Dealing:
    """Hold what all documents are dealt with by; with `gate` those that are no targets are read too."""

    __slots__ = ("_gate", "_options", "_wiring")

    def __init__(self, wiring: Wiring, options: Options, *, gate: bool) -> None:
        self._wiring = wiring
        self._options = options
        self._gate = gate

    def deal(self, document: Document, *, candidate: bool, holder: Holder | None) -> Dealt | None:
        """Return what became of a document of which `candidate` says whether it may hold a target.

        None where its turn has to come: a List needs a holder. Raises InputError for what is no manifest.
        """
        if candidate and self._may_have_pods(document):
            return self._wire(document, holder)
        dealt = Dealt()
        if self._gate:
            self._note(document, _head(document), dealt)
        return dealt

    def _may_have_pods(self, document: Document) -> bool:
        kind = _kind(document)
        return kind is None or pods.is_known(kind) or kind in self._options.templates

    def _wire(self, document: Document, holder: Holder | None) -> Dealt | None:
        text = document.text()
        before: Plain
        before, root = yamlfast.located(text)
        exact = before is not None
        plain = not exact and _is_plain(text)
        if not exact:
            before = parse(document, text, plain=plain)
        after, done = self._wired(document, before)
        if plain and any(each.conflicts for each in done):
            # What differs may be one value in two spellings: `readOnly: yes`.
            plain = False
            before = parse(document, text, plain=False)
            after, done = self._wired(document, before)
        dealt = Dealt()
        dealt.wired = done
        if self._gate:
            self._note(document, before, dealt)
        changed = any(each.changed for each in done)
        if any(each.path for each in done):
            if holder is None:
                return None
            changed |= holder(document, after, [new for each in done for new in each.beside])
        if changed and not any(each.conflicts for each in done if self._options.policy == FAIL):
            dealt.new = _spliced(document, text, before, after, root, exact=exact, plain=plain).encode("utf-8")
        return dealt

    def _wired(self, document: Document, before: Plain) -> tuple[Plain, list[Wired]]:
        try:
            return wire.wire(before, self._wiring, self._options)
        except InputError as error:
            raise document.moved(error) from error

    def _note(self, document: Document, value: Plain, dealt: Dealt) -> None:
        """Keep what the gate judges: every object by its identity, and the pods of those that were wired."""
        if value is None:
            return
        if not isinstance(value, dict):
            found = "a list" if isinstance(value, list) else "a single value"
            raise InputError(
                f"expected a Kubernetes object, found {found}",
                at=Location(document.name, document.line),
                fix="pass on the manifests that Helm renders, and nothing else",
            )
        wired = enumerate(dealt.wired)
        judged = {each.path: at for at, each in wired if each.pods or each.variables or each.elsewhere}
        for path, item in pods.objects(value):
            at = judged.get(path, -1)
            dealt.objects.append((path, at, item if at < 0 else dealt.wired[at].item))


def read(document: Document, text: str) -> Plain:
    """Read a text that stands for a document, with the fastest reader that reads it."""
    found = yamlfast.exact(text)
    if found is not None:
        return found
    from postrender import blocks

    return parse(document, text, plain=blocks.is_plain(text))


def parse(document: Document, text: str, *, plain: bool) -> Plain:
    """Read a text that stands for a document, with the fast reader where it is plain and that one does not refuse."""
    try:
        return document.parse(text, plain=plain)
    except ValueError:
        return document.parse(text, plain=False)


def _spliced(
    document: Document, text: str, before: Plain, after: Plain, root: Spot | None, *, exact: bool, plain: bool
) -> str:
    def scan(text: str) -> Spot:
        from postrender import composed

        if plain:
            # The fast reader takes a key that stands twice, and what is behind the end of a root.
            document.parse(text, plain=False)
        return composed.scan(text, document.name)

    def reread(text: str) -> Plain:
        found = yamlfast.exact(text) if exact else None
        return parse(document, text, plain=plain) if found is None else found

    if plain:
        from postrender import blocks

        root = blocks.scan(text)
    try:
        return splice.edited(text, before, after, reread, scan, root=root)
    except InputError as error:
        raise document.moved(error) from error


def _head(document: Document) -> Plain:
    """Read of a document that is no target which object it is, and all of it where its data may hide text.

    The last one is read in full, as a stream that was cut off ends in it.
    """
    text = document.text()
    hides = tokens.may_be_hidden(text)
    found = yamlfast.exact(text)
    if found is not None:
        return found if hides or _is_whole(found, text) else {key: found[key] for key in _HEAD if key in found}
    if not hides and document.end < len(document.data):
        from postrender import heads

        head = heads.read(text)
        if head is not None and not _is_whole(head, text):
            return head
    return parse(document, text, plain=True)


def _is_whole(item: dict[str, Any], text: str) -> bool:
    """Say whether more than the head of an object has to be known."""
    kind = item.get("kind")
    if kind in _WHOLE or not pods.mapping(item.get("metadata")).get("name"):
        return True
    return kind == "ConfigMap" and _ENCODED in text


def _is_plain(text: str) -> bool:
    """Say whether the fast reader, which knows YAML 1.2 only, does for a target."""
    from postrender import blocks

    return blocks.is_plain(text) and _has_plain_gpus(text)


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
    at = document.start - 1
    if not data.startswith(b"kind:", document.start):
        at = data.find(b"\nkind:", document.start, document.end)
        if at < 0:
            return None
    other = data.find(b"kind", at + 6, document.end) - 2
    if other >= 0 and any(data.find(word, other, document.end) >= 0 for word in (b"\nkind:", b'\n"kind"', b"\n'kind'")):
        # Two documents without a mark between them: Kubernetes would take the last one's.
        return None
    end = data.find(b"\n", at + 1, document.end)
    value = data[at + 6 : end if end >= 0 else document.end].partition(b" #")[0].strip()
    return value.decode() if value.isalnum() and value.isascii() else None
