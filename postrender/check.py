"""`grpo check`: judge manifests, rendered from values or read from files, by all rules about objects."""

from __future__ import annotations

import os
import sys

from postrender import helm, lint, paths, pods, report, stackvalues, stream, textio, usage, verdict, yamlio
from postrender.errors import EXIT_CLEAN, GrpoError, InputError, RenderError, UnreadableError, UsageError
from postrender.finding import ERROR, INFO, Finding
from postrender.ignores import Ignores
from postrender.judge import judge
from postrender.location import Location
from postrender.options import Options
from postrender.origin import Origins, identity
from postrender.rules import Item, Manifests
from postrender.rules.objects import RULES
from postrender.stack import Stack
from postrender.wiring import Wiring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from postrender.pods import Path
    from postrender.yamlio import Node

    # Texts that are installed together, by their names.
    Stream = dict[str, bytes]
    Checked = tuple[Finding, "Document", Path]

_REFUSED = "The chart refuses to render, so an install would fail."
_STDIN = "-"
_NAMED_STDIN = "<stdin>"
_SUFFIXES = (".yaml", ".yml", ".json")
# kustomize reads these, and a cluster never gets them.
_NO_OBJECTS = ("kustomization.yaml", "kustomization.yml")


class Document:
    """One document: its root with the places in its file, and what else rules want to know of it."""

    __slots__ = ("file", "line", "root", "text")

    def __init__(self, file: str, line: int, text: str, root: Node) -> None:
        self.file = file
        self.line = line
        self.text = text
        self.root = root

    def place(self, path: Path) -> Location:
        """Return where a path stands, or what is nearest above it."""
        node = self.root
        for part in path:
            below = _below(node, part)
            if below is None:
                break
            node = below
        return Location(self.file, self.line + node.at.line, node.at.col)


def _below(node: Node, part: str | int) -> Node | None:
    if isinstance(node.value, dict):
        return node.value.get(str(part))
    if isinstance(node.value, list) and isinstance(part, int) and part < len(node.value):
        return node.value[part]
    return None


def read(texts: Stream) -> list[Document]:
    """Read texts by their names; raise InputError with the place of what is no Kubernetes object."""
    return [document for file, data in texts.items() for document in _documents(file, data)]


def check(documents: Sequence[Document], wiring: Wiring | None) -> list[Finding]:
    """Judge what is installed together; rules about a machine need the wiring. Findings are sorted by place."""
    return [finding for finding, _, _ in _checked(documents, wiring)]


def _checked(documents: Sequence[Document], wiring: Wiring | None) -> list[Checked]:
    """Return the findings with their documents and the paths below these."""
    items = [
        Item(number, path, item, pods.pods(item))
        for number, document in enumerate(documents)
        for path, item in pods.objects(document.root.plain())
    ]
    names = [f"{document.file}:{document.root.at.line + document.line}" for document in documents]
    manifests = Manifests(items, [document.text for document in documents], wiring, names)
    found = []
    for rule, hit in judge(manifests, RULES):
        document = documents[hit.document]
        at = Location(document.file, document.line + hit.line, hit.col) if hit.line else document.place(hit.path)
        finding = Finding(rule.id, at, hit.what, rule.why, rule.fix, severity=rule.severity, secret=hit.secret)
        found.append((finding, document, () if hit.line else hit.path))
    return sorted(found, key=lambda each: each[0].key())


def _documents(file: str, data: bytes) -> Iterator[Document]:
    textio.check_text(data, file)
    # Whoever shows a line of it finds the text here: a pipe cannot be read again, and no file holds what was rendered.
    textio.keep(file, data)
    line = 0
    for document in stream.split(data):
        text = document.text()
        try:
            roots = [root for root in yamlio.parse(text.encode("utf-8"), file) if root.value is not None]
        except InputError:
            # Once more as a whole: then all lines of the message are lines of the file.
            yamlio.parse(data, file)
            raise
        for number, root in enumerate(roots):
            at = Location(file, line + root.at.line, root.at.col)
            if number:
                raise InputError("two documents without a --- line between them", at=at, fix="write --- above this one")
            _refuse_other_than_object(root, at)
            yield Document(file, line, text, root)
        line += text.count("\n")


def _refuse_other_than_object(root: Node, at: Location) -> None:
    if not isinstance(root.value, dict):
        found = "a list" if isinstance(root.value, list) else "a single value"
        raise InputError(f"expected a Kubernetes object, found {found}", at=at, fix="give manifests only")
    if "kind" not in root.value and os.path.basename(at.file) not in _NO_OBJECTS:
        fix = f"give manifests only; a values file goes behind -f: grpo check -f {at.file}"
        raise InputError("expected a Kubernetes object, found a map without kind", at=at, fix=fix)


def _streams(words: Sequence[str]) -> list[Stream]:
    """Read what the command line names: files and stdin one by one, a folder's files as one, each folder below it too.

    What lies in two folders may be two versions of the same objects. Raises UnreadableError and InputError.
    """
    found: list[Stream] = []
    for word in dict.fromkeys(words):
        if word != _STDIN and os.path.isdir(word):
            folders = list(_folders(word))
            if not folders:
                raise InputError(f"{word}: no manifests in this folder", fix=f"expected {', '.join(_SUFFIXES)}")
            found += folders
        else:
            name = _NAMED_STDIN if word == _STDIN else word
            found.append({name: _read(word)})
    return found


