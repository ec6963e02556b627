"""A Ray head on this machine, with the variables of our rendered RayCluster, and a worker that claims one GPU."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from harness.processes import Programs

Record = dict[str, Any]
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VENV, CODE, DATA, IMAGE = (Path(name) for name in ("/opt/nemo_rl_venv", "/opt/nemo-rl", "/data", "/opt/learn-on-cpu"))
FILES = [
    "values/accelerators/h200.yaml",
    "values/examples/one-gpu.yaml",
    "values/recipes/smoke.yaml",
    "examples/learn-on-cpu/values.yaml",
]
# What the image gives every process, and the stand-ins.
ENVIRONMENT = {
    "PATH": f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONPATH": str(IMAGE / "standins"),
    # Without bytecode every process would compile torch, Ray and NeMo RL again.
    "PYTHONDONTWRITEBYTECODE": "",
    "NRL_DISABLE_NUMA_BINDING": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "WANDB_MODE": "disabled",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # For the sake of a small machine: no pool of idle workers, no metrics, and time to start.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_ENABLE_METRICS_COLLECTION": "0",
    "RAY_worker_register_timeout_seconds": "300",
    # An owner of a run that was killed counts as gone after 8 seconds instead of 30.
    "GRPO_OWNER_BEAT_SECONDS": "1",
    "GRPO_OWNER_LAPSE_SECONDS": "8",
}
ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}
HEAD = "http://127.0.0.1:8265/api"


class ClusterError(Exception):
    """The cluster or a job does not do what was expected."""


def grpo(*words: str, settings: Iterable[str] = ()) -> str:
    """Run `grpo` with the example's values and return its output.

    A setting is one more values file, or KEY=VALUE. Raises ClusterError.
    """
    command = [str(Path(sys.executable).with_name("grpo")), *words]
    for one in [*FILES, *settings]:
        command += ["-f" if one.endswith(".yaml") else "--set", one]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"{shlex.join(command)} ended with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def rendered(layer: str, kind: str, *settings: str) -> Record:
    """Return the object of a kind that a chart renders from the example's values."""
    text = grpo("render", layer, "--full", settings=settings)
    found: list[Record] = [one for one in yaml.safe_load_all(text) if one and one["kind"] == kind]
    return found[0]


def variables(work: Path) -> dict[str, str]:
    """Return the variables of the head's container, with those of the image."""
    container = rendered("raycluster", "RayCluster")["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    own = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    return {**ENVIRONMENT, **own, "HOME": str(work / "home"), "RAY_TMPDIR": str(work / "ray")}


def ask(path: str, body: Record | None = None) -> Any:
    """Call Ray's Jobs API; a body makes it a POST."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{HEAD}/{path}", data, {"Content-Type": "application/json"})  # noqa: S310 - http
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


class Cluster:
    """A context manager; leaving it ends Ray and all that it has started.

    `settings` are for every job, and `environment` is for every process, besides what all have.
    """

    def __init__(self, work: Path, *settings: str, **environment: str) -> None:
        self.programs = Programs(work / "logs")
        self.settings = settings
        self.environment = {**variables(work), **environment}
        for name in ("home", "ray"):
            (work / name).mkdir()

    def __enter__(self) -> Cluster:
        ray = [str(VENV / "bin/ray"), "start", "--block", "--disable-usage-stats", "--object-store-memory=200000000"]
        head = ["--head", "--num-cpus=0", "--num-gpus=0", "--node-ip-address=127.0.0.1"]
        try:
            self.programs.start("head", [*ray, *head], **self.environment)
            self.wait(lambda: ask("jobs/") is not None, "a Ray head", 180)
            worker = ["--address=127.0.0.1:6379", "--node-ip-address=127.0.0.1", "--num-cpus=16", "--num-gpus=1"]
            self.programs.start("worker", [*ray, *worker], **self.environment)
        except BaseException:
            self.programs.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.programs.stop()

    def wait(self, probe: Any, expected: str, seconds: float) -> Any:
        """Call `probe` until it returns something true, and return that; its network errors are passed over.

        Raises ClusterError when that takes longer, or when Ray has ended.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                self.programs.check()
                if found := probe():
                    return found
            except RuntimeError as error:
                raise ClusterError(str(error)) from None
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(1)
        raise ClusterError(f"expected within {seconds:g} s: {expected}")

    def submit(self, *settings: str) -> str:
        """Submit the RayJob that the chart renders, as the KubeRay operator does; return its name."""
        job = rendered("grpo-job", "RayJob", *self.settings, *settings)
        name = str(job["metadata"]["name"])
        runtime = yaml.safe_load(job["spec"].get("runtimeEnvYAML") or "{}")
        body = {"submission_id": name, "entrypoint": job["spec"]["entrypoint"], "runtime_env": runtime}
        self.wait(lambda: ask("jobs/", body), f"that the head takes job {name}", 120)
        return name

    def end_of(self, name: str, seconds: float) -> str:
        """Wait until a job has ended and return its status."""

        def status() -> str:
            found = str(ask(f"jobs/{name}")["status"])
            return found if found in ENDED else ""

        return str(self.wait(status, f"the end of job {name}", seconds))

    def run(self, *settings: str, seconds: float = 600) -> None:
        """Run a job that must succeed."""
        name = self.submit(*settings)
        if (status := self.end_of(name, seconds)) != "SUCCEEDED":
            log = str(ask(f"jobs/{name}/logs")["logs"]).splitlines()
            raise ClusterError("\n".join([f"job {name} ended as {status}:", *log[-30:]]))
