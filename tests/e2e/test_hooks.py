"""`helm test` of the raycluster chart: Helm's own hooks, and their programs against a real Ray head."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import NewStack
from harness import hookpods, jobs_api
from harness.helm import Helm, HelmError
from harness.kube import Kube, Manifest
from harness.rayhead import RayHeads
from harness.stack import Stack
from harness.waiting import until


@pytest.fixture(scope="module")
def cluster(new_stack: NewStack, ray_heads: RayHeads) -> Iterator[Stack]:
    """A cluster with a real head; its workers are pods that run nothing."""
    stack = new_stack("b200", ray={"test": {"timeoutSeconds": 30}})
    ray_heads.without_workers.add(stack.namespace)
    with ray_heads.running(stack):
        yield stack


@dataclass(frozen=True)
class Kubelet:
    """Runs the pod of a test as a process when Helm has made it, and tells the API server how it ended."""

    kube: Kube
    stack: Stack
    work: Path

    def name(self, check: str) -> str:
        return f"{self.stack.cluster}-test-{check}"

    def pod(self, check: str) -> Manifest:
        """Wait until the pod has a node."""

        def scheduled() -> Manifest | None:
            found = self.kube.find("pod", self.name(check), self.stack.namespace)
            return found if found and found["status"].get("phase") == "Running" else None

        return until(scheduled, f"pod {self.name(check)} runs", seen=lambda: self.kube.events(self.stack.namespace))

    def run(self, check: str, nodes: int) -> str:
        """Run the pod's program to its end and return its output; `nodes` is what there is of the cluster here."""
        pod = self.pod(check)
        assert pod["spec"]["nodeName"].startswith("cpu-")
        programs = hookpods.files_of(self.kube, f"{self.stack.cluster}-test", self.stack.namespace, self.work)

        def edit(plan: dict[str, Any]) -> dict[str, Any]:
            return {**plan, "probe": {**plan["probe"], "nodes": nodes}}

        return hookpods.run(self.kube, pod, self.work, {"/programs": programs}, edit)

    def test(self, helm: Helm, check: str, nodes: int) -> tuple[str, str]:
        """Let Helm run one test; return Helm's complaint, empty when it has none, and the program's output."""
        options = ["--namespace", self.stack.namespace, "--filter", f"name={self.name(check)}", "--timeout", "90s"]
        with ThreadPoolExecutor() as pool:
            helms = pool.submit(helm.run, "test", self.stack.release("raycluster"), *options)
            output = self.run(check, nodes)
            error = helms.exception()
        assert error is None or isinstance(error, HelmError)
        return str(error or ""), output


@pytest.fixture
def kubelet(cluster: Stack, kube: Kube, work: Path) -> Kubelet:
    return Kubelet(kube, cluster, work)


@pytest.mark.parametrize(
    ("version", "check", "said"),
    [
        ("helm3", "huggingface", "grpo: HF_TOKEN is set and not empty on 1 nodes"),
        ("helm4", "storage", "grpo: data at /data: written and read on 1 nodes"),
    ],
)
def test_a_check_passes(version: str, check: str, said: str, kubelet: Kubelet, helms: dict[str, Helm]) -> None:
    """On the head, which is real and has no CPU to schedule on."""
    error, output = kubelet.test(helms[version], check, nodes=1)
    assert not error, output
    assert said in output.splitlines()
    assert output.splitlines()[-1].startswith(f"grpo: {check}: passed in ")
    assert "not-a-real-one" not in output
    assert not list((kubelet.work / "volumes" / kubelet.stack.namespace).glob("*/.helm-test-*"))


def test_a_failing_check_says_what_is_missing(kubelet: Kubelet, helms: dict[str, Helm]) -> None:
    """No GPU node joins here."""
    error, output = kubelet.test(helms["helm4"], "gpus", nodes=2)
    assert "gemma-ray-test-gpus failed" in error
    assert output.splitlines()[-1] == "grpo: gpus failed: expected 2 GPU nodes, and Ray has 0: see kubectl get pods"


@pytest.fixture
def training(cluster: Stack, ray_heads: RayHeads) -> Iterator[str]:
    """The name of a job that runs, as a training does."""
    with jobs_api.running("training-1", ray_heads.token) as name:
        yield name


def test_a_check_refuses_to_run_beside_a_training(
    training: str, kubelet: Kubelet, helms: dict[str, Helm], ray_heads: RayHeads
) -> None:
    error, output = kubelet.test(helms["helm3"], "nccl", nodes=2)
    assert error
    assert output.startswith(f"grpo: nccl failed: another job is running: {training} (RUNNING). ")
    assert jobs_api.ask(training, ray_heads.token)["status"] == "RUNNING"
