"""The interfaces that GKE attaches to a pod, as annotations of its template."""

from __future__ import annotations

from postrender.pods import mapping
from postrender.transforms import Target, put
from postrender.wiring import INTERFACES


def apply(target: Target) -> None:
    """Add the annotations; a list of interfaces that says the same in other words is left alone."""
    metadata = mapping(target.pod.template.get("metadata"))
    there = mapping(metadata.get("annotations"))
    wanted = dict(target.wiring.annotations)
    if INTERFACES in wanted and _means_the_same(there.get(INTERFACES), wanted[INTERFACES]):
        del wanted[INTERFACES]
    place = target.place("metadata.annotations")
    put(metadata, "annotations", target.decisions.entries(place, there, wanted))
    put(target.pod.template, "metadata", metadata)


def _means_the_same(there: object, wanted: str) -> bool:
    if not isinstance(there, str) or there == wanted:
        return False
    import json

    try:
        return bool(json.loads(there) == json.loads(wanted))
    except ValueError:
        return False
