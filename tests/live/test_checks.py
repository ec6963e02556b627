"""Checks of `grpo doctor` on evidence that no fake cluster has; tests/e2e/faults.yaml has the faults of a real one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.live import bundle, examination
from grpo.manifests.needs import needed
from grpo.problems.kubernetes import probe_namespace as namespace
from grpo.problems.kubernetes import probe_references as references
from grpo.problems.kubernetes import probe_version as version
from grpo.problems.network import probe as network
from grpo.problems.nodes import probe as nodes
from grpo.problems.probe import Result, warned
from grpo.problems.queue import probe as queue
from grpo.problems.ray import probe as operator
from grpo.problems.scheduling import probe_limits as limits
from postrender.problem import Problem
from tests.live import bundles

GPU = "nvidia.com/gpu"


def said(check: Problem, **objects: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the states and the texts of a check on a stack of a head and a worker with 8 GPUs."""
    return [(each.state, each.text) for each in results(check, **objects)]


def results(check: Problem, **objects: list[dict[str, Any]]) -> list[Result]:
    evidence = bundles.evidence()
    evidence.unread.clear()
    evidence.objects |= objects
    return list(check.check(evidence))


def node(name: str, ready: str = "True", **allocatable: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": name}, "spec": {}, "status": {"allocatable": allocatable, "conditions": conditions}}


def test_nodes_that_are_not_ready_are_counted() -> None:
    head, gpu = results(nodes.nodes, nodes=[node("a", pods="9"), node("b", "Unknown", pods="9", **{GPU: "8"})])
    assert head.state == "pass"
    assert (gpu.state, "Of 2 nodes: " in gpu.text) == ("fail", True)
    assert "1 offering only 0 nvidia.com/gpu" in gpu.text
    assert "1 not ready" in gpu.text


def test_a_cluster_without_nodes_fails() -> None:
    (head, _) = results(nodes.nodes, nodes=[])
    assert (head.state, head.text.endswith(". The cluster has no node")) == ("fail", True)
    assert "autoscaled pool" in head.fix


@pytest.mark.parametrize(("gpus", "value"), [(0, "ray.head.memory"), (8, "accelerator.worker.memory")])
def test_a_head_with_gpus_is_sized_like_a_worker(gpus: int, value: str) -> None:
    evidence = bundles.evidence()
    (cluster,) = evidence.expected.of_kind("RayCluster")
    (container,) = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {GPU: gpus, "memory": "9Gi"}}
    evidence.objects["nodes"] = [node("a", pods="9", memory="8Gi", **{GPU: "8"})]
    evidence.objects["limitranges"] = [
        {"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Pod", "max": {"memory": "8Gi"}}]}}
    ]
    evidence.unread.clear()
    assert next(iter(nodes.nodes.check(evidence))).value == value
    assert [each.value for each in limits.limit_range.check(evidence)] == [value]


def test_a_scoped_quota_is_not_judged() -> None:
    item = {"metadata": {"name": "q"}, "spec": {"scopes": ["BestEffort"]}, "status": {"hard": {"pods": "0"}}}
    assert said(limits.quota, resourcequotas=[item]) == [
        ("not checked", "quota q counts only some pods, by its scopes")
    ]


@pytest.mark.parametrize("left", ["1", "0"])
def test_the_stacks_running_objects_count_as_free_quota(left: str) -> None:
    hard = {"pods": "2", f"requests.{GPU}": "8", "count/rayclusters.ray.io": "1"}
    used = {"pods": "2", f"requests.{GPU}": "8", "count/rayclusters.ray.io": "1"}
    item = {"metadata": {"name": "q"}, "status": {"hard": {**hard, "pods": str(2 - (left == "0"))}, "used": used}}
    assert said(limits.quota, resourcequotas=[item])[0][0] == ("pass" if left == "1" else "fail")


