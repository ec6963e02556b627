"""Kueue with its webhooks on the control plane, for as long as a test needs it."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

import yaml

from harness.controlplane import ControlPlane, answers
from harness.kube import Manifest, dump
from harness.processes import Program
from harness.realnode.cluster import RealCluster
from harness.waiting import until

NAMESPACE = "kueue-system"
WEBHOOKS = "https://127.0.0.1:9443"
READY = "http://127.0.0.1:18083/readyz"
OURS = ("kueue-x-k8s-io", "ray-io")
# The program reads the certificate of its metrics from a fixed folder; an overlay keeps that off the machine's /etc.
START = """
mount -t overlay overlay -o lowerdir=/etc,upperdir={certificates},workdir={work} /etc
exec "$@"
"""


class Kueue:
    """One Kueue: `start` installs its definitions and webhooks, `stop` removes the webhooks again."""

    def __init__(self, plane: ControlPlane | RealCluster, work: Path) -> None:
        self.plane = plane
        self.kube = plane.kube
        self.work = work / "kueue"
        self.webhooks: list[Manifest] = []
        self.program: Program | None = None

    def start(self) -> None:
        """Start the program and return when it admits; raise AssertionError or RuntimeError if it does not."""
        certificates, overlay = self.work / "etc/kueue/metrics/certs", self.work / "overlay"
        certificates.mkdir(parents=True)
        overlay.mkdir()
        make_certificate(certificates)
        self.plane.server.apply_crds("kueue-crds")
        self.kube.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}])
        configuration = self.work / "configuration.yaml"
        configuration.write_text(yaml.safe_dump(config(certificates)))
        script = START.format(certificates=self.work / "etc", work=overlay)
        kueue: list[str | Path] = [self.plane.tools.bin / "kueue", f"--config={configuration}"]
        command = ["/usr/bin/unshare", "--mount", "/bin/sh", "-ec", script, "sh", *kueue]
        self.program = self.plane.programs.start("kueue", command, KUBECONFIG=str(self.plane.kubeconfig))
        self.plane.server.wait("Kueue ready", lambda: answers(READY))
        authority = base64.b64encode((certificates / "tls.crt").read_bytes()).decode()
        self.webhooks = read_webhooks(self.plane.tools.share / "kueue-webhooks/manifests.yaml", authority)
        self.kube.apply(self.webhooks)

    def stop(self) -> None:
        """Remove the webhooks, which would refuse everything without the program, then stop it."""
        if self.webhooks:
            self.kube.run("delete", "--ignore-not-found", "-f", "-", stdin=dump(self.webhooks))
        if self.program:
            self.plane.programs.end(self.program)

    def until_admitted(self, kind: str, name: str, namespace: str, seconds: float = 30) -> None:
        """Wait until the workload of an object is admitted."""
        until(
            lambda: self.admitted(kind, name, namespace),
            f"{kind} {name} admitted",
            seconds,
            seen=lambda: self.kube.run("get", "workloads", "-A", "-o", "wide"),
        )

    def admitted(self, kind: str, name: str, namespace: str) -> bool:
        """Tell whether the workload of an object is admitted."""
        return any(
            each["type"] == "Admitted" and each["status"] == "True" for each in self._said(kind, name, namespace)
        )

    def waits_for(self, kind: str, name: str, namespace: str) -> str:
        """Return why the workload of an object has no quota, as `kubectl describe workload` shows it."""
        for each in self._said(kind, name, namespace):
            if each["type"] == "QuotaReserved" and each["status"] == "False":
                return str(each["message"])
        return ""

    def _said(self, kind: str, name: str, namespace: str) -> list[Manifest]:
        """Return the conditions of the workload of an object."""
        for workload in self.kube.list("workloads.kueue.x-k8s.io", namespace):
            owner = workload["metadata"]["ownerReferences"][0]
            if (owner["kind"], owner["name"]) == (kind, name):
                return list(workload.get("status", {}).get("conditions", []))
        return []


def make_certificate(folder: Path) -> None:
    """Make one certificate for metrics and webhooks, which is its own authority."""
    names = ["-subj", "/CN=kueue", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(command, check=True, capture_output=True)


def config(certificates: Path) -> Manifest:
    """Return a configuration with the integrations that the documentation asks for, and addresses on the loopback."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": "127.0.0.1:18083"},
        "metrics": {"bindAddress": "127.0.0.1:18443"},
        "webhook": {"host": "127.0.0.1", "port": 9443, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "integrations": {"frameworks": ["ray.io/rayjob", "ray.io/raycluster"]},
        # It would serve an API of its own through the API server, which cannot reach it here.
        "featureGates": {"VisibilityOnDemand": False},
    }


def read_webhooks(file: Path, authority: str) -> list[Manifest]:
    """Read the webhooks of Kueue's own kinds and of Ray's, with the address of this program."""
    configurations = [document for document in yaml.safe_load_all(file.read_text()) if document]
    for each in configurations:
        each["metadata"]["name"] = f"kueue-{each['metadata']['name']}"
        kept = []
        for webhook in each["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            if any(f"-{group}-" in path for group in OURS):
                kept.append({**webhook, "clientConfig": {"url": f"{WEBHOOKS}{path}", "caBundle": authority}})
        each["webhooks"] = json.loads(json.dumps(kept))
    return configurations
