"""Why a pod that has a node does not run, and why a pod is not made."""

from __future__ import annotations

from typing import Any

import pytest

from grpo.cluster.evidence import Evidence
from grpo.cluster.expected import Expected
from grpo.live.status import waiting


def pod(phase: str = "Pending", **status: Any) -> dict[str, Any]:
    conditions = [{"type": "PodScheduled", "status": "True"}]
    return {"metadata": {"name": "p"}, "spec": {}, "status": {"phase": phase, "conditions": conditions, **status}}


def container(state: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"name": "ray", "state": state, **more}]


def event(kind: str, name: str, reason: str, message: str, time: str = "1") -> dict[str, Any]:
    about = {"kind": kind, "name": name}
    return {"involvedObject": about, "reason": reason, "message": message, "lastTimestamp": time}


def said(expected: Expected | None = None, **objects: list[dict[str, Any]]) -> list[str]:
    return list(map(str, waiting.waits(Evidence(expected or Expected("s", "ns", {}, {}), "c", 0.0, objects))))


WAITING = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x:1"'}}
KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (
            pod(containerStatuses=container(WAITING)),
            'p: container ray waits, ImagePullBackOff: Back-off pulling image "x:1"',
        ),
        (
            pod("Running", containerStatuses=container({"waiting": {"reason": "CrashLoopBackOff"}}, lastState=KILLED)),
            "p: container ray waits, CrashLoopBackOff; exit code 137 (OOMKilled)",
        ),
        (
            pod(
                initContainerStatuses=container(
                    {"terminated": {"exitCode": 1, "reason": "Error", "message": "no gIB\n"}}
                )
            ),
            "p: init container ray has ended; exit code 1 (Error), no gIB",
        ),
        (pod("Failed", reason="Evicted", message="low on disk"), "p: has failed: Evicted: low on disk"),
        (
            pod("Failed", containerStatuses=container(KILLED)),
            "p: has failed: container ray has ended; exit code 137 (OOMKilled)",
        ),
    ],
)
def test_each_container_state_is_described(item: dict[str, Any], text: str) -> None:
    assert said(pods=[item]) == [text]


def test_a_healthy_pod_is_not_reported_as_waiting() -> None:
    assert said(pods=[pod("Running", containerStatuses=container({"running": {}}))]) == []
    assert said(pods=[pod(containerStatuses=container({"waiting": {"reason": "ContainerCreating"}}))]) == []


def test_a_failed_mount_is_reported_with_its_newest_event() -> None:
    events = [
        event("Pod", "p", "FailedMount", "new", "2"),
        event("Pod", "p", "FailedMount", "old", "1"),
        event("Pod", "q", "FailedMount", "another pod's", "3"),
    ]
    assert said(pods=[pod()], events=events) == ["p: is on its node and cannot start, FailedMount: new"]


def test_the_newest_event_is_the_one_seen_last() -> None:
    """An event of events.k8s.io has no lastTimestamp; one that is repeated is a series."""
    events = [event("Pod", "p", "FailedMount", text, "") for text in ("repeated", "once")]
    events[0] |= {"eventTime": "2026-11-26T10:00:00.000000Z"}
    events[0] |= {"series": {"count": 9, "lastObservedTime": "2026-11-26T10:09:00.000000Z"}}
    events[1] |= {"eventTime": "2026-11-26T10:05:00.000000Z"}
    assert said(pods=[pod()], events=events) == ["p: is on its node and cannot start, FailedMount: repeated"]


def test_a_scheduling_gate_is_reported() -> None:
    item = pod()
    item["status"]["conditions"] = []
    item["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    assert said(pods=[item]) == ["p: is held back by the scheduling gate kueue.x-k8s.io/admission"]


def rendered(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def test_each_state_of_a_ray_object_is_reported() -> None:
    head = {"headGroupSpec": {"template": {"spec": {}}}}
    expected = Expected("s", "ns", {}, {"raycluster": [rendered("RayCluster", "s-ray", **head)]})
    assert (
        "check that it runs and watches this namespace"
        in said(expected, rayclusters=[rendered("RayCluster", "s-ray")])[0]
    )
    suspended = {**rendered("RayCluster", "s-ray", suspend=True), "status": {"state": "suspended"}}
    assert said(expected, rayclusters=[suspended]) == ["RayCluster s-ray: is suspended"]
    item = {**rendered("RayCluster", "s-ray"), "status": {"state": "ready"}}
    events = [event("RayCluster", "s-ray", "FailedToCreateHeadPod", "exceeded quota: team")]
    text = "RayCluster s-ray: FailedToCreateHeadPod: exceeded quota: team"
    assert said(expected, rayclusters=[item], events=events) == [text]
    # The warning stays for an hour.
    there = {"metadata": {"name": "h", "labels": {"ray.io/is-ray-node": "yes"}}, "status": {"phase": "Running"}}
    assert said(expected, rayclusters=[item], events=events, pods=[there]) == []


def test_an_unbound_claim_is_reported_with_its_event() -> None:
    claim = rendered("PersistentVolumeClaim", "s-data")
    expected = Expected("s", "ns", {}, {"storage": [claim]})
    found = [{**claim, "status": {"phase": "Pending"}}, {**rendered("PersistentVolumeClaim", "other"), "status": {}}]
    events = [event("PersistentVolumeClaim", "s-data", "ProvisioningFailed", "no such class")]
    assert said(expected, persistentvolumeclaims=found, events=events) == [
        "PersistentVolumeClaim s-data: is Pending, no such class"
    ]


def test_a_deleted_claim_is_reported() -> None:
    one, two = rendered("PersistentVolumeClaim", "s-data"), rendered("PersistentVolumeClaim", "s-weights")
    expected = Expected("s", "ns", {}, {"storage": [one, two]})
    # Nothing of the layer is there: it is not installed, and the releases say so.
    assert said(expected, persistentvolumeclaims=[]) == []
    bound = {**one, "status": {"phase": "Bound"}}
    assert said(expected, persistentvolumeclaims=[bound]) == ["PersistentVolumeClaim s-weights: is not there"]
    leaving = {**two, "metadata": {"name": "s-weights", "deletionTimestamp": "1"}, "status": {"phase": "Bound"}}
    assert said(expected, persistentvolumeclaims=[bound, leaving]) == [
        "PersistentVolumeClaim s-weights: is being deleted"
    ]


def test_a_workload_waiting_in_a_queue_is_reported() -> None:
    expected = Expected("s", "ns", {}, {"raycluster": [rendered("RayCluster", "s-ray")]})
    workload = {
        "metadata": {"ownerReferences": [{"name": "s-ray"}]},
        "spec": {"queueName": "team"},
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "False", "message": "insufficient unused quota"}]
        },
    }
    assert said(expected, workloads=[workload]) == ["s-ray: waits in Kueue's queue team: insufficient unused quota"]
    workload["status"] = {"conditions": [{"type": "Admitted", "status": "True"}]}
    assert said(expected, workloads=[workload]) == []
