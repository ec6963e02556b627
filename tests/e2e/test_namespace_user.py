"""Somebody who may edit one namespace and Ray objects in it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conftest import NewStack
from harness.helm import Helm, HelmError
from harness.kube import Kube, Manifest
from harness.stack import Stack

USER = "mallory@example.org"
# The rules of raycluster-editor-role and rayjob-editor-role in KubeRay's chart.
EDITOR_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def editor_role() -> list[Manifest]:
    """Grant `edit` and KubeRay's two editor roles, in the namespace only."""
    api = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["ray.io"], "resources": ["rayclusters", "rayjobs"], "verbs": EDITOR_VERBS},
        {"apiGroups": ["ray.io"], "resources": ["rayclusters/status", "rayjobs/status"], "verbs": ["get"]},
    ]
    subject = {"kind": "User", "name": USER, "apiGroup": api}
    role = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": {"name": "ray-editor"}, "rules": rules}
    return [role, bind("ray-editor", "Role", subject), bind("edit", "ClusterRole", subject)]


def bind(name: str, kind: str, subject: Manifest) -> Manifest:
    """Bind a role to a subject."""
    api = "rbac.authorization.k8s.io"
    reference = {"apiGroup": api, "kind": kind, "name": name}
    binding = {"apiVersion": f"{api}/v1", "kind": "RoleBinding", "metadata": {"name": name}}
    return {**binding, "roleRef": reference, "subjects": [subject]}


@pytest.fixture
def stack(new_stack: NewStack, helm: Helm, kube: Kube) -> Stack:
    """A stack in a namespace whose storage the administrator has installed."""
    stack = new_stack("h200", helm.program.name)
    kube.create(editor_role(), stack.namespace)
    stack.install("storage")
    return stack


def test_the_namespaced_layers_need_no_administrator(stack: Stack, kube: Kube) -> None:
    mine = stack.with_helm(replace(stack.helm, user=USER))
    mine.install("raycluster")
    stack.until_ready()
    mine.install("grpo-job")
    mine.upgrade("raycluster")
    assert kube.find("rayjob", stack.run, stack.namespace) is not None
    mine.uninstall("grpo-job", "raycluster")
    stack.uninstall("storage")


def test_the_cluster_scoped_layers_need_one(stack: Stack) -> None:
    """Otherwise the test above would prove nothing."""
    stack.uninstall("storage")
    mine = stack.with_helm(replace(stack.helm, user=USER))
    for layer in ("network", "storage"):
        with pytest.raises(HelmError, match="forbidden"):
            mine.install(layer)
