"""Secrets are found by shape, reported by place, and never kept or shown."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from postrender import secrets
from tests.conftest import ROOT

SHAPES: dict[str, str] = yaml.safe_load((ROOT / "schemas/tokens.yaml").read_text("utf-8"))
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
    assert {*EXAMPLES} == {*SHAPES}


@pytest.mark.parametrize("shape", EXAMPLES)
def test_every_shape_is_found_at_its_place(shape: str) -> None:
    (secret,) = secrets.find(f"a: 1\nb: x {EXAMPLES[shape]}\n")
    assert (secret.shape, secret.line, secret.col) == (shape, 2, 6)
    assert secrets.shape_of(EXAMPLES[shape]) == shape
    assert EXAMPLES[shape] not in repr(secret)


@pytest.mark.parametrize(
    ("start", "length", "shape"),
    [(f"gh{letter}_", 36, "github") for letter in "pousr"] + [(f"xox{letter}-", 12, "slack") for letter in "abprs"],
)
def test_every_letter_of_a_set_is_found_where_no_other_one_of_it_stands(start: str, length: int, shape: str) -> None:
    secret = start + "a1B2" * (length // 4)
    assert secrets.shape_of(f"a: {secret}") == shape


@pytest.mark.parametrize("shape", EXAMPLES)
def test_masking_leaves_the_shape_only(shape: str) -> None:
    masked = secrets.mask(f"a {EXAMPLES[shape]} b {EXAMPLES[shape]}")
    assert masked == f"a <{shape} token> b <{shape} token>"


@pytest.mark.parametrize("text", ["hf-secret", "hf_api_token", "sk-learn", "task-runner", "nvapi", "", "my-sk-bucket"])
def test_names_that_only_look_similar_are_no_secrets(text: str) -> None:
    assert secrets.find(text) == []
    assert secrets.mask(text) == text


@given(before=st.text(max_size=20), shape=st.sampled_from([*EXAMPLES]))
def test_no_text_around_it_hides_a_secret(before: str, shape: str) -> None:
    text = f"{before} {EXAMPLES[shape]}\n"
    assert shape in [secret.shape for secret in secrets.find(text)]
    assert EXAMPLES[shape] not in secrets.mask(text)


def _plainly(text: str) -> set[tuple[str, int]]:
    return {(name, match.start()) for name, shape in SHAPES.items() for match in re.finditer(shape, text)}


@given(
    parts=st.lists(
        st.sampled_from(
            [*EXAMPLES.values(), "hf_", "gh", "ghp_", "sk-", "disk-", " ", "\n", "_", "é", "wandb_", "AIza"]
        )
        | st.text("abAB01_-", max_size=40),
        max_size=6,
    )
)
def test_the_generated_patterns_find_what_the_source_describes(parts: list[str]) -> None:
    text = "".join(parts)
    assert {(name, match.start()) for name, match in secrets._matches(text)} == _plainly(text)


@pytest.mark.parametrize("shape", EXAMPLES)
def test_a_word_in_front_hides_only_what_must_begin_a_word(shape: str) -> None:
    assert (secrets.shape_of(f"x{EXAMPLES[shape]}") == shape) is (shape != "openai")


@pytest.mark.parametrize("code", [r"\x68f_", r"\u0068f_", r"\U00000068f_", "h\\\nf_", "h\\\r\nf_"])
def test_escapes_that_may_hide_a_secret_are_seen(code: str) -> None:
    assert secrets.may_be_hidden(f'a: "{code}"')


@pytest.mark.parametrize("text", ["", "hf_", r"C:\dir", r"a\n", "\\"])
def test_other_escapes_hide_nothing(text: str) -> None:
    assert not secrets.may_be_hidden(text)
