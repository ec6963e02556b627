"""Buckets that pods mount with Cloud Storage FUSE."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from grpo.problems.pods.podspec import PodView, each_pod, name_of, objects
from postrender.finding import ERROR, WARNING, Finding
from postrender.gate.manifests import Manifests, joined
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found

DRIVER: Final = "gcsfuse.csi.storage.gke.io"
_CLASSES: Final = ("gcsfusecsi-training", "gcsfusecsi-serving", "gcsfusecsi-checkpointing")
_ANNOTATION: Final = "gke-gcsfuse/volumes"
_UNLIMITED_CACHE: Final = re.compile(r"file-cache(?::max-size-mb:|-max-size-mb=)-1\b")
_LARGE_WRITES: Final = re.compile(r"(?:write:global-max-blocks:|write-global-max-blocks=)(?:-1\b|\d{3,})")
_NO_METADATA: Final = re.compile(r"metadata-cache(?::ttl-secs:|-ttl-secs=)0\b")
_KEEPS_METADATA: Final = re.compile(r"(?:stat-cache-max-size-mb|type-cache-max-size-mb)[:=]-1\b")
_PREFETCH: Final = "gcsfuseMetadataPrefetchOnMount"
_PAGE: Final = "https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-sidecar"


class _Bucket:
    """One of a pod's buckets: its place in the manifest, and its mount options."""

    __slots__ = ("attributes", "name", "options", "path")

    def __init__(self, path: tuple[str | int, ...], name: str, csi: dict[str, Any], options: str) -> None:
        self.path = path
        self.name = name
        self.attributes = mapping(csi.get("volumeAttributes"))
        self.options = f"{options},{self.attributes.get('mountOptions', '')}".replace(" ", "")


def _options(spec: dict[str, Any]) -> str:
    return ",".join(map(str, sequence(spec.get("mountOptions"))))


def _by_claim(manifests: Manifests) -> dict[str, tuple[dict[str, Any], str]]:
    """Return the CSI source and mount options of the bucket behind each of the manifests' claims, by claim name."""
    volumes = {name_of(item): spec for item, spec in objects(manifests, "PersistentVolume")}
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for item, spec in objects(manifests, "PersistentVolumeClaim"):
        # Without a volume name the storage class decides, which need not be in the manifests.
        named = spec.get("volumeName")
        of_class = [each for each in volumes.values() if each.get("storageClassName") == spec.get("storageClassName")]
        volume = mapping(volumes.get(str(named)) if named else next(iter(of_class), None))
        csi = mapping(volume.get("csi"))
        if csi.get("driver") == DRIVER or spec.get("storageClassName") in _CLASSES:
            found[name_of(item)] = csi, _options(volume)
    for spec in volumes.values():
        csi, claim = mapping(spec.get("csi")), mapping(spec.get("claimRef")).get("name")
        if csi.get("driver") == DRIVER and claim:
            found.setdefault(str(claim), (csi, _options(spec)))
    return found


def _buckets(pod: PodView) -> Iterator[_Bucket]:
    claims = pod.manifests.once(_by_claim)
    for path, name, volume in pod.volumes():
        csi = mapping(volume.get("csi"))
        claim = str(mapping(volume.get("persistentVolumeClaim")).get("claimName"))
        if csi.get("driver") == DRIVER:
            yield _Bucket(path, name, csi, "")
        elif claim in claims:
            yield _Bucket(path, name, *claims[claim])


def _no_sidecar(pod: PodView) -> Found:
    if str(pod.annotations.get(_ANNOTATION)).lower() != "true":
        for bucket in _buckets(pod):
            yield bucket.path, f"volume {bucket.name} is a bucket, and the pod has no annotation {_ANNOTATION}: true"


def _no_bucket(pod: PodView) -> Found:
    claims = any("persistentVolumeClaim" in each or "ephemeral" in each for _, _, each in pod.volumes())
    if str(pod.annotations.get(_ANNOTATION)).lower() == "true" and not claims and not any(_buckets(pod)):
        yield pod.annotation(_ANNOTATION), f"{_ANNOTATION} is true, and no volume of the pod can be a bucket"


