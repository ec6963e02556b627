"""`grpo doctor` on a cluster that has all that a stack needs, and with one thing missing at a time (faults.yaml)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grpo.live import examination

from conftest import REPOSITORY, NewStack
from harness.commands import ask
from harness.controlplane import ControlPlane
from harness.goodcluster import prepared
from harness.kube import Kube, load
from harness.kueue import Kueue
from harness.listed import for_ci
from harness.planting import HERE, Plant, planted, read
from harness.stack import Stack
from harness.waiting import until

PLANTS = read(Path(__file__).parent / "faults.yaml")
FOR_CI = ("nodes-cordoned", "secret-missing", "operator-down", "queue-held")
NOT_HERE = {"gke-version"}
# The policy of the network layer is an option (test_pod_policy.py).
WARNS = {"pod-policy"}
QUEUED: dict[str, Any] = {"ray": {"kueue": {"queue": "gpus"}}}


def examine(stack: Stack, *options: str) -> list[dict[str, Any]]:
    """Return the results of `grpo doctor` with the values of a stack."""
    done = ask("doctor", stack, "--format", "json", *options)
    assert done.returncode in (0, 1), done.stderr
    results = list(json.loads(done.stdout))
    assert done.returncode == int(any(each["state"] == "fail" for each in results))
    return results


def failures(stack: Stack, *options: str) -> list[dict[str, Any]]:
    """Return the results that have failed."""
    return [each for each in examine(stack, *options) if each["state"] == "fail"]


@pytest.fixture(scope="module")
def stack(new_stack: NewStack, kube: Kube, control_plane: ControlPlane, work: Path) -> Iterator[Stack]:
    """A stack of which network and storage are installed, on a cluster that has all that it needs."""
    stack = new_stack("b200", "helm4")
    kueue = Kueue(control_plane, work / "doctor")
    try:
        kueue.start()
        with prepared(kube, stack, load((REPOSITORY / "examples/kueue/queue.yaml").read_text())):
            yield stack
    finally:
        kueue.stop()


@pytest.mark.usefixtures("stack")
def test_networks_the_stack_will_create_are_not_reported_as_missing(new_stack: NewStack) -> None:
    """Before the first install nothing is there but what others make."""
    other = new_stack("h200", "helm4", network={"names": {"prefix": "other"}})
    assert failures(other) == []
    texts = [each["text"] for each in examine(other) if each["check"] == "networks"]
    assert len(texts) == 9
    assert all(text.endswith("is not there yet; the network layer makes it") for text in texts), texts


@pytest.mark.ci
@pytest.mark.parametrize("values", [{}, QUEUED], ids=["plain", "queued"])
def test_a_healthy_cluster_passes_every_check(stack: Stack, values: dict[str, Any]) -> None:
    results = examine(stack.with_values(**values))
    # This API server is no GKE; tests/live/test_checks.py has its versions.
    assert {each["check"] for each in results if each["state"] != "pass"} == NOT_HERE | WARNS
    silent = {"config-maps", "device-classes", "device-managers", "limit-range", "priority", "queue-priority", "quota"}
    silent |= {"resource-claims", "runtime-classes", "storage-classes"}
    silent |= set() if values else {"flavors", "queue"}
    planted_checks = {plant.check for plant in PLANTS}
    assert {each["check"] for each in results} == planted_checks - silent | {"rights"} | NOT_HERE | WARNS


def shown(place: str) -> str:
    """Return what stands at file:line:col."""
    file, line, column = place.rsplit(":", 2)
    return Path(REPOSITORY, file).read_text().splitlines()[int(line) - 1][int(column) - 1 :]


@pytest.mark.parametrize("plant", for_ci(PLANTS, lambda plant: plant.name in FOR_CI), ids=lambda plant: plant.name)
def test_each_planted_fault_is_found_and_no_other(stack: Stack, kube: Kube, plant: Plant) -> None:
    text = plant.text.replace(HERE, stack.namespace)
    options = [word.replace(HERE, stack.namespace) for word in plant.options]
    failed: list[dict[str, Any]] = []

    def is_found() -> list[dict[str, Any]]:
        """Ask again: controllers take a moment to see a change, and to forget the one before."""
        failed[:] = failures(stack.with_values(**plant.values), *options)
        others = {each["check"] for each in failed} - {plant.check, *plant.follows}
        return [each for each in failed if each["check"] == plant.check and text in each["text"] and not others]

    with planted(kube, plant, stack.namespace):
        found = until(is_found, f"{plant.check}: {text}", 30, seen=lambda: json.dumps(failed, indent=1))
    assert {each["value"] for each in found} == {plant.value}
    assert all(each["fix"] and each["command"] for each in found), found
    if plant.value:
        # The key of a label has dots of its own.
        key = shown(found[0]["at"]).split(":")[0]
        assert key in plant.value.split(".") or plant.value.endswith(f".{key}"), found
    assert set(plant.follows) <= {each["check"] for each in failed}, "a check that does not fail too"


def test_gpus_in_use_by_another_team_fail_the_room_check(stack: Stack, new_stack: NewStack) -> None:
    other = new_stack("b200", "helm4", ray={"workers": {"replicas": 3}})
    other.install("storage", "raycluster")
    other.until_ready()
    try:
        (found,) = failures(stack)
        text = "gpu: free nodes: 1, wanted: 2; in use: 3 with only 0 of 8 nvidia.com/gpu left"
        assert (found["check"], text in found["text"]) == ("room", True), found
    finally:
        other.uninstall_all()


def test_a_team_member_is_shown_which_checks_were_skipped(stack: Stack, kube: Kube) -> None:
    namespace = stack.namespace
    kube.run("create", "serviceaccount", "viewer", "-n", namespace)
    kube.run(
        "create", "rolebinding", "viewer", "-n", namespace, "--clusterrole=view", f"--serviceaccount={namespace}:viewer"
    )
    settings = yaml.safe_load(kube.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": kube.run("create", "token", "viewer", "-n", namespace).strip()}
    path = stack.work / "viewer.kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    results = examine(stack, "--kubeconfig", str(path))
    skipped = {each["check"] for each in results if each["state"] == "not checked"}
    assert {"nodes", "room", "secrets", "operator"} <= skipped
    refused = {each["text"] for each in results if each["check"] == "rights" and each["state"] == "fail"}
    assert f"you may not create rayjobs.ray.io in {namespace}" in refused


@pytest.mark.ci
def test_the_planted_faults_cover_every_check_with_unique_names() -> None:
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 40
    # Rights are those of a user, the hub is no part of the cluster, and a policy is an option: they have other tests.
    elsewhere = {"rights", "hugging-face", *NOT_HERE, *WARNS}
    assert {plant.check for plant in PLANTS} == {each.id for each in examination.checks()} - elsewhere
