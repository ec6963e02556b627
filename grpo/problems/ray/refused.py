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
# The last field of a path and the keyword that it violates.
_UNREAD: Final = {
    ("name", "maxLength"),
    ("name", "pattern"),
    ("containers", "minItems"),
    ("template", "required"),
    ("submitterPodTemplate", "required"),
    ("spec", "not"),
    *((name, "minimum") for name in ("minReplicas", "maxReplicas", "idleTimeoutSeconds", "backoffLimit")),
    *((name, "minimum") for name in ("ttlSecondsAfterFinished", "activeDeadlineSeconds")),
}


def why(item: Item, violation: Violation) -> str:
    """Return what KubeRay does with an object that violates its schema; an empty text if the API server refuses it."""
    path, keyword = violation.path, violation.keyword
    if not path or not str(item.object.get("apiVersion")).startswith("ray.io/"):
        return ""
    if path[-1] == "submissionMode" and keyword == "enum":
        return _NEVER_SUBMITTED
    if item.object["kind"] == "RayService" and (path, keyword) == (("spec", "upgradeStrategy", "type"), "enum"):
        return EVENT_ONLY
    if (path[-1], keyword) not in _UNREAD or "submitterConfig" in path:
        return ""
    if path[-1] == "name":
        accepted = path == ("metadata", "name") and _SERVED.match(item.object["metadata"]["name"])
        return EVENT_ONLY if accepted else ""
    return _PANICS if "submitterPodTemplate" in path else EVENT_ONLY