@pytest.mark.parametrize("kind", ["NetworkPolicy", "Ingress"])
@pytest.mark.parametrize("there", [False, True])
def test_a_quota_applies_to_kinds_with_irregular_plurals(kind: str, *, there: bool) -> None:
    plural = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}[kind]
    item = {"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": {"name": "s-ray"}}
    hard = {f"count/{plural}.networking.k8s.io": "1"}
    evidence = bundles.evidence()
    evidence.expected.objects["raycluster"].append(item)
    quota = {"metadata": {"name": "q"}, "status": {"hard": hard, "used": hard}}
    evidence.objects |= {"resourcequotas": [quota], plural: [item] if there else []}
    (found,) = limits.quota.check(evidence)
    assert found.state == ("pass" if there else "fail"), found


@pytest.mark.parametrize(
    ("spec", "state"),
    [({}, "fail"), ({"cohort": "all"}, "pass"), ({"cohortName": "all"}, "pass")],
    ids=["alone", "v1beta1", "v1beta2"],
)
def test_a_queue_that_can_borrow_is_not_too_small(spec: dict[str, Any], state: str) -> None:
    resources = [{"name": GPU, "nominalQuota": "4"}]
    group = {"coveredResources": [GPU], "flavors": [{"name": "f", "resources": resources}]}
    cluster = {"metadata": {"name": "c"}, "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec}}
    local = {"metadata": {"name": "team"}, "spec": {"clusterQueue": "c"}}
    evidence = bundles.evidence()
    evidence.expected.objects["raycluster"][0]["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    evidence.objects |= {"localqueues": [local], "clusterqueues": [cluster]}
    (found,) = queue.queue.check(evidence)
    assert found.state == state, found


@pytest.mark.parametrize(
    ("expression", "state"),
    [
        ('device.driver == "dra.net"', "fail"),
        ('device.driver == "other"', "pass"),
        ('device.driver == "dra.net" &&\n device.attributes["x"].y == "z"', "fail"),
        # Too much for us: nothing is claimed about it.
        ('device.driver == "dra.net" || device.driver == "other"', "pass"),
        ('!(device.driver == "dra.net")', "pass"),
    ],
)
def test_a_device_class_without_matching_devices_fails(expression: str, state: str) -> None:
    request = {"exactly": {"deviceClassName": "c"}}
    template = {"kind": "ResourceClaimTemplate", "spec": {"spec": {"devices": {"requests": [request]}}}}
    evidence = bundles.evidence()
    evidence.expected.objects["raycluster"].append(template)
    evidence.objects["deviceclasses"] = [
        {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    ]
    evidence.objects["resourceslices"] = [{"spec": {"driver": "other"}}]
    (found,) = network.device_classes.check(evidence)
    assert found.state == state


@pytest.mark.parametrize("words", [["--watch-namespace=a,rl"], ["-watch-namespace", "rl"], ["--watch-namespace="], []])
def test_an_operator_that_watches_this_namespace_passes(words: list[str]) -> None:
    (deployment,) = bundles.evidence().objects["deployments"]
    deployment["spec"]["template"]["spec"]["containers"][0]["args"] = words
    assert said(operator.operator, deployments=[deployment])[0][0] == "pass"


def test_a_terminating_namespace_must_be_gone_before_it_is_created() -> None:
    evidence = bundles.evidence()
    del evidence.objects["namespaces"]
    create = "kubectl create namespace rl"
    assert [each.fix for each in namespace.namespace.check(evidence)] == [create]
    evidence.objects["namespaces"] = [{"metadata": {"name": "rl"}, "status": {"phase": "Terminating"}}]
    assert [each.fix for each in namespace.namespace.check(evidence)] == [f"wait until it is gone, then {create}"]


@pytest.mark.parametrize(
    ("keys", "text", "fix"),
    [
        (["other"], "Secret hf has no key token, only other", "name the key that it has, or add the key"),
        ([], "Secret hf has no key token: it has no keys", "add the key"),
    ],
)
def test_a_secret_without_the_required_key_is_reported(keys: list[str], text: str, fix: str) -> None:
    evidence = bundles.evidence()
    (head,) = evidence.expected.objects["raycluster"][0]["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    head["env"] = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]
    evidence.objects["secrets"] = [{"metadata": {"name": "hf"}, "keys": keys}]
    assert [(each.text, each.fix) for each in references.secrets.check(evidence)] == [(text, fix)]


def test_every_referenced_but_missing_object_is_reported() -> None:
    """Each name of the rendered objects that no object has is in a failure, with the value behind it and a fix."""
    evidence = bundles.evidence()
    evidence.unread.clear()
    (cluster,) = evidence.expected.objects["raycluster"]
    cluster["metadata"]["labels"] = {
        "kueue.x-k8s.io/queue-name": "its-queue",
        "kueue.x-k8s.io/priority-class": "its-urgency",
    }
    own_volume = {"volumeClaimTemplate": {"spec": {"storageClassName": "its-disk"}}}
    head = cluster["spec"]["headGroupSpec"]["template"]
    head["metadata"] = {"annotations": {"networking.gke.io/interfaces": '[{"network": "its-network"}]'}}
    head["spec"] = {
        "serviceAccountName": "its-account",
        "priorityClassName": "its-priority",
        "runtimeClassName": "its-runtime",
        "imagePullSecrets": [{"name": "its-registry"}],
        "resourceClaims": [
            {"name": "a", "resourceClaimName": "its-device"},
            {"name": "b", "resourceClaimTemplateName": "its-template"},
        ],
        "volumes": [
            {"name": "a", "secret": {"secretName": "its-folder"}},
            {"name": "b", "configMap": {"name": "its-map"}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "its-claim"}},
            {"name": "d", "ephemeral": own_volume},
            {"name": "e", "csi": {"driver": "its-driver", "nodePublishSecretRef": {"name": "its-login"}}},
            {"name": "f", "projected": {"sources": [{"secret": {"name": "its-part"}}]}},
        ],
        "containers": [
            {
                "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "its-key", "key": "k"}}}],
                "envFrom": [
                    {"configMapRef": {"name": "its-settings"}},
                    {"secretRef": {"name": "its-choice", "optional": True}},
                ],
            }
        ],
    }
    request = {"exactly": {"deviceClassName": "its-class"}}
    template = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    evidence.expected.objects["raycluster"].append({**template, "kind": "ResourceClaimTemplate"})
    needs = needed.needs(evidence.expected.all(), "rl")
    assert len(needs) == 19
    assert "its-choice" not in {each.name for each in needs}
    failures = [each for _, each in examination.examine(evidence) if each.state == "fail"]
    for need in needs:
        (found,) = [each for each in failures if re.search(rf"\b{need.name}\b", each.text)]
        assert re.fullmatch(r"[\w.-]*\w", found.value), need
        assert found.fix, need


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        ([], "no flavor of the queue has a Topology, and the pods ask for its level rack"),
        (["host", "block"], "no Topology of the queue's flavors has the level rack, only block, host"),
    ],
)
def test_a_topology_level_that_no_topology_has_is_reported(levels: list[str], text: str) -> None:
    evidence = bundles.evidence()
    (cluster,) = evidence.expected.objects["raycluster"]
    cluster["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    template = cluster["spec"]["workerGroupSpecs"][0]["template"]
    template["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    spec = {"topologyName": "t"} if levels else {}
    evidence.objects |= {
        "nodes": [node("n")],
        "localqueues": [{"metadata": {"name": "team"}, "spec": {"clusterQueue": "c"}}],
        "clusterqueues": [{"metadata": {"name": "c"}, "spec": {"resourceGroups": [{"flavors": [{"name": "f"}]}]}}],
        "resourceflavors": [{"metadata": {"name": "f"}, "spec": spec}],
        "topologies": [{"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": each} for each in levels]}}],
    }
    assert [each.text for each in queue.flavors.check(evidence) if each.state == "fail"] == [text]


