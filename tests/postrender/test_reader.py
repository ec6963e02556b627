"""The reader in Rust reads what `yamlio` reads, or nothing."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrender import stream, yamlfast, yamlio
from postrender.errors import InputError
from tests.conftest import ROOT
from tests.postrender.test_yamlfast_manifests import HEAD, NOT_PLAIN, PLAIN, SEEDS, mutated, typed

try:
    READER: Any = importlib.import_module("grpo_reader")
except ImportError:
    READER = None


pytestmark = pytest.mark.usefixtures("compiled_reader")


def read(text: str) -> Any:
    return READER.read(text)


def exact(text: str) -> Any:
    """Return what `yamlio` reads; None where it refuses the text, or it is not one object."""
    try:
        objects = yamlio.load_objects(text, "x")
    except InputError:
        return None
    return objects[0] if len(objects) == 1 else None


def agrees(text: str) -> bool:
    """Compare the readers, with the types of all values and the order of all keys."""
    found = read(text)
    if found is None:
        return True
    return typed(found) == typed(exact(text)) and repr(found) == repr(exact(text))


def rows(section: str) -> list[str]:
    """Return the texts of a section of the file."""
    path = ROOT / "tests/postrender/reader_texts.txt"
    lines = path.read_text(encoding="utf-8").partition(f"\n{section}\n")[2].partition("\n\n")[0].splitlines()
    signs = str.maketrans("↵→←", "\n\t\r")
    return [line.translate(signs) for line in lines]


# What it is for: these are read.
READ = (*rows("READ"), "a: " + "b" * 5000 + "\n", "a: " + "[" * 59 + "]" * 59 + "\n")
# What readers differ on or refuse, or what this one leaves to the other.
NOT_READ = (
    *("", "a: " + "[" * 60 + "]" * 60 + "\n", "a" * 1100 + ": 1\n", "- " * 100 + "a\n", "a: \ud800\n"),
    "a:\n" + "".join(" " * at + "a:\n" for at in range(1, 70)),
    *rows("NOT READ"),
    *(
        f"a: b{odd}c\n"
        for odd in "\x00\x01\x7f\x85\x9f\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff\ufffe\uffff"
    ),
)


@pytest.mark.parametrize("text", [*READ, *(HEAD + text for text in PLAIN if not text.startswith("---"))])
def test_plain_texts_are_read(text: str) -> None:
    assert read(text) is not None
    assert typed(read(text)) == typed(exact(text))
    assert repr(read(text)) == repr(exact(text))


@pytest.mark.parametrize("text", NOT_READ)
def test_what_is_not_certain_is_left_to_the_other_reader(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_traps_of_the_other_fast_reader_are_none_here(text: str) -> None:
    assert agrees(text)


def test_documents_of_the_tests_are_read_where_the_other_fast_reader_reads_them() -> None:
    texts = [document.text() for seed in SEEDS for document in stream.split(seed.encode("utf-8"))]
    assert [text for text in texts if not agrees(text)] == []
    assert [text for text in texts if read(text) is None and yamlfast.read(text) is not None] == []


def test_the_same_letters_are_other_values_with_quotes_and_as_keys() -> None:
    for _ in range(2):
        assert typed(read("8: 8\na: '8'\n'b': 8\nc: 'yes'\nd: yes\n")) == typed(
            {"8": 8, "a": "8", "b": 8, "c": "yes", "d": True}
        )
        assert read("a: {yes: 1}\n") is None


def test_objects_are_not_shared() -> None:
    first, second = read("a: {b: []}\nc:\n- d: 1\n"), read("a: {b: []}\nc:\n- d: 1\n")
    first["a"]["b"].append(1)
    first["c"][0]["d"] = 2
    assert second == {"a": {"b": []}, "c": [{"d": 1}]}


def test_a_document_of_too_many_values_is_left_to_the_other_reader() -> None:
    assert len(read("a:\n" + "- 1\n" * 999_997)["a"]) == 999_997
    assert read("a:\n" + "- 1\n" * 999_998) is None


def test_only_text_is_read() -> None:
    with pytest.raises(TypeError):
        read(b"a: 1\n")  # type: ignore[arg-type]


@settings(max_examples=1000, deadline=None)
@given(mutated([*SEEDS, *READ]))
def test_both_readers_agree_on_mutated_texts(text: str) -> None:
    assert agrees(text)


WORDS = st.sampled_from(
    [
        *"abyn",
        "yes",
        "Off",
        "0x1",
        "017",
        "1_0",
        "8",
        "-3",
        "a b",
        "a:b",
        "é",
        "",
        "2026-01-01",
        "#",
        "it's",
        ":a",
        "-a",
        "a#b",
    ]
)
COMMENTS = st.sampled_from(["", "", "", " ", " # a", "#b", " # c: d"])
PADS = st.integers(-1, 4)
ESCAPES = st.sampled_from(
    ["\\n", "\\t", "\\x41", "\\u003c", "\\\\", '\\"', "\\ ", "\\\n   ", "''", "\n\n  ", "\n    ", " ", "\t"]
)
QUOTED = st.tuples(st.sampled_from("'\""), st.lists(st.one_of(WORDS, ESCAPES), max_size=4)).map(
    lambda each: each[0] + "".join(each[1]) + each[0]
)
FOLDED = st.lists(
    st.tuples(WORDS, st.sampled_from(["\n  ", "\n\n    ", "\n ", " ", "\n", " # a\n  "])), max_size=3
).map(lambda each: "".join(map("".join, each)) + "a")
SPACES = st.sampled_from(["", "", "", " ", "\n  ", "\n", " # a\n  "])
KEYS = st.sampled_from([*"abcd", "e f", "1", "n", "'g'", '"h\\n"', "", "<<", "-i", "j: k"])
COLONS = st.sampled_from([": ", ": ", ": ", ":", " : "])


def flow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return texts of maps and lists in brackets."""
    parts = st.tuples(SPACES, inner, SPACES).map("".join)
    pairs = st.tuples(SPACES, KEYS, COLONS, inner, SPACES).map("".join)
    end = st.sampled_from(["", "", ","])
    lists = st.tuples(st.lists(parts, max_size=3).map(",".join), end).map(lambda each: f"[{each[0]}{each[1]}]")
    maps = st.tuples(st.lists(pairs, max_size=3).map(",".join), end).map(lambda each: f"{{{each[0]}{each[1]}}}")
    return st.one_of(lists, maps)


