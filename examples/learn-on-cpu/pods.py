"""The cluster in pods: our charts on two machines with kubelet and containerd, and the KubeRay operator."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cluster import HERE, Cluster, ClusterError, options, rendered
from frameworks import DATA, IMAGE, ONE_GPU, ROOT, TOOLS, Framework
from harness import nodes
from harness.apiserver import Tools
from harness.helm import Helm, HelmError
from harness.kube import KubectlError, Manifest
from harness.realnode import gpus
from harness.realnode.cluster import RealCluster, resolve_names
from harness.realnode.images import Image, platform
from harness.realnode.provisioner import provisioning
from harness.waiting import until

PROGRAMS = Tools(ROOT / ".tools/bin", ROOT / ".tools/share")
PREFLIGHT = ROOT / "tests/e2e/node/run.py"
# The folders that become layers of the training image; containerd's data with that image come beside them.
LAYERS = TOOLS.resolve() / "image"
VALUES = "examples/learn-on-cpu/values-pods.yaml"
NAMESPACE, STACK = "rl", "learn"
HEAD_MACHINE, GPU_MACHINE = "cpu-1", "gpu-1"
READY_SECONDS = 360


class PodCluster(Cluster):
    """Ray in two pods, and each job a release of the chart grpo-job."""

    name = "pods"

    def __init__(self, work: Path, framework: Framework) -> None:
        self.machines = RealCluster(work, PROGRAMS, LAYERS)
        super().__init__(work, self.machines.programs, framework, VALUES)
        self.kube = self.machines.kube
        self.helm = Helm(PROGRAMS.bin / "helm4", self.machines.kubeconfig, work / "helm")
        self.data = work / "volumes" / NAMESPACE / f"{STACK}-data"
        self.contexts = contextlib.ExitStack()

    def __enter__(self) -> PodCluster:
        try:
            with harness_errors():
                self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        left = self._stop()
        # What ended the story is more telling.
        if left and raised[0] is None:
            raise ClusterError(f"control groups that could not be removed: {left}")

    def _start(self) -> None:
        resolve_names(self.work)
        self.machines.start(self._images(), [HEAD_MACHINE, GPU_MACHINE])
        # The taint of its GPUs keeps the operator away, as on a real machine: the worker needs all processors.
        profiles = nodes.read_profiles(ROOT / "values/accelerators")
        gpus.pretend(self.machines.nodes[GPU_MACHINE], profiles[Path(ONE_GPU[0]).stem], 0)
        self.machines.install_operator()
        self.contexts.enter_context(provisioning(self.kube, self.work / "volumes"))
        self.kube.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        for layer in ("network", "storage", "raycluster"):
            self.helm.install(f"{STACK}-{layer}", ROOT / "charts" / layer, NAMESPACE, self._options())
        until(self._is_ready, "a RayCluster that is ready", READY_SECONDS, seen=lambda: self.kube.events(NAMESPACE))

    def _images(self) -> list[Image]:
        """Describe the images; the training image has the name and the paths of the published one."""
        head = rendered("raycluster", "RayCluster", *self.settings)["spec"]["headGroupSpec"]
        name = str(head["template"]["spec"]["containers"][0]["image"])
        base = LAYERS / "base"
        layers = [base, LAYERS / "environment", LAYERS / "code", example_layer()]
        variables = {**self.framework.variables, "HOME": "/root"}
        return [*platform(base, PROGRAMS.bin / "ray-operator"), Image(name, layers, variables)]

    def _stop(self) -> list[str]:
        self.contexts.close()
        return self.machines.stop()

    def _options(self, *settings: str) -> list[str]:
        """Return Helm's options; it does not run in the repository's folder."""
        return [str(ROOT / word) if word.endswith(".yaml") else word for word in options([*self.settings, *settings])]

    def _is_ready(self) -> bool:
        found = self.kube.get("raycluster", f"{STACK}-ray", NAMESPACE)
        return bool(found.get("status", {}).get("state") == "ready")

    @property
    def head(self) -> Manifest:
        """The pod of the head."""
        return self.kube.list("pods", NAMESPACE, "ray.io/node-type=head")[0]

    def make(self, program: str, folder: str, seed: int, *names: str) -> str:
        words = ("python3", "-W", "ignore", str(IMAGE / program), str(DATA / folder), str(seed), *names)
        with harness_errors():
            return self.kube.execute(self.head, *words).strip()

    def submit(self, *settings: str) -> str:
        """Install a release for a run or a task, and upgrade it for a later attempt."""
        name = str(rendered("grpo-job", "RayJob", *self.settings, *settings)["metadata"]["name"])
        release, _, attempt = name.rpartition("-")
        words = (release, ROOT / "charts/grpo-job", NAMESPACE, self._options(*settings))
        with harness_errors():
            self.helm.install(*words) if attempt == "1" else self.helm.upgrade(*words)
        return name

    def status(self, name: str) -> str:
        found = self._rayjob(name)
        if found.get("jobDeploymentStatus") not in ("Complete", "Failed"):
            return "RUNNING"
        return str(found.get("jobStatus") or "FAILED")

    def _rayjob(self, name: str) -> dict[str, Any]:
        """Return the status of a RayJob, as the operator wrote it.

        Raises ConnectionError when the API server does not answer.
        """
        try:
            return dict(self.kube.get("rayjob", name, NAMESPACE).get("status", {}))
        except KubectlError as error:
            raise ConnectionError(str(error)) from None

    def log(self, name: str) -> str:
        status = self._rayjob(name)
        file = f"/tmp/ray/session_latest/logs/job-driver-{status.get('jobId')}.log"
        try:
            return self.kube.execute(self.head, "cat", file)
        except KubectlError as error:
            return f"{status.get('message')}\n{error}"

    def kill(self, process: int) -> None:
        with harness_errors():
            self.kube.execute(self.head, "kill", "-KILL", str(process))

    def on_worker(self, *words: str) -> str:
        (worker,) = self.kube.list("pods", NAMESPACE, "ray.io/node-type=worker")
        with harness_errors():
            return self.kube.execute(worker, *words)

    def logs(self) -> dict[str, Path]:
        pods = {name: node.machine.folder / "pods" for name, node in self.machines.nodes.items()}
        return {"programs": self.work / "logs", **pods}


@contextlib.contextmanager
def harness_errors() -> Iterator[None]:
    """Turn what the harness raises into a ClusterError."""
    try:
        yield
    except (AssertionError, HelmError, KubectlError, RuntimeError, subprocess.SubprocessError) as error:
        raise ClusterError(str(error)) from None


def example_layer() -> Path:
    """Lay the example's programs out as the image has them; nothing is written, and the image stays, if they are."""
    source, target = HERE / "image", LAYERS / "example" / IMAGE.relative_to("/")
    if programs(source) != programs(target):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    return LAYERS / "example"


def programs(folder: Path) -> dict[Path, bytes]:
    """Read the files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return {path.relative_to(folder): path.read_bytes() for path in files}


def missing() -> list[str]:
    """List what this machine lacks for pods, each entry with what to do about it."""
    words = [sys.executable, str(PREFLIGHT), "--preflight"]
    done = subprocess.run(words, check=False, stderr=subprocess.PIPE, text=True)
    lacking = done.stderr.splitlines() if done.returncode else []
    for name in ("kubelet", "containerd", "kube-router", "ray-operator", "helm4"):
        if not os.access(PROGRAMS.bin / name, os.X_OK):
            lacking.append(f".tools/bin/{name}: run `tools/build.sh` and `tools/node.sh`")
    if not (LAYERS / ".stamp").is_file():
        lacking.append(".tools/learn/image: run `tools/learn-image.sh`")
    return lacking
