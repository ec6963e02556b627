"""What an upgrade of the cluster layer does to its pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness.stack import Stack
from harness.waiting import until


@pytest.fixture(params=["helm3", "helm4"])
def stack(request: pytest.FixtureRequest, new_stack: NewStack) -> Iterator[Stack]:
    """A ready cluster: what KubeRay does to its pods is judged."""
    stack = new_stack("b200", request.param)
    stack.install("storage", "raycluster")
    stack.until_ready()
    yield stack
    stack.uninstall("raycluster", "storage")


def uids(stack: Stack) -> set[str]:
    """Return the identities of the pods."""
    return {pod["metadata"]["uid"] for pod in stack.pods()}


def images(stack: Stack) -> set[str]:
    """Return the images of all Ray containers."""
    return {pod["spec"]["containers"][0]["image"] for pod in stack.pods()}


@pytest.mark.ci
def test_a_new_label_recreates_no_pod_and_a_new_image_recreates_all(stack: Stack) -> None:
    before = uids(stack)
    assert len(before) == 3
    stack.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("raycluster")
    # The operator acts on a change at once; three seconds are ten times what it needs for the image below.
    with pytest.raises(AssertionError, match="pods changed"):
        until(lambda: uids(stack) != before, "pods changed", seconds=3)
    stack.with_values(images={"training": {"tag": "v0.7.1"}}).upgrade("raycluster")
    until(lambda: images(stack) == {"nvcr.io/nvidia/nemo-rl:v0.7.1"} and len(uids(stack)) == 3, "new pods", seconds=40)
    assert not uids(stack) & before
    stack.until_ready()


def test_adding_workers_leaves_the_existing_ones_alone(stack: Stack) -> None:
    before = uids(stack)
    stack.with_values(ray={"workers": {"replicas": 3}}).upgrade("raycluster")
    until(lambda: len(uids(stack)) == 4, "one more pod", seconds=40)
    assert uids(stack) > before
    stack.until_ready()


def test_manual_upgrades_leave_the_pods_alone(stack: Stack) -> None:
    """No rollback option: Helm 4 would wait for an observed generation that KubeRay 1.6 writes only with other news."""
    manual = stack.with_values(ray={"upgrade": "manual"})
    before = uids(stack)
    manual.upgrade("raycluster", safe=False)
    manual.with_values(images={"training": {"tag": "v0.7.1"}}).upgrade("raycluster", safe=False)
    with pytest.raises(AssertionError, match="pods changed"):
        until(lambda: uids(stack) != before, "pods changed", seconds=3)
