"""Volumes: claims, what provisions them, and the drivers that mount them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import name_of
from grpo.manifests.needs import commands
from grpo.problems.kubernetes import probe_references as references
from grpo.problems.probe import Result, failed, passed
from grpo.problems.problem import probe
from postrender.manifests.pods import mapping, sequence

_SHARED: Final = ("ReadWriteMany", "ReadOnlyMany")


@probe("claims", "a volume claim of the pods is not bound", "persistentvolumeclaims", "storageclasses")
def claims(evidence: Evidence) -> Iterator[Result]:
    """Judge the claims that pods mount; a claim that the storage layer has yet to create needs its storage class."""
    there = {name_of(each): each for each in evidence.of("persistentvolumeclaims")}
    for name, pods in sorted(_claims(evidence).items()):
        by_hand = f"kubectl describe pvc {name} -n {evidence.expected.namespace}"
        value = _value(name, evidence)
        if name in there:
            yield _bound(there[name], pods, value, by_hand)
        else:
            yield _not_there(name, value, by_hand, evidence)


def _claims(evidence: Evidence) -> Counter[str]:
    """Return how many pods mount each claim."""
    found: Counter[str] = Counter()
    for _, pod in evidence.expected.roles():
        for volume in map(mapping, sequence(pod.spec.get("volumes"))):
            if name := mapping(volume.get("persistentVolumeClaim")).get("claimName"):
                found[str(name)] += 1 if pod.count is None else pod.count
    # Those of other pods only.
    for need in evidence.expected.needs("PersistentVolumeClaim"):
        found.setdefault(need.name, 1)
    return found


def _bound(claim: dict[str, Any], pods: int, value: str, by_hand: str) -> Result:
    name, status = name_of(claim), mapping(claim.get("status"))
    phase = status.get("phase")
    modes = [str(each) for each in sequence(status.get("accessModes"))]
    if "deletionTimestamp" in mapping(claim.get("metadata")):
        fix = "wait until it is gone, and create it again; its data may be lost"
        return failed(f"claim {name} is being deleted", value, fix, by_hand)
    if phase != "Bound":
        return failed(f"claim {name} is {phase or 'without a state'}", value, "its events say why", by_hand)
    if pods > 1 and not set(modes) & set(_SHARED):
        text = f"claim {name} is {', '.join(modes)}, and {pods} pods on several nodes mount it"
        return failed(text, value, "use a volume that has ReadWriteMany", by_hand)
    return passed(f"claim {name} is bound", value, by_hand)


def _not_there(name: str, value: str, by_hand: str, evidence: Evidence) -> Result:
    made = next((each for each in evidence.expected.of_kind("PersistentVolumeClaim") if name_of(each) == name), None)
    if made is None:
        return failed(f"there is no claim {name}", value, "create it, or name one that is there", by_hand)
    classes = {name_of(each) for each in evidence.of("storageclasses")}
    makes = {name_of(each) for each in evidence.expected.of_kind("StorageClass")}
    wanted = mapping(made.get("spec")).get("storageClassName")
    if wanted and wanted not in classes | makes:
        there = f"there are only {', '.join(sorted(classes))}" if classes else "there is none"
        text = f"claim {name} will want the storage class {wanted}, but {there}"
        fix = "name one of these, or create it" if classes else "create it"
        return failed(text, f"{value}.storageClassName", fix, "kubectl get storageclass")
    return passed(f"claim {name} is not there yet; the storage layer makes it", value, by_hand)


def _value(claim: str, evidence: Evidence) -> str:
    """Return the path of the values for a claim's volume."""
    places = evidence.expected.places
    for path, (value, _) in places.items():
        if path.startswith("storage.") and path.endswith(".existingClaim.name") and value == claim:
            return path
    volume = f"storage.{claim.removeprefix(f'{evidence.expected.name}-')}"
    return next((f"{volume}.{kind}" for kind in ("pvc", "gcsfuse", "lustre") if f"{volume}.{kind}" in places), volume)


@probe("volumes", "a volume that the storage layer makes is not free for its claim", "persistentvolumes")
def volumes(evidence: Evidence) -> Iterator[Result]:
    """Judge rendered PersistentVolumes that already exist: a volume whose claim was deleted is never bound again."""
    for item in evidence.expected.of_kind("PersistentVolume"):
        name = name_of(item)
        by_hand = f"kubectl describe pv {name}"
        found = evidence.find("persistentvolumes", name)
        phase = mapping((found or {}).get("status")).get("phase")
        claim = str(mapping(mapping(item.get("spec")).get("claimRef")).get("name"))
        if phase in ("Released", "Failed"):
            text = f"volume {name} is {phase}: its claim {claim} was deleted, and a new one is not bound to it"
            patch = '[{"op":"remove","path":"/spec/claimRef/uid"}]'
            yield failed(text, _value(claim, evidence), f"kubectl patch pv {name} --type=json -p '{patch}'", by_hand)
        elif found:
            yield passed(f"volume {name} is {phase}", command=by_hand)


@probe("drivers", "a driver that mounts volumes is missing", "csidrivers")
def drivers(evidence: Evidence) -> Iterator[Result]:
    """Judge the CSI drivers of the volumes and storage classes that the storage layer creates."""
    for need in evidence.expected.needs("CSIDriver"):
        name, item = need.name, need.sources[0].item
        claim = mapping(mapping(item.get("spec")).get("claimRef")).get("name")
        value = _value(str(claim), evidence) if claim else references.value_of(need, evidence.expected) or "storage"
        if evidence.find("csidrivers", name):
            yield passed(f"driver {name} is there", value, "kubectl get csidrivers")
        else:
            yield failed(f"there is no driver {name}", value, commands.hint(need), "kubectl get csidrivers")


@probe("storage-classes", "a storage class of the pods' own volumes is missing", "storageclasses")
def storage_classes(evidence: Evidence) -> Iterator[Result]:
    """Judge the storage classes of volumes that live as long as their pod; the claims check covers all others."""
    needs = [
        need
        for need in evidence.expected.needs("StorageClass")
        if any(each.item.get("kind") != "PersistentVolumeClaim" for each in need.sources)
    ]
    yield from references.there(evidence, needs, "storage class")
