"""No secret leaves the objects that were read."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrender import masking, secrets
from tests.processor import limited

TOKEN = "hf_" + "aB3" * 8
PASSWORD = "correct-horse-battery"


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        f"--api-key={PASSWORD}",
        f"--token {TOKEN}",
        f"export MY_SECRET='{PASSWORD}'",
        f"password: {PASSWORD}",
        f"Authorization: Bearer {PASSWORD}",
        f"https://me:{PASSWORD}@example.org/x",
        f'url: "https://transfer.example.org/x?Expires=1&Policy=abc&Signature={PASSWORD}&Key=1"',
        f"GET https://storage.example.org/b/o?X-Goog-Expires=9&X-Goog-Signature={PASSWORD}",
        f"https://a.example.org/c/d?sv=2024&sig={PASSWORD}",
        f"port=443): Max retries exceeded with url: /a/b?X-Amz-Expires=3600&X-Amz-Signature={PASSWORD}",
        f"https://a.example.org/c\\u0026X-Goog-Signature={PASSWORD}",
        f"https://a.example.org/c?a=b&amp;X-Amz-Signature={PASSWORD}",
        f"next=https%3A%2F%2Fa.example.org%3Fa%26X-Amz-Signature%3D{PASSWORD}%26b%3Dc",
        f"Command '['vllm', 'serve', '--api-key', '{PASSWORD}']' returned 1",
        f"vllm serve --api-key '{PASSWORD}'",
        f"non-default args: {{'api_key': ['{PASSWORD}']}}",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={PASSWORD};EndpointSuffix=core.windows.net",
        f"machine huggingface.co login me password {PASSWORD}",
        f"> Cookie: session={PASSWORD}; theme=dark",
        f"{{'Set-Cookie': 'id={PASSWORD}; Path=/'}}",
        f"Looking in indexes: https://{PASSWORD}@pypi.example.org/simple",
        f"https://me:p@{PASSWORD}@example.org/x",
        f"redis://:a#{PASSWORD}@host:6379/0",
        f'postgres://u:a"b?{PASSWORD}@db/x',
        f"HTTPS://{PASSWORD}@example.org/x",
        f"http_proxy=me:{PASSWORD}@proxy:3128",
        f'Set-Cookie: sid="{PASSWORD}"; Path=/',
        f"(b'cookie', b'sid={PASSWORD}')",
        f"curl --cookie 'sid={PASSWORD}' https://a.example.org",
        f"default login me password {PASSWORD}",
        f"AZURE_STORAGE_KEY={PASSWORD}",
        f"dial tcp: postgres://me:{PASSWORD}@db:5432/x",
        f"token=eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.{PASSWORD}",
        f"requests.get(url, cookies={{'session': '{PASSWORD}', 'theme': 'dark'}})",
        f'"Cookie": {{"sid": "{PASSWORD}"}}',
        f"curl -fsS -u me:{PASSWORD} https://a.example.org",
        f"curl --user 'me:{PASSWORD}' https://a.example.org",
        f"curl -sSu me:{PASSWORD} https://a.example.org",
        f"curl -fsS -u  me:{PASSWORD} https://a.example.org",
        f"curl \\\n  -u me:{PASSWORD} https://a.example.org",
        f'["curl", "-u", "me:{PASSWORD}", "https://a.example.org"]',
        f"session_cookies={{'sid': '{PASSWORD}'}}",
        f"cookies: {{'sid': '{PASSWORD}'",
        f"eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..{'iv' * 8}.{PASSWORD * 3}.{'tag' * 7}",
        json.dumps({"env": {"MY_PASSWORD": PASSWORD}}),
        json.dumps(json.dumps({"env": {"MY_PASSWORD": PASSWORD}})),
    ],
)
def test_secrets_in_text_are_masked(text: str) -> None:
    masked = masking.text(text)
    assert TOKEN not in masked
    assert PASSWORD not in masked


def test_an_azure_storage_key_is_masked() -> None:
    """`az storage account keys list` prints it as a value."""
    key = "aB3/" * 21 + "aB=="
    assert masking.text(f'"keyName": "key1",\n"value": "{key}"') == f'"keyName": "key1",\n"value": "{masking.HIDDEN}"'


def test_an_unterminated_private_key_is_masked_but_not_the_text_after_it() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + f"{'aB3/' * 16}\n" * 3
    masked = masking.text(f"{key}torch.OutOfMemoryError: CUDA out of memory\n")
    assert "aB3/" not in masked
    assert "CUDA out of memory" in masked


@pytest.mark.parametrize(
    "text",
    [
        'secret "hf-secret" not found',
        "couldn't find key hf_api_token in Secret team/hf-secret",
        "0/5 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "gs://bucket/data",
        "max_new_tokens: 16384 of 20000",
        "hf_token:\nKilled\n",
        "set HF_TOKEN=\nModuleNotFoundError: No module named 'x'",
        "received signal sig=9",
        f"integrity sha512-{'aB3/' * 21}aB==",
        "curl -u me https://a.example.org:8443/x",
        "curl: (6) could not resolve host: a.example.org",
        "apt-get install -y curl && useradd -u 1000:1000 ray",
        "curl -s http://x/healthz && date -u +%H:%M:%S",
        "curl -fsS https://a && python -u train.py::main",
        "curl -u https://a.example.org",
        "response cookies: {session\n(pid=8) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
        "Prompt: Sara bakes cookies\n{'step': 3, 'loss': 0.5, 'reward': 0.75}",
        "total cookies={12 \\times 3 = 36}",
        "cookie: {enabled: true, domain: example.org}",
        f"sha512:{'aB3/' * 21}aB==",
        '"sha512": "' + "aB3/" * 21 + 'aB=="',
        '["https://a.example.org:443","me@example.org"]',
        "git@github.com:a/b, ssh://git@host/x and git+https://git@github.com/o/r.git",
        "no_proxy=https://x.example.org,10.0.0.1,me@example.org",
        "NVRM cookie: fd=4: CUDA out of memory",
        "the account key of the storage is not set",
    ],
)
def test_ordinary_messages_are_not_masked(text: str) -> None:
    assert masking.text(text) == text


PARTS = (
    "eyJ",
    "cookie:",
    "cookie ",
    "eyJhbGciOiJSUzI1NiJ9.",
    "://a:",
    "machine a login b ",
    "cookie={",
    "curl -u ",
    "eyJhbGciOiJkaXIi..",
    "==",
)


def test_repeated_fragments_are_masked_quickly() -> None:
    for part in PARTS:
        with limited(10):
            masking.text(part * (200_000 // len(part)))


def test_a_long_word_is_masked_quickly() -> None:
    """A program that is packed as one word took minutes."""
    word = "a" * 200_000
    with limited(20):
        assert masking.text(f"{word} --token={PASSWORD}") == f"{word} --token={masking.HIDDEN}"


def test_a_curl_password_in_an_argument_list_is_masked() -> None:
    words = ["curl", "-fsS", "-u", f"me:{PASSWORD}", "https://a.example.org"]
    assert masking.clean(words) == ["curl", "-fsS", "-u", masking.HIDDEN, "https://a.example.org"]
    assert masking.clean(["id", "-u", "1000:1000"]) == ["id", "-u", "1000:1000"]


def test_secrets_in_objects_are_masked() -> None:
    item = {
        "metadata": {"managedFields": [{"f": 1}], "annotations": {"note": TOKEN}},
        "spec": {
            "env": [
                {"name": "DB_PASSWORD", "value": PASSWORD},
                {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-secret", "key": "hf_api_token"}}},
                {"name": "STEPS", "value": "7"},
            ]
        },
    }
    assert masking.clean(item) == {
        "metadata": {"annotations": {"note": "<huggingface token>"}},
        "spec": {
            "env": [
                {"name": "DB_PASSWORD", "value": masking.HIDDEN},
                {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-secret", "key": "hf_api_token"}}},
                {"name": "STEPS", "value": "7"},
            ]
        },
    }


def test_non_secrets_in_objects_are_kept() -> None:
    item = {
        "pad_token": "<pad>",
        "secret": "hf-secret",
        "args": ["--eos-token", "<eos>", "--max-token", "512", "--api-key-file", "/etc/key"],
        "env": [{"name": "HF_TOKEN", "value": "$(TOKEN)"}, {"name": "PASSWORD_FILE", "value": "/run/secrets/db"}],
    }
    assert masking.clean(item) == item


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(f"see {TOKEN}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_a_token_anywhere_is_masked_and_the_objects_structure_is_kept(value: object) -> None:
    cleaned = masking.clean(value)
    assert TOKEN not in json.dumps(cleaned)
    assert masking.clean(cleaned) == cleaned


@pytest.mark.parametrize("name", secrets.SECRET_NAMES)
def test_every_secret_name_is_detected(name: str) -> None:
    """A text without any of a few words is not searched for names."""
    for written in (name, name.upper(), name.replace("_", "-")):
        assert PASSWORD not in masking.text(f"MY_{written}={PASSWORD}")


def test_text_without_any_key_word_is_not_searched_for_secret_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts of 500 nodes took nine seconds."""
    asked: list[str] = []
    search = SimpleNamespace(finditer=lambda text: asked.append(text) or ())
    monkeypatch.setattr(secrets, "NAME_PART", search)
    texts = [f"gcr.io/some-project/{number}/image@sha256:{number:064x}" for number in range(100)]
    assert masking.clean(texts) == texts
    assert asked == []
    masking.text("a text with a key: abcdefgh")
    assert asked
