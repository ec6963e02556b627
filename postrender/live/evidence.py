"""Collect what the cluster says about a stack: its objects, its nodes, and what could not be read."""

from __future__ import annotations

import contextlib
import json
import queue
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from postrender.errors import ClusterError
from postrender.live import masking
from postrender.live.client import Cluster, RefusedError
from postrender.live.expected import Expected
from postrender.manifests.pods import mapping

# Seconds until the command goes on with what it has.
_PATIENCE: Final = 10.0
_STACK: Final = "grpo-charts/stack"
_RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"

Objects = list[dict[str, Any]]
Query = dict[str, str | int]


@dataclass
class Evidence:
    """What was read: objects by the plural of their kind, and a reason for each kind that could not be read.

    A kind that the cluster does not have, such as Kueue's, has no objects and is not `unread`. `allPods` are those of
    all namespaces, for the room on the nodes. `releases` has only the metadata of Helm's Secrets. `record` is the
    status.json in the run's directory.
    """

    expected: Expected
    context: str
    time: float
    objects: dict[str, Objects] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)

    def of(self, kind: str) -> Objects:
        """Return the objects of a kind."""
        return self.objects.get(kind, [])

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the object of a kind with this name."""
        return next((each for each in self.of(kind) if name_of(each) == name), None)


def name_of(item: dict[str, Any]) -> str:
    """Return the name of an object."""
    return str(mapping(item.get("metadata")).get("name", ""))


def labels_of(item: dict[str, Any]) -> dict[str, Any]:
    """Return the labels of an object."""
    return mapping(mapping(item.get("metadata")).get("labels"))


def conditions(item: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the conditions of an object by their type."""
    found = mapping(item.get("status")).get("conditions") or []
    return {str(each.get("type")): each for each in found if isinstance(each, dict)}


def is_ready(item: dict[str, Any]) -> bool:
    """Return whether a pod or a node is ready and stays."""
    stays = "deletionTimestamp" not in mapping(item.get("metadata"))
    return stays and conditions(item).get("Ready", {}).get("status") == "True"


def _questions(expected: Expected) -> dict[str, tuple[str, Query]]:
    core = f"/api/v1/namespaces/{expected.namespace}"

    def custom(group: str, kind: str) -> tuple[str, Query]:
        return f"/apis/{group}/namespaces/{expected.namespace}/{kind}", {}

    return {
        "rayjobs": custom("ray.io/v1", "rayjobs"),
        "rayclusters": custom("ray.io/v1", "rayclusters"),
        "pods": (f"{core}/pods", {"labelSelector": f"{_STACK}={expected.name}"}),
        "events": (f"{core}/events", {"fieldSelector": "type=Warning"}),
        "persistentvolumeclaims": (f"{core}/persistentvolumeclaims", {}),
        "workloads": custom("kueue.x-k8s.io/v1beta1", "workloads"),
        "resourceclaims": custom("resource.k8s.io/v1", "resourceclaims"),
        "nodes": ("/api/v1/nodes", {}),
        "allPods": ("/api/v1/pods", {"fieldSelector": _RUNNING}),
    }


def collect(cluster: Cluster, expected: Expected) -> Evidence:
    """Ask for everything at once, and wait at most ten seconds.

    Raises ClusterError if the API server gave no answer at all.
    """
    calls: dict[str, Callable[[], Objects]] = {
        kind: lambda path=path, query=query: cluster.items(path, **query)  # type: ignore[misc]
        for kind, (path, query) in _questions(expected).items()
    }
    helm = f"/api/v1/namespaces/{expected.namespace}/secrets"
    calls["releases"] = lambda: cluster.items(helm, metadata_only=True, labelSelector="owner=helm")
    evidence = Evidence(expected, cluster.context, time.time())
    silent = dict.fromkeys(calls, f"no answer within {_PATIENCE:.0f} s")
    for kind, answer in _answers(calls):
        if isinstance(answer, RefusedError):
            if not answer.status:
                silent[kind] = str(answer)
                continue
            if not answer.is_unknown:
                evidence.unread[kind] = str(answer)
        else:
            evidence.objects[kind] = [_shortened(each) if kind == "allPods" else masking.clean(each) for each in answer]
        silent.pop(kind)
    if len(silent) == len(calls):
        raise ClusterError(
            f"the API server of the context {cluster.context!r} gives no answer: {next(iter(silent.values()))}",
            fix="kubectl get pods must work first; --context chooses another cluster",
        )
    evidence.unread.update(silent)
    _read_record(cluster, evidence)
    return evidence


def _shortened(pod: dict[str, Any]) -> dict[str, Any]:
    """Return of a pod of any namespace only where it is and what it asks for: the rest is not ours to keep."""
    spec, metadata = mapping(pod.get("spec")), mapping(pod.get("metadata"))
    kept = ("resources", "restartPolicy")
    lists = {
        key: [{each: item[each] for each in kept if each in item} for item in spec.get(key) or []]
        for key in ("containers", "initContainers")
    }
    about = {"name": metadata.get("name"), "namespace": metadata.get("namespace")}
    return {"metadata": about, "spec": {"nodeName": spec.get("nodeName"), **lists}}


def _read_record(cluster: Cluster, evidence: Evidence) -> None:
    """Read what the guard has written, in the head pod, which mounts the volume."""
    heads = [pod for pod in evidence.of("pods") if labels_of(pod).get("ray.io/node-type") == "head" and is_ready(pod)]
    if not heads or not evidence.expected.run_directory:
        return
    path = f"{evidence.expected.run_directory}/status.json"
    try:
        text = cluster.execute(name_of(heads[0]), "ray-head", ["sh", "-c", f"cat {shlex.quote(path)} || true"])
        evidence.record = masking.clean(mapping(json.loads(text))) if text.strip() else {}
    except (RefusedError, ValueError) as error:
        evidence.unread["status.json"] = str(error)


def _answers(calls: dict[str, Callable[[], Objects]]) -> Iterator[tuple[str, Objects | RefusedError]]:
    """Yield each answer as it comes, until all have come or the time is over."""
    answers: queue.SimpleQueue[tuple[str, Objects | RefusedError]] = queue.SimpleQueue()

    def ask(kind: str, call: Callable[[], Objects]) -> None:
        try:
            answers.put((kind, call()))
        except RefusedError as refusal:
            answers.put((kind, refusal))

    for kind, call in calls.items():
        # As a daemon: an answer that never comes must not keep the program.
        threading.Thread(target=ask, args=(kind, call), daemon=True).start()
    end = time.monotonic() + _PATIENCE
    with contextlib.suppress(queue.Empty):
        for _ in calls:
            yield answers.get(timeout=max(0.0, end - time.monotonic()))
