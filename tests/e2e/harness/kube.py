"""kubectl, and the few questions that the tests ask of a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import requests
import yaml
from pytest_helm_charts.clusters import Cluster, ExistingCluster

from harness.waiting import until

Manifest = dict[str, Any]
# Kinds that the tests read often. kubectl costs a tenth of a second of processor time a call, the API itself nothing.
OFTEN = {
    "node": "v1",
    "pod": "v1",
    "service": "v1",
    "secret": "v1",
    "raycluster": "ray.io/v1",
    "rayjob": "ray.io/v1",
}


class KubectlError(Exception):
    """The cluster said no; the text is what kubectl wrote on stderr, or the server's answer."""


class Kube:
    """The administrator of the cluster."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self.program = program
        self.kubeconfig = kubeconfig
        self.cluster: Cluster = ExistingCluster(str(kubeconfig))

    def close(self) -> None:
        """End the connection that `read` uses."""
        self.cluster.destroy()

    def read(self, kind: str, namespace: str = "", name: str = "", selector: str = "") -> Manifest | None:
        """Read an object or a list of one of the kinds in OFTEN; None when it does not exist.

        Raises KubectlError when the server refuses or does not answer.
        """
        client = self.cluster.kube_client or self.cluster.create()
        url = f"{kind}s/{name}" if name else f"{kind}s"
        where = {"namespace": namespace} if namespace else {}
        try:
            response = client.get(version=OFTEN[kind], url=url, params={"labelSelector": selector}, **where)
        except requests.ConnectionError as error:
            raise KubectlError(str(error)) from None
        if response.status_code == 404:
            return None
        if not response.ok:
            raise KubectlError(response.text)
        return dict(response.json())

    def run(self, *arguments: str, stdin: str = "", ok: tuple[int, ...] = (0,)) -> str:
        """Run kubectl and return its stdout.

        Raises KubectlError when the exit code is not one of `ok`.
        """
        command = [str(self.program), "--kubeconfig", str(self.kubeconfig), *arguments]
        result = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        if result.returncode not in ok:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout

    def raw(self, path: str) -> str:
        """Return the body of a GET, or an empty text when the server does not answer."""
        try:
            return self.run("get", "--raw", path)
        except KubectlError:
            return ""

    def find(self, kind: str, name: str, namespace: str = "") -> Manifest | None:
        """Return one object, None when it does not exist."""
        if kind in OFTEN:
            return self.read(kind, namespace, name)
        text = self.run("get", kind, name, *in_namespace(namespace), "--ignore-not-found", "-o", "json")
        return dict(json.loads(text)) if text else None

    def get(self, kind: str, name: str, namespace: str = "") -> Manifest:
        """Return one object.

        Raises AssertionError when it does not exist.
        """
        found = self.find(kind, name, namespace)
        assert found is not None, f"no {kind} {name} in namespace {namespace!r}"
        return found

    def list(self, kind: str, namespace: str = "", selector: str = "") -> list[Manifest]:
        """Return the objects of a kind, of all namespaces when none is given."""
        if (singular := kind.removesuffix("s")) in OFTEN:
            return list((self.read(singular, namespace, selector=selector) or {})["items"])
        where = in_namespace(namespace) if namespace else ["--all-namespaces"]
        which = ["--selector", selector] if selector else []
        return list(json.loads(self.run("get", kind, *where, *which, "-o", "json"))["items"])

    def apply(self, manifests: Iterable[Manifest], namespace: str = "", dry_run: bool = False) -> str:
        """Apply on the server with strict field validation; conflicts with another field manager are errors."""
        options = ["--server-side", "--validate=strict", *in_namespace(namespace), "-f", "-"]
        if dry_run:
            options.append("--dry-run=server")
        return self.run("apply", *options, stdin=dump(manifests))

    def create(self, manifests: Iterable[Manifest], namespace: str = "", dry_run: bool = False) -> str:
        """Create objects with strict field validation."""
        options = ["--validate=strict", *in_namespace(namespace), "-f", "-"]
        if dry_run:
            options.append("--dry-run=server")
        return self.run("create", *options, stdin=dump(manifests))

    def diff(self, manifests: Iterable[Manifest], namespace: str = "", manager: str = "kubectl") -> str:
        """Return what an apply would change; empty when nothing."""
        options = ["--server-side", f"--field-manager={manager}", "--force-conflicts", *in_namespace(namespace)]
        return self.run("diff", *options, "-f", "-", stdin=dump(manifests), ok=(0, 1))

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete an object and wait until it is gone."""
        self.run("delete", kind, name, *in_namespace(namespace), "--ignore-not-found", "--timeout=60s")

    def until_gone(self, kind: str, name: str, namespace: str = "", seconds: float = 30) -> None:
        """Wait until an object does not exist."""
        until(lambda: self.find(kind, name, namespace) is None, f"{kind} {name} gone", seconds)

    def execute(self, pod: Manifest, *words: str) -> str:
        """Run a program in the first container of a pod and return its output."""
        container = pod["spec"]["containers"][0]["name"]
        where = [pod["metadata"]["name"], *in_namespace(pod["metadata"]["namespace"]), "--container", container]
        return self.run("exec", *where, "--", *words)

    def logs(self, pod: Manifest, *options: str) -> str:
        """Return the log of a pod, of its first container unless the options name another one."""
        return self.run("logs", pod["metadata"]["name"], *in_namespace(pod["metadata"]["namespace"]), *options)

    def events(self, namespace: str) -> str:
        """Return the events of a namespace, one a line, for a message."""
        columns = "custom-columns=O:.involvedObject.name,R:.reason,M:.message"
        return self.run("get", "events", "-n", namespace, "--no-headers", "-o", columns)


def in_namespace(namespace: str) -> list[str]:
    """Give kubectl's option for a namespace, nothing for cluster-scoped objects."""
    return ["--namespace", namespace] if namespace else []


def dump(manifests: Iterable[Manifest]) -> str:
    """Write manifests as one YAML stream."""
    return yaml.safe_dump_all(list(manifests), sort_keys=False, width=10_000)


def load(text: str) -> list[Manifest]:
    """Read a YAML stream as manifests; empty documents are dropped."""
    return [document for document in yaml.safe_load_all(text) if document]
