"""Determine what the API server decides by kind, which fields are immutable, and which attempt of a run is rejected."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from postrender.manifests.pods import mapping
from postrender.types import Json, Path
from postrender.values.quantity import quantity

Object = Mapping[str, Any]
# Group and kind of each: the API server ignores a namespace in their metadata. An end-to-end test compares the list.
NO_NAMESPACE: Final = frozenset(
    (group, kind)
    for group, kinds in (
        ("", "Namespace Node PersistentVolume"),
        (
            "admissionregistration.k8s.io",
            "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration"
            " ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
        ),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("certificates.k8s.io", "CertificateSigningRequest ClusterTrustBundle"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema PriorityLevelConfiguration"),
        ("networking.k8s.io", "IngressClass IPAddress ServiceCIDR"),
        ("node.k8s.io", "RuntimeClass"),
        ("rbac.authorization.k8s.io", "ClusterRole ClusterRoleBinding"),
        ("resource.k8s.io", "DeviceClass DeviceTaintRule ResourceSlice"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("storagemigration.k8s.io", "StorageVersionMigration"),
        ("storage.k8s.io", "CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass"),
        (
            "networking.gke.io",
            "GCPFirewall GKENetworkParamSet Network NodeNetworkConfig NodeTopology Subnetwork TrafficSelector",
        ),
        ("kueue.x-k8s.io", "AdmissionCheck ClusterQueue Cohort ResourceFlavor Topology WorkloadPriorityClass"),
        ("gateway.networking.k8s.io", "GatewayClass"),
        ("cert-manager.io", "ClusterIssuer"),
    )
    for kind in kinds.split()
)
_HOOK: Final = "helm.sh/hook"
_OTHER_VOLUME: Final = "take the change back, or give the volume another name under storage; what is in this one stays"
# Our locks have names that teach; their fix says the same.
_LOCKS: Final = {
    "-locked-raise-job.attempt": "raise job.attempt, or take the change back",
    "-has-its-run-install-a-second-release": "keep job.name and job.task, or give the other run a release of its own",
}

# What our charts and programs decide, not the API server: an ended attempt never runs again.
_CHART: Final = "app.kubernetes.io/name"
_RUN: Final = "grpo-job"
_ATTEMPT: Final = re.compile(r"(.+)-([0-9]+)")
_ENDED: Final = "charts/grpo-job/templates/attempt-check.yaml, and jobs/launcher/owner.py where Helm runs no hooks"


def _always(before: Object, after: Object) -> bool:
    return True


def _is_sealed(before: Object, after: Object) -> bool:
    return before.get("immutable") is True


def _is_active(before: Object, after: Object) -> bool:
    """Return whether a job is not suspended: while it is, Kueue may change where its pods run."""
    return _at(before, ("spec", "suspend")) is not True


def _is_not_indexed(before: Object, after: Object) -> bool:
    mode: str | None = _at(after, ("spec", "completionMode"))
    return mode != "Indexed"


def _cannot_resize(before: Object, after: Object) -> bool:
    """Return whether a claim shrinks, or grows without a storage class that could expand it."""
    old, new = (quantity(_at(each, ("spec", "resources", "requests", "storage"))) for each in (before, after))
    if old is None or new is None or old == new:
        return False
    has_no_class: bool = _at(after, ("spec", "storageClassName")) == ""
    return new < old or has_no_class


class Fixed(NamedTuple):
    """Fields that the API server never lets change: those below `fields`, except those below `but`.

    They are immutable if `when` is true of the objects before and after a change. `fix` is empty if the object is
    deleted and recreated. tests/e2e/test_locked.py verifies them against an API server.
    """

    group: str
    kinds: tuple[str, ...]
    fields: tuple[str, ...]
    source: str
    but: tuple[str, ...] = ()
    fix: str = ""
    when: Callable[[Object, Object], bool] = _always


_CORE: Final = "kubernetes v1.36.0 pkg/apis/core/validation/validation.go"
_BATCH: Final = "kubernetes v1.36.0 pkg/apis/batch/validation/validation.go, ValidateJobSpecUpdate"
_APPS: Final = "kubernetes v1.36.0 pkg/apis/apps/validation/validation.go"
_DRA: Final = "kubernetes v1.36.0 pkg/apis/resource/validation/validation.go"
# Bare pods are left out: our charts make them by hooks alone, which make them anew each time. KubeRay ignores edits of
# a RayJob, which the API server allows; the lock beside it refuses them.
FIXED: Final = (
    Fixed(
        "", ("ConfigMap",), ("immutable", "data", "binaryData"), f"{_CORE}, ValidateConfigMapUpdate", when=_is_sealed
    ),
    Fixed("", ("Secret",), ("immutable", "data", "stringData"), f"{_CORE}, ValidateSecretUpdate", when=_is_sealed),
    Fixed("", ("Secret",), ("type",), f"{_CORE}, ValidateSecretUpdate"),
    Fixed(
        "",
        ("PersistentVolume",),
        ("spec",),
        f"{_CORE}, ValidatePersistentVolumeUpdate",
        but=(
            "spec.accessModes",
            "spec.capacity",
            "spec.claimRef",
            "spec.mountOptions",
            "spec.persistentVolumeReclaimPolicy",
            "spec.storageClassName",
            "spec.volumeAttributesClassName",
        ),
        fix=_OTHER_VOLUME,
    ),
    Fixed(
        "",
        ("PersistentVolumeClaim",),
        ("spec",),
        f"{_CORE}, ValidatePersistentVolumeClaimUpdate",
        but=("spec.resources.requests", "spec.volumeAttributesClassName"),
        fix=_OTHER_VOLUME,
    ),
    Fixed(
        "",
        ("PersistentVolumeClaim",),
        ("spec.resources.requests.storage",),
        f"{_CORE}, ValidatePersistentVolumeClaimUpdate, and the admission plugin PersistentVolumeClaimResize",
        fix=_OTHER_VOLUME,
        when=_cannot_resize,
    ),
    Fixed(
        "storage.k8s.io",
        ("StorageClass",),
        ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
        "kubernetes v1.36.0 pkg/apis/storage/validation/validation.go, ValidateStorageClassUpdate",
        fix="take the change back, or name another class in storage.NAME.pvc.storageClassName",
    ),
    Fixed("apps", ("Deployment", "DaemonSet", "ReplicaSet"), ("spec.selector",), f"{_APPS}, the update of each kind"),
    Fixed(
        "apps",
        ("StatefulSet",),
        ("spec",),
        f"{_APPS}, ValidateStatefulSetUpdate",
        but=(
            "spec.minReadySeconds",
            "spec.ordinals",
            "spec.persistentVolumeClaimRetentionPolicy",
            "spec.replicas",
            "spec.revisionHistoryLimit",
            "spec.template",
            "spec.updateStrategy",
        ),
    ),
    Fixed(
        "batch",
        ("Job",),
        (
            "spec.backoffLimitPerIndex",
            "spec.completionMode",
            "spec.managedBy",
            "spec.podFailurePolicy",
            "spec.selector",
            "spec.successPolicy",
        ),
        _BATCH,
    ),
    Fixed("batch", ("Job",), ("spec.template",), _BATCH, when=_is_active),
    Fixed("batch", ("Job",), ("spec.completions",), _BATCH, when=_is_not_indexed),
    Fixed(
        "jobset.x-k8s.io",
        ("JobSet",),
        ("spec.failurePolicy", "spec.network", "spec.startupPolicy", "spec.successPolicy", "spec.volumeClaimPolicies"),
        "jobset's definition of the kind, self == oldSelf",
    ),
    Fixed(
        "jobset.x-k8s.io",
        ("JobSet",),
        ("spec.replicatedJobs", "spec.managedBy"),
        "jobset pkg/webhooks/jobset_webhook.go, ValidateUpdate",
        when=_is_active,
    ),
    Fixed(
        "rbac.authorization.k8s.io",
        ("RoleBinding", "ClusterRoleBinding"),
        ("roleRef",),
        "kubernetes v1.36.0 pkg/apis/rbac/validation/validation.go, ValidateRoleBindingUpdate",
    ),
    Fixed(
        "resource.k8s.io",
        ("ResourceClaim", "ResourceClaimTemplate"),
        ("spec",),
        f"{_DRA}, ValidateResourceClaimTemplateUpdate",
    ),
    Fixed(
        "resource.nvidia.com",
        ("ComputeDomain",),
        ("spec",),
        "NVIDIA's DRA driver, api/nvidia.com/resource/v1beta1/computedomain.go, self == oldSelf",
    ),
    Fixed(
        "ray.io",
        ("RayJob", "RayCluster"),
        ("spec.managedBy", "spec.rayClusterSpec.managedBy"),
        "KubeRay v1.6.0's definitions of the kinds, self == oldSelf",
    ),
)


def plural(kind: str) -> str:
    """Return a kind's plural in lower case, which is the API server's name for its resource."""
    lower = kind.lower()
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return f"{lower[:-1]}ies"
    return f"{lower}es" if lower.endswith("s") else f"{lower}s"


class Refusal(NamedTuple):
    """A rejected change: the existing object, the fields that would change, the reason, and what to do.

    `why` is empty if it is the API server that rejects the change.
    """

    object: str
    fields: tuple[Path, ...]
    fix: str
    source: str
    why: str = ""


def identity(item: Object) -> tuple[str, str, str, str]:
    """Return an object's identity in the API server: group, kind, namespace and name."""
    group, kind = str(item.get("apiVersion", "")).rpartition("/")[0], str(item.get("kind", ""))
    metadata = mapping(item.get("metadata"))
    namespace = "" if (group, kind) in NO_NAMESPACE else str(metadata.get("namespace", ""))
    return group, kind, namespace, str(metadata.get("name", ""))


