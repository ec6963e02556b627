"""Nothing but the wiring changes: not a byte of another document, not a type of a value, in any form of YAML."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from grpo.helm.engines import Embedded
from postrender.errors import RenderError
from postrender.wiring import apply, inputs
from postrender.wiring.apply import Options
from postrender.wiring.plan import Wiring
from tests.conftest import read_values, stack_files, thin
from tests.corpus import proof
from tests.corpus.cases import EDGES, SCALARS, STREAMS, TEXTS, edge

# How many documents of each stream get wiring.
TARGETS = {
    "anchors.yaml": 3,
    "blanks.yaml": 2,
    "blocks.yaml": 2,
    "bom.yaml": 1,
    "comments.yaml": 1,
    "crlf.yaml": 1,
    "empty.yaml": 2,
    "flow.yaml": 6,
    "function.yaml": 1,
    "helm3.yaml": 1,
    "helm4.yaml": 1,
    "keys.yaml": 3,
    "kinds.yaml": 13,
    "list.yaml": 2,
    "marks.yaml": 2,
    "mixed-ends.yaml": 1,
    "text.yaml": 2,
}
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: a
spec:
  containers:
  - name: a
    image: registry.invalid/a:1
    resources:
      limits:
        nvidia.com/gpu: 8
    env:
"""


@pytest.fixture(scope="module")
def go() -> Iterator[Embedded]:
    """Start the Helm whose reader is that of Kubernetes."""
    with Embedded() as engine:
        yield engine


@pytest.mark.parametrize("gate", [False, True], ids=["no-gate", "gate"])
@pytest.mark.parametrize("name", TARGETS)
def test_a_stream_is_wired_and_otherwise_unchanged(name: str, gate: bool) -> None:
    outcome = proof.prove(STREAMS[name], proof.wiring(), gate=gate)
    assert (outcome.error, outcome.refusals, outcome.targets) == (None, [], TARGETS[name])


@pytest.mark.parametrize("gate", [False, True], ids=["no-gate", "gate"])
@pytest.mark.parametrize("name", TARGETS)
def test_new_objects_precede_the_objects_that_need_them(name: str, gate: bool) -> None:
    outcome = proof.prove(STREAMS[name], proof.wiring(mode="dranet"), gate=gate)
    assert (outcome.error, outcome.refusals, outcome.targets) == (None, [], TARGETS[name])
    assert outcome.output.count(b'"ResourceClaimTemplate"') + outcome.output.count(b"kind: ResourceClaimTemplate") > 0


@pytest.mark.parametrize("name", ["keys that are no texts", "no mark, though it looks like one", "a byte order mark"])
def test_a_new_object_precedes_even_an_oddly_written_target(name: str) -> None:
    outcome = proof.prove(edge(name).encode(), proof.wiring(mode="dranet"))
    assert (outcome.error, outcome.refusals, outcome.targets) == (None, [], 1)
    assert len(proof.cut(outcome.output)) == 2


def test_every_test_stream_has_an_expected_number_of_targets() -> None:
    assert STREAMS.keys() == TARGETS.keys()


@pytest.mark.parametrize("policy", ["keep", "replace"])
@pytest.mark.parametrize("profile", thin(["b200", "h200", "rtx-pro-6000", "cpu"], 4))
def test_every_pod_of_every_stream_can_be_wired(profile: str, policy: str) -> None:
    targets = 0
    with proof.every_pod_a_target():
        for name, data in STREAMS.items():
            outcome = proof.prove(data, proof.wiring(profile), Options(policy=policy))
            assert outcome.passed, (name, outcome.error)
            targets += outcome.targets
    assert targets >= sum(TARGETS.values())


@pytest.mark.parametrize("name", TARGETS)
def test_a_stream_without_targets_keeps_every_byte(name: str) -> None:
    data = STREAMS[name].replace(b"nvidia.com/gpu", b"example.com/gpu").replace(b"ray.io", b"example.com")
    for ray in (b"RayCluster", b"RayJob", b"RayCronJob", b"RayService"):
        data = data.replace(b"kind: " + ray, b"kind: My" + ray)
    outcome, _ = proof.run(data, proof.wiring(), Options(), gate=True)
    assert (outcome.error, outcome.refusals, outcome.output) == (None, [], data)


@pytest.mark.parametrize("name", EDGES)
def test_an_oddly_written_target_is_wired_or_rejected_with_a_reason(name: str) -> None:
    outcome = proof.prove(edge(name).encode(), proof.wiring())
    reason = EDGES[name].get("refused")
    if reason:
        assert reason in str(outcome.error)
        assert outcome.output == b""
    else:
        assert (outcome.error, outcome.refusals, outcome.targets) == (None, [], 1)


