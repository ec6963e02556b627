"""`helm test` in real pods."""

from __future__ import annotations

import re

import pytest
from hub import Hub

from conftest import Installed
from harness.helm import Helm, HelmError
from harness.kube import Kube
from harness.stack import TOKEN, Stack

pytestmark = pytest.mark.shared


@pytest.fixture
def ready(shared: Installed) -> Installed:
    """The shared stack."""
    return shared


def helm_test(stack: Stack, kube: Kube, name: str) -> tuple[bool, str]:
    """Run one test of the cluster's chart; return whether it passed, and what its pod said.

    Helm leaves the pod until the next test, and `grpo status` would name one that has failed.
    """
    pod = f"{stack.cluster}-test-{name}"
    words = ("test", stack.release("raycluster"), "--namespace", stack.namespace, "--filter", f"name={pod}")
    try:
        stack.helm.run(*words, "--timeout", "170s")
        passed = True
    except HelmError:
        passed = False
    said = kube.logs(kube.get("pod", pod, stack.namespace))
    kube.delete("pod", pod, stack.namespace)
    return passed, said


@pytest.mark.ci
def test_the_storage_check_passes_and_leaves_nothing_behind(ready: Installed, kube: Kube) -> None:
    passed, said = helm_test(ready.stack, kube, "storage")
    assert passed, said
    assert not list(ready.stack.on_volume("/data").glob(".helm-test-*"))


def test_missing_gpus_are_reported(ready: Installed, kube: Kube) -> None:
    passed, said = helm_test(ready.stack, kube, "gpus")
    assert not passed
    assert "nvidia-smi" in said


def test_the_nccl_check_starts_all_ranks_and_fails_for_lack_of_pytorch(ready: Installed, kube: Kube) -> None:
    """Sixteen ranks have started on two nodes, with NCCL's variables; then they need PyTorch."""
    passed, said = helm_test(ready.stack, kube, "nccl")
    assert not passed
    assert "all-gather of 1.00 GiB by nccl, 8 ranks on each node" in said
    assert re.search(r"nccl failed: \S+ and \S+: rank \d+ has no PyTorch .*: images.training is not a", said)


@pytest.mark.ci
def test_the_hub_accepts_the_token_of_every_node(
    ready: Installed, kube: Kube, helms: dict[str, Helm], hub: Hub
) -> None:
    """Helm 3 tests the release as Helm 4 does."""
    stack = ready.stack.with_helm(helms["helm3"])
    passed, said = helm_test(stack, kube, "huggingface")
    assert passed, said
    assert f"HF_TOKEN is set on 3 nodes; {hub.url} accepts it" in said
    hub.tokens.pop(TOKEN)
    try:
        passed, refused = helm_test(stack, kube, "huggingface")
    finally:
        hub.tokens[TOKEN] = True
    assert not passed
    assert f"{hub.url} refuses HF_TOKEN, which is mistyped, expired or revoked" in refused
    assert TOKEN not in said + refused
