"""The cluster without pods: a Ray head and a worker as processes, with the variables of our rendered RayCluster."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from cluster import HERE, Cluster, ClusterError, rendered
from frameworks import DATA, IMAGE, TOOLS, Framework
from harness import sandbox
from harness.local_ray import LocalRay
from harness.processes import Programs


def enter(work: Path, framework: Framework) -> None:
    """Change into a private root that has the paths of the training image and of the volume."""
    sandbox.enter(work)
    (work / "data").mkdir()
    shown = {path: (TOOLS / name).resolve() for path, name in framework.folders.items()}
    for path, folder in {**shown, IMAGE: HERE / "image", DATA: work / "data"}.items():
        path.mkdir(exist_ok=True)
        sandbox.mount("--bind", folder, path)


def variables(work: Path, cluster: Cluster) -> dict[str, str]:
    """Return the variables of the head's container, with those of the image."""
    head = rendered("raycluster", "RayCluster", *cluster.settings)["spec"]["headGroupSpec"]
    own = {
        entry["name"]: entry["value"] for entry in head["template"]["spec"]["containers"][0]["env"] if "value" in entry
    }
    return {**cluster.framework.variables, **own, "HOME": str(work / "home"), "RAY_TMPDIR": str(work / "ray")}


class ProcessCluster(Cluster):
    """Ray as processes of this machine, which has the image's paths.

    `environment` is for every process, besides what all have.
    """

    name = "processes"
    data = DATA

    def __init__(self, work: Path, framework: Framework, *settings: str, **environment: str) -> None:
        super().__init__(work, Programs(work / "logs"), framework, *settings)
        ray = self.framework.venv / "bin/ray"
        self.ray = LocalRay(self.programs, ray, {**variables(work, self), **environment})
        for name in ("home", "ray"):
            (work / name).mkdir()

    def __enter__(self) -> ProcessCluster:
        try:
            self.ray.start()
            self.ray.start_worker(cpus=16, gpus=1)
        except BaseException:
            self.programs.stop()
            raise
        return self

    def make(self, program: str, folder: str, seed: int, *names: str) -> str:
        python = self.framework.venv / "bin/python"
        words = list(map(str, [python, "-W", "ignore", IMAGE / program, DATA / folder, seed, *names]))
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        done = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise ClusterError(f"{program} ended with exit code {done.returncode}:\n{done.stderr}")
        return done.stdout.strip()

    def submit(self, *settings: str) -> str:
        """Submit the rendered RayJob to Ray's Jobs API, as the KubeRay operator does."""
        job = rendered("grpo-job", "RayJob", *self.settings, *settings)
        name = str(job["metadata"]["name"])

        def taken() -> bool:
            self.ray.submit(job, name)
            return True

        self.wait(taken, f"that the head takes job {name}", 120)
        return name

    def status(self, name: str) -> str:
        return str(self.ray.job(name)["status"])

    def log(self, name: str) -> str:
        return self.ray.log(name)

    def kill(self, process: int) -> None:
        os.kill(process, signal.SIGKILL)

    def on_worker(self, *words: str) -> str:
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def logs(self) -> dict[str, Path]:
        return {"programs": self.work / "logs", "ray": self.work / "ray/ray/session_latest/logs"}