FLOW = st.recursive(st.one_of(WORDS, QUOTED), flow, max_leaves=6)


def block_text(depth: int) -> st.SearchStrategy[str]:
    """Return block texts with all headers, of lines that are indented in all ways."""
    header = st.tuples(st.sampled_from("|>"), st.sampled_from(["", "-", "+", "2", "1-", "+4"]), COMMENTS).map("".join)
    contents = st.sampled_from(["a: b", "c:", "", "  d", "# e: f", "yes", "\tg", "- h", " "])
    line = st.tuples(PADS, contents).map(lambda each: " " * max(0, 2 * depth + each[0]) + each[1])
    steady = contents.map(lambda content: "  " * depth + "    " + content)
    lines = st.one_of(st.lists(steady, max_size=4), st.lists(st.one_of(steady, line), max_size=4))
    return st.tuples(header, lines).map(lambda each: " " + "\n".join([each[0], *each[1]]) + "\n")


def block(depth: int) -> st.SearchStrategy[str]:
    """Return texts of maps and lists with all kinds of values."""
    pad = "  " * depth
    inner = block(depth + 1) if depth < 3 else st.nothing()
    leaf = st.tuples(st.one_of(WORDS, QUOTED, FOLDED, FLOW), COMMENTS).map(lambda each: f" {each[0]}{each[1]}\n")
    below = st.tuples(COMMENTS, inner).map("\n".join)
    value = st.one_of(leaf, leaf, block_text(depth), below, COMMENTS.map(lambda comment: comment + "\n"))
    entry = st.tuples(KEYS, value).map(lambda each: f"{pad}{each[0]}:{each[1]}")
    gap = st.sampled_from([f"{pad}# a\n", "# b: c\n", "\n", f"{pad} \n"])
    compact = inner.map(lambda text: f"{pad}- {text.lstrip(' ')}")
    maps = st.lists(st.one_of(entry, entry, entry, gap), min_size=1, max_size=5)
    items = st.lists(st.one_of(value.map(lambda text: f"{pad}-{text}"), compact, gap), min_size=1, max_size=4)
    return st.one_of(maps, maps, items).map("".join)


@settings(max_examples=1500, deadline=None)
@given(block(0))
def test_both_readers_agree_on_texts_made_of_parts(text: str) -> None:
    assert agrees(text)


@settings(max_examples=1000, deadline=None)
@given(FLOW)
def test_both_readers_agree_on_brackets(text: str) -> None:
    assert agrees(f"a: {text}\n")
    assert agrees(f"{text}\n")


@settings(max_examples=1000, deadline=None)
@given(st.text(alphabet="ab1y:-# \n[]{},'\"$.~|>\\?&\t", max_size=30))
def test_both_readers_agree_on_any_text(text: str) -> None:
    assert agrees(f"{text}\n")
    assert agrees(f"a: {text}\n")


@settings(max_examples=1000, deadline=None)
@given(st.text(alphabet="0123456789+-._eExXbBoOaf", min_size=1, max_size=12))
def test_both_readers_agree_on_numbers(text: str) -> None:
    assert agrees(f"a: {text}\n")
    assert agrees(f"{text}: a\n")


@given(data=st.binary(max_size=60), word=st.binary(min_size=1, max_size=4), start=st.integers(0, 60))
def test_a_word_is_found_where_python_finds_it(data: bytes, word: bytes, start: int) -> None:
    for each in (data, data.replace(b"\0", b"\n---"), data + word, data + word * 3):
        assert READER.find(each, word, min(start, len(each))) == each.find(word, min(start, len(each)))
