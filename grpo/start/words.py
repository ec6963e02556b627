"""What the guide's modules share: its error, counts in words, and sizes."""

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
    """Raise GuideError, saying what the guide has no steps for, unless the condition holds."""
    if not condition:
        raise GuideError(f"the guide has no steps for {sentence}", fix=fix)


def listed(words: Sequence[str]) -> str:
    """Join words with commas, and with "and" before the last."""
    return " and ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def units(quantity: str) -> float:
    """Convert a quantity of memory or disk to GiB."""
    number, unit = re.fullmatch(r"([0-9.]+)(Mi|Gi|Ti)", quantity).groups()  # type: ignore[union-attr]
    return float(number) * {"Mi": 1 / 1024, "Gi": 1, "Ti": 1024}[unit]


def gpu_nodes(tree: Tree) -> int:
    """Return the cluster's number of GPU nodes."""
    ray = tree["ray"]
    return int(ray["workers"]["replicas"]) + (1 if ray["head"]["gpus"]["enabled"] else 0)


def is_google(tree: Tree) -> bool:
    """Return whether the cluster is a GKE cluster."""
    return str(tree["platform"]["kind"]).startswith("gke-")


def is_autopilot(tree: Tree) -> bool:
    """Return whether GKE creates the nodes for the pods."""
    return bool(tree["platform"]["kind"] == "gke-autopilot")


def volume(tree: Tree) -> Tree:
    """Return the volume on which the runs are stored."""
    name = tree["job"]["volume"]
    found: Tree | None = tree["storage"].get(name)
    only(found, f"a run without its volume storage.{name}", f"describe storage.{name} in your site file")
    return found or {}


def bucket(tree: Tree) -> str:
    """Return the runs' bucket; empty if they are on a claim."""
    return str((volume(tree).get("gcsfuse") or {}).get("bucket") or "")


def weights_bucket(tree: Tree) -> str:
    """Return the Hugging Face cache's bucket; empty if the cache has no bucket of its own."""
    cache = tree["huggingface"]["cache"]["volume"]
    of_cache = str(((tree["storage"].get(cache) or {}).get("gcsfuse") or {}).get("bucket") or "")
    return of_cache if of_cache != bucket(tree) else ""
