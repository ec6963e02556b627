"""Two documents must not be one and the same object."""

from __future__ import annotations

from postrender.pods import mapping
from postrender.rules import ERROR, Hit, Manifests, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

# The kinds that are in no namespace, by their groups: the API server ignores the one that is written. A test asks it.
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
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema PriorityLevelConfiguration"),
        ("networking.k8s.io", "IngressClass IPAddress ServiceCIDR"),
        ("node.k8s.io", "RuntimeClass"),
        ("rbac.authorization.k8s.io", "ClusterRole ClusterRoleBinding"),
        ("resource.k8s.io", "DeviceClass ResourceSlice"),
        ("scheduling.k8s.io", "PriorityClass"),
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


def check(manifests: Manifests) -> Iterator[Hit]:
    """Compare group, kind, namespace, name and hooks; an object without a name gets one from the API server."""
    seen: dict[tuple[str, ...], int] = {}
    for item in manifests.items:
        identity = _identity(item.object)
        if identity is None:
            continue
        if identity in seen:
            what = f"{item.title} stands in {manifests.name(seen[identity])} already{_ignored(item.object, identity)}"
            yield Hit(item.document, what, path=(*item.path, "metadata", "name"))
        seen.setdefault(identity, item.document)


def _identity(item: dict[str, Any]) -> tuple[str, ...] | None:
    metadata = mapping(item.get("metadata"))
    if not metadata.get("name") or not item.get("kind"):
        return None
    group = str(item.get("apiVersion", "")).rpartition("/")[0]
    hooks = str(mapping(metadata.get("annotations")).get("helm.sh/hook", ""))
    named = ",".join(sorted(hook.strip() for hook in hooks.split(",")))
    kind, namespace = str(item["kind"]), metadata.get("namespace")
    if not namespace or (group, kind) in NO_NAMESPACE:
        namespace = ""
    return group, kind, str(namespace), str(metadata["name"]), named


def _ignored(item: dict[str, Any], identity: tuple[str, ...]) -> str:
    """Say that a namespace does not tell two objects apart, where one is written."""
    written = mapping(item.get("metadata")).get("namespace") if identity[:2] in NO_NAMESPACE else None
    return f", which is in no namespace ({written} is ignored)" if written else ""


RULE = Rule(
    "stream/object-twice",
    severity=ERROR,
    title="two documents are the same object",
    why="the later one silently replaces the earlier one, or the install ends halfway",
    fix="rename one of the two, or remove it",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/",
    check=check,
)