def refusals(before: Iterable[Object], after: Iterable[Object]) -> list[Refusal]:
    """Return what is rejected if the objects `after` are applied over the objects `before`.

    These are changes that the API server rejects, and runs whose attempt is older than the existing one. Objects
    without a name and objects of Helm hooks are new each time.
    """
    old, new = ({identity(item): item for item in items if _stays(item)} for items in (before, after))
    fixed = [found for key, item in new.items() for found in _refused(old.get(key), item)]
    return [*fixed, *_older_attempts(old.values(), new.values())]


def _older_attempts(before: Iterable[Object], after: Iterable[Object]) -> Iterator[Refusal]:
    wanted = _attempts(after)
    for key, newest in _attempts(before).items():
        number = wanted.get(key, newest)
        if number < newest:
            yield Refusal(
                f"RayJob/{key[1]}-{newest}",
                (("metadata", "name"),),
                f"raise job.attempt above {newest} (a revert keeps the number of the newer attempt, plus one)",
                _ENDED,
                f"attempt {number} of this run is older than attempt {newest}, and an ended attempt never runs again",
            )


def _attempts(items: Iterable[Object]) -> dict[tuple[str, str], int]:
    """Return the newest attempt of each of our runs, by namespace and by the name of the run or its task."""
    newest: dict[tuple[str, str], int] = {}
    for item in items:
        _, kind, namespace, name = identity(item)
        is_ours = mapping(mapping(item.get("metadata")).get("labels")).get(_CHART) == _RUN
        if kind == "RayJob" and is_ours and (found := _ATTEMPT.fullmatch(name)):
            key = namespace, found[1]
            newest[key] = max(newest.get(key, 0), int(found[2]))
    return newest