@pytest.mark.parametrize("name", EDGES)
def test_an_oddly_written_document_without_targets_keeps_every_byte(name: str) -> None:
    text = edge(name).replace("kind: Pod", "kind: Widget")
    text = text.replace("nvidia.com/gpu", "example.com/gpu")
    data = (
        f"---\nkind: ConfigMap\n{'' if text.startswith('---') else '---'}\n{text}\n--- # the last\nkind: End".encode()
    )
    outcome, _ = proof.run(data, proof.wiring(), Options())
    # What is not read cannot be refused: without the gate a document of another kind is copied.
    assert (outcome.error, outcome.output) == (None, data) or "kind: Widget" not in text
    judged, _ = proof.run(data, proof.wiring(), Options(), gate=True)
    assert judged.output == (b"" if judged.error else data)


def test_the_kubernetes_parser_sees_only_the_wiring_change(go: Embedded) -> None:
    texts = {**STREAMS, **{name: edge(name).encode() for name in EDGES if "refused" not in EDGES[name]}}
    targets = 0
    for name, data in texts.items():
        outcome, result = proof.run(data, proof.wiring(), Options())
        assert result is not None, (name, outcome.error)
        pieces = proof.cut(outcome.output)
        for before, after in zip(proof.cut(data), pieces, strict=True):
            if before != after:
                wanted, _ = apply.wire(read_values(go, before.decode()), proof.wiring(), Options())
                assert proof.canonical(read_values(go, after.decode())) == proof.canonical(wanted), name
                targets += 1
    assert targets == sum(TARGETS.values()) + len(texts) - len(STREAMS)


def _entries(pairs: list[tuple[str, str]]) -> str:
    return "".join(f"    - name: {name}\n      value: {value}\n" for name, value in pairs)


def _by_go(go: Embedded, text: str) -> Any:
    try:
        return read_values(go, text)
    except RenderError:
        return None


def test_no_scalar_in_any_document_changes_its_meaning(go: Embedded) -> None:
    wired = 0
    for number, scalar in enumerate(SCALARS):
        label = f"  labels:\n    a: {scalar}\nspec:\n"
        target = POD.replace("spec:\n", label) + _entries([("A", scalar)])
        other = target.replace("nvidia.com/gpu", "example.com/gpu").replace("name: a\n", "name: b\n")
        data = f"---\n{target}---\n{other}".encode()
        outcome, _ = proof.run(data, proof.wiring(), Options())
        before = _by_go(go, target)
        if before is None:
            # Kubernetes cannot read it: it is refused, or copied as far as a reader can tell.
            continue
        assert outcome.error is None, (scalar, outcome.error)
        first, second = proof.cut(outcome.output)
        assert second == f"---\n{other}".encode()
        wanted, _ = apply.wire(before, proof.wiring(), Options())
        assert proof.canonical(read_values(go, first.decode())) == proof.canonical(wanted), (number, scalar)
        wired += 1
    assert wired > 150


def test_no_written_text_changes_its_meaning(go: Embedded) -> None:
    values = copy.deepcopy(inputs.load([str(path) for path in stack_files()]))
    names = [f"P{number:03}" for number in range(len(TEXTS) + len(SCALARS))]
    env = dict(zip(names, [*TEXTS, *SCALARS], strict=True))
    values["accelerator"]["nccl"]["env"] = env
    for text in (POD.replace("    env:\n", ""), POD + "    - name: Z\n", json.dumps(proof.read(POD))):
        outcome = proof.prove(text.encode(), Wiring(values))
        assert outcome.targets == 1
        (container,) = read_values(go, outcome.output.decode())["spec"]["containers"]
        written = {entry["name"]: entry.get("value") for entry in container["env"] if entry["name"] in env}
        assert {name: value for name, value in written.items() if value != env[name]} == {}
        assert written.keys() == env.keys()


def test_an_alias_shared_by_two_pods_is_edited_once() -> None:
    outcome = proof.prove(STREAMS["anchors.yaml"], proof.wiring())
    job = proof.cut(outcome.output)[1].decode()
    assert job.count('"LD_LIBRARY_PATH"') == job.count("*template") == 1


def test_an_alias_shared_by_pods_of_two_kinds_is_rejected() -> None:
    text = """\
kind: RayCluster
metadata: {name: a}
spec:
  headGroupSpec:
    template:
      spec:
        containers:
        - name: head
          env: &env
          - name: A
  workerGroupSpecs:
  - template:
      spec:
        containers:
        - name: worker
          env: *env
          resources: {limits: {nvidia.com/gpu: 8}}
"""
    outcome, _ = proof.run(text.encode(), proof.wiring(), Options())
    assert str(outcome.error).startswith("document 1, line 16: an alias gives two objects the same text")
    assert outcome.output == b""


@pytest.mark.parametrize("text", ["kind: List\napiVersion: v1\n", "kind: List\nitems:\n", "kind: List\nitems: {}\n"])
def test_a_list_without_items_is_copied_unchanged(text: str) -> None:
    outcome, _ = proof.run(text.encode(), proof.wiring(), Options(), gate=True)
    assert (outcome.error, outcome.refusals, outcome.output) == (None, [], text.encode())
