"""Make a kustomization that inserts what the post-renderer inserts, and judge whether both did the same.

What is inserted is read from our own chart, rendered with the same values files: neither of the two tools is asked.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from grpo.helm.engines import Embedded

# What both sides are given, below the root.
FILES = ("values/accelerators/b200.yaml", "values/recipes/gemma3-27b-gsm8k.yaml", "values/examples/site.yaml")
KINDS = ("RayCluster", "RayJob", "Job", "JobSet")
STAMP = "grpo-charts/wiring"
ENVIRONMENT = re.compile(r"LD_LIBRARY_PATH|HF_TOKEN|HF_HUB_OFFLINE|WANDB_API_KEY|BASH_ENV|NCCL_.*|GLOO_.*")
VOLUME = re.compile(r"shared-memory|host-.*")
# RDMA pins memory with it; the chart's other capabilities are root's rights over files.
CAPABILITY = "IPC_LOCK"
KIND = re.compile(r"^kind: (\S+)$", re.MULTILINE)

Object = dict[str, Any]
# JSON has no static type.
Node = Any
Place = tuple[str | int, ...]
# What goes into the lists and maps of one pod template, by their place in it.
Wiring = Mapping[Place, Any]


def pod_templates(item: Object) -> Iterator[tuple[Place, Object]]:
    """Yield the place and the content of every pod template of one object."""
    place: Place = ("spec",)
    spec = item["spec"]
    if item["kind"] == "Job":
        yield (*place, "template"), spec["template"]
    elif item["kind"] == "JobSet":
        for at, job in enumerate(spec["replicatedJobs"]):
            yield (*place, "replicatedJobs", at, "template", "spec", "template"), job["template"]["spec"]["template"]
    else:
        if item["kind"] == "RayJob":
            spec, place = spec["rayClusterSpec"], ("spec", "rayClusterSpec")
        yield (*place, "headGroupSpec", "template"), spec["headGroupSpec"]["template"]
        for at, group in enumerate(spec["workerGroupSpecs"]):
            yield (*place, "workerGroupSpecs", at, "template"), group["template"]


def chart_wiring(root: str) -> tuple[Wiring, Wiring]:
    """Return the wiring of a GPU pod and that of a head, as the chart renders it."""
    files = [os.path.join(root, file) for file in FILES]
    with Embedded() as engine:
        objects = engine.render(os.path.join(root, "charts/raycluster"), files, release="ray").documents
    cluster = next(item for item in objects if item["kind"] == "RayCluster")
    (_, head), (_, worker) = pod_templates(cluster)
    return wiring(worker), {place: value for place, value in wiring(head).items() if place[-1] == "env"}


def wiring(template: Object) -> Wiring:
    """Return what is wiring in a pod template of our chart."""
    spec, container = template["spec"], template["spec"]["containers"][0]
    notes = template["metadata"].get("annotations", {})
    first = ("spec", "containers", 0)
    capabilities = [c for c in container["securityContext"]["capabilities"]["add"] if c == CAPABILITY]
    return {
        ("metadata", "annotations"): {k: v for k, v in notes.items() if k.startswith("networking.gke.io/")},
        (*first, "env"): [e for e in container["env"] if ENVIRONMENT.fullmatch(e["name"])],
        (*first, "volumeMounts"): [m for m in container["volumeMounts"] if VOLUME.fullmatch(m["name"])],
        (*first, "securityContext"): {"capabilities": {"add": capabilities}} if capabilities else {},
        ("spec", "volumes"): [v for v in spec["volumes"] if VOLUME.fullmatch(v["name"])],
        ("spec", "initContainers"): [c for c in spec.get("initContainers", []) if c["name"] == "check-node"],
        ("spec", "nodeSelector"): spec.get("nodeSelector", {}),
        ("spec", "tolerations"): spec.get("tolerations", []),
    }


def kustomization(stream: str, gpu: Wiring, other: Wiring) -> Object:
    """Return a kustomization that patches each kind once, by the lists that its first object has."""
    patches = []
    for kind in KINDS:
        item = next(targets(stream, (kind,)), None)
        if item:
            made = [
                step for place, pod in pod_templates(item) for step in steps(place, pod, gpu if gpus(pod) else other)
            ]
            patches.append({"target": {"kind": kind}, "patch": json.dumps(made)})
    return {"resources": ["input.yaml"], "patches": patches}


def gpus(template: Object) -> bool:
    """Return whether the pod has GPUs."""
    return "nvidia.com/gpu" in template["spec"]["containers"][0]["resources"]["limits"]


def steps(place: Place, template: Object, inserted: Wiring) -> Iterator[Object]:
    """Yield the steps of a JSON patch that put the wiring in front of what a pod template has."""
    for inner, value in inserted.items():
        there = found(template, inner)
        path = pointer((*place, *inner))
        if not value:
            continue
        if not there:
            yield {"op": "add", "path": path, "value": value}
        elif isinstance(value, list):
            yield from ({"op": "add", "path": f"{path}/0", "value": entry} for entry in reversed(value))
        else:
            yield from ({"op": "add", "path": path + pointer((key,)), "value": text} for key, text in value.items())


def found(template: Node, place: Place) -> Node:
    """Return what stands at a place, or None."""
    for key in place:
        if isinstance(template, dict) and key not in template:
            return None
        template = template[key]
    return template


def pointer(place: Place) -> str:
    """Return a place as a JSON pointer."""
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in place)


def targets(stream: str, kinds: Iterable[str] = KINDS) -> Iterator[Object]:
    """Yield the objects of a stream that get wiring."""
    for kind, text in texts(stream):
        if kind in kinds:
            yield yaml.load(text, yaml.CSafeLoader)


def texts(stream: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the text of every document."""
    for text in re.split(r"^---\n", stream, flags=re.MULTILINE):
        kind = KIND.search(text)
        if kind:
            yield kind[1], text


