"""Two processes wire and judge a stream as one does."""

from __future__ import annotations

from typing import Any

import pytest

from postrender import filter as post_render
from postrender import rewrite, stream, twofold
from postrender.transforms import KEEP
from postrender.wire import Options
from tests.corpus import proof
from tests.corpus.cases import EDGES, STREAMS, edge
from tests.postrender.streams import pod

pytestmark = pytest.mark.skipif(not twofold._can_help(), reason="the system has one processor, or cannot fork")
ALONE, BY_TWO, ALL_LOST = "alone", "by two", "all lost"
TOKEN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: t}\ndata: {a: hf_" + "A" * 34 + "}\n"
LIST = "apiVersion: v1\nkind: List\nitems:\n"
# In none of them the order of what is told may depend on who was first.
BAD = {
    "a token behind a target": "---\n".join((pod(), TOKEN)),
    "an object twice": "---\n".join((pod(), pod("b"), pod())),
    "two errors": "---\n".join((pod(), pod("b") + "x: [\n", pod("c"), "y: [\n")),
    "an error in front of a target": "---\n".join(("y: [\n", pod())),
    "a scalar": "---\n".join((pod(), "a\n", pod("b"))),
    "no UTF-8": "---\n".join((pod(), pod("b"))) + "\udcff",
    "an error in front of what is no UTF-8": "---\n".join((pod(), "a\n", pod("b"))) + "\udcff",
    "cut off": pod() + "---\nkind: ConfigMap\ndata: {a: 'b\n",
    "conflicts": pod().replace(
        "spec:\n", "spec:\n  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-b200, a: b}\n"
    )
    + "---\n"
    + pod("b").replace("    - name: main\n", "    - name: main\n      env: [{name: NCCL_NET, value: other}]\n"),
}


def said(monkeypatch: pytest.MonkeyPatch, how: str, data: bytes, options: Options, *, gate: bool, mode: str) -> Any:
    """Return all that a run says: the new stream, the report, why it was refused, or the error."""
    with monkeypatch.context() as patch:
        patch.setattr(rewrite, "_LARGE", 10**9 if how == ALONE else 0)
        patch.setattr(stream, "_PART", 1)
        if how == ALL_LOST:
            patch.setattr(twofold, "_help", lambda *_: None)
        outcome, result = proof.run(data, proof.wiring(mode=mode), options, gate=gate)
    error = str(outcome.error) if outcome.error else ""
    return outcome.output, outcome.refusals, error, result and post_render._report(result)


@pytest.mark.parametrize("how", [BY_TWO, ALL_LOST])
@pytest.mark.parametrize("gate", [False, True], ids=["no-gate", "gate"])
@pytest.mark.parametrize("mode", ["multinetwork", "dranet"])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_of_the_corpus(name: str, mode: str, gate: bool, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (said(monkeypatch, each, STREAMS[name], Options(), gate=gate, mode=mode) for each in (ALONE, how))
    assert one == two
    assert one[3]


@pytest.mark.parametrize("how", [BY_TWO, ALL_LOST])
@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong(name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = BAD[name].encode("utf-8", "surrogateescape")
    one, two = (said(monkeypatch, each, data, Options(), gate=True, mode="multinetwork") for each in (ALONE, how))
    assert one == two
    assert one[1] or one[2]


def test_everything_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All small documents in one stream, with what they keep of their own."""
    parts: list[bytes] = []
    for name in EDGES:
        text = edge(name)
        data = text.encode("utf-8", "surrogateescape").removeprefix(b"\xef\xbb\xbf").removeprefix(b"---\n")
        outcome, _ = proof.run(data, proof.wiring(mode="dranet"), Options(policy=KEEP))
        if not outcome.error and text.endswith("\n"):
            parts.append(data)
    one, two = (
        said(monkeypatch, how, b"---\n".join(parts), Options(policy=KEEP), gate=False, mode="dranet")
        for how in (ALONE, BY_TWO)
    )
    assert (one[2], len(one[3]["objects"]) > 50) == ("", True)
    assert one == two


def test_lists_get_what_none_in_front_of_them_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lists and two pods of one name share one claim template, which stands in the first list."""
    body = "".join(f"  {line}\n" for line in pod().splitlines())
    holder = LIST + "- " + body[2:]
    data = "---\n".join((holder, holder.replace("name: pod\n", "name: pod\n    namespace: b\n"), pod())).encode()
    one = said(monkeypatch, ALONE, data, Options(), gate=False, mode="dranet")
    assert one[0].count(b"ResourceClaimTemplate") > 1
    assert one == said(monkeypatch, BY_TWO, data, Options(), gate=False, mode="dranet")


def test_what_is_there_already_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pod needs a claim template, and the stream is not cut up again for each."""
    calls: list[int] = []
    split = stream.split
    monkeypatch.setattr(stream, "split", lambda data: (calls.append(1), split(data))[1])
    data = "---\n".join(pod(f"p{number}") for number in range(20)).encode()
    outcome, result = proof.run(data, proof.wiring(mode="dranet"), Options())
    assert (outcome.error, result and len(result.added), len(calls)) == (None, 20, 2)