def _stays(item: Object) -> bool:
    metadata = mapping(item.get("metadata"))
    return bool(metadata.get("name")) and _HOOK not in mapping(metadata.get("annotations"))


def _refused(before: Object | None, after: Object) -> Iterator[Refusal]:
    if before is None:
        return
    group, kind, _, name = identity(after)
    for row in FIXED:
        if row.group != group or kind not in row.kinds or not row.when(before, after):
            continue
        but = {_path(field) for field in row.but}
        changed = [path for field in row.fields for path in _changed(before, after, _path(field), but)]
        if changed:
            taught = next((fix for end, fix in _LOCKS.items() if name.endswith(end)), row.fix)
            fix = taught or f"take the change back, or delete {kind} {name} first"
            yield Refusal(f"{kind}/{name}", tuple(changed), fix, row.source)


def _path(field: str) -> Path:
    return tuple(field.split("."))


def _at(item: Json, path: Path) -> Json:
    for key in path:
        item = item.get(key) if isinstance(item, Mapping) else None
    return item


def _changed(before: Object, after: Object, path: Path, but: Container[Path]) -> Iterator[Path]:
    """Yield the paths of values that differ; an empty map or list is equivalent to a missing value."""
    if path in but:
        return
    old, new = (None if each in ({}, []) else each for each in (_at(before, path), _at(after, path)))
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            yield from _changed(before, after, (*path, key), but)
    elif old != new:
        yield path
