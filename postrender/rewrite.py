"""Wire a stream of manifests and judge the result: what is no target keeps every byte."""

from __future__ import annotations

from postrender import pods, quoted, stream, yamlfast
from postrender.dealing import Dealing, Dealt, read
from postrender.errors import InputError, Location
from postrender.transforms import FAIL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from postrender.plain import Plain
    from postrender.rules import Hit, Item
    from postrender.stream import Document
    from postrender.wire import Options, Wired
    from postrender.wiring import Wiring


# One of these is in the text of every target, or a kind that an option names; the second one begins the kinds of Ray.
_WORDS = (pods.GPU.encode(), b"Ray")
_DOMAIN = "ComputeDomain"
# To deal with so many bytes of targets is worth a second process; other documents take so many times less, and so does
# a target that the compiled reader reads and nobody judges.
_LARGE = 256 * 1024
_EASIER = 4


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
        self._dealing = Dealing(wiring, options, gate=gate)
        self._documents: list[Document] = []
        self._suspects: list[int] | None = None
        self._items: list[Item] = []
        self._kinds: dict[str, list[dict[str, Any]]] = {}
        self._edits: list[tuple[int, int, bytes]] = []
        self._result = Result()

    def run(self) -> Result:
        """Return the wired stream; raise InputError where it is no stream of manifests."""
        words = stream.Words(self._data, (*_WORDS, *(kind.encode() for kind in self._options.templates)))
        documents, targets = [], set()
        for document in stream.split(self._data):
            # Bytes are searched, as most documents need not be read.
            if words.are_in(document.start, document.end):
                targets.add(document.number)
            elif not self._gate:
                continue
            documents.append(document)
        self._documents = documents
        for number, (document, dealt) in enumerate(zip(documents, self._deal(targets), strict=True)):
            # A List gets what none in front of it has got: it must wait for its turn.
            known = dealt or self._dealing.deal(
                document, candidate=document.number in targets, holder=self._put_into_holder
            )
            if known:
                self._take(number, document, known)
        self._add_objects()
        self._refuse_missing_selection()
        self._refuse_conflicts()
        if self._gate:
            self._judge()
        self._result.parts = list(self._parts())
        return self._result

    def _deal(self, targets: set[int]) -> Sequence[Dealt | None]:
        """Deal with the documents, of which some may be targets; None for one whose turn has to come."""

        def deal(document: Document) -> Dealt | None:
            try:
                return self._dealing.deal(document, candidate=document.number in targets, holder=None)
            except InputError:
                # Of several that are wrong the first one is told.
                return None

        size = sum(each.end - each.start for each in self._documents)
        of_targets = sum(each.end - each.start for each in self._documents if each.number in targets)
        easier = size - of_targets if self._gate or not yamlfast.is_compiled() else size
        if size - easier + easier // _EASIER < _LARGE:
            return [deal(each) for each in self._documents]
        return self._deal_by_two(deal, size)

    def _deal_by_two(self, deal: Callable[[Document], Dealt | None], size: int) -> Sequence[Dealt | None]:
        """Deal with the documents in two processes, and search for secrets beside it; `size` is in bytes."""
        from postrender import twofold
        from postrender.progress import Progress

        parts = stream.parts(self._documents, size, twofold.MOST - 1)
        # The search takes longest, so it comes first.
        first = 1 if self._gate else 0

        def deal_part(number: int) -> Any:  # noqa: ANN401 (plain data of two kinds)
            if number < first:
                return self._suspicious()
            return [dealt and dealt.packed() for dealt in map(deal, parts[number - first])]

        done = twofold.run(deal_part, len(parts) + first, Progress("parts of the stream"), alone=False)
        if first:
            self._suspects = done.pop(0)
        return [each and Dealt.unpacked(each, self._options) for part in done for each in part]

    def _suspicious(self) -> list[int] | None:
        """Return the numbers of the documents that may hold a secret; None where one is no text: others tell that."""
        from postrender.rules.secrets import literal_token

        try:
            return literal_token.suspicious([each.text() for each in self._documents])
        except InputError:
            return None

    def _take(self, number: int, document: Document, dealt: Dealt) -> None:
        if dealt.new is not None:
            self._edits.append((document.start, document.end, dealt.new))
        self._result.wired += [(document, each) for each in dealt.wired]
        if dealt.objects:
            from postrender.rules import Item

            found = [each.found for each in dealt.wired]
            for path, at, item in dealt.objects:
                self._items.append(Item(number, path, item, found[at] if at >= 0 else ()))

    def _put_into_holder(self, document: Document, after: dict[str, Any], beside: list[dict[str, Any]]) -> bool:
        """Put new objects into a List: a function of kustomize answers with one document."""
        new = []
        for each in self._lacking(beside):
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

    def _of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind that the stream has; it is searched once for each kind."""
        if kind not in self._kinds:
            self._kinds[kind] = [*self._search(kind)]
        return self._kinds[kind]

    def _search(self, kind: str) -> Iterator[dict[str, Any]]:
        for document in stream.split(self._data):
            if self._data.find(kind.encode(), document.start, document.end) >= 0:
                value = read(document, document.text())
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

        texts = [each.text() for each in self._documents]
        for rule, hit in judge(Manifests(self._items, texts, self._wiring, suspects=self._suspects), RULES):
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


def _name(item: dict[str, Any]) -> tuple[str, str, str]:
    metadata = pods.mapping(item.get("metadata"))
    return str(item.get("kind")), str(metadata.get("namespace", "")), str(metadata.get("name"))


def _short(value: Plain) -> str:
    try:
        text = quoted.flow(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"
