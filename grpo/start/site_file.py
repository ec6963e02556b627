"""Write a site file from answers: a tree of values, with the schema's description above each key."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from grpo.start import keys
from postrender import paths
from postrender.types import Path
from postrender.yaml import writer

Answers = Mapping[str, str]

# The answer that leaves platform.capacity out.
LATER = "later"
_VOLUME, _WEIGHTS = "data", "weights"
# On Autopilot a pod without GPUs gets 10Gi of local disk for itself and its sidecars.
_SESSION = {
    "ephemeralStorage": "4Gi",
    "volumes": {
        "ray-session": {
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "premium-rwo",
                        "resources": {"requests": {"storage": "100Gi"}},
                    }
                }
            }
        }
    },
    "mounts": {"ray-session": {"mountPath": "/tmp/ray"}},  # noqa: S108 (where Ray keeps its session)
}
# Said instead of the schema's description, which is for every stack.
_SAID: Mapping[Path, str] = {
    ("storage", _VOLUME): "Checkpoints and logs; weights too, where huggingface.cache names no other volume.",
    ("storage", _VOLUME, "gcsfuse", "purpose"): "Mount options for the volume that holds the runs.",
    ("storage", _WEIGHTS): "Models and data sets of the hub.",
    (
        "storage",
        _WEIGHTS,
        "gcsfuse",
        "purpose",
    ): "Mount options for large files that are read in order. GKE 1.34.0-gke.2011000 or newer; cache on an older one.",
    (
        "ray",
    ): "Autopilot gives a pod without GPUs 10Gi of local disk, so Ray's session directory is a volume of its own.",
    ("job", "name"): "Name of the run, and of its directory, instead of the recipe's. A new run needs a new name.",
}
# Keys that their sections explain.
_SILENT = (
    ("platform",),
    ("network",),
    ("huggingface",),
    ("tracking",),
    ("job",),
    ("storage",),
    ("ray", "head"),
    ("network", "gvnic"),
    ("network", "rdma"),
    ("tracking", "tensorboard"),
    ("tracking", "wandb"),
    ("tracking", "mlflow"),
    ("tracking", "wandb", "secret"),
    ("stack",),
)


def text(answers: Answers, *, schema: str, files: Sequence[str]) -> str:
    """Return a site file's text; `schema` is the path of the editors' schema, or empty, `files` are the stack's files.

    The site file is read on other machines too, so it refers to the package's files by their paths in the package.
    """
    # A relative one is in the working directory, which may be a checkout.
    names = [(file, os.path.isabs(file) and paths.is_packaged(file)) for file in files]
    listed = [paths.in_package(file) if is_packaged else os.path.relpath(file) for file, is_packaged in names]
    is_elsewhere = not all(map(os.path.exists, listed[:1]))
    top = [
        *writer.schema(schema),
        "# What is specific to your cluster, written by grpo init. Give it as the last file, to all four charts:",
        f"#   {shlex.join(word for file in listed for word in ('-f', file))}",
        *(
            ["# values/ is that of grpo-charts; grpo init --vendor copies it into a repository."]
            if is_elsewhere
            else []
        ),
        "# grpo values KEY explains a key; docs/options.md has what else a site file can say.",
    ]
    return "\n".join([*top, *writer.commented(values(answers), _comment), ""])


def values(answers: Answers) -> dict[str, Any]:
    """Return a site file's values."""
    tree: dict[str, Any] = {"stack": {"name": answers["stack"]}, "platform": {"kind": answers["platform"]}}
    for name, key in (("project", "projectId"), ("project-number", "projectNumber")):
        if answers.get(name):
            tree["platform"][key] = answers[name]
    if answers.get("capacity", LATER) != LATER:
        named = {"reservation": answers["reservation"]} if answers["capacity"] == "reservation" else {}
        tree["platform"]["capacity"] = {"kind": answers["capacity"], **named}
    tree["network"] = _network(answers)
    tree["storage"] = {_VOLUME: {"mountPath": "/data", **_source(answers)}}
    tree["huggingface"] = {"secret": {"name": answers["hf-secret"], "key": answers["hf-key"]}}
    if answers["storage"] == "bucket":
        gcsfuse = {"bucket": answers["weights-bucket"], "purpose": "weights"}
        tree["storage"][_WEIGHTS] = {"mountPath": "/weights", "gcsfuse": gcsfuse}
        tree["huggingface"]["cache"] = {"volume": _WEIGHTS}
    tree["tracking"] = _tracking(answers)
    if answers["platform"] == "gke-autopilot":
        tree["ray"] = {"head": _SESSION}
    if answers["run"] != answers["recipe-run"]:
        tree["job"] = {"name": answers["run"]}
    return tree


def _network(answers: Answers) -> dict[str, Any]:
    prefixes = {
        each: {"prefix": answers[f"{each}-prefix"]} for each in ("gvnic", "rdma") if f"{each}-prefix" in answers
    }
    return {"mode": answers["network"], **prefixes}


def _source(answers: Answers) -> dict[str, Any]:
    if answers["storage"] == "bucket":
        return {"gcsfuse": {"bucket": answers["bucket"], "purpose": "checkpoints"}}
    if answers["storage"] == "claim":
        return {"existingClaim": {"name": answers["claim"]}}
    return {"pvc": {"storageClassName": answers["storage-class"], "size": answers["storage-size"]}}


def _tracking(answers: Answers) -> dict[str, Any]:
    """Switch each tracker explicitly on or off, because a recipe may switch one on."""
    chosen = answers["tracking"]
    tree: dict[str, Any] = {each: {"enabled": chosen == each} for each in ("tensorboard", "wandb", "mlflow")}
    if chosen == "wandb":
        secret = {"name": answers["wandb-secret"], "key": answers["wandb-key"]}
        tree["wandb"] |= {"name": "", "secret": secret}
    if chosen == "mlflow":
        tree["mlflow"]["trackingUri"] = answers["mlflow-uri"]
    return tree


def _comment(path: Path) -> str:
    # Below a volume of a pod, Kubernetes' own documentation describes the fields.
    if path in _SILENT or (path[:1] == ("ray",) and len(path) > 1):
        return ""
    return _SAID.get(path) or keys.meaning(path)
