"""`grpo doctor --hugging-face` against a hub that the test plays."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.live import bundle
from grpo.problems.models import probe as access
from tests.live import bundles

TOKEN = "of-the-user"
VALUE = "job.config.policy.model_name"
# The status and the X-Error-Code by the owner of the model.
ANSWERS = {
    "open": (200, ""),
    "renamed": (307, ""),
    "gated": (403, "GatedRepo"),
    "hidden": (401, "RepoNotFound"),
    "missing": (404, "RepoNotFound"),
    "rejected": (401, ""),
    "busy": (429, ""),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """Play a hub, and note the paths that it is asked for with the tokens that it is shown."""
    seen: list[tuple[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_HEAD(self) -> None:
            seen.append((self.path, self.headers.get("Authorization", "")))
            status, code = ANSWERS[self.path.split("/")[1]]
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield seen
    server.shutdown()
    server.server_close()


def said(owner: str) -> tuple[str, str]:
    """Return the state and the text of the check."""
    evidence = bundles.evidence()
    evidence.objects["hub"] = [access.ask(VALUE, f"{owner}/model")]
    (found,) = access.hugging_face.check(evidence)
    assert found.value == VALUE
    assert found.command == f"curl -sI {os.environ['HF_ENDPOINT'].rstrip('/')}/{owner}/model/resolve/main/config.json"
    assert bool(found.fix) == (found.state == "fail")
    return found.state, found.text


@pytest.mark.parametrize(
    ("owner", "state", "text"),
    [
        ("open", "pass", "open/model may be read from here"),
        ("renamed", "pass", "renamed/model may be read from here"),
        ("gated", "fail", "gated/model is gated, and the token of HF_TOKEN has no access"),
        ("hidden", "fail", "hidden/model is not found"),
        ("missing", "fail", "missing/model is not found"),
        ("rejected", "fail", "rejected/model: the hub rejects the token of HF_TOKEN"),
        ("busy", "not checked", "busy/model: the hub gives no answer from here: status 429"),
    ],
)
def test_the_hubs_answer_decides_the_result(asked: list[tuple[str, str]], owner: str, state: str, text: str) -> None:
    assert said(owner) == (state, text)
    assert asked == [(f"/{owner}/model/resolve/main/config.json", f"Bearer {TOKEN}")]


def test_a_gated_model_without_a_token_fails(asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_TOKEN")
    assert said("gated") == ("fail", "gated/model is gated, and HF_TOKEN is not set")
    assert asked[0][1] == ""


@pytest.mark.parametrize(
    ("token", "fix"),
    [
        (TOKEN, "check the spelling; if the model is private, use a token whose account may read it"),
        ("", "check the spelling; if the model is private, set HF_TOKEN"),
    ],
)
def test_the_fix_for_a_model_not_found_depends_on_the_token(
    asked: list[tuple[str, str]], token: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    evidence = bundles.evidence()
    evidence.objects["hub"] = [access.ask(VALUE, "hidden/model")]
    assert [each.fix for each in access.hugging_face.check(evidence)] == [fix]
    assert asked


def test_an_unreachable_hub_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    state, text = said("open")
    assert (state, "Connection refused" in text) == ("not checked", True)


def test_the_hub_is_queried_only_on_request(
    asked: list[tuple[str, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = bundles.evidence()
    evidence.expected.models[VALUE] = "gated/model"
    evidence.expected.places[VALUE] = ("", "recipe.yaml:7:9")
    path = str(tmp_path / "b.tar.gz")
    bundle.write(path, evidence)
    assert cli.main(["doctor", "--from", path]) == 0
    assert asked == []
    capsys.readouterr()
    assert cli.main(["doctor", "--from", path, "--hugging-face", "--format", "json"]) == 1
    shown = capsys.readouterr().out
    (found,) = [each for each in json.loads(shown) if each["check"] == "hugging-face"]
    assert (found["state"], found["at"]) == ("fail", "recipe.yaml:7:9")
    assert TOKEN not in shown
