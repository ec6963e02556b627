"""Access to models on the Hugging Face hub, from this machine and only if requested."""

from __future__ import annotations

import os
import shlex
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from http.client import HTTPException
from typing import IO, Any, Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import name_of
from grpo.problems.probe import Result, failed, passed, skipped
from grpo.problems.problem import probe

_HUB: Final = "https://huggingface.co"
_SECONDS: Final = 5.0
_FILE: Final = "config.json"
_GATED: Final = "GatedRepo"
_REDIRECTIONS: Final = range(300, 400)
_OK: Final = 200


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follow no redirects, because the token would be sent to another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Return nothing, which ends the request with the redirect's status."""


def ask(value: str, model: str) -> dict[str, Any]:
    """Return the hub's answer for one file of a model: its status, 0 if there was no answer, and its reason.

    HF_ENDPOINT names another hub. The token in HF_TOKEN is sent, if there is one; `value` is where the name is set.
    """
    token = os.environ.get("HF_TOKEN", "").strip()
    endpoint = os.environ.get("HF_ENDPOINT") or _HUB
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{endpoint.rstrip('/')}/{model}/resolve/main/{_FILE}"
    answer = {"metadata": {"name": model}, "value": value, "token": bool(token), "url": url}
    try:
        request = urllib.request.Request(url, headers=headers, method="HEAD")  # noqa: S310 (the user's own endpoint)
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_SECONDS) as found:
            return {**answer, "status": found.status, "reason": ""}
    except urllib.error.HTTPError as error:
        with error:
            return {**answer, "status": error.code, "reason": error.headers.get("X-Error-Code") or ""}
    except (OSError, HTTPException, ValueError) as error:
        return {**answer, "status": 0, "reason": str(getattr(error, "reason", error))}


@probe("hugging-face", "the model may not be read", "hub")
def hugging_face(evidence: Evidence) -> Iterator[Result]:
    """Check the hub's answers to this machine; the pods have their own token and network."""
    for answer in evidence.of("hub"):
        value, status = str(answer.get("value")), int(answer.get("status") or 0)
        by_hand = f"curl -sI {shlex.quote(str(answer.get('url')))}"
        if status == _OK or status in _REDIRECTIONS:
            yield passed(f"{name_of(answer)} may be read from here", value, by_hand)
        elif status in (401, 403, 404):
            text, fix = _refused(answer, status)
            yield failed(text, value, fix, by_hand)
        else:
            said = f"status {status}" if status else str(answer.get("reason"))
            yield skipped(f"{name_of(answer)}: the hub gives no answer from here: {said}", value, by_hand)


def _refused(answer: dict[str, Any], status: int) -> tuple[str, str]:
    """Return what the hub has rejected, and what to do."""
    name, has_token = name_of(answer), bool(answer.get("token"))
    if answer.get("reason") == _GATED or status == 403:
        text = f"{name} is gated, and {'the token of HF_TOKEN has no access' if has_token else 'HF_TOKEN is not set'}"
        return text, "accept the licence on its page, with the account of the token in huggingface.secret"
    if status == 401 and has_token and not answer.get("reason"):
        return f"{name}: the hub rejects the token of HF_TOKEN", "create a new one, and put it into the Secret too"
    private = "use a token whose account may read it" if has_token else "set HF_TOKEN"
    return f"{name} is not found", f"check the spelling; if the model is private, {private}"
