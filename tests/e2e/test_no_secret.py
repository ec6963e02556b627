"""Tokens at every place of a real cluster that the commands read: none is shown or saved."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness.commands import ask, grpo
from harness.goodcluster import operator
from harness.kube import Kube, Manifest
from harness.planting import change
from harness.stack import TOKEN, Stack

pytestmark = pytest.mark.ci

# Each command that shows evidence: a new one is a new word.
COMMANDS = ("status", "doctor", "why")
PLACES = (
    *("pod-annotation", "pod-label-key", "pod-message", "pod-reason", "node-annotation", "node-condition"),
    *("namespace-annotation", "claim-annotation", "secret-annotation", "secret-value", "config-map", "event"),
    *("raycluster-annotation", "job-message", "operator-argument", "quota-annotation"),
)
TOKENS = {place: f"hf_{number:02d}" + "aB3x" * 8 for number, place in enumerate(PLACES)}
# No shape: the name before it says what it is.
PASSWORD = "Correct-Horse-7"


def annotation(place: str) -> Manifest:
    """Return a patch that writes a token and a password into an annotation."""
    return {"metadata": {"annotations": {"note": f"see {TOKENS[place]} and --api-key {PASSWORD}"}}}


@pytest.fixture(scope="module")
def stack(new_stack: NewStack, kube: Kube) -> Iterator[Stack]:
    """A stack that runs, in whose objects the tokens stand."""
    stack = new_stack("b200", "helm4")
    # The charts take it; the commands read the values without it, as lint refuses it.
    stack.with_values(ray={"head": {"env": {"DB_PASSWORD": {"value": PASSWORD}}}}).install("storage", "raycluster")
    stack.install("grpo-job")
    stack.until_ready()
    deployment = operator()
    deployment["metadata"]["namespace"] = stack.namespace
    words = ["--token", PASSWORD, f"--note={TOKENS['operator-argument']}"]
    deployment["spec"]["template"]["spec"]["containers"][0]["args"] = words
    kube.create([deployment])
    node = str(stack.pods()[1]["spec"]["nodeName"])
    plant(stack, kube, node)
    yield stack
    change(kube, "node", node, {"metadata": {"annotations": {"note": None}}})
    kube.delete("deployment", "kuberay-operator", stack.namespace)
    stack.uninstall_all()


def plant(stack: Stack, kube: Kube, node: str) -> None:
    """Write the tokens."""
    where, pod = stack.namespace, stack.pods()[1]["metadata"]["name"]
    change(kube, "pod", pod, annotation("pod-annotation"), where)
    change(kube, "pod", pod, {"metadata": {"annotations": {TOKENS["pod-label-key"]: "x"}}}, where)
    waiting = {"reason": "ImagePullBackOff", "message": f"pull with {TOKENS['pod-message']}"}
    ended = {"exitCode": 1, "reason": "Error", "message": f"password={PASSWORD}"}
    container = {"name": "ray-worker", "image": "i", "imageID": "", "ready": False, "restartCount": 1}
    statuses = [{**container, "state": {"waiting": waiting}, "lastState": {"terminated": ended}}]
    state = {"reason": TOKENS["pod-reason"], "containerStatuses": statuses}
    change(kube, "pod", pod, {"status": state}, where, status=True)
    change(kube, "node", node, annotation("node-annotation"))
    condition = {"type": "Broken", "status": "True", "reason": "Planted", "message": TOKENS["node-condition"]}
    kube.run(
        "patch",
        "node",
        node,
        "--subresource=status",
        "--type=strategic",
        "-p",
        json.dumps({"status": {"conditions": [condition]}}),
    )
    change(kube, "namespace", where, annotation("namespace-annotation"))
    change(kube, "persistentvolumeclaim", f"{stack.name}-data", annotation("claim-annotation"), where)
    change(kube, "secret", "hf-secret", annotation("secret-annotation"), where)
    change(kube, "raycluster", stack.cluster, annotation("raycluster-annotation"), where)
    change(
        kube,
        "rayjob",
        stack.run,
        {"status": {"message": TOKENS["job-message"], "jobDeploymentStatus": "Failed"}},
        where,
        status=True,
    )
    about = {"kind": "Pod", "name": pod, "namespace": where, "apiVersion": "v1"}
    kube.create(
        [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s"},
                "stringData": {"k": TOKENS["secret-value"]},
            },
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": TOKENS["config-map"]}},
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q", **annotation("quota-annotation")["metadata"]},
                "spec": {"hard": {"pods": 1}},
            },
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "e"},
                "involvedObject": about,
                "type": "Warning",
                "reason": "FailedMount",
                "message": f"{TOKENS['event']} at https://me:{PASSWORD}@example.org",
            },
        ],
        where,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_no_token_is_printed_or_saved(stack: Stack, command: str) -> None:
    path = str(stack.work / f"{command}-secrets.tar.gz")
    done = [
        ask(command, stack, "--bundle", path),
        ask(command, stack, "--format", "json"),
        grpo(command, "--from", path),
    ]
    assert {each.returncode for each in done} == {1}, done
    with tarfile.open(path) as archive:
        held = {entry.name: archive.extractfile(entry).read().decode() for entry in archive}  # type: ignore[union-attr]
    texts = [text for each in done for text in (each.stdout, each.stderr)] + list(held.values())
    words = {**TOKENS, "password": PASSWORD, "the token of the hub": TOKEN}
    assert {place for place, word in words.items() if any(word in text for text in texts)} == set()
    # Otherwise the objects were not read, and the line above proves nothing.
    for kind in (
        "pods",
        "nodes",
        "events",
        "rayjobs",
        "rayclusters",
        "persistentvolumeclaims",
        "deployments",
        "namespaces",
    ):
        assert "<huggingface token>" in held[f"objects/{kind}.json"], kind
