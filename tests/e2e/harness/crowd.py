"""Hundreds of nodes and thousands of pods on an API server that no controller works on."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection
from json import dumps, loads

from harness.apiserver import ApiServer
from harness.kube import Manifest

NODES, PODS = 500, 2000
LANES = 8
PATHS = {"Node": "/api/v1/nodes", "Namespace": "/api/v1/namespaces"}


def create(server: ApiServer, objects: Iterable[Manifest]) -> None:
    """Create objects, some at a time: kubectl takes a minute for thousands. Raises AssertionError."""
    every = list(objects)
    with ThreadPoolExecutor(LANES) as lanes:
        list(lanes.map(lambda lane: post(server, every[lane::LANES]), range(LANES)))


def post(server: ApiServer, objects: list[Manifest]) -> None:
    """Create objects one after the other on one connection."""
    settings = loads(server.kubeconfig.read_text())
    context = ssl.create_default_context(cafile=settings["clusters"][0]["cluster"]["certificate-authority"])
    connection = HTTPSConnection(server.ports.address, server.ports.api, context=context)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {settings['users'][0]['user']['token']}"}
    for item in objects:
        kind, namespace = item["kind"], item["metadata"].get("namespace")
        path = PATHS.get(kind) or f"/api/v1/namespaces/{namespace}/{kind.lower()}s"
        connection.request("POST", path, dumps(item), headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 201, text
    connection.close()


def nodes(like: Manifest, count: int = NODES) -> Iterator[Manifest]:
    """Describe copies of a node."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    for number in range(count):
        about = {**like["metadata"], "name": f"node-{number}"}
        yield {**like, "metadata": about, "status": {**like["status"], "conditions": [ready]}}


def pods(template: Manifest, namespace: str, count: int, labels: dict[str, str], placed: bool) -> Iterator[Manifest]:
    """Describe pods of a template, on the nodes in turn unless they wait."""
    for number in range(count):
        spec = {**template["spec"], **({"nodeName": f"node-{number % NODES}"} if placed else {})}
        about = {"name": f"pod-{number}", "namespace": namespace, "labels": labels}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}
