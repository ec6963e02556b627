"""The policy of network.podPolicy: the charts' own pods pass, and none that may do more to its node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests import options

from conftest import NewStack
from harness.commands import ask
from harness.kube import Kube, KubectlError, Manifest
from harness.stack import ONE_VOLUME, Stack, merge
from harness.waiting import until
from test_pods import as_pods

# RoCE on GKE twice, EFA, and InfiniBand by a device plugin.
PROFILES = ("b200", "h200", "eks-h200", "infiniband-b200")
POLICY: dict[str, Any] = {"network": {"podPolicy": {"enabled": True}}}
EVERYTHING: dict[str, Any] = {
    "ray": {"logs": {"fluentBit": {"enabled": True}}},
    "tracking": {"tensorboard": {"server": {"enabled": True}}},
}
NVIDIA = "/home/kubernetes/bin/nvidia"


def folder(path: str, **mount: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a pod and of its container that mount a folder of the node."""
    mounts = [{"name": "h", "mountPath": "/h", **mount}]
    return {"volumes": [{"name": "h", "hostPath": {"path": path}}]}, {"volumeMounts": mounts}


def secured(**context: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a pod whose container has a security context."""
    return {}, {"securityContext": context}


def helper(kind: str, **context: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a pod that has one more container."""
    return {kind: [{"name": "more", "image": "a", "securityContext": context}]}, {}


def of_pod(**fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of a pod."""
    return fields, {}


NODE, ROOT, ADDS, FOLDERS, WRITES, BASELINE = (
    "may not share its node",
    "may not be privileged",
    "may add only the capabilities",
    "may mount only the folders",
    "only with readOnly",
    "level baseline of Pod Security forbids",
)
BAD: dict[str, tuple[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "host-network": (NODE, of_pod(hostNetwork=True)),
    "host-processes": (NODE, of_pod(hostPID=True)),
    "host-ipc": (NODE, of_pod(hostIPC=True)),
    "privileged": (ROOT, secured(privileged=True)),
    "privileged-init": (ROOT, helper("initContainers", privileged=True)),
    "admin": (ADDS, secured(capabilities={"add": ["SYS_ADMIN"]})),
    "all": (ADDS, secured(capabilities={"drop": ["ALL"], "add": ["ALL"]})),
    "ptrace-init": (ADDS, helper("initContainers", capabilities={"add": ["SYS_PTRACE"]})),
    "root-folder": (FOLDERS, folder("/", readOnly=True)),
    "runtime": (FOLDERS, folder("/run/containerd/containerd.sock", readOnly=True)),
    "folder-above": (FOLDERS, folder("/home/kubernetes/bin", readOnly=True)),
    "folder-below": (FOLDERS, folder(f"{NVIDIA}/lib64", readOnly=True)),
    "with-slash": (FOLDERS, folder(f"{NVIDIA}/", readOnly=True)),
    "written": (WRITES, folder(NVIDIA)),
    "written-below": (WRITES, folder(NVIDIA, readOnly=False, subPath="lib64")),
    "port-of-the-node": (BASELINE, ({}, {"ports": [{"containerPort": 80, "hostPort": 80}]})),
    "no-seccomp": (BASELINE, secured(seccompProfile={"type": "Unconfined"})),
    "no-seccomp-of-pod": (BASELINE, of_pod(securityContext={"seccompProfile": {"type": "Unconfined"}})),
    "no-apparmor": (BASELINE, secured(appArmorProfile={"type": "Unconfined"})),
    "label-of-selinux": (BASELINE, secured(seLinuxOptions={"type": "spc_t"})),
    "user-of-selinux": (BASELINE, of_pod(securityContext={"seLinuxOptions": {"user": "system_u"}})),
    "setting-of-the-kernel": (BASELINE, of_pod(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})),
}
GOOD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "driver": folder(NVIDIA, readOnly=True),
    "locked-memory": secured(capabilities={"add": ["IPC_LOCK", "CHOWN"]}, privileged=False),
    "restricted": of_pod(
        hostNetwork=False,
        securityContext={
            "seccompProfile": {"type": "RuntimeDefault"},
            "seLinuxOptions": {"level": "s0:c1,c2", "type": "container_t"},
            "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
        },
    ),
}


def pod(pod_fields: dict[str, Any], container: dict[str, Any], name: str = "probe") -> Manifest:
    """Return a pod of one container."""
    spec = {"containers": [{"name": "a", "image": "a", **container}], "serviceAccountName": "default", **pod_fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def refusal(kube: Kube, namespace: str, manifests: list[Manifest]) -> str:
    """Return why the API server does not take objects; empty if it does."""
    try:
        kube.create(manifests, namespace, dry_run=True)
    except KubectlError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class Limited:
    """A namespace whose pods the policy of a profile limits."""

    stack: Stack
    objects: list[Manifest]


@pytest.fixture(params=PROFILES)
def limited(request: pytest.FixtureRequest, new_stack: NewStack, kube: Kube) -> Iterator[Limited]:
    """The policy of a profile, in force."""
    profile = request.param
    stack = new_stack(profile, **merge(merge(merge(ONE_VOLUME, options.alone(profile)), POLICY), EVERYTHING))
    objects = [item for item in stack.render("network") if item["kind"].startswith("ValidatingAdmissionPolicy")]
    assert len(objects) == 2
    kube.create(objects)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": stack.name}}
    kube.create([account], stack.namespace)
    labels = [f"{key}={value}" for key, value in selector(objects).items()]
    kube.run("label", "namespace", stack.namespace, "pod-security.kubernetes.io/enforce=privileged", *labels)
    until(lambda: kube.find("serviceaccount", "default", stack.namespace), "the default service account")
    bad = [pod(*secured(privileged=True))]
    until(lambda: ROOT in refusal(kube, stack.namespace, bad), "the policy in force")
    yield Limited(stack, objects)
    for item in objects:
        kube.delete(item["kind"], item["metadata"]["name"])


def selector(objects: list[Manifest]) -> dict[str, str]:
    """Return the labels of the namespaces that the policy is for."""
    (binding,) = [item for item in objects if item["kind"].endswith("Binding")]
    return dict(binding["spec"]["matchResources"]["namespaceSelector"]["matchLabels"])


@pytest.mark.ci
def test_the_policy_admits_the_charts_pods_and_no_more_privileged_ones(limited: Limited, kube: Kube) -> None:
    stack = limited.stack
    ephemeral = stack.with_values(job={"cluster": {"mode": "ephemeral"}}).render("grpo-job")
    rendered = stack.render("raycluster")
    boards = [item["spec"]["template"] for item in rendered if item["kind"] == "Deployment"]
    others = [item for item in rendered if item["kind"] == "Pod"]
    own = [*as_pods(rendered), *as_pods(ephemeral), *others]
    own += [{"apiVersion": "v1", "kind": "Pod", **merge(each, {"metadata": {"name": "board"}})} for each in boards]
    assert len(own) >= 9
    assert refusal(kube, stack.namespace, own) == ""
    is_google = stack.accelerator in ("b200", "h200")
    for name, (words, fields) in BAD.items():
        if words != WRITES or is_google:
            assert words in refusal(kube, stack.namespace, [pod(*fields)]), name
    for name, fields in GOOD.items():
        assert (refusal(kube, stack.namespace, [pod(*fields)]) == "") is (name != "driver" or is_google), name
    # The API server has compiled the expressions against its own types.
    (policy,) = [item for item in limited.objects if not item["kind"].endswith("Binding")]
    found = kube.get(policy["kind"], policy["metadata"]["name"])
    assert not found.get("status", {}).get("typeChecking", {}).get("expressionWarnings")


@pytest.mark.parametrize("limited", ["b200"], indirect=True)
def test_the_policy_also_covers_debug_containers_and_controller_pods(limited: Limited, kube: Kube) -> None:
    """A debug container in a pod that is there, and pods that a controller makes. Pods from before can be deleted."""
    stack = limited.stack
    name = "there"
    kube.create([pod({}, {}, name)], stack.namespace)
    debug = {"name": "debug", "image": "a", "targetContainerName": "a"}
    path = f"/api/v1/namespaces/{stack.namespace}/pods/{name}/ephemeralcontainers"
    for context, said in (({"privileged": True}, ROOT), ({}, "")):
        found = kube.get("pod", name, stack.namespace)
        found["spec"]["ephemeralContainers"] = [{**debug, "securityContext": context}]
        refused = replaced(kube, path, found)
        assert said in refused, context
        assert bool(refused) is bool(said), refused
    kube.delete("pod", name, stack.namespace)
    other = {"metadata": {"labels": {"app": "w"}}, "spec": pod(*secured(privileged=True))["spec"]}
    workload = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "w"}}
    kube.create([{**workload, "spec": {"selector": {"matchLabels": {"app": "w"}}, "template": other}}], stack.namespace)
    until(lambda: ROOT in str(kube.events(stack.namespace)), "a refused pod", seen=lambda: kube.events(stack.namespace))
    assert kube.list("pods", stack.namespace, "app=w") == []
    kube.delete("replicaset", "w", stack.namespace)


def replaced(kube: Kube, path: str, manifest: Manifest) -> str:
    """Return what the API server says against a PUT; empty if it takes it."""
    try:
        kube.run("replace", "--raw", path, "-f", "-", stdin=json.dumps(manifest))
    except KubectlError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("limited", ["b200"], indirect=True)
def test_doctor_recognizes_the_pod_policy(limited: Limited, new_stack: NewStack) -> None:
    for stack, state in ((limited.stack, "pass"), (new_stack("b200"), "warn")):
        found = json.loads(ask("doctor", stack, "--format", "json").stdout)
        assert [each["state"] for each in found if each["check"] == "pod-policy"] == [state]


@pytest.mark.parametrize("limited", ["b200"], indirect=True)
def test_the_policy_does_not_apply_to_other_namespaces(limited: Limited, kube: Kube, new_stack: NewStack) -> None:
    other = new_stack("b200")
    until(lambda: kube.find("serviceaccount", "default", other.namespace), "the default service account")
    assert refusal(kube, other.namespace, [pod(*secured(privileged=True))]) == ""
