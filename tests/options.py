"""Every option of the charts as a factor with its levels, and the pairs that cannot work, each with its refusal.

The offline suite renders a set of rows that holds every pair of levels, and the end-to-end tests give the objects and
pods of the same rows to an API server.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Values = dict[str, Any]
Row = dict[str, str]


@functools.cache
def profiles() -> dict[str, Values]:
    """Return each profile by the file's name."""
    folder = Path(__file__).resolve().parent.parent / "values/accelerators"
    return {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in sorted(folder.glob("*.yaml"))}


@functools.cache
def machines() -> dict[str, Values]:
    """Return the section `accelerator` of each profile by the file's name."""
    return {name: profile["accelerator"] for name, profile in profiles().items()}


@functools.cache
def shapes() -> dict[str, Values]:
    """Return the machines whose profiles together have every key: the others differ from these in values only."""
    return {name: machine for name, machine in machines().items() if name == shape(name)}


@functools.cache
def shape(name: str) -> str:
    """Return the profile with the most keys among those that have all keys of a profile and refuse no more."""

    def refused(machine: Values) -> set[str]:
        return set(machine.get("refuses", {}))

    def has_gpus(machine: Values) -> bool:
        return bool(machine["gpusPerNode"])

    own = machines()[name]
    fits = [
        each
        for each, other in machines().items()
        if set(own) <= set(other) and refused(other) <= refused(own) and has_gpus(other) == has_gpus(own)
    ]
    return max(fits, key=lambda each: len(machines()[each]))


# The key of a profile that each network mode needs.
OFFERS = {"multiNetwork": "interfaces", "dranet": "claims", "devices": "resources"}


def needs(machine: Values) -> Values:
    """Return what a machine needs beside its profile to render: an image for its processor."""
    return {"images": {"training": {"arm64": True}}} if machine.get("architecture") == "arm64" else {}


def modes(name: str) -> list[str]:
    """Return the network modes of a profile."""
    machine = machines()[name]
    refuses = machine.get("refuses", {})
    return [*(mode for mode, key in OFFERS.items() if machine.get(key) and mode not in refuses), "none"]


def alone(name: str, mode: str = "") -> Values:
    """Return what a profile needs beside itself and a recipe to render, by default in its own network mode."""
    machine = machines()[name]
    is_elsewhere = "gke-standard" in machine.get("refuses", {})
    volume = instead(existingClaim={"name": "nfs"}) if is_elsewhere else {}
    mode = mode or profiles()[name].get("network", {}).get("mode") or modes(name)[0]
    return {**needs(machine), "network": {"mode": mode}, **volume}


def bucket(**fields: Any) -> Values:
    """Give the volume of the runs as a bucket."""
    return {"storage": {"data": {"gcsfuse": {"bucket": "my-bucket", **fields}}}}


def instead(**source: Any) -> Values:
    """Give the volume of the runs another source than the example's bucket."""
    return {"storage": {"data": {"gcsfuse": None, **source}}}