def _folders(directory: str) -> Iterator[Stream]:
    def refuse(error: OSError) -> None:
        raise UnreadableError(f"{error.filename}: cannot be read: {error.strerror}") from error

    for folder, below, names in os.walk(directory, onerror=refuse):
        # Folders such as .github hold YAML that is for others.
        below[:] = sorted(name for name in below if not name.startswith("."))
        files = [os.path.join(folder, name) for name in sorted(names) if name.endswith(_SUFFIXES)]
        if files:
            yield {file: _read(file) for file in files}


def _read(path: str) -> bytes:
    if path == _STDIN and sys.stdin is None:
        raise UnreadableError(
            f"{_NAMED_STDIN}: this is closed", fix="pipe manifests into it: helm template … | grpo check -"
        )
    try:
        if path == _STDIN:
            data = sys.stdin.buffer.read(stream.MAX_BYTES + 1)
        else:
            with open(path, "rb") as file:
                data = file.read(stream.MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise UnreadableError(f"{path}: there is no such file or folder", fix="check the path") from error
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{path}: cannot be read: {error}", fix="check the path") from error
    if len(data) > stream.MAX_BYTES:
        limit = stream.MAX_BYTES // (1024 * 1024)
        raise InputError(f"{path}: larger than {limit} MiB", fix="check one chart at a time")
    return data


def _judge_values(options: Options, stack: Stack, wiring: Wiring) -> tuple[list[Finding], int]:
    """Render all layers, which are of one namespace and one cluster, and judge them; findings stand in the values."""
    version = options.last("kube-version")
    with helm.choose(options.last("helm")) as engine:
        try:
            layers = {layer: stack.render(engine, layer, kube_version=version) for layer in stack.layers()}
        except RenderError as error:
            if error.is_of_schema:
                raise
            return [_refused(error, stack)], 0
        sys.stderr.write(f"rendered with {engine.name}\n")
        documents = read({_name(layer): each.manifest.encode("utf-8") for layer, each in layers.items()})
        checked = _checked(documents, wiring)
        for layer in stack.layers():
            mine = [each for each in checked if each[1].file == _name(layer)]
            if mine:
                _move(mine, Origins(engine, stack, layer, version))
    return [finding for finding, _, _ in checked], len(documents)


def _refused(error: RenderError, stack: Stack) -> Finding:
    """Return what a chart says against the values, at the first key that it names and a file has."""
    words = (word.strip(".:,;()") for word in error.message.split())
    paths_ = [tuple(word.split(".")) for word in words if "." in word]
    at = next((stack.values.at(path) for path in paths_ if stack.values.node(path)), Location(stack.files[-1]))
    return Finding("values/refused-by-chart", at, error.message, _REFUSED, error.fix or "change what it names")


def _name(layer: str) -> str:
    return f"<{layer}>"


def _move(checked: Sequence[Checked], origins: Origins) -> None:
    """Put findings about rendered objects at the lines of the values that they come from, where there are any."""
    places = [(identity(document.root.plain()), path) for _, document, path in checked]
    found = origins.of([*dict.fromkeys(places)], report.progress)
    for (finding, _, _), place in zip(checked, places, strict=True):
        if place in found:
            at, key = found[place]
            finding.also = [(finding.at, f"rendered from {key}")]
            finding.at = at


def _judge_manifests(words: Sequence[str], wiring: Wiring | None) -> tuple[list[Finding], int]:
    streams = _streams(words)
    together = [read(each) for each in streams]
    count = sum(map(len, together))
    if not count:
        # A command in front of the pipe has failed, or the path is not the one that is meant.
        names = ", ".join(name for each in streams for name in each)
        raise InputError(f"no Kubernetes objects in {names}", fix="give rendered manifests")
    return [finding for documents in together for finding in check(documents, wiring)], count


def _judged(options: Options, files: Sequence[str]) -> tuple[list[Finding], int]:
    """Return the findings of manifests, those that the values accept left out, and the number of manifests."""
    if not files:
        return _judge_manifests(options.words, None)
    stack, wiring = Stack.load(files), Wiring(stackvalues.load(files))
    judge_words = bool(options.words)
    findings, count = _judge_manifests(options.words, wiring) if judge_words else _judge_values(options, stack, wiring)
    accepted = Ignores(stack.values)
    # What is given may be a part of what the exception is for.
    severity = INFO if judge_words else ERROR
    return [*accepted.left(findings), *accepted.useless_of_objects(severity)], count


def main(argv: Sequence[str]) -> int:
    """Run `grpo check`; return its exit code. Raises GrpoError for everything that a user can mend."""
    options = Options("check", argv, with_value=("accelerator", "helm", "kube-version", *verdict.OPTIONS))
    if options.has("help"):
        sys.stdout.write(usage.CHECK_HELP)
        return EXIT_CLEAN
    wanted = verdict.Wanted(options)
    accelerator = options.last("accelerator")
    given = options.all("values") or [path for path in os.environ.get("GRPO_VALUES", "").split(os.pathsep) if path]
    files = [*([paths.accelerator(accelerator)] if accelerator else []), *given]
    if not files and not options.words:
        fix = f"{options.command} FILE, {options.command} -f VALUES, or helm template … | {options.command} -"
        raise UsageError(f"{options.command}: nothing to check: no manifests and no values file", fix=fix)
    findings = [] if options.words else wanted.of(lint.lint(files))
    try:
        found, count = _judged(options, files)
    except GrpoError:
        # What is wrong with the values may be why they cannot be rendered: the reader needs both.
        if findings:
            wanted.deliver(findings)
        raise
    findings += wanted.of(found)
    code = wanted.deliver(findings)
    if not findings:
        sys.stderr.write(f"clean: {count} manifest{'s' if count > 1 else ''}\n")
    return code
