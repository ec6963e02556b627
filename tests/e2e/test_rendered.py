"""The stack without Helm: `grpo render --output-dir`, and kubectl applies the folders, as GitOps tools do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import REPOSITORY, NewStack
from harness.argocd import health
from harness.kube import Kube, KubectlError
from harness.stack import LAYERS, Stack

pytestmark = pytest.mark.ci


def write(stack: Stack, folder: Path) -> str:
    """Render all layers into a folder and return what the command said."""
    words = ["render", "all", *stack.options(), "--namespace", stack.namespace, "--output-dir", str(folder)]
    command = [sys.executable, "-m", "grpo.cli", *words, "--helm", str(stack.helm.program)]
    return subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True, timeout=120).stderr


def test_a_run_applied_from_rendered_manifests_is_locked_until_the_next_attempt(
    new_stack: NewStack, kube: Kube, tmp_path: Path
) -> None:
    """Applied twice, refused at the lock, replaced by the next attempt."""
    stack = new_stack("b200", job={"name": "rendered"})
    folder = tmp_path / "deploy"
    try:
        write(stack, folder)
        for layer in LAYERS:
            kube.run("apply", "-k", str(folder / layer))
        assert health(stack.until_ready()) == "Healthy"
        write(stack, folder)
        # `kubectl apply` says configured of a patch that changes nothing; the server's dry run says what would change.
        assert [kube.run("diff", "-k", str(folder / layer)) for layer in LAYERS] == [""] * len(LAYERS)

        changed = stack.with_values(job={"config": {"grpo": {"max_num_steps": 11}}})
        with pytest.raises(subprocess.CalledProcessError):
            write(changed, folder)
        for lock in (folder / "grpo-job").glob("*-locked-*"):
            lock.unlink()
        write(changed, folder)
        with pytest.raises(KubectlError, match=r"locked-raise-job\.attempt"):
            kube.run("apply", "-k", str(folder / "grpo-job"))

        second = changed.with_values(job={"attempt": 2})
        assert "grpo-job: 3 objects, 2 written, 2 removed" in write(second, folder)
        kube.run("apply", "-k", str(folder / "grpo-job"))
        assert '"max_num_steps": 11' in kube.get("rayjob", second.run, second.namespace)["spec"]["entrypoint"]
        assert health(kube.get("rayjob", second.run, second.namespace)) == "Progressing"
    finally:
        for kind in ("rayjob", "raycluster", "configmap"):
            kube.run("delete", kind, "--all", "--namespace", stack.namespace)
        for layer in ("storage", "network"):
            kube.run("delete", "-k", str(folder / layer), "--ignore-not-found")