def _no_account(pod: PodView) -> Found:
    buckets = list(_buckets(pod))
    if buckets and pod.spec.get("serviceAccountName") in (None, "", "default"):
        yield buckets[0].path, f"volume {buckets[0].name} is a bucket, and the pod has no service account of its own"


def _no_room(pod: PodView) -> Found:
    for bucket in _buckets(pod):
        if _UNLIMITED_CACHE.search(bucket.options) and "gke-gcsfuse/ephemeral-storage-limit" not in pod.annotations:
            caches = any(name == "gke-gcsfuse-cache" for _, name, _ in pod.volumes())
            if not caches:
                yield bucket.path, f"volume {bucket.name} caches files without a limit, and the sidecar has 5 GiB"
        elif _LARGE_WRITES.search(bucket.options) and "gke-gcsfuse/memory-limit" not in pod.annotations:
            yield bucket.path, f"volume {bucket.name} buffers writes in memory, and the sidecar has the default limit"


def _contradicts(options: str, attributes: dict[str, Any]) -> str:
    kept = _KEEPS_METADATA.search(options)
    prefetch = str(attributes.get(_PREFETCH)).lower() == "true"
    if not _NO_METADATA.search(options) or not (kept or prefetch):
        return ""
    return f"metadata is never cached (ttl-secs 0), and {'prefetched' if prefetch else 'its cache has no limit'}"


def _volumes(manifests: Manifests) -> Iterator[Finding]:
    for item, spec in objects(manifests, "PersistentVolume"):
        csi = mapping(spec.get("csi"))
        bucket = _Bucket((), "", csi, _options(spec))
        reason = _contradicts(bucket.options, bucket.attributes) if csi.get("driver") == DRIVER else ""
        if reason:
            yield item.finding(("spec", "mountOptions"), reason)


def _inline(pod: PodView) -> Found:
    for path, _, volume in pod.volumes():
        csi = mapping(volume.get("csi"))
        bucket = _Bucket(path, "", csi, "")
        reason = _contradicts(bucket.options, bucket.attributes) if csi.get("driver") == DRIVER else ""
        if reason:
            yield path, reason


RULES = (
    Problem(
        "storage/bucket-without-sidecar",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.PENDING,
        title="a pod mounts a bucket, but lacks the annotation for its sidecar",
        why="no sidecar is added, and the pod hangs at the mount",
        fix='annotate the pod with gke-gcsfuse/volumes: "true"',
        source=_PAGE,
        check=each_pod(_no_sidecar),
    ),
    Problem(
        "storage/sidecar-without-bucket",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a pod has the annotation for buckets, but no bucket",
        why="the pod writes the bucket's files to its own disk, and they are lost with the pod",
        fix="add the volume with its mount, or remove the annotation",
        source=_PAGE,
        check=each_pod(_no_bucket),
    ),
    Problem(
        "storage/bucket-without-account",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.PENDING,
        title="a pod mounts a bucket as the default service account",
        why="usually another service account has the role on the bucket: the mount is refused",
        fix="set serviceAccountName to the account that has the role on the bucket",
        source="https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-setup",
        check=each_pod(_no_account),
    ),
    Problem(
        "storage/bucket-cache-without-room",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.LATER,
        title="a bucket's cache or write buffer may exceed the limits of its sidecar",
        why="the sidecar is killed or the pod is evicted: transport endpoint is not connected",
        fix="annotate the pod with the sidecar's limits, mount gke-gcsfuse-cache, or limit the cache",
        source=_PAGE,
        check=each_pod(_no_room),
    ),
    Problem(
        "storage/bucket-cache-contradicts",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.COSTS,
        title="a bucket's metadata is prefetched or kept without a limit, but never cached",
        why="every access requests the metadata again, so the prefetch costs time and memory for nothing",
        fix="set metadata-cache:ttl-secs to -1, or remove the prefetch and the size",
        source="https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-perf",
        check=joined(each_pod(_inline), _volumes),
    ),
)
