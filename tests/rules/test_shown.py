"""A script that prints secrets is looked at closely, and most others are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrender.rules.secrets import shown

WORDS = ("set", "env", "printenv", "export -p", "-x", "-eux", "-e", "-o xtrace", "then", "do", "a", "offset", "x")
SIGNS = (" ", "  ", "\t", "\n", ";", "&", "|", ">", " > ", "\n\n", "\\\n")
SCRIPTS = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SIGNS)), max_size=6).map(
    lambda parts: "".join(word + sign for word, sign in parts)
)


@given(script=SCRIPTS, end=st.sampled_from(["", "set", "env", "set -x", "a"]))
def test_no_script_that_prints_is_passed_over(script: str, end: str) -> None:
    text = script + end
    assert shown._may_print(text) or not (shown._LISTING.search(text) or shown._TRACE.search(text))


@pytest.mark.parametrize(
    "script", ["set -e\nrun", "set -euo pipefail\ncd a", "the offset of env variables", "env A=b run", "a printenv-b"]
)
def test_for_ordinary_scripts_no_pattern_is_compiled(script: str) -> None:
    assert not shown._may_print(script)
