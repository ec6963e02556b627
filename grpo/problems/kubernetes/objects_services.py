"""Services that the API server rejects because their ports conflict, which a schema cannot express.

tests/e2e compares the rules with a real API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.problems.pods.podspec import objects
from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

# What these open, they open at an address of the cluster.
_OPENED: Final = ("NodePort", "LoadBalancer")


def _ports(manifests: Manifests) -> Iterator[Finding]:
    for item, spec in objects(manifests, "Service"):
        if item.object.get("apiVersion") == "v1" and isinstance(item.object.get("spec"), dict):
            ports = [each for each in sequence(spec.get("ports")) if isinstance(each, dict)]
            kind, headless = spec.get("type") or "ClusterIP", spec.get("clusterIP") == "None"
            if not ports and not headless and kind != "ExternalName":
                yield item.finding(("spec",), "the service has no ports")
            if headless and kind in _OPENED:
                yield item.finding(("spec", "clusterIP"), f"a service of type {kind} has no address in the cluster")
            for number, key, what in (*_twice(ports), *_of_each(ports, kind)):
                path = ("spec", "ports", number, key) if key in ports[number] else ("spec", "ports", number)
                yield item.finding(path, what)


def _twice(ports: list[dict[str, Any]]) -> Iterator[tuple[int, str, str]]:
    seen = set()
    for number, port in enumerate(ports):
        protocol = port.get("protocol") or "TCP"
        named = port.get("name"), f"two ports are called {port.get('name')}"
        opened = port.get("port"), f"two ports are {protocol} {port.get('port')}"
        outside = port.get("nodePort"), f"two ports have nodePort {port.get('nodePort')} for {protocol}"
        for key, (value, what) in {"name": named, "port": opened, "nodePort": outside}.items():
            # The schema reports what is neither text nor number.
            if not value or not isinstance(value, str | int) or not isinstance(protocol, str):
                continue
            found = (key, value, "" if key == "name" else protocol)
            if found in seen:
                yield number, key, what
            seen.add(found)


def _of_each(ports: list[dict[str, Any]], kind: str) -> Iterator[tuple[int, str, str]]:
    for number, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield number, "name", f"port {port.get('port')} has no name, and there are {len(ports)} ports"
        if kind == "ClusterIP" and port.get("nodePort"):
            yield number, "nodePort", f"nodePort {port['nodePort']} is set, and the type is ClusterIP"


RULES = (
    Problem(
        "kubernetes/service-ports",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_ADMISSION,
        title="the ports or the address of a Service are missing, or conflict",
        why="the API server refuses the object, after others of the same release are installed",
        fix="write ports, each with its own name and number; nodePort needs type NodePort or LoadBalancer",
        source="kubernetes/pkg/apis/core/validation/validation.go at v1.36.3",
        check=_ports,
    ),
)
