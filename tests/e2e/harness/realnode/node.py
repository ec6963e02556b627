"""A Kubernetes node on a machine: kubelet and kube-proxy beside containerd."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import pods
from harness.apiserver import Tools
from harness.kube import Kube
from harness.processes import Program
from harness.realnode import runtime
from harness.realnode.machine import CONTROL_PLANE, Machine
from harness.waiting import until

POD_NETWORK = "10.244.0.0/16"
# Of the names of control groups; the number of the run follows.
PREFIX = "grpo-e2e-"


class Node:
    """A machine that has joined the cluster."""

    def __init__(self, machine: Machine, tools: Tools, kube: Kube, kubeconfig: Path) -> None:
        self.machine = machine
        self.tools = tools
        self.kube = kube
        self.kubeconfig = kubeconfig
        self.kubelet: Program | None = None
        self.name = machine.name

    def start(self, images: Path) -> None:
        """Start the programs of the node with the images that a containerd has prepared."""
        runtime.start(self.machine, self.tools, images)
        for folder in cgroups(self.name):
            folder.mkdir(exist_ok=True)
            inherit(folder)
        (self.machine.folder / "kubelet.yaml").write_text(yaml.safe_dump(self._configuration()))
        self.start_kubelet()
        proxy = [f"--hostname-override={self.name}", f"--kubeconfig={self.kubeconfig}", f"--cluster-cidr={POD_NETWORK}"]
        # The limits of conntrack belong to the whole machine, and root may not be allowed to set them.
        limits = ["--conntrack-max-per-core=0"]
        limits += [f"--conntrack-tcp-timeout-{state}=0" for state in ("established", "close-wait")]
        self.machine.start("kube-proxy", self.tools.bin / "kube-proxy", "--proxy-mode=nftables", *proxy, *limits)

    def start_policies(self) -> None:
        """Start what enforces NetworkPolicies on the node."""
        flags = ["--run-firewall=true", "--run-router=false", "--run-service-proxy=false", "--metrics-port=0"]
        where = [f"--hostname-override={self.name}", f"--kubeconfig={self.kubeconfig}"]
        self.machine.start("kube-router", self.tools.bin / "kube-router", *flags, *where)

    def start_kubelet(self) -> None:
        """Start the kubelet; a test that has ended it may start it again."""
        self.kubelet = self.machine.start(
            "kubelet",
            self.tools.bin / "kubelet",
            f"--config={self.machine.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self.kubeconfig}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.machine.address.node}",
            f"--root-dir={self.machine.folder / 'kubelet'}",
            f"--cert-dir={self.machine.folder / 'certificates'}",
        )

    def until_ready(self) -> None:
        """Wait until the API server calls the node ready."""
        until(self._is_ready, f"node {self.name} ready", 60, seen=lambda: self.kubelet and self.kubelet.tail())

    def offer(self, resources: Mapping[str, str]) -> None:
        """Let the node offer resources that no device plugin brings; a kubelet keeps them."""
        status = {"status": {"capacity": dict(resources), "allocatable": dict(resources)}}
        words = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
        self.kube.run("patch", "node", self.name, *words)

    def label(self, labels: Mapping[str, str]) -> None:
        """Give the node labels."""
        self.kube.run("label", "node", self.name, "--overwrite", *(f"{key}={text}" for key, text in labels.items()))

    def taint(self, taints: list[dict[str, str]]) -> None:
        """Keep pods away that do not tolerate these taints."""
        words = [f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in taints]
        self.kube.run("taint", "node", self.name, "--overwrite", *words)

    def _is_ready(self) -> bool:
        if self.kubelet:
            self.kubelet.check()
        found = self.kube.find("node", self.name)
        return bool(found and pods.is_ready(found))

    def _configuration(self) -> dict[str, Any]:
        no_resolver = self.machine.folder / "resolv.conf"
        no_resolver.write_text("")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.machine.address.node,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{runtime.SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{cgroup(self.name)}",
            "failCgroupV1": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            # It looks for the device of the root file system, which a private mount namespace does not show.
            "localStorageCapacityIsolation": False,
            "clusterDNS": [CONTROL_PLANE],
            "clusterDomain": "cluster.local",
            "resolvConf": str(no_resolver),
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "100Mi"},
            "podLogsDir": str(self.machine.folder / "pods"),
            "syncFrequency": "10s",
            # A pause that doubles to five minutes shows nothing more.
            "crashLoopBackOff": {"maxContainerRestartPeriod": "10s"},
            "nodeStatusUpdateFrequency": "4s",
        }


def cgroup(node: str) -> str:
    """Name the control group below which the pods of a node live; another run has another one."""
    return f"{PREFIX}{os.getpid()}-{node}"


def cgroups(node: str) -> list[Path]:
    """List the folders of a node's control group: one a controller with version 1, one with version 2."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return [root / cgroup(node)]
    return [folder / cgroup(node) for folder in sorted(root.iterdir()) if folder.is_dir() and not folder.is_symlink()]


def inherit(folder: Path) -> None:
    """Let a group of version 1 use the processors and the memory nodes of its parent; it has none by itself."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (folder / name).exists():
            (folder / name).write_text((folder.parent / name).read_text())


def remove_cgroups(node: str, seconds: float = 10) -> list[str]:
    """Remove a node's control groups after its processes have ended, and name those that could not be removed.

    The kernel calls a group busy until it has done away with the last process.
    """
    deadline = time.monotonic() + seconds
    while (kept := try_to_remove_cgroups(node)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return kept


def try_to_remove_cgroups(node: str) -> list[str]:
    """Remove a node's control groups as far as they are empty, and name the others."""
    return [kept for top in cgroups(node) for kept in remove_empty(top)]


def remove_empty(top: Path) -> list[str]:
    """Remove a control group and those below it as far as they are empty, and name the others."""
    kept = []
    for folder in [*sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True), top]:
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            kept.append(str(folder))
    return kept


def remove_cgroups_of_killed_runs() -> None:
    """Remove the control groups of runs that were killed, whose processes have ended with them."""
    for pattern in (f"{PREFIX}*", f"*/{PREFIX}*"):
        for group in Path("/sys/fs/cgroup").glob(pattern):
            run = group.name.removeprefix(PREFIX).split("-")[0]
            if not Path("/proc", run).exists():
                remove_empty(group)
