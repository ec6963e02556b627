"""A Kubernetes control plane with the KubeRay operator, on the loopback interface.

The namespace belongs to one run alone, so every program can listen on a fixed port.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.kube import Kube, Manifest
from harness.processes import Programs
from harness.waiting import until

API = "https://127.0.0.1:6443"
ETCD = "http://127.0.0.1:2379"
PEER = "http://127.0.0.1:2380"
# Container start and end take this long on the fake nodes: a test that needs an instant answer is a test of the fake.
STAGE_MILLISECONDS = {"pod-ready": 2000, "pod-delete": 1000}
STAGES = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-complete",
    "pod/fast/pod-delete",
)


@dataclass(frozen=True)
class Tools:
    """Where `make tools` puts programs (`bin`) and the manifests that travel with them (`share`)."""

    bin: Path
    share: Path


class ControlPlane:
    """etcd, API server, controllers, scheduler, kwok and the KubeRay operator; `stop` ends them in reverse order."""

    def __init__(self, work: Path, tools: Tools) -> None:
        self.work = work
        self.tools = tools
        self.logs = work / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.programs = Programs(self.logs)
        self.kubeconfig = work / "kubeconfig"
        self.kube = Kube(tools.bin / "kubectl", self.kubeconfig)

    def start(self) -> None:
        """Start everything and return when the operator answers.

        Raises RuntimeError with a program's last log lines, AssertionError when one does not become ready.
        """
        self._start_api_server()
        # Before the controllers: the garbage collector looks for new kinds only every thirty seconds.
        self._apply_crds()
        self._start_controllers()
        self._start_operator()

    def stop(self) -> None:
        """Stop every program, etcd last."""
        self.kube.close()
        self.programs.stop()

    def _start_api_server(self) -> None:
        data, pki = self.work / "etcd", self.work / "pki"
        pki.mkdir()
        subprocess.run(["openssl", "genrsa", "-out", pki / "sa.key", "2048"], check=True, capture_output=True)
        token = secrets.token_hex(16)
        (pki / "tokens.csv").write_text(f"{token},admin,1,system:masters\n")
        self._start_tool("etcd", *etcd_flags(data))
        self._start_tool("kube-apiserver", *api_server_flags(pki))
        self.kubeconfig.write_text(json.dumps(kubeconfig(pki / "apiserver.crt", token)))
        self.kubeconfig.chmod(0o600)
        self._await("API server", lambda: self.kube.raw("/readyz") == "ok")

    def _start_controllers(self) -> None:
        flags: list[str | Path] = ["--kubeconfig", self.kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1"]
        # The default of 20 queries a second makes the deletion of a namespace take ten seconds.
        tokens = [f"--service-account-private-key-file={self.work / 'pki/sa.key'}", "--kube-api-qps=200"]
        self._start_tool("kube-controller-manager", *flags, *tokens, "--kube-api-burst=200")
        self._start_tool("kube-scheduler", *flags)
        stages = self.work / "stages.yaml"
        stages.write_text(yaml.safe_dump_all(read_stages(self.tools.share / "kwok-stages")))
        self._start_tool("kwok", "--kubeconfig", self.kubeconfig, "--config", stages, *KWOK_FLAGS)

    def _apply_crds(self) -> None:
        for folder in ("kuberay-crds", "gke-crds"):
            self.kube.run("apply", "--server-side", "-f", str(self.tools.share / folder))
        # `kubectl wait` fails on a CRD that has no conditions yet.
        self._await("CRDs", lambda: all(map(established, self.kube.list("crds"))))

    def _start_operator(self) -> None:
        flags = ["--metrics-addr=127.0.0.1:18080", "--health-probe-bind-address=127.0.0.1:18082"]
        environment = {"KUBECONFIG": str(self.kubeconfig), "ENABLE_WEBHOOKS": "false"}
        self._start_tool("ray-operator", "--enable-leader-election=false", *flags, **environment)
        self._await("operator", lambda: answers("http://127.0.0.1:18082/readyz"))

    def _start_tool(self, name: str, *flags: str | Path, **env: str) -> None:
        self.programs.start(name, [self.tools.bin / name, *flags], **env)

    def _await(self, name: str, probe: Callable[[], bool]) -> None:
        def ready() -> bool:
            self.programs.check()
            return probe()

        until(ready, f"{name} ready", seconds=60, every=0.1)


KWOK_FLAGS = (
    "--manage-all-nodes=true",
    "--cidr=10.244.0.0/16",
    "--node-ip=10.0.0.1",
    "--node-lease-duration-seconds=40",
    "--server-address=127.0.0.1:10247",
)


def etcd_flags(data: Path) -> list[str]:
    """Give etcd its loopback addresses; durability is of no use to a test."""
    urls = {"listen-client": ETCD, "advertise-client": ETCD, "listen-peer": PEER, "initial-advertise-peer": PEER}
    addresses = [f"--{name}-urls={url}" for name, url in urls.items()]
    return [*addresses, f"--initial-cluster=default={PEER}", f"--data-dir={data}", "--unsafe-no-fsync"]


def api_server_flags(pki: Path) -> list[str]:
    """Switch on what a real cluster has: RBAC, Pod Security (a default) and the admission plugin that GKE adds."""
    return [
        f"--etcd-servers={ETCD}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--secure-port=6443",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={pki}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'sa.key'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--enable-admission-plugins=ExtendedResourceToleration",
        "--allow-privileged=true",
    ]


def kubeconfig(authority: Path, token: str) -> dict[str, object]:
    """Describe the connection of the administrator."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {"server": API, "certificate-authority": str(authority)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "admin"}}],
    }


def read_stages(folder: Path) -> list[dict[str, object]]:
    """Read kwok's own stages and give those of pods a delay."""
    stages = []
    for name in STAGES:
        stage = yaml.safe_load((folder / f"{name}.yaml").read_text())
        delay = STAGE_MILLISECONDS.get(stage["metadata"]["name"])
        if delay is not None:
            stage["spec"]["delay"] = {"durationMilliseconds": delay}
        stages.append(stage)
    return stages


def established(crd: Manifest) -> bool:
    """Tell whether the API server serves a CRD."""
    conditions = crd.get("status", {}).get("conditions") or []
    return any(entry["type"] == "Established" and entry["status"] == "True" for entry in conditions)


def answers(url: str) -> bool:
    """Tell whether a GET of `url` gives 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
