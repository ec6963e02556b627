"""Lines of a text by their numbers, in whatever order they are asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrender import lines

TEXTS = st.text(st.sampled_from("ab \n\r\u2028é"), max_size=40)


@given(TEXTS, st.lists(st.integers(1, 50), max_size=8), st.integers(1, 9))
def test_a_line_is_the_one_that_cutting_the_text_gives(text: str, numbers: list[int], step: int) -> None:
    cut = text.splitlines()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_STEP", step)
        found = lines.Lines(text.encode())
        assert [found.line(number) for number in numbers] == [
            cut[number - 1] if number <= len(cut) else "" for number in numbers
        ]


def test_a_form_feed_ends_no_line_of_plain_text() -> None:
    # The readers of YAML do not count it.
    assert lines.Lines(b"a\x0cb\nc\n").line(2) == "c"


def test_bytes_that_are_no_text_are_shown_as_far_as_they_can_be() -> None:
    assert lines.Lines(b"a\n\xffb\n").line(2) == "\ufffdb"
