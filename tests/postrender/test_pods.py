"""Pod templates are found in every kind, with how many pods are made of each."""

from __future__ import annotations

from typing import Any

import pytest

from postrender.manifests import pods

TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "a"}]}}


def ray(replicas: int = 2) -> dict[str, Any]:
    """Return the spec of a RayCluster."""
    return {
        "headGroupSpec": {"template": TEMPLATE},
        "workerGroupSpecs": [{"template": TEMPLATE, "replicas": replicas, "numOfHosts": 3}, {"template": TEMPLATE}],
    }


OBJECTS: list[tuple[dict[str, Any], dict[str, int | None]]] = [
    ({"kind": "Pod", **TEMPLATE}, {"": 1}),
    ({"kind": "Deployment", "spec": {"replicas": 3, "template": TEMPLATE}}, {"spec.template": 3}),
    ({"kind": "StatefulSet", "spec": {"template": TEMPLATE}}, {"spec.template": 1}),
    ({"kind": "DaemonSet", "spec": {"template": TEMPLATE}}, {"spec.template": None}),
    ({"kind": "Job", "spec": {"parallelism": 4, "template": TEMPLATE}}, {"spec.template": 4}),
    (
        {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": TEMPLATE}}}},
        {"spec.jobTemplate.spec.template": None},
    ),
    (
        {
            "kind": "JobSet",
            "spec": {
                "replicatedJobs": [{"replicas": 2, "template": {"spec": {"parallelism": 3, "template": TEMPLATE}}}]
            },
        },
        {"spec.replicatedJobs.0.template.spec.template": 6},
    ),
    (
        {
            "kind": "LeaderWorkerSet",
            "spec": {
                "replicas": 2,
                "leaderWorkerTemplate": {"size": 4, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE},
            },
        },
        {"spec.leaderWorkerTemplate.leaderTemplate": 2, "spec.leaderWorkerTemplate.workerTemplate": 6},
    ),
    (
        {"kind": "RayCluster", "spec": ray()},
        {
            "spec.headGroupSpec.template": 1,
            "spec.workerGroupSpecs.0.template": 6,
            "spec.workerGroupSpecs.1.template": 1,
        },
    ),
    (
        {"kind": "RayJob", "spec": {"rayClusterSpec": ray(1)}},
        {
            "spec.rayClusterSpec.headGroupSpec.template": 1,
            "spec.rayClusterSpec.workerGroupSpecs.0.template": 3,
            "spec.rayClusterSpec.workerGroupSpecs.1.template": 1,
        },
    ),
    (
        {"kind": "RayCronJob", "spec": {"jobTemplate": {"rayClusterSpec": ray(1)}}},
        {
            "spec.jobTemplate.rayClusterSpec.headGroupSpec.template": 1,
            "spec.jobTemplate.rayClusterSpec.workerGroupSpecs.0.template": 3,
            "spec.jobTemplate.rayClusterSpec.workerGroupSpecs.1.template": 1,
        },
    ),
    (
        {"kind": "RayService", "spec": {"rayClusterConfig": {"headGroupSpec": {"template": TEMPLATE}}}},
        {"spec.rayClusterConfig.headGroupSpec.template": 1},
    ),
    ({"kind": "ConfigMap", "spec": {"template": TEMPLATE}}, {}),
]


@pytest.mark.parametrize(("item", "expected"), OBJECTS, ids=[each["kind"] for each, _ in OBJECTS])
def test_pod_templates_of_each_known_kind_are_found(item: dict[str, Any], expected: dict[str, int | None]) -> None:
    found = pods.pods(item)
    assert {".".join(map(str, pod.path)): pod.count for pod in found} == expected
    assert all(pod.containers() == [{"name": "a"}] for pod in found)
    assert all(pod.ray == item["kind"].startswith("Ray") for pod in found)
    assert [pod.worker for pod in found] == ["workerGroupSpecs" in pod.path for pod in found]


def test_pod_templates_of_other_kinds_are_found_by_path() -> None:
    item = {"kind": "MPIJob", "spec": {"mpiReplicaSpecs": {"Worker": {"template": TEMPLATE}, "Launcher": {}}}}
    assert pods.pods(item) == []
    (pod,) = pods.pods(item, {"MPIJob": ("spec.mpiReplicaSpecs.*.template",)})
    assert (pod.path, pod.count) == (("spec", "mpiReplicaSpecs", "Worker", "template"), None)


@pytest.mark.parametrize(
    "item",
    [{}, {"kind": "Pod"}, {"kind": "Job", "spec": None}, {"kind": "Job", "spec": {"template": [1]}}, {"kind": 1}],
)
def test_an_object_without_pods_has_no_containers(item: dict[str, Any]) -> None:
    assert [each for pod in pods.pods(item) for each in pod.containers()] == []


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (8, 8),
        ("8", 8),
        (0, 0),
        (None, 0),
        ("1.5", 0),
        (True, 0),
        ("8k", 8000),
        (8.0, 8),
        ("8.0", 8),
        ("8000m", 8),
        ("nan", 0),
        (-8, 0),
        ("1e9", 10**9),
        ("9" * 5000, 0),
    ],
)
def test_the_gpu_limit_of_a_container_is_read(limit: object, expected: int) -> None:
    assert pods.gpus({"resources": {"limits": {"nvidia.com/gpu": limit}}}) == expected


def test_objects_in_a_list_are_found_with_their_paths() -> None:
    inner = {"kind": "List", "items": [{"kind": "B"}]}
    document = {"kind": "List", "items": [{"kind": "A"}, inner, "text", None]}
    found = [(path, item.get("kind")) for path, item in pods.objects(document)]
    nothing = [(("items", at), None) for at in (2, 3)]
    assert found == [(("items", 0), "A"), (("items", 1, "items", 0), "B"), *nothing]


def test_a_pods_machines_follow_from_its_selector_and_affinity() -> None:
    key = "cloud.google.com/gke-accelerator"
    both = ["nvidia-b200", "nvidia-h200-141gb"]

    def affinity(values: list[str]) -> dict[str, object]:
        terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "In", "values": values}]}]}
        return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}

    def names(spec: dict[str, object]) -> set[str]:
        return {machine.name for machine in pods.machines(spec)}

    assert names(affinity(both)) == {"b200", "h200"}
    # A selector narrows what an affinity allows; a machine that no profile knows leaves nothing to say.
    assert names({**affinity(both), "nodeSelector": {key: both[0]}}) == {"b200"}
    assert names(affinity([*both, "nvidia-x900"])) == set()
    assert names({"nodeSelector": {"zone": "x"}}) == set()


def test_an_autoscaled_group_has_no_fixed_pod_count() -> None:
    spec = {**ray(), "enableInTreeAutoscaling": True}
    assert [pod.count for pod in pods.pods({"kind": "RayCluster", "spec": spec})] == [1, None, None]


def test_a_group_without_a_leader_template_has_only_workers() -> None:
    template = {"size": 2, "leaderTemplate": None, "workerTemplate": TEMPLATE}
    assert [
        pod.count for pod in pods.pods({"kind": "LeaderWorkerSet", "spec": {"leaderWorkerTemplate": template}})
    ] == [2]


def test_a_known_path_is_not_walked_twice() -> None:
    item = {"kind": "Job", "spec": {"template": TEMPLATE}}
    assert len(pods.pods(item, {"Job": ("spec.template",)})) == 1
