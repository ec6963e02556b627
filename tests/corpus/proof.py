"""Prove of one stream that the post-renderer changed what it had to and nothing else; tests and tests/corpus use it.

What is proved here is found again by other means than the post-renderer's own: documents are cut by another splitter,
read by the full reader (or Helm's own), and wired as objects.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from postrender import pipeline
from postrender.errors import GrpoError
from postrender.manifests import pods
from postrender.pipeline import Pipeline, Result
from postrender.wiring import apply, inputs
from postrender.wiring.apply import Options
from postrender.wiring.plan import Wiring
from postrender.yaml import reader as yaml_reader

ROOT = Path(__file__).resolve().parents[2]
Reader = Callable[[str], Any]
_CUT = re.compile(rb"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FidelityError(AssertionError):
    """The post-renderer did what it must not."""


@dataclass
class Outcome:
    """Say what became of a stream: `error` or `refusals` where nothing was passed on."""

    data: bytes
    output: bytes = b""
    error: GrpoError | None = None
    refusals: list[str] = field(default_factory=list)
    documents: int = 0
    targets: int = 0

    @property
    def passed(self) -> bool:
        """Say whether there is an output."""
        return self.error is None and not self.refusals


@functools.cache
def wiring(profile: str = "b200", mode: str = "") -> Wiring:
    """Return the wiring of a profile with the example site, in the profile's mode of networks or another one."""
    files = (f"accelerators/{profile}", "recipes/gemma3-27b-gsm8k", "examples/site")
    values = copy.deepcopy(inputs.load([str(ROOT / f"values/{name}.yaml") for name in files]))
    values["network"]["mode"] = mode or values["network"]["mode"]
    return Wiring(values)


@contextlib.contextmanager
def every_pod_a_target() -> Iterator[None]:
    """Take the first container of every pod for one with eight GPUs, so that every real pod template is edited."""

    def first(pod: pods.Pod) -> tuple[int, int]:
        return (0, 8) if pod.containers() else (0, 0)

    found = mock.patch.object(pods.Pod, "gpu_container", first)
    with found, mock.patch.object(pipeline, "_WORDS", (b"containers",)):
        yield


def lead(data: bytes) -> bytes:
    """Return what stands in front of the first document: a byte order mark, and blank lines above a `---` line."""
    mark = _BYTE_ORDER_MARK if data.startswith(_BYTE_ORDER_MARK) else b""
    first = _CUT.search(data, len(mark))
    blank = data[len(mark) : first.start()] if first else b""
    return mark + blank if not blank.strip() else mark


def cut(data: bytes) -> list[bytes]:
    """Cut a stream in front of its `---` lines, without what leads it."""
    begin = len(lead(data))
    starts = [begin, *(found.start() for found in _CUT.finditer(data, begin + 1))]
    pieces = [data[start:end] for start, end in zip(starts, [*starts[1:], len(data)], strict=True)]
    return [piece for piece in pieces if piece]


def read(text: str) -> Any:
    """Read one document as Kubernetes does; raise GrpoError where it is none, or more than one."""
    found = yaml_reader.load_objects(text, "document")
    if len(found) > 1:
        raise GrpoError("two documents")
    return found[0] if found else None


def canonical(value: Any) -> str:
    """Return a text that two values share where they are equal and of the same types."""
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{key!r}: {canonical(item)}" for key, item in value.items())) + "}"
    return f"[{', '.join(map(canonical, value))}]" if isinstance(value, list) else repr(value)


def run(data: bytes, using: Wiring, options: Options, *, gate: bool = False) -> tuple[Outcome, Result | None]:
    """Post-render a stream; any other exception than the post-renderer's own gets through."""
    outcome = Outcome(data)
    try:
        # A refusal for that would leave nothing to prove.
        result = Pipeline(data, using, options._replace(allow_unwired=True), gate=gate).run()
    except GrpoError as error:
        outcome.error = error
        return outcome, None
    outcome.refusals = [f"[{each.rule}] {each.at}: {each.what}" for each in result.refusals]
    outcome.output = b"".join(result.parts)
    return outcome, result


