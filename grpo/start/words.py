"""What the modules of the guide share: its error, counts in words, and sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from postrender.errors import InputError

Tree = Mapping[str, Any]
Names = dict[str, str]


class GuideError(InputError):
    """The guide has no steps for a part of the stack."""


def only(
    condition: object, sentence: str, fix: str = "the notes of the charts say what it needs: grpo render all --notes"
) -> None:
    """Raise GuideError with what the guide is for, unless the condition holds."""
    if not condition:
        raise GuideError(f"the guide has no steps for {sentence}", fix=fix)


def listed(words: Sequence[str]) -> str:
    """Return words with commas, and with "and" before the last."""
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def units(quantity: str) -> float:
    """Return a quantity of memory or disk in GiB."""
    number, unit = re.fullmatch(r"([0-9.]+)(Mi|Gi|Ti)", quantity).groups()  # type: ignore[union-attr]
    return float(number) * {"Mi": 1 / 1024, "Gi": 1, "Ti": 1024}[unit]


def gpu_nodes(tree: Tree) -> int:
    """Return how many nodes with GPUs the cluster has."""
    ray = tree["ray"]
    return int(ray["workers"]["replicas"]) + (1 if ray["head"]["gpus"]["enabled"] else 0)


def is_google(tree: Tree) -> bool:
    """Return whether the cluster is one of GKE."""
    return str(tree["platform"]["kind"]).startswith("gke-")


def is_autopilot(tree: Tree) -> bool:
    """Return whether GKE makes the nodes for the pods."""
    return bool(tree["platform"]["kind"] == "gke-autopilot")


def volume(tree: Tree) -> Tree:
    """Return the volume that holds the runs."""
    name = tree["job"]["volume"]
    found: Tree | None = tree["storage"].get(name)
    only(found, f"a run without its volume storage.{name}", f"describe storage.{name} in your site file")
    return found or {}


def bucket(tree: Tree) -> str:
    """Return the bucket of the runs, empty if they are on a claim."""
    return str((volume(tree).get("gcsfuse") or {}).get("bucket") or "")


def weights_bucket(tree: Tree) -> str:
    """Return the bucket of the Hugging Face cache, empty if it is not a bucket of its own."""
    cache = tree["huggingface"]["cache"]["volume"]
    of_cache = str(((tree["storage"].get(cache) or {}).get("gcsfuse") or {}).get("bucket") or "")
    return of_cache if of_cache != bucket(tree) else ""
