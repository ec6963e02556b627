"""Claims of devices: of the RDMA interfaces where GKE manages them, of the NVLink domain where it spans nodes."""

from __future__ import annotations

from postrender.pods import mapping, sequence
from postrender.transforms import Target, put


def apply(target: Target) -> None:
    """Add both halves of each claim, the pod's and the container's: with one half the pod gets no device."""
    wanted = target.wiring.claims(target.owner, target.nodes)
    if not wanted:
        return
    spec = target.pod.spec
    place = target.place("spec.resourceClaims")
    put(spec, "resourceClaims", target.decisions.named(place, sequence(spec.get("resourceClaims")), wanted))
    resources = mapping(target.container.get("resources"))
    names = [{"name": each["name"]} for each in wanted]
    there = sequence(resources.get("claims"))
    put(resources, "claims", target.decisions.named(target.container_place("resources.claims"), there, names))
    put(target.container, "resources", resources)
