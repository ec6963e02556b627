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
    "huggingfaceOrganization": "api" + "_org_" + "aBcD" * 9,
    "wandbLogin": "wandb" + " login " + "a1b2" * 10,
    "wandbNetrc": "net" + "rc: " + "a1b2" * 10,
    "wandbApiKey": "api" + "_key " + "a1b2" * 10,
    "sendgrid": "SG" + "." + "a1B2_-" * 3 + "a1B2" + "." + "a1B2" * 10 + "a1B",
    "stripe": "sk" + "_live_" + "a1B2" * 6,
    "linear": "lin" + "_api_" + "a1B2" * 10,
    "github": "ghp" + "_" + "a1B2" * 9,
    "githubFineGrained": "github" + "_pat_" + "a1B2" * 12,
    "gitlab": "glpat" + "-" + "a1B2" * 5,
    "openai": "sk" + "-" + "a1B2" * 10,
    "groq": "gsk" + "_" + "a1B2" * 13,
    "perplexity": "pplx" + "-" + "a1B2" * 12,
    "replicate": "r8" + "_" + "a1B2" * 10,
    "google": "AIza" + "a1B2c" * 7,
    "googleOauth": "ya29" + "." + "a1B2" * 10,
    "googleSecret": "GOCSPX" + "-" + "a1B2" * 7,
    "aws": "AKIA" + "A1B2" * 4,
    "awsTemporary": "ASIA" + "A2B3" * 4,
    "awsBedrock": "ABSK" + "a1B2" * 30,
    "slack": "xoxb" + "-" + "1234567890",
    "slackApp": "xapp" + "-1-A1B2C3-1234567-" + "a1b2" * 8,
    "slackAddress": "hooks.slack" + ".com/services/T1B2/B1C2/" + "a1B2" * 6,
    "npm": "npm" + "_" + "a1B2" * 9,
    "pypi": "pypi" + "-AgEIcHlwaS5vcmc" + "a1B2" * 12,
    "databricks": "dapi" + "a1b2" * 8,
    "digitalOcean": "dop" + "_v1_" + "a1b2" * 16,
    "docker": "dckr" + "_pat_" + "a1B2" * 7,
    "grafana": "glsa" + "_" + "a1B2" * 8 + "_a1b2c3d4",
    "vault": "hvs" + "." + "a1B2" * 23,
    "openshift": "sha256" + "~" + "a1B2_" * 8 + "abc",
    "discordAddress": "discord" + ".com/api/webhooks/" + "12" * 9 + "/" + "a1B2" * 17,
    "twilio": "SK" + "a1b2" * 8,
    "shopify": "shp" + "at_" + "a1b2" * 8,
    "age": "AGE-SECRET" + "-KEY-1" + "A1" * 29,
    "privateKey": "-----BEGIN" + " RSA PRIVATE KEY-----",
}
# What the mark of a private key stands before is secret, and its mark is not.
MASKED = sorted({*EXAMPLES} - {"privateKey"})


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
def test_every_letter_in_a_patterns_character_set_is_matched(start: str, length: int, shape: str) -> None:
    secret = start + "a1B2" * (length // 4)
    assert secrets.shape_of(f"a: {secret}") == shape


@pytest.mark.parametrize("shape", MASKED)
def test_masking_leaves_only_the_shape(shape: str) -> None:
    masked = secrets.mask(f"a {EXAMPLES[shape]} b {EXAMPLES[shape]}")
    assert masked == f"a <{shape} token> b <{shape} token>"


@pytest.mark.parametrize("text", ["hf-secret", "hf_api_token", "sk-learn", "task-runner", "nvapi", "", "my-sk-bucket"])
def test_names_that_merely_look_similar_are_not_secrets(text: str) -> None:
    assert secrets.find(text) == []
    assert secrets.mask(text) == text


@given(before=st.text(max_size=20), shape=st.sampled_from(MASKED))
def test_surrounding_text_does_not_hide_a_secret(before: str, shape: str) -> None:
    text = f"{before} {EXAMPLES[shape]}\n"
    assert shape in [secret.shape for secret in secrets.find(text)]
    assert EXAMPLES[shape] not in secrets.mask(text)


SURE = [
    "DB_PASS",
    "POSTGRES_PWD",
    "SSH_PASSPHRASE",
    "PGPASSWORD",
    "SSHPASS",
    "WANDB_API_KEY",
    "apiKey",
    "client-key-data",
]
DOUBTFUL = ["HF_TOKEN", "token", "secret", "app.credentials", "hfToken"]
NO_NAMES = [
    "pad_token",
    "eos_token",
    "max_tokens",
    "tokenizer",
    "token_ids",
    "forward_pass",
    "bypass",
    "OLDPWD",
    "secretName",
]
NO_NAMES += ["passwordSecretRef", "api_key_file", "HF_TOKEN_PATH", "AWS_ACCESS_KEY_ID", "oauth", "RAY_AUTH_MODE", "key"]


@pytest.mark.parametrize("name", [*SURE, *DOUBTFUL, "auth", "REDISCLI_AUTH"])
def test_secret_names_are_recognised(name: str) -> None:
    assert secrets.names_secret(name)


@pytest.mark.parametrize("name", NO_NAMES)
def test_other_names_are_not_taken_for_secret_names(name: str) -> None:
    assert not secrets.names_secret(name)
    assert not secrets.holds_secret(name, "aB3" * 8)


@pytest.mark.parametrize("value", ["kestrel", "Larkspur#2291", "two words", "12345678"])
def test_any_value_counts_as_a_secret_under_a_certain_name(value: str) -> None:
    assert all(secrets.holds_secret(name, value) for name in SURE)


@pytest.mark.parametrize("value", ["0.0123", "8192", "missing", "hf-token", "Bearer"])
def test_an_ordinary_value_under_a_token_name_is_not_a_secret(value: str) -> None:
    assert not any(secrets.holds_secret(name, value) for name in ("token", "secret"))
    assert all(secrets.holds_secret(name, "aB3" * 8) for name in DOUBTFUL)


@pytest.mark.parametrize(
    "value",
    [
        *("", "$(TOKEN)", "${TOKEN}", "{{ .Values.token }}", "<set to the key>", "***", "none", "null", "/etc/token"),
        *("~/.netrc", "gs://bucket/token", "HF_TOKEN", "settings.api_key", "hf-token", "boolean|string|null", "&token"),
        *("key token of Secret hf", "put the token into a Kubernetes Secret, and name that here"),
    ],
)
def test_a_reference_is_not_a_secret(value: str) -> None:
    assert not any(secrets.holds_secret(name, value) for name in (*SURE, *DOUBTFUL))


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
def test_the_generated_patterns_match_what_the_source_describes(parts: list[str]) -> None:
    text = "".join(parts)
    assert {(name, match.start()) for name, match in secrets._matches(text)} == _plainly(text)


@pytest.mark.parametrize("shape", EXAMPLES)
def test_a_prefix_hides_only_secrets_that_must_begin_a_word(shape: str) -> None:
    assert (secrets.shape_of(f"x{EXAMPLES[shape]}") == shape) is not SHAPES[shape].startswith(r"\b")


@pytest.mark.parametrize("code", [r"\x68f_", r"\u0068f_", r"\U00000068f_", "h\\\nf_", "h\\\r\nf_"])
def test_escapes_that_may_hide_a_secret_are_detected(code: str) -> None:
    assert secrets.may_be_hidden(f'a: "{code}"')


@pytest.mark.parametrize("text", ["", "hf_", r"C:\dir", r"a\n", "\\"])
def test_other_escapes_do_not_hide_a_secret(text: str) -> None:
    assert not secrets.may_be_hidden(text)
