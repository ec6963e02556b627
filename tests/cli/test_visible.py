"""What the programs print commands neither a terminal nor a CI system, and forges no line."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grpo.terminal import console
from postrender import visible

HOSTILE = st.text(st.sampled_from("\x1b[]31m;\x07\r\n\t\x9b\u202e\u2028\udc80 :#azé中👩‍🔬"), max_size=60)


def in_ci(*pieces: str) -> str:
    out = io.StringIO()
    visible.VisibleStream(out, in_ci=True).writelines(pieces)
    return out.getvalue()


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        # What is left after a colour was taken off is no colour.
        ("\x1b[\x1b[31m31mx", "\\u001b[31mx"),
        ("\x1b]52;c;AAAA\x07", "\\u001b]52;c;AAAA\\u0007"),
        ("\x9b2J", "\\u009b2J"),
        ("done\rforged", "done\\u000dforged"),
        ("one\u2028two\x85three\x0bfour", "one\\u2028two\\u0085three\\u000bfour"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("\udcff\uffff", "\\udcff\\uffff"),
        # Text in any language stays.
        ("x² ≤ 中文 é 👩‍🔬 שלום\xa0!", "x² ≤ 中文 é 👩‍🔬 שלום\xa0!"),
    ],
)
def test_invisible_characters_are_escaped(given: str, seen: str) -> None:
    assert visible.text(given) == seen


@given(HOSTILE)
def test_escaping_leaves_nothing_invisible_and_is_idempotent(text: str) -> None:
    seen = visible.text(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", seen)
    assert visible.text(seen) == seen


@given(st.text(max_size=60))
def test_json_round_trips_the_escaped_text(text: str) -> None:
    assert json.loads(visible.text(json.dumps(text, ensure_ascii=False).replace("\x1b", "\\u001b"))) == text


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("::error::forged", "\\u003a:error::forged"),
        ("ok\n \t::set-output name=x::y", "ok\n \t\\u003a:set-output name=x::y"),
        ("value ##[stop-commands]x", "value ##\\u005bstop-commands]x"),
        ("##vso[task.setvariable variable=x]y", "##vso\\u005btask.setvariable variable=x]y"),
        ("a ##teamcity[buildStatus]", "a ##teamcity\\u005bbuildStatus]"),
        ("std::vector, fe80::1 and ## [a](b)", "std::vector, fe80::1 and ## [a](b)"),
    ],
)
def test_no_output_is_read_as_a_command_by_a_ci_system(given: str, shown: str) -> None:
    assert in_ci(given) == shown
    # Nor one that comes in pieces.
    assert in_ci(*given) == shown


@given(st.lists(st.text(st.sampled_from(":#[] \n\tvs\r"), max_size=6)))
def test_text_written_in_pieces_is_escaped_like_the_whole_text(pieces: list[str]) -> None:
    written = in_ci(*pieces)
    assert written == in_ci("".join(pieces))
    assert not re.search(r"(?m)^\s*::|##[a-z]*\[", written)


def test_leading_colons_are_kept_outside_ci() -> None:
    out = io.StringIO()
    visible.VisibleStream(out, in_ci=False).write("::1\n\x1b[2J")
    assert out.getvalue() == "::1\n\\u001b[2J"


def test_coloured_text_is_escaped_and_keeps_our_colours() -> None:
    out = io.StringIO()
    console.create(out).print("a\x1b]52;c;AAAA\x07b", style="red", soft_wrap=True)
    assert "a\\u001b]52;c;AAAA" in out.getvalue()
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


def test_the_original_streams_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    with visible.streams(), visible.streams():
        sys.stdout.write("\x07")
        visible.exact(sys.stdout).write("\x07")
    assert sys.stdout is out
    assert out.getvalue() == "\\u0007\x07"