def touched(before: str, after: str) -> list[str]:
    """Return one line for every document that is no target and has not kept every byte."""
    one, two = ([text for kind, text in texts(stream) if kind not in KINDS] for stream in (before, after))
    kept = set(two)
    lines = [f"{len(one)} documents are no targets, and {len(two)} came out"] if len(one) != len(two) else []
    return lines + [f"{text.splitlines()[0]}: changed, and is no target" for text in one if text not in kept]


def differences(ours: str, theirs: str) -> list[str]:
    """Return one line for every target that is not the same in both streams; the order of lists says nothing."""
    one, two = ({identity(item): plain(item) for item in targets(stream)} for stream in (ours, theirs))
    lines = [f"{name}: only one of the two has it" for name in sorted(one.keys() ^ two.keys())]
    return lines + [
        f"{name}: {first(one[name], two[name])}" for name in sorted(one.keys() & two.keys()) if one[name] != two[name]
    ]


def identity(item: Object) -> str:
    """Return kind, namespace and name."""
    return f"{item['kind']} {item['metadata'].get('namespace')}/{item['metadata']['name']}"


def plain(item: Object) -> Node:
    """Return an object without our stamp, its lists in one order."""
    notes = item["metadata"].get("annotations") or {}
    notes.pop(STAMP, None)
    item["metadata"]["annotations"] = notes
    return sorted_lists(item)


def sorted_lists(node: Node) -> Node:
    """Return the same content with every list sorted."""
    if isinstance(node, dict):
        return {key: sorted_lists(value) for key, value in node.items()}
    if isinstance(node, list):
        return sorted((sorted_lists(value) for value in node), key=lambda value: json.dumps(value, sort_keys=True))
    return node


def first(one: Node, two: Node, place: str = "") -> str:
    """Return the first place where two objects differ."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(one.keys() | two.keys()):
            if one.get(key) != two.get(key):
                return first(one.get(key), two.get(key), f"{place}.{key}")
    if isinstance(one, list) and isinstance(two, list):
        only = [[entry for entry in a if entry not in b] for a, b in ((one, two), (two, one))]
        if len(only[0]) == len(only[1]) == 1:
            return first(only[0][0], only[1][0], f"{place}[]")
        one, two = only
    return f"{place.lstrip('.')}: {json.dumps(one)[:300]} here, {json.dumps(two)[:300]} there"
