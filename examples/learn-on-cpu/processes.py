"""The cluster without pods: a Ray head and a worker as processes, with the variables of our rendered RayCluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import yaml
from cluster import HERE, Cluster, ClusterError, Record, rendered
from frameworks import DATA, IMAGE, TOOLS, Framework
from harness import sandbox
from harness.processes import Programs

HEAD = "http://127.0.0.1:8265/api"


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


def ask(path: str, body: Record | None = None) -> Any:
    """Call Ray's Jobs API; a body makes it a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{HEAD}/{path}", data, {"Content-Type": "application/json"})  # noqa: S310 - http
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


class ProcessCluster(Cluster):
    """Ray as processes of this machine, which has the image's paths.

    `environment` is for every process, besides what all have.
    """

    name = "processes"
    data = DATA

    def __init__(self, work: Path, framework: Framework, *settings: str, **environment: str) -> None:
        super().__init__(work, Programs(work / "logs"), framework, *settings)
        self.environment = {**variables(work, self), **environment}
        for name in ("home", "ray"):
            (work / name).mkdir()

    def __enter__(self) -> ProcessCluster:
        ray = [
            str(self.framework.venv / "bin/ray"),
            "start",
            "--block",
            "--disable-usage-stats",
            "--object-store-memory=200000000",
        ]
        head = ["--head", "--num-cpus=0", "--num-gpus=0", "--node-ip-address=127.0.0.1"]
        try:
            self.programs.start("head", [*ray, *head], **self.environment)
            self.wait(lambda: ask("jobs/") is not None, "a Ray head", 180)
            worker = ["--address=127.0.0.1:6379", "--node-ip-address=127.0.0.1", "--num-cpus=16", "--num-gpus=1"]
            # The head's log monitor sees the worker's logs too, and a driver would print each line twice.
            self.programs.start("worker", [*ray, *worker, "--include-log-monitor=false"], **self.environment)
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
        runtime = yaml.safe_load(job["spec"].get("runtimeEnvYAML") or "{}")
        body = {"submission_id": name, "entrypoint": job["spec"]["entrypoint"], "runtime_env": runtime}
        self.wait(lambda: ask("jobs/", body), f"that the head takes job {name}", 120)
        return name

    def status(self, name: str) -> str:
        return str(ask(f"jobs/{name}")["status"])

    def log(self, name: str) -> str:
        return str(ask(f"jobs/{name}/logs")["logs"])

    def kill(self, process: int) -> None:
        os.kill(process, signal.SIGKILL)

    def logs(self) -> dict[str, Path]:
        return {"programs": self.work / "logs", "ray": self.work / "ray/ray/session_latest/logs"}
