"""Checkpoints must outlive their claims, and the machine must support the disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.problems.pods.podspec import PodView, judged, name_of, objects
from postrender.finding import ERROR, WARNING, Finding
from postrender.gate.manifests import Item, Manifests
from postrender.manifests.pods import mapping, selected, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.profiles import ACCELERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.pods import Path

_SHARED: Final = (
    "gcsfuse.csi.storage.gke.io",
    "lustre.csi.storage.gke.io",
    "filestore.csi.storage.gke.io",
    "parallelstore.csi.storage.gke.io",
)
_HYPERDISK_ONLY: Final = ("nvidia-b200", "nvidia-h200-141gb", "nvidia-gb200", "nvidia-gb300")
_DISKS: Final = ("standard", "standard-rwo", "premium-rwo")
_DRIVER: Final = "pd.csi.storage.gke.io"


def _deleted(manifests: Manifests) -> Iterator[Finding]:
    for item, spec in objects(manifests, "PersistentVolume"):
        driver = mapping(spec.get("csi")).get("driver")
        if driver in _SHARED and spec.get("persistentVolumeReclaimPolicy") == "Delete":
            what = f"persistentVolumeReclaimPolicy is Delete for a volume of {driver}"
            yield item.finding(("spec", "persistentVolumeReclaimPolicy"), what)
    for item, _ in objects(manifests, "StorageClass"):
        # A class without a policy deletes, which its author may not know.
        if item.object.get("provisioner") == _SHARED[1] and item.object.get("reclaimPolicy", "Delete") == "Delete":
            path = ("reclaimPolicy",) if "reclaimPolicy" in item.object else ("provisioner",)
            yield item.finding(path, "reclaimPolicy is Delete for instances of Managed Lustre")


def _anybody(manifests: Manifests) -> Iterator[Finding]:
    taken = {str(spec.get("volumeName")) for _, spec in objects(manifests, "PersistentVolumeClaim")}
    for item, spec in objects(manifests, "PersistentVolume"):
        driver = mapping(spec.get("csi")).get("driver")
        if driver in _SHARED and not spec.get("claimRef") and name_of(item) not in taken:
            yield item.finding(("spec",), f"a volume of {driver} has no claimRef, and no claim here names it")


def _is_disk(claim: dict[str, Any], types: dict[str, str]) -> str:
    """Describe how a claim requests a Persistent Disk; return an empty text if it does not."""
    if claim.get("volumeName") or claim.get("selector"):
        return ""
    named = claim.get("storageClassName")
    if named is None:
        once = sequence(claim.get("accessModes"))
        return "the default class, which is standard-rwo" if once == ["ReadWriteOnce"] else ""
    return f"the class {named}" if named in _DISKS or types.get(str(named), "").startswith("pd-") else ""


def _claims(pod: PodView) -> Iterator[tuple[Item, Path, str, dict[str, Any]]]:
    """Yield each of a pod's claims: the object and the path to edit, the claim's name in messages, and its spec."""
    made = {name_of(item): (item, spec) for item, spec in objects(pod.manifests, "PersistentVolumeClaim")}
    for path, name, volume in pod.volumes():
        claim = str(mapping(volume.get("persistentVolumeClaim")).get("claimName"))
        template = mapping(mapping(volume.get("ephemeral")).get("volumeClaimTemplate")).get("spec")
        if isinstance(template, dict):
            yield pod.item, path, f"volume {name}", template
        elif claim in made:
            item, spec = made[claim]
            yield item, ("spec", "storageClassName") if "storageClassName" in spec else ("spec",), "it", spec
    spec = mapping(pod.item.object.get("spec"))
    for number, each in enumerate(map(mapping, sequence(spec.get("volumeClaimTemplates")))):
        name = str(mapping(each.get("metadata")).get("name"))
        yield pod.item, ("spec", "volumeClaimTemplates", number), f"volume {name}", mapping(each.get("spec"))


def _types(manifests: Manifests) -> dict[str, str]:
    """Return the disk type of each storage class in the manifests that creates disks."""
    return {
        name_of(item): str(mapping(item.object.get("parameters")).get("type", ""))
        for item, _ in objects(manifests, "StorageClass")
        if item.object.get("provisioner") == _DRIVER
    }


def _is_for_several(claim: dict[str, Any]) -> bool:
    """Return whether a claim requests a file system that several nodes can write to."""
    return "ReadWriteMany" in sequence(claim.get("accessModes")) and claim.get("volumeMode") != "Block"


def _shared_disks(manifests: Manifests) -> Iterator[Finding]:
    types = _types(manifests)
    for item, spec in objects(manifests, "PersistentVolumeClaim"):
        name = str(spec.get("storageClassName"))
        is_new = not spec.get("volumeName") and not spec.get("selector")
        is_disk = name in (*_DISKS, *types) or name.startswith("hyperdisk-")
        if is_new and is_disk and _is_for_several(spec):
            what = f"it is ReadWriteMany, and the class {name} makes disks that one node mounts"
            yield item.finding(("spec", "storageClassName"), what)


def _disks(manifests: Manifests) -> Iterator[Finding]:
    types = _types(manifests)
    said = set()
    for pod in manifests.once(judged):
        asked = selected(pod.spec, ACCELERATOR)
        for item, path, words, claim in _claims(pod) if asked and asked.issubset(_HYPERDISK_ONLY) else ():
            # Another rule refuses a disk for several nodes, of whatever kind.
            reason = "" if _is_for_several(claim) else _is_disk(claim, types)
            if reason:
                nodes = " or ".join(sorted(asked))
                finding = item.finding(path, f"{words} has {reason}, and nodes with {nodes} take Hyperdisk only")
                # Several pods may mount one claim.
                if finding.place not in said:
                    said.add(finding.place)
                    yield finding


RULES = (
    Problem(
        "storage/disk-for-several-nodes",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a claim is for several nodes, but only one node can mount a disk of its class",
        why="the driver of the disks refuses a file system that several nodes write: the claim is Pending forever",
        fix="use a bucket, Managed Lustre, or a class of Filestore",
        source="https://github.com/kubernetes-sigs/gcp-compute-persistent-disk-csi-driver/issues/544",
        check=_shared_disks,
    ),
    Problem(
        "storage/disk-that-never-attaches",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a pod has a Persistent Disk on a machine that does not support it",
        why="A3 Ultra, A4 and A4X machines support only Hyperdisk: the pod waits for its volume forever",
        fix="use a class of Hyperdisk",
        source="https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines",
        check=_disks,
    ),
    Problem(
        "storage/deleted-with-claim",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_CHECKPOINT,
        title="checkpoints are deleted together with their claim",
        why="helm uninstall, or deleting the namespace, deletes the claim and all checkpoints",
        fix="write Retain, and delete unneeded volumes by hand",
        source="https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reclaiming",
        check=_deleted,
    ),
    Problem(
        "storage/volume-for-anybody",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.PENDING,
        title="a volume with data is reserved for no claim, so any claim may bind it",
        why="the first claim of its class gets the volume, even another team's, and your claim stays pending",
        fix="write claimRef with namespace and name, or volumeName into the claim",
        source="https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reserving-a-persistentvolume",
        check=_anybody,
    ),
)
