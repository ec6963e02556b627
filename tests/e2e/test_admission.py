"""Namespaces with rules of their own: an imitation of GKE Autopilot's admission, and Pod Security."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conftest import NewStack
from harness.kube import Kube, KubectlError, Manifest
from harness.waiting import until
from test_pods import as_pods

pytestmark = pytest.mark.ci

LABEL = "e2e/autopilot"
CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "SYS_PTRACE"),
)
CONTAINERS = "(object.spec.containers + object.spec.?initContainers.orValue([]))"
GPU = "object.spec.containers.exists(c, 'nvidia.com/gpu' in c.?resources.?limits.orValue({}))"
HOST = "object.spec.?volumes.orValue([]).filter(v, has(v.hostPath))"
CONTEXT = "c.?securityContext"


def total(resource: str) -> str:
    """Give the sum of what the containers of a pod ask for, as an expression.

    Of three containers, the most that a pod of ours has: CEL adds up no list of quantities.
    """
    parts = [
        f"(object.spec.containers.size() > {i} ?"
        f" quantity(object.spec.containers[{i}].?resources.?requests[?'{resource}'].orValue('0')) : quantity('0'))"
        for i in range(3)
    ]
    return f"{parts[0]}.add({parts[1]}).add({parts[2]})"


# What GKE's own messages and documentation say that Autopilot refuses, as far as a pod of ours could ask for it.
RULES = {
    "autogke-disallow-privilege": f"{CONTAINERS}.all(c, !{CONTEXT}.?privileged.orValue(false))",
    "autogke-disallow-hostnamespaces": " && ".join(
        f"!object.spec.?{field}.orValue(false)" for field in ("hostNetwork", "hostPID", "hostIPC")
    ),
    "autogke-default-linux-capabilities": f"{CONTAINERS}.all(c, {CONTEXT}.?capabilities.?add.orValue([])"
    f".all(k, k in {list(CAPABILITIES)}))",
    "autogke-no-write-mode-hostpath": f"{HOST}.all(v, v.hostPath.path.startsWith('/home/kubernetes/bin/') &&"
    f" {CONTAINERS}.all(c, c.?volumeMounts.orValue([]).all(m, m.name != v.name || m.?readOnly.orValue(false))))",
    "autogke-gpu-limitation": f"{GPU} || !object.spec.?tolerations.orValue([]).exists(t, t.?key.orValue('') =="
    " 'nvidia.com/gpu')",
    "autogke-gpu-init": "object.spec.?initContainers.orValue([]).all(c, !('nvidia.com/gpu' in"
    " c.?resources.?limits.orValue({})))",
    "autogke-node-pools": "!('cloud.google.com/gke-nodepool' in object.spec.?nodeSelector.orValue({}))",
    "autogke-node-affinity": "!has(object.spec.affinity) || !has(object.spec.affinity.nodeAffinity)",
    "autogke-local-disk": f"{GPU} || {total('ephemeral-storage')}.compareTo(quantity('10Gi')) <= 0",
    # The default class; another one has more room.
    "autogke-pod-limit-constraints": f"{GPU} || 'cloud.google.com/compute-class' in"
    " object.spec.?nodeSelector.orValue({})"
    f" || ({total('cpu')}.compareTo(quantity('30')) <= 0 && {total('memory')}.compareTo(quantity('110Gi')) <= 0)",
}


def policy() -> list[Manifest]:
    """Describe the rules as a ValidatingAdmissionPolicy for the namespaces that carry the label."""
    group = "admissionregistration.k8s.io/v1"
    match = {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    }
    validations = [{"expression": rule, "message": f"denied by {name}"} for name, rule in RULES.items()]
    where = {"namespaceSelector": {"matchLabels": {LABEL: "true"}}}
    return [
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "autopilot"},
            "spec": {"failurePolicy": "Fail", "matchConstraints": match, "validations": validations},
        },
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "autopilot"},
            "spec": {"policyName": "autopilot", "validationActions": ["Deny"], "matchResources": where},
        },
    ]


@pytest.fixture(scope="module")
def autopilot(kube: Kube) -> Iterator[None]:
    """The policy, in force."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "probe", "labels": {LABEL: "true"}}}
    kube.create([*policy(), namespace])
    spec = {"hostNetwork": True, "containers": [{"name": "a", "image": "a"}], "serviceAccountName": "default"}
    probe = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec}
    until(lambda: kube.find("serviceaccount", "default", "probe"), "the default service account")

    def refused() -> bool:
        try:
            kube.create([probe], "probe", dry_run=True)
        except KubectlError as error:
            return "autogke-disallow-hostnamespaces" in str(error)
        return False

    until(refused, "the policy in force")
    yield
    for manifest in policy():
        kube.delete(manifest["kind"], "autopilot")
    kube.delete("namespace", "probe")


