"""What is read with py-yaml12 and proved is what `yamlio` reads, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from postrender import stream, yamlio, yamlproof
from postrender.errors import InputError
from tests.conftest import ROOT

HEAD = "apiVersion: v1\nkind: ConfigMap\n"
# What is plain, so that a check of it is fast.
PLAIN = (
    "---\n# Source: a/b.yaml\nmetadata: {name: a, labels: {}}\ndata:\n  a: |\n    b: c\n    d:\n\n      e: yes or no\n",
    'metadata:\n  name: a\n  annotations:\n    b: \'yes\'\n    c: "off"\n    d: "0x_1F"\n    e: "017"\n',
    "spec:\n  a: [1, -2, 30]\n  b:\n  - c: d\n    e: null\n  - f: ~\n  g: true\n  h: 1.2.3\n  i: https://x/y\n",
    "data:\n  a: >-\n    one:\n    two\n  b: \"c: d\"\n  'e: f': g\n",
    "data:\n  a: |\n    ---\n    \tb=1\n    c 2\n\n    \td\n",
)
# What readers read differently, or one of them refuses.
NOT_PLAIN = (
    *("a: yes\n", "a: [off]\n", "a: {b: n}\n", "- y\n", "y: 1\n", "a: 017\n", "a: -017\n", "a: 1_000\n", "a: 0b1\n"),
    *("a: +-1\n", "a: ++165\n", "a: 0x+F\n", "a: 0o-7\n", "a: 0b+1\n"),
    *("a: 90071992547409930\n", "a: .inf\n", "1: a\n", "a: !!str 8\n", "a: &b 1\nc: *b\n"),
    *("a: 1\na: 2\n", "a:\n  b: 1\n  b: 2\n", "a: {b: 1, b: 2}\n", "- a: 1\n  a: 2\n", "? a\n: b\n", "a: b\n...\n"),
    *('a: "b:\\nc"\na: 2\n', 'a: "b\\x3a c"\na: 2\n', "a: {b: c: d}\n", "a: {b, c}\n", "a: [b?]\n", "<<: {a: 1}\n"),
    *(
        "a: 1\na: {a}\n",
        "a: |\n  \tb\n  c\n",
        "a: | # b\n  \tc\n",
        'b: 1\n\t\nd: "\\t"\n',
        'a: |\t\n \tb\nc: "\\t"\n',
        'z: "{\\n{"\nb: {d\n : e}\n',
        "a: >2-\n\n   \n  \tb\n",
        "...\na: 1\n",
        "a: \xa0\n",
        "a: [\u3000]\n",
        "a: &&b\n",
        "a: [a:]\n",
        "a: {a:}\n",
    ),
    *(
        "a: 1\na: 2\nb: {'a' }\n",
        "a: 1\na: 2\nb: {a\n  }\n",
        'a: 1\na: 2\nb: {"\\x61"}\n',
        "a: 1\na: 2\nb: {a # c\n  }\n",
    ),
    *("<<:\na: 1\n", "a: {|b: 1}\n", "a: {b: >c}\n"),
    *(
        "a: &x {b: 1}\nc: {<<: *x}\n",
        "a:\tb\n",
        "\ta: b\n",
        "a: b\n\tc: d\n",
        "a: \x85b\n",
        "a: '\ufeff'\n",
        "a: \x9f\n",
    ),
    *("a: @b\n", "a: `b`\n", "a: %b\n", "a: b\n---\nc: d\n", "a\n", "", "# a\n", "[a]\n", "a: " + "[" * 70 + "]" * 70),
    *(
        "# a: b\na: 1\na: 2\n",
        "a: # b: c\n  d\na: 1\n",
        "a: |\n  # Source: b\n  c: d\na: 1\n",
        'a: "\\/"\n',
        "a: b\r\n",
    ),
)


def documents() -> Iterator[str]:
    """Yield the documents of all manifests that the tests have."""
    for path in sorted([*(ROOT / "tests").rglob("*.yaml")]):
        if path.is_symlink() or "catalogues" in path.parts:
            continue
        try:
            yield from (document.text() for document in stream.split(path.read_bytes()))
        except InputError:
            continue


SEEDS = sorted({text for text in documents() if len(text) < 4000} | {HEAD + text for text in PLAIN})
# What a mutation puts somewhere.
PIECES = [
    *(
        " ",
        "  ",
        "\n",
        "\n  ",
        ":",
        ": ",
        ":\n",
        "- ",
        "#",
        " # a: b\n",
        "'",
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        "\\",
        "\\n",
    ),
    *(
        "|",
        "|-\n",
        ">\n",
        "&a ",
        "*a",
        "!",
        "!!str ",
        "<<: ",
        "? ",
        "%",
        "@",
        "`",
        "\t",
        "\r",
        "\x85",
        "\u2028",
        "\x9b",
    ),
    *(
        "yes",
        "off",
        "n",
        "y: ",
        "~",
        "null",
        "true",
        "017",
        "0x1F",
        "0b11",
        "1_0",
        "1e3",
        ".5",
        "+1",
        "-0",
        "+-1",
        "0x+F",
        "2026-01-01",
    ),
    *(
        "---",
        "\n---\n",
        "...",
        "\n...\n",
        "kind: A\n",
        "a: 1\n",
        "\na: 1\na: 2\n",
        "\ufeff",
        "é",
        "🙂",
        "\\x3a ",
        "\x00",
    ),
]


def slow(text: str) -> Any:
    """Return what `yamlio` reads; None where it refuses the text, or it is not one object."""
    try:
        roots = [root for root in yamlio.parse(text.encode("utf-8"), "x") if root.value is not None]
    except InputError:
        return None
    return roots[0].plain() if len(roots) == 1 else None


def typed(value: Any) -> Any:
    """Return a value that differs where a type differs: 1 is no True."""
    if isinstance(value, dict):
        return {key: typed(each) for key, each in value.items()}
    return [typed(each) for each in value] if isinstance(value, list) else (type(value), value)


def agrees(text: str) -> bool:
    """Compare the readers on every document; only a whole stream is cut at its marks."""
    try:
        texts = [document.text() for document in stream.split(text.encode("utf-8"))]
    except InputError:
        return True
    return all(map(agree, texts))


def agree(text: str) -> bool:
    found = yamlproof.read(text)
    return found is None or (typed(found) == typed(slow(text)) and list(found) == list(slow(text)))


@pytest.mark.parametrize("text", PLAIN)
def test_plain_manifests_are_read_fast(text: str) -> None:
    assert yamlproof.read(HEAD.removeprefix("---\n") + text if text[0] != "-" else text) is not None


@pytest.mark.parametrize("text", NOT_PLAIN)
def test_what_is_not_plain_is_left_to_the_other_reader(text: str) -> None:
    assert yamlproof.read(text) is None


def test_both_readers_agree_on_every_manifest_of_the_tests() -> None:
    assert [text for text in SEEDS if not agrees(text)] == []


def test_most_manifests_are_plain() -> None:
    read = [text for text in SEEDS if slow(text) is not None]
    assert sum(yamlproof.read(text) is not None for text in read) > 0.5 * len(read)


def mutated(seeds: list[str]) -> st.SearchStrategy[str]:
    """Return texts with up to four pieces put in, each perhaps in place of something."""
    change = st.tuples(st.integers(0, 4000), st.sampled_from(PIECES), st.integers(0, 6))

    def apply(text: str, changes: list[tuple[int, str, int]]) -> str:
        for place, piece, dropped in changes:
            at = place % (len(text) + 1)
            text = text[:at] + piece + text[at + dropped :]
        return text

    return st.builds(apply, st.sampled_from(seeds), st.lists(change, max_size=4))


@settings(max_examples=1000, deadline=None)
@given(mutated(SEEDS))
def test_both_readers_agree_on_mutated_manifests(text: str) -> None:
    assert agrees(text)


WORDS = st.sampled_from(
    [*"abyn", "yes", "Off", "0x1", "017", "1_0", "8", "-3", "a b", "a:b", "é", "", "2026-01-01", "#"]
)
SCALARS = st.tuples(st.sampled_from(["", "'", '"']), WORDS).map(lambda each: each[0] + each[1] + each[0])


def block(depth: int) -> st.SearchStrategy[str]:
    """Return texts of maps and lists, with equal keys, comments and block texts."""
    pad = "  " * depth
    inner = block(depth + 1) if depth < 3 else st.nothing()
    leaf = SCALARS.map(lambda word: f" {word}\n")
    text = st.lists(st.sampled_from(["a: b", "c:", "", "  d", "# e: f", "yes"]), min_size=1, max_size=3).map(
        lambda lines: " |\n" + "".join(f"{pad}    {line}\n" for line in lines)
    )
    value = st.one_of(leaf, text, inner.map(lambda below: "\n" + below))
    entry = st.tuples(SCALARS, value).map(lambda each: f"{pad}{each[0]}:{each[1]}")
    comment = st.sampled_from([f"{pad}# a\n", f"{pad}# a: b\n", "\n", "# Source: x\n"])
    item = value.map(lambda each: f"{pad}-{each}")
    maps = st.lists(st.one_of(entry, entry, comment), min_size=1, max_size=5)
    return st.one_of(maps, maps, st.lists(item, min_size=1, max_size=4)).map("".join)


@settings(max_examples=1000, deadline=None)
@given(block(0))
def test_both_readers_agree_on_texts_made_of_parts(text: str) -> None:
    assert agrees(text)
