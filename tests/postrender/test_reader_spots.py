"""The reader in Rust says where the parts of a document stand as the full scanner does, or nothing."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import streams
from postrender import composed, documents, splice, stream, yamlfast, yamlio
from postrender import filter as post_render
from postrender.errors import SpliceError
from postrender.wire import Options
from tests.conftest import ROOT
from tests.corpus import cases, proof
from tests.postrender.streams import pod
from tests.postrender.test_reader import FLOW, NOT_READ, READ, block
from tests.postrender.test_rewrite_by_two import BAD
from tests.postrender.test_splice import _grown as grown
from tests.postrender.test_splice import full, parse
from tests.postrender.test_yamlfast_manifests import SEEDS, mutated

try:
    READER: Any = importlib.import_module("grpo_reader")
except ImportError:
    READER = None


pytestmark = pytest.mark.usefixtures("compiled_reader")


def differences(fast: Any, full: Any, path: tuple[Any, ...] = ()) -> Iterator[str]:
    """Yield the places of which the two scanners say different things."""
    seen = (fast.kind, fast.start, fast.end, fast.flow, fast.count(), fast.names())
    there = (full.kind, full.start, full.end, full.flow, full.count() or len(full.keys), full.names())
    if seen != there:
        yield f"{path}: {seen}, {there}"
        return
    # In brackets nobody asks for a column.
    if not (full.flow or full.kind == "scalar") and (fast.first, fast.col) != (full.first, full.col):
        yield f"{path}: {(fast.first, fast.col)}, {(full.first, full.col)}"
    for key in full.names():
        if not fast.has(key) or fast.key_start(key) != full.key_start(key):
            yield f"{path}: {key}"
        yield from differences(fast.child(key), full.child(key), (*path, key))
    for number in range(fast.count() if fast.kind != "map" else 0):
        yield from differences(fast.item(number), full.item(number), (*path, number))


def compared(text: str) -> bool:
    """Compare the scanners, and say whether the fast one took the text, as it does where the reader reads it."""
    found, read = READER.locate(text), READER.read(text)
    assert repr(found and found[0]) == repr(read)
    if found is not None:
        assert list(differences(found[1], composed.scan(text, "x"))) == []
    return found is not None


# What tests and charts hold, whatever it is.
FOLDERS = ("tests/corpus", "tests/rules", "tests/postrender", "tests/cli", "values")


def test_documents_of_the_tests_have_the_same_places() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.yaml") if file.is_file()]
    texts = [document.data[document.start : document.end] for file in files for document in _documents(file)]
    taken = sum(compared(text.decode("utf-8", "replace")) for text in texts)
    assert taken > len(texts) * 0.8 > 1000


def _documents(file: Path) -> Iterator[stream.Document]:
    return stream.split(file.read_bytes())


@pytest.mark.parametrize("size", ["small", "medium"])
def test_streams_of_the_measurements_have_the_same_places(size: str) -> None:
    texts = [document.text() for document in stream.split(streams.stream(size))]
    assert sum(map(compared, texts)) > len(texts) * 0.9


@pytest.mark.parametrize("text", [*READ, *NOT_READ])
def test_edges_have_the_same_places(text: str) -> None:
    assert compared(text) == (text in READ)


@pytest.mark.parametrize(
    "text",
    [
        "a: é\n'ü': [ß, {\"ö\": ä}]\n# ø\nb: 😀\nc:\n- - ñ: 1\n  - å\n",
        "# 😀 é\na:\n  b: |\n    ü\n    ß\n\n  c: 'é\n    é'\n  d: é\n    é\n",
    ],
)
def test_offsets_count_characters(text: str) -> None:
    assert compared(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: {b: , c: 1, d: }\n",
        "a: {b: \n  , c:  # d\n  }\n",
        "a:\nb: # c\n\nc:\n- \n-\n- # d\n-\n",
        "a: | # b\n\nc: >-\n\n\n  d  \n\n\n\ne: |+\n  f\n\n\n",
        "a: b  # c\nd: 'e'  # f\ng: []  # h\ni: {}\n",
        "---  # a\n'b': 1\n\"c\\n\": 2\nd : 3\n8: 4\n",
        "a:\n  - - - b: 1\n        c: 2\n      - d\n    - e\n  - f\n",
    ],
)
def test_values_that_are_left_out_and_comments_have_the_same_places(text: str) -> None:
    assert compared(text)


@settings(max_examples=1000, deadline=None)
@given(mutated([*SEEDS, *READ]))
def test_mutated_texts_have_the_same_places(text: str) -> None:
    compared(text)


@settings(max_examples=1500, deadline=None)
@given(block(0))
def test_texts_made_of_parts_have_the_same_places(text: str) -> None:
    compared(text)


@settings(max_examples=1000, deadline=None)
@given(FLOW)
def test_brackets_have_the_same_places(text: str) -> None:
    compared(f"a: {text}\n")
    compared(f"{text}\n")


@settings(max_examples=1000, deadline=None)
@given(st.text(alphabet="ab1yé:-# \n[]{},'\"$.~|>\\?&\t", max_size=30))
def test_any_text_has_the_same_places(text: str) -> None:
    compared(f"{text}\n")
    compared(f"a: {text}\n")


def test_a_spot_says_what_is_not_there() -> None:
    _, root = READER.locate("a:\n- 1\n")
    for ask in (root.child, root.key_start):
        with pytest.raises(KeyError, match="b"):
            ask("b")
    with pytest.raises(IndexError):
        root.child("a").item(1)
    assert not root.has("b")


def test_parts_outlive_the_root() -> None:
    spot = READER.locate("a:\n- b: 1\n")[1].child("a").item(0).child("b")
    assert (spot.kind, spot.start, spot.end) == ("scalar", 8, 9)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), text=st.one_of(st.sampled_from([*SEEDS, *READ]), block(0), FLOW.map("a: {}\n".format)))
def test_edits_by_both_scanners_are_the_same(data: st.DataObject, text: str) -> None:
    before = READER.read(text)
    if before is None:
        return
    after = grown(data.draw, before)

    def never(text: str) -> Any:
        raise AssertionError(text)

    def edited(scan: Callable[[str], Any], root: Any) -> str:
        try:
            return splice.edited(text, before, after, parse, scan, root=root)
        except SpliceError as error:
            return str(error)

    by_full = edited(lambda text: composed.scan(text, "x"), None)
    # The full scanner has the last word only where it would say the same.
    assert by_full == edited(never if by_full.endswith("\n") else full, READER.locate(text)[1])


def said(patch: pytest.MonkeyPatch, data: bytes, *, mode: str, gate: bool, compiled: bool) -> Any:
    """Return all that a run of the post-renderer says, with and without the compiled reader."""
    with patch.context() as each:
        if not compiled:
            each.setattr(yamlfast, "_compiled", None)
        outcome, result = proof.run(data, proof.wiring(mode=mode), Options(), gate=gate)
    return outcome.output, outcome.refusals, str(outcome.error or ""), result and post_render._report(result)


TEXTS = {
    **{name: cases.edge(name) for name in cases.EDGES},
    **BAD,
    "spellings": pod().replace("    - name: main\n", "    - name: main\n      stdin: yes\n"),
    "no line end": pod().rstrip("\n"),
    "two kinds": f"{pod()}kind: Job\n",
    "two kinds in quotes": f"{pod()}'kind': Job\n",
    "twice": f"{pod()}metadata: {{}}\n",
    "GPUs": pod().replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 010"),
}
STREAMS = {**cases.STREAMS, **{name: text.encode(errors="surrogateescape") for name, text in TEXTS.items()}}


@pytest.mark.parametrize("gate", [False, True], ids=["no-gate", "gate"])
@pytest.mark.parametrize("mode", ["multinetwork", "dranet"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_wired_as_without_the_compiled_reader(
    name: str, mode: str, gate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = (said(monkeypatch, STREAMS[name], mode=mode, gate=gate, compiled=each) for each in (True, False))
    assert one == other


def test_a_small_post_render_loads_no_other_reader() -> None:
    values = [str(ROOT / "values" / name) for name in ("accelerators/b200.yaml", "examples/site.yaml")]
    words = [word for name in values for word in ("--values", name)]
    code = f"import sys; from postrender.filter import main; main({words!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, input=streams.stream("small"), capture_output=True, cwd=ROOT
    )
    loaded = {*done.stderr.decode().split()}
    assert done.stdout.count(b"NCCL_") > 1
    assert "grpo_reader" in loaded
    assert not {"postrender.blocks", "postrender.composed", "postrender.yamlproof", "postrender.heads"} & loaded
    assert not {"yaml12", "yaml"} & loaded


@pytest.mark.parametrize(
    "text",
    [
        "a:\n" + "".join(f"  k{number}: [1]\n" for number in range(100_000)),
        "a:\n" + "- - b: 1\n" * 100_000,
        "a: [" + "{b: 1}, " * 100_000 + "]\n",
        "a: |\n" + "  é\n" * 300_000 + "\n" * 300_000,
    ],
)
def test_large_documents_take_no_more_than_linear_time(text: str) -> None:
    begin = time.perf_counter()
    _, root = READER.locate(text)
    names = root.child("a").names()
    assert all(root.child("a").child(name).flow for name in names)
    assert time.perf_counter() - begin < 2


@pytest.mark.parametrize("length", [1, 30, 31, 32, 33, 62, 63, 64, 65, 127, 128, 129])
def test_offsets_behind_many_characters(length: int) -> None:
    for sign in "éß😀":
        assert compared(f"a: {sign * length}\nb: 'c'\n'd{sign}': {{{sign}: [{sign}]}}\n# {sign}\ne:\n- f\n")


def paths(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all that is in a value, and some of what is not."""
    yield from (above, (*above, "none"), (*above, 99))
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, inner in below:
        yield from paths(inner, (*above, part))


@pytest.mark.parametrize("key", [False, True], ids=["value", "key"])
def test_lines_and_columns_are_those_of_the_full_reader(key: bool) -> None:
    for text in (*READ, *(each for each in SEEDS if READER.read(each))):
        document = documents.Document("x", 0, text, READER.read(text))
        for path in paths(document.plain):
            quick = document._quick(path, key=key)
            assert quick in (None, documents.Document("x", 0, text, {}, root(text))._exact(path, key=key))


@functools.cache
def root(text: str) -> Any:
    (node,) = yamlio.parse(text.encode(), "x")
    return node
