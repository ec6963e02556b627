"""grpo watch in real pods: of a RayJob through kubectl and of Ray's dashboard, while the training runs."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from conftest import REPOSITORY, TOOLS, Installed
from harness.kube import Kube, Manifest
from harness.stack import Stack
from harness.waiting import until

# What a person who only watches may do, in the words of the documentation.
RULES = [
    {"apiGroups": ["ray.io"], "resources": ["rayjobs"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
]
STEPS = 3

pytestmark = pytest.mark.shared


@pytest.fixture
def watcher(shared: Installed, kube: Kube, tmp_path: Path) -> Path:
    """The kubeconfig of a user who may only watch."""
    group = "rbac.authorization.k8s.io"
    about = {"apiVersion": f"{group}/v1", "metadata": {"name": "watcher"}}
    subject = {"kind": "User", "name": "watcher", "apiGroup": group}
    reference = {"kind": "Role", "name": "watcher", "apiGroup": group}
    role: Manifest = {**about, "kind": "Role", "rules": RULES}
    kube.apply([role, {**about, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]}], namespace(shared))
    config = yaml.safe_load(kube.kubeconfig.read_text())
    for user in config["users"]:
        user["user"]["as"] = "watcher"
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def namespace(shared: Installed) -> str:
    return shared.stack.namespace


@contextlib.contextmanager
def watch(*words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Start a watch, and end it with the block."""
    known = {**os.environ, "PATH": f"{TOOLS.bin}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY), **environment}
    command = [sys.executable, "-m", "grpo.cli", "watch", *words, "--follow"]
    with subprocess.Popen(command, env=known, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.fixture
def dashboard(shared: Installed, kube: Kube) -> Iterator[str]:
    """The URL of Ray's dashboard, forwarded by kubectl."""
    words = ["port-forward", "--namespace", namespace(shared), f"service/{shared.stack.cluster}-head-svc", ":8265"]
    command = [str(kube.program), "--kubeconfig", str(kube.kubeconfig), *words]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield f"http://{process.stdout.readline().split()[2]}"
        process.terminate()


def token(shared: Installed, kube: Kube) -> str:
    data = kube.get("secret", shared.stack.cluster, namespace(shared))["data"]
    return base64.b64decode(data["auth_token"]).decode()


def shows(process: subprocess.Popen[str], number: int) -> None:
    """Read the lines of so many steps."""
    assert process.stdout
    assert process.stderr
    for step in range(1, number + 1):
        line = process.stdout.readline()
        assert line.startswith(f"step {step}  "), line or process.stderr.read()


def test_a_live_run_is_watched(shared: Installed, kube: Kube, watcher: Path, dashboard: str) -> None:
    shared.trainer.behave(steps=STEPS, hold=True)
    run: Stack = shared.with_run("watched")
    run.install("grpo-job")
    secret = token(shared, kube)
    with watch(run.run, "--namespace", namespace(shared), KUBECONFIG=str(watcher)) as by_kubectl:
        shows(by_kubectl, STEPS)
        assert run.job_status()["jobStatus"] == "RUNNING"
        with watch(dashboard, RAY_AUTH_TOKEN=secret) as by_ray:
            shows(by_ray, STEPS)
            # Longer than a program in the pod may read.
            time.sleep(35)
            assert by_kubectl.poll() is None
            assert by_ray.poll() is None
            shared.trainer.finish()
            run.until_job("SUCCEEDED", 120)
            for process in (by_kubectl, by_ray):
                rest, said = process.communicate(timeout=90)
                assert (process.returncode, rest, said.splitlines()[-1]) == (0, "", f"{STEPS} steps, 0 findings")
                assert secret not in said
    head = run.pods()[0]

    def reads() -> bool:
        return "job-driver-" in kube.execute(head, "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | grep -a tail")

    until(lambda: not reads(), "no program of the watch is left in the pod", 40)
    run.uninstall("grpo-job")


def test_a_missing_permission_is_reported(shared: Installed, kube: Kube, watcher: Path) -> None:
    kube.run("delete", "rolebinding", "watcher", "--namespace", namespace(shared))
    with watch("any-1", "--namespace", namespace(shared), KUBECONFIG=str(watcher)) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (3, "")
    assert 'is forbidden: User "watcher" cannot get resource "rayjobs"' in err