def test_nothing_inside_a_missing_namespace_is_judged() -> None:
    evidence = bundles.evidence()
    del evidence.objects["namespaces"]
    found = {check.id: result for check, result in examination.examine(evidence)}
    assert (found["namespace"].state, found["accounts"].text) == ("fail", "there is no namespace rl")
    assert found["operator"].state == "pass"
    # Whether it is there is not known, so the rest is.
    evidence.unread["namespaces"] = "forbidden"
    found = {check.id: result for check, result in examination.examine(evidence)}
    assert (found["namespace"].state, found["accounts"].state) == ("not checked", "pass")


@pytest.mark.parametrize(
    ("server", "states"),
    [
        ("v1.35.0-gke.100", ["pass", "pass"]),
        ("v1.33.5-gke.100", ["fail", "pass"]),
        ("v1.37.2", ["not checked"]),
        ("", ["not checked"]),
    ],
)
def test_the_gke_version_must_meet_the_requirements(server: str, states: list[str]) -> None:
    evidence = bundles.evidence()
    evidence.objects |= {"version": [{"gitVersion": server}] if server else [], "nodes": []}
    evidence.expected.gke.extend(
        [
            ["network.mode", "dranet", ["1.34.1-gke.1829001"]],
            ["storage.data.lustre", "Managed Lustre", ["1.33.2-gke.1072000"]],
        ]
    )
    found = list(version.version.check(evidence))
    assert [each.state for each in found] == states
    if states[0] == "fail":
        assert found[0].value == "network.mode"
        assert found[0].text == ("dranet needs GKE 1.34.1-gke.1829001 or newer, and the API server is v1.33.5-gke.100")


