"""A Kubernetes control plane with the KubeRay operator, on the loopback interface."""

from __future__ import annotations

import copy
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from harness.apiserver import ApiServer, Ports, Tools
from harness.processes import Programs

# Container start and end take this long on the fake nodes: a test that needs an instant answer is a test of the fake.
STAGE_MILLISECONDS = {"pod-ready": 2000, "pod-delete": 1000}
STAGES = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
)
KWOK_FLAGS = (
    "--manage-all-nodes=true",
    "--cidr=10.244.0.0/16",
    "--node-ip=10.0.0.1",
    "--node-lease-duration-seconds=40",
    "--server-address=127.0.0.1:10247",
)


class ControlPlane:
    """etcd, API server, controllers, scheduler, kwok and the KubeRay operator; `stop` ends them in reverse order."""

    def __init__(self, work: Path, tools: Tools) -> None:
        self.work = work
        self.tools = tools
        self.programs = Programs(work / "logs")
        self.server = ApiServer(work, tools, self.programs, Ports())
        self.kubeconfig = self.server.kubeconfig
        self.kube = self.server.kube

    def start(self) -> None:
        """Start everything and return when the operator answers.

        Raises RuntimeError with a program's last log lines, AssertionError when one does not become ready.
        """
        self.server.start()
        # Before the controllers: the garbage collector looks for new kinds only every thirty seconds.
        self.server.apply_crds("kuberay-crds", "gke-crds")
        self._start_controllers()
        self._start_operator()

    def stop(self) -> None:
        """Stop every program, etcd last."""
        self.kube.close()
        self.programs.stop()

    def _start_controllers(self) -> None:
        flags: list[str | Path] = ["--kubeconfig", self.kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1"]
        # The default of 20 queries a second makes the deletion of a namespace take ten seconds.
        tokens = [f"--service-account-private-key-file={self.work / 'pki/sa.key'}", "--kube-api-qps=200"]
        self.server.start_tool("kube-controller-manager", *flags, *tokens, "--kube-api-burst=200")
        self.server.start_tool("kube-scheduler", *flags)
        stages = self.work / "stages.yaml"
        stages.write_text(yaml.safe_dump_all(read_stages(self.tools.share / "kwok-stages")))
        self.server.start_tool("kwok", "--kubeconfig", self.kubeconfig, "--config", stages, *KWOK_FLAGS)

    def _start_operator(self) -> None:
        flags = ["--metrics-addr=127.0.0.1:18080", "--health-probe-bind-address=127.0.0.1:18082"]
        environment = {"KUBECONFIG": str(self.kubeconfig), "ENABLE_WEBHOOKS": "false"}
        self.server.start_tool("ray-operator", "--enable-leader-election=false", *flags, **environment)
        self.server.wait("operator ready", lambda: answers("http://127.0.0.1:18082/readyz"))


def read_stages(folder: Path) -> list[dict[str, Any]]:
    """Read kwok's own stages, give those of pods a delay, and let the pods of Helm's hooks succeed."""
    stages = []
    for name in STAGES:
        stage = yaml.safe_load((folder / f"{name}.yaml").read_text())
        delay = STAGE_MILLISECONDS.get(stage["metadata"]["name"])
        if delay is not None:
            stage["spec"]["delay"] = {"durationMilliseconds": delay}
        stages.append(stage)
        if stage["metadata"]["name"] == "pod-complete":
            stages.append(of_hooks(stage))
    return stages


def of_hooks(stage: dict[str, Any]) -> dict[str, Any]:
    """Return the stage that completes the pods of Jobs for the pods of Helm's hooks, which say so in an annotation."""
    copied = copy.deepcopy(stage)
    copied["metadata"]["name"] = "hook-complete"
    by_owner = copied["spec"]["selector"]["matchExpressions"][-1]
    by_owner |= {"key": '.metadata.annotations["helm.sh/hook"]', "operator": "Exists"}
    del by_owner["values"]
    return copied


def answers(url: str) -> bool:
    """Tell whether a GET of `url` gives 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
