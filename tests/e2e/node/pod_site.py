"""A Ray cluster of pods, as our charts install it, for the planted failures that a trainer plants itself."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from harness import suite
from harness.kube import KubectlError, Manifest
from harness.realnode.provisioner import CLASS
from harness.stack import Stack, Values, merge
from harness.waiting import until
from ray_site import BASE, FREE, MIDDLE, SITE

Record = dict[str, Any]
FOLDER = "/data/planted"
# Over the values of a Ray of processes: two workers with a GPU each, this machine's size, and what KubeRay makes.
PODS: Values = {
    "accelerator": {
        "gpusPerNode": 1,
        "worker": {"cpu": "1", "memory": "2Gi", "ephemeralStorage": "1Gi"},
        "sharedMemory": "256Mi",
    },
    "ray": {
        "head": {"cpu": "1", "memory": "2Gi", "ephemeralStorage": "1Gi"},
        "workers": {"replicas": 2},
        "env": {"PLANTED_STATE": {"value": FOLDER}},
        "tokenAuth": {"enabled": True},
        "networkPolicy": {"operatorNamespace": "kuberay-system"},
    },
    "storage": {"data": {"gcsfuse": None, "pvc": {"storageClassName": CLASS, "size": "20Ti"}}},
}
# The dashboard's answer to a person in the head's pod, and {} for what is not there.
ASK = """
import os, sys, urllib.error, urllib.request
headers = {"Authorization": f"Bearer {os.environ['RAY_AUTH_TOKEN']}"}
request = urllib.request.Request(f"http://127.0.0.1:8265/api/{sys.argv[1]}", headers=headers)
try:
    print(urllib.request.urlopen(request, timeout=30).read().decode())
except urllib.error.HTTPError:
    print("{}")
"""
# The processes that run, each with its state.
STATES = "cat /proc/[0-9]*/stat 2>/dev/null || true"
# Those that have a word in their environment.
WITH = 'for each in /proc/[0-9]*; do grep -qs "$1" $each/environ && tr "\\0" " " <$each/cmdline && echo; done || true'


@dataclass(frozen=True)
class PlantedStack(Stack):
    """The stack of the planted failures: the files that a Ray of processes has, with `site` over them."""

    framework: str = "nemo-rl"

    @property
    def files(self) -> list[Path]:
        """Return the values files below `site`."""
        return [suite.REPOSITORY / file for file in (*BASE, MIDDLE[self.framework], SITE)]

    @property
    def values(self) -> Values:
        """All values but those of the charts."""
        found: Values = {}
        for file in self.files:
            found = merge(found, yaml.safe_load(file.read_text()))
        return merge(found, self.site)

    def options(self) -> list[str]:
        """Give Helm the values; the schema would refuse deadlines as short as these."""
        own = self.work / "values" / f"{self.namespace}-{self.framework}.yaml"
        own.parent.mkdir(exist_ok=True)
        own.write_text(yaml.safe_dump(self.site))
        return ["--skip-schema-validation", *(f"--values={file}" for file in [*self.files, own])]


class PodRay:
    """The Jobs API and the state API of the head, asked in its pod; each run is a release of its own."""

    def __init__(self, stack: PlantedStack) -> None:
        self.stack, self.runs = stack, dict[str, Stack]()

    def head(self) -> Manifest:
        """Return the head's pod."""
        return self.stack.pods()[0]

    def ask(self, path: str) -> Record:
        """Return the dashboard's answer."""
        with contextlib.suppress(KubectlError):
            return dict(json.loads(self.stack.kube.execute(self.head(), "python3", "-c", ASK, path)))
        return {}

    def id(self, name: str) -> str:
        """Return the submission of a run, once the operator has named it."""
        return str(self.runs[name].job_status().get("jobId") or "none")

    def job(self, name: str) -> Record:
        """Return what the head says of a run: `status`, `message`, `driver_exit_code` …"""
        return {"status": "PENDING", **self.ask(f"jobs/{self.id(name)}")}

    def log(self, name: str) -> str:
        """Return what the entrypoint of a run has printed."""
        return str(self.ask(f"jobs/{self.id(name)}/logs").get("logs", ""))

    def actors(self) -> list[Record]:
        """Return the actors that are not dead."""
        found = self.ask("v0/actors?limit=1000&filter_keys=state&filter_predicates=!%3D&filter_values=DEAD")
        return list(found["data"]["result"]["result"])


class PodSite:
    """One cluster for all plants of a session, one after the other."""

    def __init__(self, stack: PlantedStack) -> None:
        self.stack, self.work, self.ray = stack, stack.work, PodRay(stack)
        self.data, self.state = stack.on_volume("/data"), stack.on_volume(FOLDER)
        self.state.mkdir()

    def submit(self, framework: str, name: str, values: Values, variables: dict[str, str]) -> None:
        """Install the RayJob of a run."""
        assert not variables, "a clock that jumps is not planted in pods"
        run = replace(self.stack, site=merge(self.stack.site, values), framework=framework)
        self.ray.runs[name] = run
        run.install("grpo-job")

    def remove(self, name: str) -> None:
        """Uninstall a run; the operator has seen its end."""
        run = self.ray.runs.pop(name)
        ended = ("Complete", "Failed")
        until(lambda: run.job_status().get("jobDeploymentStatus") in ended, f"the end of RayJob {name}", 60)
        run.uninstall("grpo-job")

    def processes(self, name: str) -> dict[int, str]:
        """Return the command lines of the launcher, the trainer and what they have started, in all pods."""
        words = ["sh", "-c", WITH, "sh", f'"{self.ray.id(name)}"']
        texts = [self.stack.kube.execute(pod, *words) for pod in self.stack.pods()]
        return dict(enumerate(line for text in texts for line in text.splitlines() if line))

    def alive(self, events: list[Record]) -> list[str]:
        """Return the processes that have noted an event and still run."""
        noted = {(one["host"], one["pid"]) for one in events}
        found = []
        for pod in self.stack.pods():
            host = pod["metadata"]["name"]
            for line in self.stack.kube.execute(pod, "sh", "-c", STATES).splitlines():
                pid, state = int(line.split()[0]), line.rpartition(")")[2].split()[0]
                if (host, pid) in noted and state != "Z":
                    found.append(f"process {pid} of the training in {host}")
        return found

    def free(self) -> dict[str, list[float]]:
        """Return how much of each resource is free, and how much there is."""
        said = self.stack.kube.execute(self.ray.head(), "python3", "-c", FREE)
        found: dict[str, list[float]] = json.loads(said.splitlines()[-1])
        return found

    def all_is_free(self) -> bool:
        """Return whether nobody uses a GPU or a processor of the cluster."""
        return all(free == there for free, there in self.free().values())