NEW, OLD = "v1.35.0-gke.100", "v1.33.5-gke.100"
NEEDS = "dranet needs GKE 1.34.1-gke.1829001 or newer, and the API server is v1.35.0-gke.100"


def of_pool(name: str, version: str, accelerator: str = "nvidia-b200") -> dict[str, Any]:
    labels = {"cloud.google.com/gke-accelerator": accelerator}
    return {"metadata": {"name": name, "labels": labels}, "status": {"nodeInfo": {"kubeletVersion": version}}}


@pytest.mark.parametrize(
    ("pools", "state", "text"),
    [
        ([of_pool("a", NEW)], "pass", NEEDS),
        ([], "pass", NEEDS),
        ([of_pool("a", NEW), of_pool("b", OLD)], "fail", f"{NEEDS}; older are the nodes b ({OLD})"),
        (
            [of_pool(name, OLD) for name in "abcde"],
            "fail",
            f"{NEEDS}; older are the nodes a ({OLD}), b ({OLD}), c ({OLD}) and 2 more",
        ),
        # No pod with GPUs of this stack lands there.
        ([of_pool("a", OLD, "nvidia-l4"), node("cpu")], "pass", NEEDS),
        ([of_pool("a", "v1.35.0")], "not checked", f"{NEEDS}; of some nodes the kubelet has no version of GKE"),
        (None, "not checked", f"{NEEDS}; the nodes were not read"),
    ],
)
def test_the_node_versions_must_meet_the_requirements(
    pools: list[dict[str, Any]] | None, state: str, text: str
) -> None:
    evidence = bundles.evidence()
    evidence.objects |= {"version": [{"gitVersion": NEW}], "nodes": pools or []}
    if pools is None:
        del evidence.objects["nodes"]
    workers = next(pod for role, pod in evidence.expected.roles() if role != "head")
    workers.spec["nodeSelector"] = {"cloud.google.com/gke-accelerator": "nvidia-b200"}
    evidence.expected.gke.append(["network.mode", "dranet", ["1.34.1-gke.1829001"]])
    (found,) = version.version.check(evidence)
    assert (found.state, found.text, found.value) == (state, text, "network.mode")


def test_values_for_other_platforms_need_no_gke_version() -> None:
    assert said(version.version, version=[{"gitVersion": "v1.37.2"}]) == []


EFA = "vpc.amazonaws.com/efa"
EXPRESSION = (
    'device.driver == "dra.net" &&\ndevice.attributes["dra.net"].pciDevice == \'Elastic Fabric Adapter (EFA)\'\n'
)


def efa(expression: str = EXPRESSION, *, nodes: list[str], slices: list[str], driver: str = "dra.net") -> list[Result]:
    """Judge nodes that offer EFA by the plugin, nodes that a driver publishes devices of, and AWS's DeviceClass."""
    evidence = bundles.evidence()
    evidence.unread.clear()
    evidence.expected = replace(evidence.expected, devices=[EFA], classes=["efa.networking.k8s.aws"])
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    evidence.objects |= {
        "nodes": [node(name, **{EFA: "16"}) for name in nodes] + [node("plain", **{EFA: "0"})],
        "deviceclasses": [{"metadata": {"name": "efa.networking.k8s.aws"}, "spec": spec}],
        "resourceslices": [{"metadata": {}, "spec": {"driver": driver, "nodeName": name}} for name in slices],
    }
    return list(network.device_managers.check(evidence))