GPUS = {"limits": {"nvidia.com/gpu": "8"}}
WRITTEN = {"volumes": [{"name": "h", "hostPath": {"path": "/home/kubernetes/bin/nvidia"}}]}
ELSEWHERE = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
# One pod a rule that it alone forbids: fields of the pod, and of its container.
BAD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "autogke-disallow-privilege": ({}, {"securityContext": {"privileged": True}}),
    "autogke-disallow-hostnamespaces": ({"hostPID": True}, {}),
    "autogke-default-linux-capabilities": ({}, {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}),
    "autogke-no-write-mode-hostpath": (WRITTEN, {"volumeMounts": [{"name": "h", "mountPath": "/h"}]}),
    "autogke-gpu-limitation": ({"tolerations": ELSEWHERE}, {}),
    "autogke-gpu-init": ({"initContainers": [{"name": "i", "image": "i", "resources": GPUS}]}, {"resources": GPUS}),
    "autogke-node-pools": ({"nodeSelector": {"cloud.google.com/gke-nodepool": "p"}}, {}),
    "autogke-node-affinity": ({"affinity": {"nodeAffinity": {}}}, {}),
    "autogke-local-disk": ({}, {"resources": {"requests": {"ephemeral-storage": "11Gi"}}}),
    "autogke-pod-limit-constraints": ({}, {"resources": {"requests": {"cpu": "31"}}}),
}


def test_each_admission_rule_refuses_a_violating_pod(autopilot: None, kube: Kube) -> None:
    """An expression that is always true would let the clusters below pass whatever they ask for."""
    assert set(BAD) == set(RULES)
    for rule, (pod, container) in BAD.items():
        spec = {"containers": [{"name": "a", "image": "a", **container}], **pod}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"}, "spec": spec}
        with pytest.raises(KubectlError, match=f"denied by {rule}"):
            kube.create([manifest], "probe", dry_run=True)


def values(kind: str, **ray: Any) -> dict[str, Any]:
    """Give a stack for a kind of GKE cluster, with everything that adds containers or pods."""
    more = {"logs": {"fluentBit": {"enabled": True}}, "head": {"ephemeralStorage": "4Gi"}, **ray}
    server = {"server": {"enabled": True}}
    return {"platform": {"kind": kind}, "ray": more, "tracking": {"tensorboard": server}}


def test_a_cluster_for_autopilot_passes_its_admission_rules(autopilot: None, new_stack: NewStack, kube: Kube) -> None:
    """Every pod passes, those that KubeRay and the Deployment make too; one for Standard does not."""
    stack = new_stack("b200", **values("gke-autopilot"))
    kube.run("label", "namespace", stack.namespace, f"{LABEL}=true")
    stack.install("storage", "raycluster")
    stack.until_ready()
    boards = until(
        lambda: kube.list("pods", stack.namespace, f"grpo-charts/tensorboard={stack.name}"), "a TensorBoard pod"
    )
    assert len(boards) == 1
    other = new_stack("h200", namespace=stack.namespace, **values("gke-autopilot"))
    kube.create(as_pods(other.render("raycluster")), stack.namespace, dry_run=True)
    standard = new_stack("h200", namespace=stack.namespace, **values("gke-standard"))
    with pytest.raises(KubectlError, match=r"autogke-default-linux-capabilities|autogke-node-affinity"):
        kube.create(as_pods(standard.render("raycluster")), stack.namespace, dry_run=True)
    stack.uninstall("raycluster", "storage")


def test_pods_outside_gke_without_rdma_pass_pod_security_baseline(new_stack: NewStack, kube: Kube) -> None:
    """Elsewhere than on GKE no folder of the node is needed, so the stricter namespace will do; on GKE it will not."""
    other = {
        "network": {"mode": "none"},
        "storage": {"weights": None, "data": {"gcsfuse": None, "existingClaim": {"name": "nfs"}}},
        "huggingface": {"cache": {"volume": "data"}},
        "ray": {"logs": {"fluentBit": {"enabled": True}}},
        "tracking": {"tensorboard": {"server": {"enabled": True}}},
    }
    stack = new_stack("infiniband-h200", **other)
    kube.run("label", "namespace", stack.namespace, "pod-security.kubernetes.io/enforce=baseline")
    stack.install("storage", "raycluster")
    until(lambda: len(stack.pods()) == 3, "head and two workers", seen=lambda: kube.events(stack.namespace))
    google = new_stack("h200", namespace=stack.namespace)
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        kube.create(as_pods(google.render("raycluster")), stack.namespace, dry_run=True)
    stack.uninstall("raycluster", "storage")
