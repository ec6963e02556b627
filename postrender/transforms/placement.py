"""The node: labels by which a pod chooses it, and tolerations of its taints."""

from __future__ import annotations

from postrender.pods import mapping, sequence
from postrender.transforms import Target, put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from postrender.plain import Plain


def apply(target: Target) -> None:
    """Add node labels, and the tolerations that no other one covers."""
    spec = target.pod.spec
    wanted = target.wiring.selector(target.owner, target.image)
    there = mapping(spec.get("nodeSelector"))
    put(spec, "nodeSelector", target.decisions.entries(target.place("spec.nodeSelector"), there, wanted))
    tolerations = sequence(spec.get("tolerations"))
    lacking = [each for each in target.wiring.tolerations if not any(_covers(other, each) for other in tolerations)]
    put(spec, "tolerations", [*lacking, *tolerations])


def _covers(there: Plain, wanted: dict[str, str]) -> bool:
    """Say whether a toleration tolerates at least what another one does; an empty key or effect means all."""
    there = mapping(there)
    if there.get("key") not in (None, "", wanted["key"]) or there.get("effect") not in (None, "", wanted["effect"]):
        return False
    return there.get("operator") == "Exists" or (bool(there.get("key")) and there.get("value") == wanted.get("value"))
