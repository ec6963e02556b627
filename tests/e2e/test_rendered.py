"""The stack without Helm: `grpo render --output-dir`, and kubectl applies the folders, as GitOps tools do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from conftest import REPOSITORY, NewStack
from harness.image import Image
from harness.kube import Kube, KubectlError, Manifest
from harness.rayhead import RayHeads
from harness.stack import LAYERS, Stack

HEALTH = yaml.safe_load((REPOSITORY / "examples/argocd/health.yaml").read_text())["data"]


def write(stack: Stack, folder: Path) -> str:
    """Render all layers into a folder and return what the command said."""
    words = ["render", "all", *stack.options(), "--namespace", stack.namespace, "--output-dir", str(folder)]
    command = [sys.executable, "-m", "postrender.cli", *words, "--helm", str(stack.helm.program)]
    return subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True, timeout=120).stderr


def health(item: Manifest) -> str:
    """Return how Argo CD would judge an object that KubeRay has written to."""
    lua = LuaRuntime()
    lua.globals().obj = lua.table_from(item, recursive=True)
    return str(lua.execute(HEALTH[f"resource.customizations.health.ray.io_{item['kind']}"]).status)


def test_a_run_from_rendered_manifests(
    new_stack: NewStack, ray_heads: RayHeads, image: Image, kube: Kube, tmp_path: Path
) -> None:
    """Applied twice, refused at the lock, replaced by the next attempt."""
    stack = new_stack("b200", job={"name": "rendered"})
    ray_heads.namespaces.add(stack.namespace)
    folder = tmp_path / "deploy"
    image.behave(hold=True)
    try:
        write(stack, folder)
        for layer in LAYERS[:3]:
            kube.run("apply", "-k", str(folder / layer))
        assert health(stack.until_ready()) == "Healthy"
        ray_heads.until_up(stack.namespace)
        kube.run("apply", "-k", str(folder / "grpo-job"))
        stack.until_job("RUNNING")
        assert health(kube.get("rayjob", stack.run, stack.namespace)) == "Healthy"
        write(stack, folder)
        # `kubectl apply` says configured of a patch that changes nothing; the server's dry run says what would change.
        assert [kube.run("diff", "-k", str(folder / layer)) for layer in LAYERS] == [""] * len(LAYERS)

        changed = stack.with_values(job={"config": {"grpo": {"max_num_steps": 11}}})
        write(changed, folder)
        with pytest.raises(KubectlError, match=r"locked-raise-job\.attempt"):
            kube.run("apply", "-k", str(folder / "grpo-job"))
        # kubectl, and Argo CD with it, goes on after the refusal; KubeRay does not look at what it finds there.
        live = kube.get("rayjob", stack.run, stack.namespace)
        assert '"max_num_steps": 11' in live["spec"]["entrypoint"]
        assert live["status"]["jobStatus"] == "RUNNING"
        image.finish()
        stack.until_job("SUCCEEDED")
        assert health(kube.get("rayjob", stack.run, stack.namespace)) == "Healthy"

        second = changed.with_values(job={"attempt": 2})
        assert "grpo-job: 3 objects, 2 written, 2 removed" in write(second, folder)
        kube.run("apply", "-k", str(folder / "grpo-job"))
        second.until_job("SUCCEEDED")
        used = [yaml.safe_load(call.config)["grpo"]["max_num_steps"] for call in image.calls()]
        assert used == [10, 11]
    finally:
        ray_heads.namespaces.discard(stack.namespace)
        for kind in ("rayjob", "raycluster", "configmap"):
            kube.run("delete", kind, "--all", "--namespace", stack.namespace)
        for layer in ("storage", "network"):
            kube.run("delete", "-k", str(folder / layer), "--ignore-not-found")
