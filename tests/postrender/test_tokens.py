"""Secrets are found by shape, reported by place, and never kept or shown."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrender import tokens
from postrender.docs.beginnings import Beginning, beginnings, groups
from postrender.precomputed import BEGINNINGS, GROUPS, TOKENS
from tests.conftest import ROOT

# One example of each shape, put together here so that no scanner mistakes this file for a leak.
EXAMPLES = {
    "huggingface": "hf" + "_" + "a1B2" * 8,
    "nvidia": "nvapi" + "-" + "a1B2_-" * 8,
    "wandb": "wandb" + "_v1_" + "a1B2" * 8,
    "wandbKey": "wandb" + "_key: " + "a1b2" * 10,
    "wandbEnvironment": "WANDB" + '_API_KEY", "value": "' + "a1b2" * 10,
    "github": "ghp" + "_" + "a1B2" * 9,
    "githubFineGrained": "github" + "_pat_" + "a1B2" * 12,
    "gitlab": "glpat" + "-" + "a1B2" * 5,
    "openai": "sk" + "-" + "a1B2" * 10,
    "google": "AIza" + "a1B2c" * 7,
    "googleOauth": "ya29" + "." + "a1B2" * 10,
    "aws": "AKIA" + "A1B2" * 4,
    "slack": "xoxb" + "-" + "1234567890",
    "privateKey": "-----BEGIN" + " RSA PRIVATE KEY-----",
}


def test_every_shape_has_an_example() -> None:
    assert {*EXAMPLES} == {*TOKENS} == {*BEGINNINGS} == {name for names in GROUPS.values() for name in names}


@pytest.mark.parametrize("shape", EXAMPLES)
def test_every_shape_is_found_at_its_place(shape: str) -> None:
    (token,) = tokens.find(f"a: 1\nb: x {EXAMPLES[shape]}\n")
    assert (token.shape, token.line, token.col) == (shape, 2, 6)
    assert tokens.shape_of(EXAMPLES[shape]) == shape
    assert EXAMPLES[shape] not in repr(vars(type(token)))


@pytest.mark.parametrize(
    ("start", "length", "shape"),
    [(f"gh{letter}_", 36, "github") for letter in "pousr"] + [(f"xox{letter}-", 12, "slack") for letter in "abprs"],
)
def test_every_letter_of_a_set_is_found_where_no_other_one_of_it_stands(start: str, length: int, shape: str) -> None:
    secret = start + "a1B2" * (length // 4)
    assert tokens.suspects(f"a: {secret}")
    assert tokens.shape_of(f"a: {secret}") == shape


@pytest.mark.parametrize("shape", EXAMPLES)
def test_masking_leaves_the_shape_only(shape: str) -> None:
    masked = tokens.mask(f"a {EXAMPLES[shape]} b {EXAMPLES[shape]}")
    assert masked == f"a <{shape} token> b <{shape} token>"


@pytest.mark.parametrize("text", ["hf-secret", "hf_api_token", "sk-learn", "task-runner", "nvapi", "", "my-sk-bucket"])
def test_names_that_only_look_similar_are_no_secrets(text: str) -> None:
    assert tokens.find(text) == []
    assert tokens.mask(text) == text


@given(before=st.text(max_size=20), shape=st.sampled_from([*EXAMPLES]))
def test_no_text_around_it_hides_a_secret(before: str, shape: str) -> None:
    text = f"{before} {EXAMPLES[shape]}\n"
    assert shape in [token.shape for token in tokens.find(text)]
    assert EXAMPLES[shape] not in tokens.mask(text)


def _plainly(text: str) -> set[tuple[str, int]]:
    return {(name, match.start()) for name, shape in TOKENS.items() for match in re.finditer(shape, text)}


@given(
    parts=st.lists(
        st.sampled_from(
            [*EXAMPLES.values(), "hf_", "gh", "ghp_", "sk-", "disk-", " ", "\n", "_", "é", "wandb_", "AIza"]
        )
        | st.text("abAB01_-", max_size=40),
        max_size=6,
    )
)
def test_what_is_searched_without_patterns_first_is_what_patterns_find(parts: list[str]) -> None:
    text = "".join(parts)
    assert {(name, match.start()) for name, match in tokens._matches(text)} == _plainly(text)


def test_text_without_secrets_loads_no_pattern_library() -> None:
    text = "hf_api_token gh high sk-learn disk-" + "a" * 40 + " WANDB AKIA xoxb- task-" + "b" * 40
    code = f"import sys; from postrender import tokens; tokens.find({text!r}); print('re' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("shape", EXAMPLES)
def test_every_secret_has_one_of_the_words_that_are_looked_for_first(shape: str) -> None:
    assert any(start in EXAMPLES[shape] for start in tokens.starts())


def test_the_words_that_are_looked_for_first_mean_nothing_in_a_pattern() -> None:
    assert all(start.replace("-", "").replace("_", "").isalnum() for start in tokens.starts())


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("ab-[A-Z0-9]{3}", ("ab-", ("ab-",), False, 3, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")),
        ("ab-[A-Z]{3}", ("ab-", ("ab-",), False, 0, None)),
        ("ab-[A-Z0-9]{3,5}", ("ab-", ("ab-",), False, 0, None)),
        ("a[bc]d[ef]g", ("a", ("abdeg", "abdfg", "acdeg", "acdfg"), False, 0, None)),
        (r"\bab", ("ab", ("ab",), True, 0, None)),
        # Here the last letter that is read may be missing, or one of two ways to begin.
        ("abc*", ("ab", ("ab",), False, 0, None)),
        ("ab[cd]?", ("ab", ("ab",), False, 0, None)),
    ],
)
def test_what_matches_begin_with(pattern: str, wanted: Beginning) -> None:
    assert beginnings({"it": pattern}) == {"it": wanted}


def test_patterns_that_begin_alike_are_looked_for_at_once() -> None:
    assert groups(beginnings({"long": "abc_d", "short": "ab[xy]", "other": "b"})) == {
        "b": ("other",),
        "ab": ("short", "long"),
    }
