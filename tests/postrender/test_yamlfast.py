"""What is read with py-yaml12 and proved is what the full reader reads, or nothing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrender import yamlfast, yamlio
from postrender.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True, scope="module")
def _without_the_compiled_reader() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yamlfast, "_compiled", None)
        yield


# Everything that YAML readers are known to disagree on, and some ordinary words.
_ORDINARY = "a b-c key_1 1 1.0 0.5 3.0e-7 -1 -0 2.55.1 12:30 250Gi null true False ${a.b} [1,2] a:b"
_DISPUTED = "yes n on 'on' 08 0x1F 1_0 1e3 + - ~ {a: 1} {a} &x *x !t |- # #c 'a:b' .inf = << ? -- --- ... 'it''s' o's"
WORDS = st.sampled_from([*_ORDINARY.split(), *_DISPUTED.split(), "{a: 1, a: 2}", '"x y"', "a:", "\\n", "\u2028", "\t"])
LINES = st.builds(
    lambda indent, dash, key, value, comment: " " * indent + dash + key + ": " + value + comment,
    st.integers(0, 3).map(lambda level: 2 * level),
    st.sampled_from(["", "", "- "]),
    st.sampled_from(["a", "b", "c", "d", "n", "1", "'q'", "true"]),
    st.lists(WORDS, max_size=2).map(" ".join),
    st.sampled_from(["", "", " # it's", " # no", "# x"]),
)


@given(lines=st.lists(LINES, max_size=6))
def test_it_agrees_with_the_full_reader(lines: list[str]) -> None:
    agree("\n".join(lines))


@given(text=st.text(alphabet="ab1y:-# \n[]{},'\"$.~", max_size=30))
def test_it_agrees_on_any_text(text: str) -> None:
    agree(text)


def agree(text: str) -> None:
    """Check that what the fast reader accepts is what the full reader accepts, with the same values."""
    text += "\n"
    fast = yamlfast.load(text.encode("utf-8"))
    if fast is not None:
        assert fast == yamlio.values_from_bytes(text.encode("utf-8"), "f").plain()


PLAIN = ["a: 1", "a: {b: 1, c: [x, y]}\n".replace("[x, y]", "z"), "a: ${b}", "a: [1, 2]", "a: 'x' # it's", "a:\n- b\n"]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_files_are_read(text: str) -> None:
    text += "\n"
    assert yamlfast.load(text.encode()) == yamlio.values_from_bytes(text.encode(), "f").plain()


@pytest.mark.parametrize("name", ["accelerators", "recipes", "frameworks", "examples"])
def test_the_files_of_this_project_are_plain(name: str) -> None:
    """The fast way is of use only if real values files may take it; a quoted key, a block text and a digest may not."""
    for file in (ROOT / "values" / name).glob("*.yaml"):
        fast, text = yamlfast.load(file.read_bytes()), file.read_text(encoding="utf-8")
        assert fast == yamlio.load_values(file).plain() or (fast is None and re.search(r'": |: \|\n|sha256:', text)), (
            file
        )


DISPUTED = [
    "a: 1\na: 2",
    "a: {b: 1, b: 2}",
    "a: {b, c: 1}\nd: 2\nd: 3",
    "n: 1",
    "a: yes",
    "a: 0777",
    "a: 08",
    "a: 1_000",
    "1: a",
    "true: a",
    "a: &x 1\nb: *x",
    "a: !!str 1",
    "a: 1\n---\nb: 2",
    "\ufeffa: 1",
    "<<: {}",
    "a: \u2028b",
    "{}1",
    "a: {q: why?}",
    "{a: 1}",
    "%YAML 1.1\n---\na: 1",
    "a: \x00",
    "- a",
    "text",
    "a: 1 # note\u2028b: 2",
    "a: 1 # note\x85b: 2",
    "a: 1 # note\rb: 2",
    "a: [:end, b]",
    "a: {b: :c}",
    "a: 12345678901234567",
]


@pytest.mark.parametrize("text", DISPUTED)
def test_everything_else_is_left_to_the_full_reader(text: str) -> None:
    assert yamlfast.load(f"{text}\n".encode()) is None


def test_bytes_that_are_no_text_are_left_to_the_full_reader() -> None:
    assert yamlfast.load(b"a: \xff") is None
    with pytest.raises(InputError):
        yamlio.values_from_bytes(b"a: \xff", "f")


@pytest.mark.parametrize("text", ["a: " + "[" * 100_000 + "]" * 100_000, "a:\n" + "- " * 100_000 + "x"])
def test_deep_nesting_breaks_nothing(text: str) -> None:
    assert yamlfast.load(text.encode()) is None


def test_without_the_library_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml12", None)
    assert yamlfast.load(b"a: 1\n") is None
