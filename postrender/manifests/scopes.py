"""List the cluster-scoped kinds."""

from __future__ import annotations

from typing import Final

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
