"""Wire a stream of manifests and judge the result; unchanged documents are preserved byte for byte."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from postrender import accepted, registry, secrets
from postrender.errors import InputError, Location
from postrender.finding import ERROR, Finding
from postrender.gate import another_accelerator, environment
from postrender.gate.manifests import Item, Manifests
from postrender.judge import judge
from postrender.manifests import pods
from postrender.wiring import apply, plan
from postrender.wiring.transforms import FAIL
from postrender.yaml import editor, spans, stream, writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from postrender.finding import Place
    from postrender.manifests.pods import Path
    from postrender.types import Json
    from postrender.wiring.apply import Options, Wired
    from postrender.wiring.plan import Wiring
    from postrender.yaml.stream import Document


# The text of every document to wire contains one of these or a kind from the options. KubeRay's kinds start with Ray.
_WORDS = (pods.GPU.encode(), b"Ray")
# Kinds with long texts that may contain the words, and have no pods.
_WITHOUT_PODS = ("ConfigMap", "CustomResourceDefinition", "Secret")
_DOMAIN = "ComputeDomain"
# The gate parses these kinds completely: base64 in a Secret hides text, a List may contain a Secret, and a pod claims
# what a template says.
_WHOLE = ("Secret", "ResourceClaimTemplate", *pods.HOLDERS)
# The field of a ConfigMap that contains base64.
_ENCODED = "binaryData"
_CONFIG = "ConfigMap"
# A step of a place in a conflict, and the keys that name the items of lists there.
_STEP = re.compile(r"\[([^][]*)\]|([^.\[\]]+)")
_NAMES = ("name", "mountPath")
# What to do about a stream of which nothing is wired.
_FIT = "give the values of the pods' machine"
_WHOLE_NODE = "ask for {gpu}: {count} in one container, which takes a whole node"
_NAME_IT = "name its pod templates with --pod-template-path KIND=PATH"
_ASK = (
    f"write {pods.GPU}: {{count}} into resources.limits of a container (a chart ignores a misspelt value:"
    " grpo dead-values finds it)"
)
# What the gate says of secrets in manifests.
_SECRETS = "secrets/"
# No finding is accepted.
_NONE: Mapping[str, str] = MappingProxyType({})
_ALLOW = "--allow-unwired (helm: --post-renderer-args --allow-unwired)"


class Result:
    """The new stream's parts in order, a report on each object, and the findings that cause the stream to be rejected.

    `accepted` are findings that the values accept, each with the reason; neither these nor `warnings` reject the
    stream.
    """

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []
        self.wired: list[tuple[Document, Wired]] = []
        self.added: list[tuple[Document, dict[str, Any]]] = []
        self.refusals: list[Finding] = []
        self.accepted: list[tuple[Finding, str]] = []
        self.warnings: list[Finding] = []


class Pipeline:
    """Wire one stream; with `gate`, also judge the complete stream.

    `ignored` maps rule ids to the reason why the values accept their findings.
    """

    def __init__(
        self, data: bytes, wiring: Wiring, options: Options, *, gate: bool, ignored: Mapping[str, str] = _NONE
    ) -> None:
        self._data = data
        self._wiring = wiring
        self._options = options
        self._gate = gate
        self._ignored = ignored
        self._documents: list[Document] = []
        self._items: list[Item] = []
        self._kinds: dict[str, list[dict[str, Any]]] = {}
        self._edits: list[tuple[int, int, bytes]] = []
        self._result = Result()

    def run(self) -> Result:
        """Return the wired stream; raise InputError if it is not a stream of manifests."""
        words = (*_WORDS, *(kind.encode() for kind in self._options.templates))
        for document in stream.split(self._data):
            if document.contains(words) and self._may_have_pods(document):
                self._wire(document)
            elif self._gate:
                self._note(document, self._known(document), [])
        self._add_objects()
        self._refuse_missing_selection()
        if self._gate:
            self._read_config_maps()
            self._judge()
        self._refuse_conflicts()
        self._refuse_unwired()
        self._result.refusals.sort(key=lambda each: (each.at.line, each.rule))
        self._result.parts = list(self._parts())
        return self._result

    def _may_have_pods(self, document: Document) -> bool:
        kind = pods.mapping(document.head()).get("kind")
        if pods.is_known(str(kind)) or kind in self._options.templates:
            return True
        return kind not in _WITHOUT_PODS and document.contains(_WORDS[:1])

    def _wire(self, document: Document) -> None:
        """Wire a document's objects and record the edit of its text."""
        before = document.parse()
        try:
            after, done = apply.wire(before, self._wiring, self._options)
        except InputError as error:
            raise document.moved(error) from error
        self._result.wired += [(document, each) for each in done]
        if self._gate:
            self._note(document, before, done)
        changed = any(each.changed for each in done)
        if any(each.path for each in done):
            changed |= self._put_into_holder(document, after, [new for each in done for new in each.companions])
        if changed and not any(each.conflicts for each in done if self._options.policy == FAIL):
            self._edits.append((document.start, document.end, self._edited(document, before, after)))

    def _edited(self, document: Document, before: Json, after: Json) -> bytes:
        try:
            return editor.edited(document.text(), document.name, before, after, document.parse).encode("utf-8")
        except InputError as error:
            raise document.moved(error) from error

    def _known(self, document: Document) -> Json:
        """Read what the gate needs from a document that is not wired: its identity, or the complete document.

        The complete document is read if it may hide a secret from a text search, and at the end of the stream, where
        truncation shows.
        """
        text = document.text()
        if secrets.may_be_hidden(text) or document.end == len(document.data):
            return document.parse()
        head = document.head()
        item = pods.mapping(head)
        is_map = item.get("kind") == _CONFIG and _ENCODED in text
        has_data = item.get("kind") in _WHOLE or is_map
        return document.parse() if has_data or not pods.mapping(item.get("metadata")).get("name") else head

    def _note(self, document: Document, value: Json, done: list[Wired]) -> None:
        """Collect the gate's input: every object, and the pods of the wired objects.

        Raises InputError if a document is not an object.
        """
        number = len(self._documents)
        self._documents.append(document)
        if value is None:
            return
        if not isinstance(value, dict):
            found = "a list" if isinstance(value, list) else "a single value"
            raise InputError(
                f"expected a Kubernetes object, found {found}",
                at=Location(document.name, document.line),
                fix="pass only the manifests that Helm renders",
            )
        wired = {each.path: each for each in done if each.pods or each.variables or each.unwired()}
        for path, item in pods.objects(value):
            each = wired.get(path)
            self._items.append(Item(number, path, each.item if each else item, each.found if each else ()))

    def _put_into_holder(self, document: Document, after: dict[str, Any], companions: list[dict[str, Any]]) -> bool:
        """Add new objects to a List: a kustomize function must return one document."""
        new = []
        for each in self._lacking(companions):
            self._result.added.append((document, each))
            new.append(each)
        after["items"] = [*new, *after["items"]]
        return bool(new)

    def _add_objects(self) -> None:
        self._refuse_shared_domains()
        for document, wired in list(self._result.wired):
            for each in self._lacking(wired.companions):
                body = "".join(f"{line}\n" for line in writer.block(each))
                text = f"---\n{body}" if document.has_mark else f"{body}---\n"
                self._edits.append((document.start, document.start, text.encode("utf-8")))
                self._result.added.append((document, each))

    def _refuse_shared_domains(self) -> None:
        """Raise InputError if two objects with the same name would share an object that cannot be shared.

        An NVLink domain would count only one object's nodes, and a hook's object is deleted with the hook.
        """
        owners: dict[tuple[str, str, str], tuple[str, Json]] = {}
        for document, wired in self._result.wired:
            for each in wired.companions:
                owner = f"{wired.kind} {wired.name}"
                first, hooks = owners.setdefault(_name(each), (owner, each["metadata"].get("annotations")))
                if first != owner and (each["kind"] == _DOMAIN or hooks != each["metadata"].get("annotations")):
                    raise InputError(
                        f"{owner} and {first} would share {each['kind']} {each['metadata']['name']}",
                        at=Location(document.name, document.line),
                        fix="give the two objects different names",
                    )

    def _lacking(self, objects: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the objects neither in the stream nor added yet; raise InputError if an existing one differs."""
        for each in objects:
            there = [*(item for _, item in self._result.added), *self._of_kind(each["kind"])]
            same = [item for item in there if _name(item) == _name(each)]
            if not same:
                yield each
            elif any(item.get("spec") != each["spec"] for item in same):
                what = f"{each['kind']} {each['metadata']['name']} exists with a spec that differs from the wiring"
                raise InputError(what, fix="remove it, or rename the object that claims it")

    def _of_kind(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind in the stream."""
        if kind not in self._kinds:
            self._kinds[kind] = [*self._search(kind)]
        return self._kinds[kind]

    def _search(self, kind: str) -> Iterator[dict[str, Any]]:
        for document in stream.split(self._data):
            if document.contains([kind.encode()]):
                yield from (item for _, item in pods.objects(document.parse()) if item.get("kind") == kind)

    def _refuse_missing_selection(self) -> None:
        with_pods = [each for _, each in self._result.wired if each.found]
        there = {(each.kind.lower(), each.name) for each in with_pods}
        for kind, name in sorted(self._options.select):
            if (kind.lower(), name) in there:
                continue
            what = f"--select {kind}/{name}: the stream has no such object with pods to wire"
            raise InputError(what, fix="write KIND/NAME as it is in the stream")
        for kind in self._options.templates.keys() - {each.kind for each in with_pods}:
            what = f"--pod-template-path {kind}=…: no object of this kind has a pod template at this path"
            raise InputError(
                what, fix="write KIND and path as they are in the stream; * matches every entry of a list or map"
            )

    def _refuse_conflicts(self) -> None:
        if self._options.policy != FAIL:
            return
        for document, wired in self._result.wired:
            before = document.parse() if wired.conflicts else None
            stamp = apply.stamp_of(_at(before, wired.path))
            # A secret in place of a reference to one is told already, with what to do about it.
            is_told = any(
                each.rule.startswith(_SECRETS) and each.at.file == document.name for each in self._result.refusals
            )
            for each in wired.conflicts:
                if is_told and _is_literal(each):
                    continue
                what = f"{wired.kind} {wired.name}: {each['at']} is {_short(each['there'])}, the wiring wants"
                what = f"{what} {'none' if each['wanted'] is None else _short(each['wanted'])}"
                path = (*wired.path, *_path_of(each["at"], _at(before, wired.path)))
                at = Location(document.name, document.line + _line(document, path, None) - 1)
                why = "with this value the pod lacks an interface, a device or a setting of the machine"
                fix = "remove it, or choose with --on-conflict keep or --on-conflict replace"
                if stamp and stamp != self._wiring.stamp:
                    what = f"{what} (as the annotation {apply.STAMP} says, an earlier run with other values wired this)"
                    fix = "render it again from the source, and not from what an earlier run has written"
                self._result.refusals.append(Finding(what, at, rule="wiring/conflict", why=why, fix=fix))

    def _refuse_unwired(self) -> None:
        """Reject a stream that has GPU pods or Ray cluster pods if none of them is wired."""
        if self._options.allow_unwired or (self._wiring.gpus and any(each.pods for _, each in self._result.wired)):
            return
        told = any(each.rule == another_accelerator.RULE.id for each in self._result.refusals)
        unwired = [(document, each, each.unwired()) for document, each in self._result.wired]
        nowhere = all(each.lacks_gpus for _, each, reasons in unwired if reasons)
        for document, wired, reasons in unwired:
            if told and not wired.lacks_gpus:
                # The reason is the same, and its fix is a better one.
                continue
            item = _at(document.parse(), wired.path) if reasons else None
            for place, reason in reasons:
                line = _line(document, (*wired.path, *_path_of(place, item)), None)
                nobody = f"no pod of this stream asks for {pods.GPU}; " if wired.lacks_gpus and nowhere else ""
                fix = f"{self._fix(wired, reason)}, or allow it with {_ALLOW}"
                self._result.refusals.append(
                    Finding(
                        f"{wired.kind} {wired.name}: {nobody}{reason}",
                        Location(document.name, document.line + line - 1),
                        rule="wiring/nothing-wired",
                        why="without interfaces and NCCL settings the pod trains over TCP, many times slower",
                        fix=fix,
                    )
                )

    def _fix(self, wired: Wired, reason: str) -> str:
        count = self._wiring.gpus
        if wired.lacks_gpus:
            return _ASK.format(count=count)
        if apply.UNKNOWN in reason:
            return _NAME_IT
        if known := next((fix for what, fix in plan.FIXES.items() if what in reason), None):
            return known
        if not count or "GPU" not in reason:
            return _FIT
        devices = ", ".join(f"{name}: {amount}" for name, amount in self._wiring.resources.items())
        part = (
            f" (only whole nodes are wired; a part of one may ask for {devices} and set NCCL itself)" if devices else ""
        )
        return f"{_WHOLE_NODE.format(gpu=pods.GPU, count=count)}{part}"

    def _read_config_maps(self) -> None:
        """Read the complete ConfigMaps from which the pods take variables; there may be many others, and large ones."""
        containers = [each for item in self._items for pod in item.pods for each in pod.containers()]
        wanted = {name for each in containers for name in environment.config_maps(each)}
        for item in self._items if wanted else ():
            kind, _, name = _name(item.object)
            if kind == _CONFIG and name in wanted and not item.path:
                item.object = pods.mapping(self._documents[item.document].parse())

    def _judge(self) -> None:
        texts = [each.text() for each in self._documents]
        added = [Item(self._documents.index(each), (), item, ()) for each, item in self._result.added]
        for finding in judge(Manifests([*self._items, *added], texts, self._wiring), registry.rules_in(registry.GATE)):
            place = finding.place
            document = self._documents[place.document]
            line = place.line or _line(document, place.path, self._judged(place))
            at = Location(document.name, document.line + line - 1)
            self._answer(finding._replace(at=at))

    def _answer(self, finding: Finding) -> None:
        """Reject the stream for an error, unless the values accept it."""
        reason = self._ignored.get(finding.rule)
        if reason and accepted.passes_gate(finding.rule):
            self._result.accepted.append((finding, reason))
            return
        if finding.severity != ERROR:
            self._result.warnings.append(finding)
            return
        never = ". checks.ignore does not accept it in a stream" if reason else ""
        self._result.refusals.append(finding._replace(fix=f"{finding.fix}{never}"))

    def _judged(self, place: Place) -> Item | None:
        """Return the object that a finding refers to."""
        there = (item for item in self._items if item.document == place.document)
        return next((item for item in there if place.path[: len(item.path)] == item.path), None)

    def _parts(self) -> Iterator[bytes | memoryview]:
        # Edits do not overlap: an edit replaces a document, or inserts objects in front of one.
        view, at = memoryview(self._data), 0
        for start, end, new in sorted(self._edits, key=lambda edit: edit[:2]):
            if start > at:
                yield view[at:start]
            yield new
            at = end
        yield view[at:]


def _name(item: dict[str, Any]) -> tuple[str, str, str]:
    metadata = pods.mapping(item.get("metadata"))
    return str(item.get("kind")), str(metadata.get("namespace", "")), str(metadata.get("name"))


def _is_literal(conflict: Mapping[str, Any]) -> bool:
    """Return whether a variable has a value where the wiring wants a reference to a Secret."""
    return "valueFrom" in pods.mapping(conflict["wanted"]) and "value" in pods.mapping(conflict["there"])


def _short(value: Json) -> str:
    try:
        text = writer.flow(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"


def _path_of(place: str, value: Json) -> Path:
    """Return the path of a place such as `spec.containers[main].env[NCCL_NET]`, as far as it exists in an object."""
    path: list[str | int] = []
    for match in _STEP.finditer(place):
        part = _part(value, match[1] or match[2])
        if part is None:
            break
        path.append(part)
        value = value[part]
    return tuple(path)


def _part(value: Json, name: str) -> str | int | None:
    """Return the key or position for a name; if two items have the same name, that of the last one."""
    if isinstance(value, dict):
        return name if name in value else None
    items = value if isinstance(value, list) else []
    named = [at for at, item in enumerate(items) if name in (pods.mapping(item).get(key) for key in _NAMES)]
    if named:
        return named[-1]
    return int(name) if name.isdecimal() and int(name) < len(items) else None


def _at(value: Json, path: Path) -> Json:
    for part in path:
        value = _below(value, part)
    return value


def _line(document: Document, path: Path, item: Item | None) -> int:
    """Return a path's line in its document, or the line of the nearest parent.

    The path refers to the wired object, whose lists have new items before those in the text.
    """
    text = document.text()
    try:
        span = spans.scan(text, document.name)
    except (InputError, StopIteration):
        return 1
    value: Json = None
    for depth, part in enumerate(path):
        if item is not None and depth == len(item.path):
            value = item.object
        if isinstance(part, int):
            at = part - (len(value) - len(span.items) if isinstance(value, list) else 0)
            if not 0 <= at < len(span.items):
                break
            span = span.items[at]
        elif part in span.keys:
            span = span.keys[part]
        else:
            break
        value = _below(value, part)
    return text.count("\n", 0, span.start) + 1


def _below(value: Json, part: str | int) -> Json:
    try:
        return value[part]
    except (LookupError, TypeError):
        return None
