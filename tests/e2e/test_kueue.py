"""Stacks in a queue of a real Kueue, with the queue of examples/kueue, which holds one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import REPOSITORY, NewStack
from harness.commands import ask
from harness.controlplane import ControlPlane
from harness.helm import Helm, HelmError
from harness.kube import Kube, Manifest, dump, load
from harness.kueue import Kueue
from harness.stack import Stack
from harness.waiting import until

EXAMPLES = REPOSITORY / "examples/kueue"
QUEUE: dict[str, Any] = {"queue": "gpus", "topology": {"preferred": "cloud.google.com/gce-topology-block"}}
PODSET = "kueue.x-k8s.io/podset"


@pytest.fixture(scope="module")
def kueue(control_plane: ControlPlane, kube: Kube, work: Path) -> Iterator[Kueue]:
    """Kueue with the queue of the examples."""
    kueue = Kueue(control_plane, work)
    try:
        kueue.start()
        kube.apply(item for item in load((EXAMPLES / "queue.yaml").read_text()) if item["kind"] != "LocalQueue")
        yield kueue
    finally:
        kueue.stop()


@pytest.fixture
def new_queued(kueue: Kueue, kube: Kube, helm: Helm, new_stack: NewStack) -> Iterator[Any]:
    """Make stacks of a namespace with a LocalQueue, and uninstall them: new_queued(**values)."""
    stacks: list[Stack] = []

    def make(**values: object) -> Stack:
        stack = new_stack("b200", helm.program.name).with_values(ray={"kueue": QUEUE}, **values)
        stack = stack.with_helm(replace(helm, server_side=False))
        (queue,) = [item for item in load((EXAMPLES / "queue.yaml").read_text()) if item["kind"] == "LocalQueue"]
        kube.apply([{**queue, "metadata": {**queue["metadata"], "namespace": stack.namespace}}])
        stacks.append(stack)
        return stack

    yield make
    for stack in stacks:
        releases = kube.list("secrets", stack.namespace, "owner=helm")
        names = {secret["metadata"]["labels"]["name"] for secret in releases}
        for layer in ("grpo-job", "raycluster", "storage"):
            if stack.release(layer) in names:
                stack.uninstall(layer)


def uids(stack: Stack) -> set[str]:
    """Return the identities of the Ray pods."""
    return {pod["metadata"]["uid"] for pod in stack.pods()}


def labels(kube: Kube, stack: Stack) -> Manifest:
    """Return the labels of the workers' pod template."""
    cluster = kube.get("raycluster", stack.cluster, stack.namespace)
    return dict(cluster["spec"]["workerGroupSpecs"][0]["template"]["metadata"]["labels"])


def stays(stack: Stack, before: set[str]) -> None:
    """Check for some seconds that the pods are still those of before; Kueue stops a cluster in less than one."""
    with pytest.raises(AssertionError, match="pods changed"):
        until(lambda: uids(stack) != before, "pods changed", seconds=3)


def start(stack: Stack, kueue: Kueue) -> set[str]:
    """Install a cluster, wait until it is admitted and ready, and return its pods."""
    stack.install("storage", "raycluster")
    kueue.until_admitted("RayCluster", stack.cluster, stack.namespace)
    stack.until_ready()
    return uids(stack)


@pytest.mark.parametrize("helm", ["helm3", pytest.param("helm4", marks=pytest.mark.ci)], indirect=True)
def test_upgrades_and_rollbacks_that_change_no_pod_pass(new_queued: Any, kueue: Kueue, kube: Kube) -> None:
    stack = new_queued()
    before = start(stack, kueue)
    assert len(before) == 3
    assert labels(kube, stack)[PODSET] == "gpu"
    stack.upgrade("raycluster")
    stack.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("raycluster")
    stack.roll_back("raycluster", 1)
    stays(stack, before)
    assert labels(kube, stack)[PODSET] == "gpu"


@pytest.mark.parametrize("helm", ["helm4"], indirect=True)
def test_a_refused_server_side_upgrade_recovers_with_one_option(
    new_queued: Any, kueue: Kueue, kube: Kube, helm: Helm
) -> None:
    """Every upgrade of it is refused, and one option at the next upgrade is enough. No way ends the pods."""
    stack = new_queued().with_helm(helm)
    before = start(stack, kueue)
    with pytest.raises(HelmError, match=r'conflict with \\*"kueue\\*" using ray.io/v1: \.spec\.workerGroupSpecs'):
        stack.upgrade("raycluster")
    assert helm.status(stack.release("raycluster"), stack.namespace) == "failed"
    stack.upgrade("raycluster", "--server-side=false")
    stack.upgrade("raycluster")
    assert labels(kube, stack)[PODSET] == "gpu"
    # Without the rollback option: KubeRay reports no new generation where no pod changes, and Helm 4 would wait for it.
    stack.upgrade("raycluster", "--server-side=true", "--force-conflicts", safe=False)
    assert PODSET not in labels(kube, stack), "nothing was taken away: the next line proves nothing"
    stays(stack, before)


