"""The version of GKE."""

from __future__ import annotations

from collections.abc import Iterator

from postrender.live.doctor.check import Result, check, failed, passed, skipped
from postrender.live.evidence import Evidence
from postrender.values import gke_versions
from postrender.values.gke_versions import Need

_BY_HAND = "kubectl version"
_FIX = "upgrade the control plane and the node pools, or change the value; nodes may be older than the server"


@check("gke-version", "the version of GKE has what the values ask for", "version")
def version(evidence: Evidence) -> Iterator[Result]:
    """Compare the version of the API server with the first one that each value needs."""
    needs = [Need(value, what, tuple(versions)) for value, what, versions in evidence.expected.gke]
    said = next((str(each.get("gitVersion") or "") for each in evidence.of("version")), "")
    found = gke_versions.read(said)
    if needs and found is None:
        yield skipped(f"the API server is {said or 'without a version'}, which is no version of GKE", command=_BY_HAND)
        return
    for each in needs:
        text = f"{each.what} needs GKE {' or '.join(each.versions)} or newer, and the API server is {said}"
        if found and gke_versions.has(found, each.versions):
            yield passed(text, each.value, _BY_HAND)
        else:
            yield failed(text, each.value, _FIX, _BY_HAND)
