"""Why no node takes a pod."""

from __future__ import annotations

from typing import Any

import pytest

from grpo.cluster import scheduling
from grpo.cluster.evidence import Evidence
from grpo.cluster.expected import Expected
from grpo.live.status import waiting

GPU = "nvidia.com/gpu"
LABEL = "cloud.google.com/gke-accelerator"
SPEC: dict[str, Any] = {
    "containers": [{"resources": {"limits": {GPU: 8, "cpu": "100", "memory": "500Gi"}}}],
    "nodeSelector": {LABEL: "nvidia-b200"},
    "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
}


def node(name: str = "n", **change: Any) -> dict[str, Any]:
    item: dict[str, Any] = {
        "metadata": {"name": name, "labels": {LABEL: "nvidia-b200", "zone": "a", "size": "7"}},
        "spec": {"taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": {GPU: "8", "cpu": "110", "memory": "600Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    for path, value in change.items():
        first, second = path.split("_", 1)
        item[first][second] = value
    return item


def evidence(nodes: list[dict[str, Any]], there: list[dict[str, Any]] | None = None, **kinds: Any) -> Evidence:
    expected = Expected("s", "ns", {}, {})
    return Evidence(expected, "c", 0.0, {"nodes": nodes, "allPods": there or [], **kinds})


def reasons(spec: dict[str, Any], *args: Any) -> list[str]:
    return [reason for reason, _ in scheduling.obstacles(spec, scheduling.nodes(evidence(*args)))]


def on(node_name: str, gpus: int) -> dict[str, Any]:
    return {"spec": {"nodeName": node_name, "containers": [{"resources": {"requests": {GPU: str(gpus)}}}]}}


def affinity(key: str, operator: str, *values: str) -> dict[str, Any]:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def test_a_suitable_node_has_no_obstacle() -> None:
    assert reasons(SPEC, [node()]) == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (node(metadata_labels={}), f"without the label {LABEL}=nvidia-b200"),
        (node(metadata_labels={LABEL: "nvidia-l4"}), f"without the label {LABEL}=nvidia-b200 (it is nvidia-l4)"),
        (node(status_conditions=[{"type": "Ready", "status": "Unknown"}]), "not ready"),
        (
            node(spec_taints=[{"key": "team", "effect": "NoExecute"}]),
            "with the taint team:NoExecute, which the pod does not tolerate",
        ),
        (node(status_allocatable={GPU: "4", "cpu": "110", "memory": "600Gi", "pods": "9"}), f"offering only 4 {GPU}"),
        (node(status_allocatable={GPU: "8", "cpu": "99", "memory": "600Gi", "pods": "9"}), "offering only 99 cpu"),
        (
            node(status_allocatable={GPU: "8", "cpu": "110", "memory": "300Gi", "pods": "9"}),
            "offering only 300Gi memory",
        ),
    ],
)
def test_each_obstacle_is_named(changed: dict[str, Any], reason: str) -> None:
    assert reasons(SPEC, [changed]) == [reason]


@pytest.mark.parametrize(
    ("required", "fits"),
    [
        (affinity("zone", "In", "a", "b"), True),
        (affinity("zone", "In", "b"), False),
        (affinity("zone", "NotIn", "a"), False),
        (affinity("other", "NotIn", "a"), True),
        (affinity("zone", "Exists"), True),
        (affinity("other", "Exists"), False),
        (affinity("zone", "DoesNotExist"), False),
        (affinity("size", "Gt", "6"), True),
        (affinity("size", "Gt", "7"), False),
        (affinity("size", "Lt", "8"), True),
        (affinity("zone", "Lt", "8"), False),
    ],
)
def test_required_affinity_is_evaluated_like_kubernetes(required: dict[str, Any], *, fits: bool) -> None:
    assert (reasons({**SPEC, "affinity": required}, [node()]) == []) == fits


def test_gpus_in_use_count_and_the_most_frequent_reason_comes_first() -> None:
    nodes = [node("a"), node("b"), node("c", metadata_labels={})]
    pods = [on("a", 8), on("b", 2), on("b", 6)]
    assert reasons(SPEC, nodes, pods) == [
        f"with only 0 of 8 {GPU} left",
        f"without the label {LABEL}=nvidia-b200",
    ]


def test_the_summary_counts_nodes_for_each_obstacle() -> None:
    found = scheduling.obstacles(SPEC, scheduling.nodes(evidence([node(status_conditions=[])])))
    assert scheduling.counted(found, 1) == "Of 1 node: 1 not ready"
    assert scheduling.counted([*found, ("offering only 99 cpu", ["a", "b"])], 4) == (
        "Of 4 nodes: 1 not ready; 2 offering only 99 cpu"
    )
    assert scheduling.counted([], 4) == ""
    assert scheduling.counted([], 0) == "The cluster has no node"


def test_a_pods_needs_are_summarised() -> None:
    assert scheduling.needs(SPEC) == f"8 {GPU}, 100 cpu, 500Gi memory, on a node with {LABEL}=nvidia-b200"


def test_a_sidecars_requests_count_and_an_init_containers_do_not() -> None:
    def request(cpu: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}}

    spec = {
        "containers": [request("1")],
        "initContainers": [request("30"), {**request("500m"), "restartPolicy": "Always"}],
    }
    assert scheduling.requests(spec)["cpu"] == 1.5


def test_each_pods_requests_are_summed_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 500 nodes and 2000 pods it must take no time."""
    nodes = [node(f"n{number}", metadata_labels={LABEL: "nvidia-l4"}) for number in range(50)]
    pods = [on(f"n{number % 50}", 1) for number in range(200)]
    pending = [
        {
            "metadata": {"name": f"p{number}", "labels": {}},
            "spec": SPEC,
            "status": {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "message": "no"}],
            },
        }
        for number in range(8)
    ]
    asked: list[Any] = []
    monkeypatch.setattr(scheduling, "requests", lambda spec, sums=scheduling.requests: asked.append(1) or sums(spec))
    (wait,) = waiting.waits(evidence(nodes, pods, pods=pending))
    assert len(wait.names) == 8
    assert "Of 50 nodes: 50 without the label" in wait.why
    # Once for each pod on a node, and a few times for each that waits.
    assert len(pods) <= len(asked) <= len(pods) + 4 * len(pending)