@pytest.mark.parametrize("helm", ["helm3"], indirect=True)
def test_kubectl_and_argo_cd_keep_the_pods(new_queued: Any, kueue: Kueue, kube: Kube) -> None:
    """Argo CD applies as kubectl does: lists of a live object that differ are replaced."""
    stack = new_queued()
    before = start(stack, kueue)
    rendered = dump(item for item in stack.render("raycluster") if item["kind"] == "RayCluster")
    kube.run("apply", "--namespace", stack.namespace, "-f", "-", stdin=rendered)
    assert PODSET not in labels(kube, stack), "nothing was taken away: the next line proves nothing"
    stays(stack, before)


@pytest.mark.parametrize("helm", [pytest.param("helm3", marks=pytest.mark.ci), "helm4"], indirect=True)
def test_a_changed_image_yields_the_quota_to_the_waiting_stack(new_queued: Any, kueue: Kueue) -> None:
    first, second = new_queued(), new_queued()
    before = start(first, kueue)
    second.install("storage", "raycluster")
    changed = first.with_values(images={"training": {"tag": "v0.7.1"}})
    changed.upgrade("raycluster", safe=False)
    kueue.until_admitted("RayCluster", second.cluster, second.namespace)
    second.until_ready()
    assert uids(first) == set()
    assert not kueue.admitted("RayCluster", first.cluster, first.namespace)
    # Back to the old image while it waits: the cluster waits on, and starts when the other one is gone.
    first.roll_back("raycluster", 1)
    assert uids(first) == set()
    second.uninstall("raycluster")
    kueue.until_admitted("RayCluster", first.cluster, first.namespace)
    first.until_ready()
    assert not uids(first) & before


def test_kueue_admits_a_run_with_its_own_cluster(new_queued: Any, kueue: Kueue) -> None:
    """No Ray runs in the pods, so the job initializes for as long as the test takes."""
    own = {"job": {"cluster": {"mode": "ephemeral"}}}
    first, second = new_queued(**own), new_queued(**own)
    first.install("storage", "grpo-job")
    kueue.until_admitted("RayJob", first.run, first.namespace)
    before = until(lambda: len(found := uids(first)) == 3 and found, "the pods of the first run")
    second.install("storage", "grpo-job")
    first.upgrade("grpo-job")
    first.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("grpo-job")
    with pytest.raises(HelmError, match=r"locked-raise-job\.attempt"):
        first.with_values(job={"config": {"grpo": {"max_num_steps": 11}}}).upgrade("grpo-job")
    stays(first, before)
    again = first.with_values(job={"attempt": 2})
    again.upgrade("grpo-job")
    kueue.until_admitted("RayJob", second.run, second.namespace)
    assert not kueue.admitted("RayJob", again.run, again.namespace)
    second.uninstall("grpo-job")
    kueue.until_admitted("RayJob", again.run, again.namespace)


@pytest.mark.parametrize("helm", ["helm4"], indirect=True)
def test_status_reads_the_kueue_version_the_server_offers(
    new_queued: Any, kueue: Kueue, control_plane: ControlPlane
) -> None:
    """Kueue serves an old version for some releases only."""
    first, second = new_queued(), new_queued()
    start(first, kueue)
    second.install("storage", "raycluster")
    until(lambda: kueue.waits_for("RayCluster", second.cluster, second.namespace), "the second stack waits")
    before = len(control_plane.server.requests())
    done = ask("status", second, "--kubeconfig", str(control_plane.server.audited))
    assert "waits in Kueue's queue gpus: couldn't assign flavors" in done.stdout, done.stdout
    asked = [each for each in control_plane.server.requests()[before:] if "/kueue.x-k8s.io/" in each["requestURI"]]
    found = {(each["requestURI"].split("/")[3], each["responseStatus"]["code"]) for each in asked}
    assert found == {("v1beta2", 200)}


def test_the_queued_provisioning_example_is_accepted(kueue: Kueue, kube: Kube) -> None:
    """Without machines and an autoscaler nothing can be provisioned."""
    kube.create(load((EXAMPLES / "queued-provisioning.yaml").read_text()), dry_run=True)
