"""What KubeRay does with values that its definitions accept, and so the API server too."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import EVENT_ONLY

if TYPE_CHECKING:
    from postrender.gate.manifests import Item
    from postrender.manifests.violations import Violation

_NEVER_SUBMITTED: Final = (
    "nothing refuses it: the cluster with its GPUs starts, the job is never submitted, and nothing ends it"
)
_PANICS: Final = "the operator panics at each attempt, after the cluster with its GPUs has started"
# A name that the API server accepts.
_SERVED: Final = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?\Z")
# The last field of a path and the keyword that it violates, and what follows.
_WHY: Final = {
    **{("name", keyword): EVENT_ONLY for keyword in ("maxLength", "pattern")},
    **{
        (name, "minimum"): EVENT_ONLY
        for name in (
            *("minReplicas", "maxReplicas", "idleTimeoutSeconds"),
            *("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"),
        )
    },
    ("containers", "minItems"): EVENT_ONLY,
    ("submissionMode", "enum"): _NEVER_SUBMITTED,
}


def why(item: Item, violation: Violation) -> str:
    """Return what KubeRay does with an object that violates its schema; an empty text if the API server refuses it."""
    path = violation.path
    if not path or "submitterConfig" in path or not str(item.object.get("apiVersion")).startswith("ray.io/"):
        return ""
    if path[-1] == "name" and (path != ("metadata", "name") or not _SERVED.match(item.object["metadata"]["name"])):
        return ""
    if path[-1] == "containers" and "submitterPodTemplate" in path and violation.keyword == "minItems":
        return _PANICS
    if item.object["kind"] == "RayService" and path[1:] == ("upgradeStrategy", "type"):
        return EVENT_ONLY
    return _WHY.get((str(path[-1]), violation.keyword), "")