def prove(
    data: bytes, using: Wiring, options: Options | None = None, *, gate: bool = False, reader: Reader = read
) -> Outcome:
    """Post-render a stream and prove the output; raise FidelityError where it is not as it must be."""
    options = options or Options()
    outcome, result = run(data, using, options, gate=gate)
    outcome.documents = len(cut(data))
    if outcome.refusals and any(not each.startswith("[wiring/conflict]") for each in outcome.refusals):
        return outcome
    if not outcome.passed or result is None:
        return outcome
    _walk(outcome, result, using, options, reader)
    again, _ = run(outcome.output, using, options, gate=gate)
    if not again.passed:
        raise FidelityError(f"what was passed on is refused: {again.error or again.refusals}")
    if again.output != outcome.output:
        raise FidelityError("a second run changes what the first one made")
    return outcome


def _walk(outcome: Outcome, result: Result, using: Wiring, options: Options, reader: Reader) -> None:
    """Go through input and output side by side: unchanged documents, wired ones, and new ones in front of those."""
    if lead(outcome.data) != lead(outcome.output):
        raise FidelityError("what stands in front of the first document was changed")
    pieces = cut(outcome.output)
    outside = sum(1 for document, _ in result.added if not _is_holder(document.text(), reader))
    if len(pieces) != outcome.documents + outside:
        raise FidelityError(f"{outcome.documents} documents and {outside} new ones became {len(pieces)}")
    at = 0
    for number, piece in enumerate(cut(outcome.data), 1):
        wanted = _wanted(piece, using, options, reader)
        while pieces[at] != piece and wanted is not None and _is_new(pieces[at], result, reader):
            at += 1
        if wanted is None:
            if pieces[at] != piece:
                raise FidelityError(f"document {number} is no target and was changed:\n{pieces[at]!r}")
        else:
            outcome.targets += 1
            _compare(number, piece, pieces[at], wanted, reader)
        at += 1
    if at != len(pieces):
        raise FidelityError("documents are left over at the end")


def _wanted(piece: bytes, using: Wiring, options: Options, reader: Reader) -> Any:
    """Return the object that a target must become, or None for a document that is no target."""
    try:
        before = reader(piece.decode("utf-8"))
    except (GrpoError, UnicodeDecodeError):
        # Not even a document: it must have been copied.
        return None
    after, done = apply.wire(before, using, options)
    return after if any(each.changed for each in done) else None


def _is_holder(text: str, reader: Reader) -> bool:
    return pods.mapping(reader(text)).get("kind") in pods.HOLDERS


def _is_new(piece: bytes, result: Result, reader: Reader) -> bool:
    found = canonical(reader(piece.decode("utf-8")))
    return any(canonical(item) == found for _, item in result.added)


def _compare(number: int, before: bytes, after: bytes, wanted: Any, reader: Reader) -> None:
    if after == before:
        raise FidelityError(f"document {number} is a target and was not changed")
    found = reader(after.decode("utf-8"))
    if pods.mapping(found).get("kind") in pods.HOLDERS:
        there = wanted["items"]
        found["items"] = found["items"][len(found["items"]) - len(there) :]
    if canonical(found) != canonical(wanted):
        raise FidelityError(f"document {number} does not read as the wired object:\n{after.decode()}")
    missing = _lost_lines(before, after)
    if missing:
        raise FidelityError(f"document {number} lost lines: {missing}")


def _lost_lines(before: bytes, after: bytes) -> list[bytes]:
    """Return comment lines that the edited text does not have in their order."""
    rest = iter(after.splitlines())
    comments = [line for line in before.splitlines() if line.strip().startswith(b"#")]
    return [line for line in comments if line not in rest]