def test_a_device_plugin_and_a_dra_driver_on_one_node_conflict() -> None:
    (found,) = efa(nodes=["a", "b", "c"], slices=["b", "c", "plain"])
    assert (found.state, found.value) == ("fail", "network.mode")
    assert found.text.startswith(
        f"node b and 1 more: a device plugin offers {EFA}, and the driver dra.net of DeviceClass"
    )
    assert found.command.endswith("spec.nodeName=b")


@pytest.mark.parametrize(
    "given",
    [
        {"nodes": ["a"], "slices": ["b", "plain"]},
        {"nodes": ["a"], "slices": ["a"], "driver": "gpu.nvidia.com"},
    ],
    ids=["other-nodes", "other-driver"],
)
def test_a_device_plugin_and_a_dra_driver_on_different_nodes_pass(given: dict[str, Any]) -> None:
    assert [each.state for each in efa(**given)] == ["pass"]


def test_a_device_class_with_several_drivers_is_not_judged() -> None:
    (found,) = efa('device.driver == "dra.net" || device.driver == "other"', nodes=["a"], slices=["a"])
    assert (found.state, "does not name one driver" in found.text) == ("not checked", True)


def test_a_machine_without_a_dra_driver_is_not_judged() -> None:
    assert results(network.device_managers, nodes=[node("a", **{EFA: "16"})], deviceclasses=[], resourceslices=[]) == []


@pytest.mark.parametrize(
    ("labels", "bindings", "nodes_named", "state"),
    [
        ({}, [], "n", "warn"),
        ({"grpo-charts/pods": "b200"}, ["b200"], "n", "pass"),
        ({"grpo-charts/pods": "b200"}, ["h200"], "n", "warn"),
        ({"grpo-charts/pods": "b200"}, [], "n", "warn"),
        ({"pod-security.kubernetes.io/enforce": "baseline"}, [], "n", ""),
        ({}, [], "gk3-n", ""),
    ],
    ids=["nothing", "limited", "another-machine", "no-policy", "baseline", "autopilot"],
)
def test_a_namespace_without_pod_restrictions_causes_a_warning(
    labels: dict[str, str], bindings: list[str], nodes_named: str, state: str
) -> None:
    def binding(machine: str) -> dict[str, Any]:
        where = {"namespaceSelector": {"matchLabels": {"grpo-charts/pods": machine}}}
        spec = {"policyName": f"grpo-pods-{machine}", "validationActions": ["Deny"], "matchResources": where}
        return {"metadata": {"name": f"grpo-pods-{machine}"}, "spec": spec}

    found = results(
        limits.pod_policy,
        namespaces=[{"metadata": {"name": "rl", "labels": labels}}],
        nodes=[node(nodes_named)],
        validatingadmissionpolicybindings=[binding(each) for each in bindings],
    )
    assert [each.state for each in found] == ([state] if state else [])
    # This stack needs nothing of the node, so the level baseline will do.
    assert all("enforce=baseline" in each.fix for each in found if each.state == "warn")


def test_a_warning_does_not_fail_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = bundles.evidence()
    evidence.objects |= {"nodes": [], "validatingadmissionpolicybindings": []}
    evidence.unread.clear()
    bundle.write(str(tmp_path / "b"), evidence)
    cli.main(["doctor", "--from", str(tmp_path / "b"), "--format", "json"])
    states = {each["check"]: each["state"] for each in json.loads(capsys.readouterr().out)}
    assert states["pod-policy"] == "warn"
    cli.main(["doctor", "--from", str(tmp_path / "b")])
    assert "warn         pod-policy: whoever may create pods in rl" in capsys.readouterr().out
    assert examination.is_healthy([(limits.pod_policy, warned("a"))])