INSTANCE = {"location": "us-central1-a", "instance": "fast", "ip": "10.1.2.3", "filesystem": "lfs", "size": "18000Gi"}
MADE = {"perUnitStorageThroughput": "1000", "network": "projects/p/global/networks/v", "zone": "us-central1-a"}
EXTRAS: Values = {
    "env": {"PART": {"value": "1"}, "KEY": {"secret": {"name": "keys", "key": "one"}}},
    "labels": {"team": "rl"},
    "annotations": {"team": "rl"},
    "volumes": {"model": {"nfs": {"server": "10.0.0.9", "path": "/m"}}},
    "mounts": {"model": {"mountPath": "/model", "readOnly": True}},
    "initContainers": {"warm": {"image": "busybox:1.37"}},
    "sidecars": {"exporter": {"image": "exporter:1", "ports": [{"containerPort": 9100}]}},
    "securityContext": {"runAsUser": 0},
}
OVERLAY: Values = {
    "podSpec": {
        "priorityClassName": "system-cluster-critical",
        "tolerations": [{"key": "reserved", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 300,
    }
}

FACTORS: dict[str, dict[str, Values]] = {
    "accelerator": {name: needs(machine) for name, machine in machines().items()},
    "platform": {
        "gke-standard": {"platform": {"kind": "gke-standard"}},
        "gke-autopilot": {"platform": {"kind": "gke-autopilot"}, "ray": {"head": {"ephemeralStorage": "3Gi"}}},
        "kubernetes": {"platform": {"kind": "kubernetes"}},
    },
    "network": {mode: {"network": {"mode": mode}} for mode in (*OFFERS, "none")},
    "installer": {"off": {}, "on": {"network": {"rdmaInstaller": {"enabled": True}}}},
    "pod-policy": {"off": {}, "on": {"network": {"podPolicy": {"enabled": True}}}},
    "capacity": {
        "on-demand": {},
        **{kind: {"platform": {"capacity": {"kind": kind}}} for kind in ("spot", "flex-start", "queued")},
        "reservation": {
            "platform": {"capacity": {"kind": "reservation", "reservation": "ours", "placementPolicy": "near"}}
        },
    },
    "data": {
        "checkpoints": bucket(purpose="checkpoints"),
        "profile": bucket(storageClassName="gcsfusecsi-checkpointing"),
        "cached": bucket(fileCache="1Ti", volumeAttributes={"gcsfuseLoggingSeverity": "info"}),
        "claim": instead(existingClaim={"name": "nfs"}),
        "theirs": instead(existingClaim={"name": "bucket", "gcsfuse": {"enabled": True, "fileCache": "1Gi"}}),
        "lustre": instead(lustre=INSTANCE),
        "pvc": instead(pvc={"storageClassName": "shared", "size": "1Ti"}),
        "made": instead(pvc={"storageClassName": "lustre", "size": "9000Gi", "lustre": MADE}),
    },
    "local": {"off": {}, "on": {"storage": {"local": {"mountPath": "/local", "ephemeral": {"size": "20Gi"}}}}},
    "stage": {"off": {}, "on": {"job": {"stage": True}}},
    "task": {task: {"job": {"task": task}} for task in ("train", "fetch", "evaluate")},
    "cluster": {mode: {"job": {"cluster": {"mode": mode}}} for mode in ("existing", "ephemeral")},
    "head": {
        "plain": {},
        "tasks": {"ray": {"head": {"numCpus": 4}}},
        "gpus": {"ray": {"head": {"gpus": {"enabled": True}}, "workers": {"replicas": 1}}},
    },
    "kueue": {
        "off": {},
        "required": {"ray": {"kueue": {"queue": "gpus", "topology": {"required": "a/b"}}}},
        "preferred": {"ray": {"kueue": {"queue": "gpus", "priorityClass": "high", "topology": {"preferred": "a/b"}}}},
    },
    "tracking": {
        "off": {"tracking": {"tensorboard": {"enabled": False}}},
        "files": {"tracking": {"tensorboard": {"enabled": True}}},
        "server": {"tracking": {"tensorboard": {"enabled": True, "server": {"enabled": True}}}},
        "wandb": {"tracking": {"wandb": {"enabled": True, "name": "x"}}},
        "mlflow": {"tracking": {"mlflow": {"enabled": True, "trackingUri": "http://mlflow:5000"}}},
    },
    "huggingface": {"online": {}, "offline": {"huggingface": {"offline": {"enabled": True}}}},
    "logs": {"off": {}, "on": {"ray": {"logs": {"fluentBit": {"enabled": True}}}}},
    "metrics": {scrape: {"ray": {"metrics": {"scrape": scrape}}} for scrape in ("none", "podMonitoring", "podMonitor")},
    "token": {"on": {}, "off": {"ray": {"tokenAuth": {"enabled": False}}}},
    "policy": {
        "open": {},
        "operator": {"ray": {"networkPolicy": {"operatorNamespace": "ray-system"}}},
        "off": {"ray": {"networkPolicy": {"enabled": False}}},
        "both-ways": {
            "ray": {
                "networkPolicy": {
                    "clients": "everyone",
                    "egress": {
                        "enabled": True,
                        "allow": {"proxy": {"cidr": "10.0.0.5/32", "port": 3128}, "mlflow": {"namespace": "tracking"}},
                    },
                }
            }
        },
    },
    "eviction": {"refused": {}, "allowed": {"ray": {"disruptionBudget": {"enabled": False}}}},
    "deadline": {"off": {}, "on": {"job": {"deadlineSeconds": 3600}}},
    # What KubeRay 1.5 needs.
    "upgrade": {"recreate": {}, "manual": {"ray": {"upgrade": "manual"}, "job": {"cluster": {"timeoutSeconds": 0}}}},
    "wiring": {"on": {}, "off": {"stack": {"wiring": {"enabled": False}}}},
    "pods": {
        "plain": {},
        "extras": {"ray": {"head": EXTRAS, "workers": EXTRAS, "env": {"ALL": {"value": "1"}}}},
        "overlay": {"ray": {"head": OVERLAY, "workers": OVERLAY}},
    },
}


@dataclass(frozen=True)
class Refused:
    """A pair of levels that cannot work; `layer` says so with a sentence that `message` matches."""

    one: tuple[str, str]
    other: tuple[str, str]
    layer: str
    message: str


def refused() -> Iterator[Refused]:
    """Yield each pair that cannot work."""
    for name, machine in shapes().items():
        for asked, reason in machine.get("refuses", {}).items():
            factor = next(factor for factor in ("network", "capacity", "platform") if asked in FACTORS[factor])
            layer = "raycluster" if factor == "capacity" else "network"
            yield Refused(
                ("accelerator", name), (factor, asked), layer, f"on {machine['name']}, because {re.escape(reason)}"
            )
        for mode, key in OFFERS.items():
            if not machine.get(key) and mode not in machine.get("refuses", {}):
                message = f"network.mode is {mode}, but the profile of {machine['name']} has no accelerator.{key}"
                yield Refused(("accelerator", name), ("network", mode), "network", message)
        if not machine["gpusPerNode"]:
            yield Refused(
                ("accelerator", name), ("head", "gpus"), "raycluster", "ray.head.gpus.enabled: .* has no GPUs"
            )
    for kind in ("spot", "flex-start", "queued", "reservation"):
        yield Refused(("platform", "kubernetes"), ("capacity", kind), "network", "says how GKE nodes are bought")
    yield Refused(("platform", "kubernetes"), ("network", "multiNetwork"), "network", "has no accelerator.interfaces")
    for source in ("checkpoints", "profile", "cached", "theirs", "lustre"):
        yield Refused(("platform", "kubernetes"), ("data", source), "storage", "needs a GKE driver")
    yield Refused(("platform", "gke-autopilot"), ("installer", "on"), "network", "Google's own manifest")
    yield Refused(("platform", "kubernetes"), ("installer", "on"), "network", "names no installerImage")
    yield Refused(("network", "none"), ("installer", "on"), "network", "nothing would use the plugin")
    yield Refused(("platform", "gke-autopilot"), ("data", "cached"), "raycluster", "10Gi of local disk")
    yield Refused(("capacity", "queued"), ("kueue", "off"), "raycluster", "set ray.kueue.queue")
    for level in ("required", "preferred"):
        yield Refused(("kueue", level), ("upgrade", "manual"), "raycluster", "ray.upgrade is manual, but Kueue stops")
    # Nodes by a ProvisioningRequest need a queue, and a queue another way to upgrade.
    yield Refused(
        ("capacity", "queued"), ("upgrade", "manual"), "raycluster", "set ray.kueue.queue|ray.upgrade is manual"
    )
    for level in ("open", "both-ways"):
        message = "only the KubeRay operator may reach the job API"
        yield Refused(("token", "off"), ("policy", level), "raycluster", message)
    yield Refused(("stage", "on"), ("local", "off"), "grpo-job", "job.stage is true, but storage has no local disk")
    yield Refused(("task", "evaluate"), ("huggingface", "offline"), "grpo-job", "math500: NeMo RL downloads it")


REFUSED = tuple(refused())
BY_LEVEL: dict[tuple[str, str], list[tuple[str, str]]] = {}
for each in REFUSED:
    BY_LEVEL.setdefault(each.one, []).append(each.other)
LAYERS = ("network", "storage", "raycluster", "grpo-job")


def layers(row: Row) -> list[str]:
    """Return the charts that a row uses: where there are no GPUs, nothing trains and nothing is evaluated."""
    trains = machines()[row["accelerator"]]["gpusPerNode"] or row["task"] == "fetch"
    return [layer for layer in LAYERS if layer != "grpo-job" or trains]


def levels_of(factor: str) -> list[str]:
    """Return the levels of a factor that are tried in pairs."""
    return [*(shapes() if factor == "accelerator" else FACTORS[factor])]


# The factors of the cluster, on which most refusals depend.
PLACE = ("accelerator", "platform", "network")


@functools.cache
def places() -> tuple[Row, ...]:
    """Return each cluster that works."""
    every = itertools.product(*map(levels_of, PLACE))
    return tuple(row for levels in every if allowed(row := dict(zip(PLACE, levels, strict=True))))


def allowed(row: Row) -> bool:
    """Say whether a row holds no pair that is refused."""
    # A machine without RDMA has nothing to install either: the mode is refused first.
    machine = machines().get(row.get("accelerator", ""))
    without = machine is not None and "installerImage" not in machine
    held = any(row.get(factor) == level for item in row.items() for factor, level in BY_LEVEL.get(item, ()))
    return not held and not (without and row.get("installer") == "on")


def possible(row: Row) -> bool:
    """Say whether a row, perhaps not yet whole, can work on some cluster."""
    given = {factor: level for factor, level in row.items() if factor in PLACE}
    if "accelerator" in given:
        given["accelerator"] = shape(given["accelerator"])
    return any(given.items() <= place.items() and allowed({**row, **place}) for place in places())


Pair = frozenset[tuple[str, str]]


def pairs(row: Row) -> set[Pair]:
    """Return the pairs of levels that a row holds."""
    return {frozenset(pair) for pair in itertools.combinations(row.items(), 2)}


def possible_pairs() -> set[Pair]:
    """Return every pair of levels of two factors that is not refused."""
    levels = [(factor, level) for factor in FACTORS for level in levels_of(factor)]
    both = (pair for pair in itertools.combinations(levels, 2) if pair[0][0] != pair[1][0])
    return {frozenset(pair) for pair in both if possible(dict(pair))}


@functools.cache
def rows() -> tuple[Row, ...]:
    """Return rows that together hold every possible pair of levels; the same ones each time.

    Greedy: a pair that no row holds yet begins a row, and each other factor takes the level that adds most. (allpairspy
    leaves pairs out as soon as some are refused.)
    """
    open_pairs = possible_pairs()
    found = []
    while open_pairs:
        row = complete(dict(min(open_pairs, key=sorted)), open_pairs)
        open_pairs -= pairs(row)
        found.append({factor: row[factor] for factor in FACTORS})
    return tuple(found)


def complete(row: Row, open_pairs: set[Pair]) -> Row:
    """Return the row with a level for every factor."""
    for factor in FACTORS:
        if factor not in row:
            choices = [level for level in levels_of(factor) if possible({**row, factor: level})]
            row = {**row, factor: max(choices, key=lambda level: len(pairs({**row, factor: level}) & open_pairs))}
    return row


def merge(base: Values, over: Values) -> Values:
    """Lay one tree over another, maps at every depth."""
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def values(row: Row) -> Values:
    """Return what a row says beside its accelerator's profile."""
    merged: Values = {}
    for factor, level in row.items():
        merged = merge(merged, FACTORS[factor][level])
    return merged


def label(row: Row) -> str:
    """Return a short name of a row: its levels that are not the first of their factor."""
    told = [level for factor, level in row.items() if level != next(iter(FACTORS[factor]))]
    return re.sub(r"[^a-z0-9]+", "-", "-".join([row["accelerator"], *told]).lower())


# Everything at once, as far as it goes together; what is bought by a label on nodes is left to the pairs above.
ALL: Row = {
    "data": "checkpoints",
    "local": "on",
    "cluster": "existing",
    "head": "tasks",
    "kueue": "preferred",
    "tracking": "server",
    "huggingface": "online",
    "logs": "on",
    "token": "on",
    "policy": "operator",
    "eviction": "refused",
    "deadline": "on",
    "upgrade": "recreate",
    "wiring": "on",
    "pods": "extras",
}
MAXIMAL: tuple[Row, ...] = (
    {
        "accelerator": "b200",
        "platform": "gke-standard",
        "network": "multiNetwork",
        "installer": "on",
        "capacity": "reservation",
        **ALL,
    },
    {
        "accelerator": "h200",
        "platform": "gke-autopilot",
        "network": "multiNetwork",
        "installer": "off",
        "capacity": "on-demand",
        **ALL,
        "pods": "overlay",
    },
    {
        "accelerator": "oci-h200",
        "platform": "kubernetes",
        "network": "devices",
        "installer": "off",
        "capacity": "on-demand",
        **ALL,
        "data": "claim",
        "head": "gpus",
    },
)
