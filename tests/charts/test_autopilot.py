"""GKE Autopilot: what its admission refuses is not rendered, and what a user lays over the pods is refused by us."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests import options
from tests.charts import shapes
from tests.conftest import Object, Render, by_kind, thin

RenderText = Callable[..., Rendered]
# A pod without GPUs gets 10Gi of local disk.
AUTOPILOT: dict[str, Any] = options.FACTORS["platform"]["gke-autopilot"]
# Upstream's list, from the message of GKE's own admission.
ALLOWED = {
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "SYS_PTRACE"),
}


def pod_specs(item: Any) -> Iterator[Object]:
    """Yield every pod spec below an object."""
    if isinstance(item, dict):
        if "containers" in item:
            yield item
        for value in item.values():
            yield from pod_specs(value)
    elif isinstance(item, list):
        for value in item:
            yield from pod_specs(value)


@pytest.mark.parametrize("mode", ["multiNetwork", "dranet", "none"])
def test_the_pods_request_nothing_autopilot_forbids(mode: str, render: Render) -> None:
    """Read-only folders, no added right, no namespace of the node, GPU toleration only with GPUs, no node affinity."""
    extra = {"network": {"mode": mode}, "ray": {"logs": {"fluentBit": {"enabled": True}}}}
    extra["tracking"] = {"tensorboard": {"server": {"enabled": True}}}
    specs = list(pod_specs(render("raycluster", shapes.merge(AUTOPILOT, extra))))
    assert len(specs) >= 3
    for spec in specs:
        gpus = "nvidia.com/gpu" in str(spec["containers"])
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert "nodeAffinity" not in spec.get("affinity", {})
        assert ("nvidia.com/gpu" in str(spec.get("tolerations"))) == gpus
        host = {volume["name"] for volume in spec["volumes"] if "hostPath" in volume}
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            context = container.get("securityContext", {})
            assert "privileged" not in context
            assert set(context.get("capabilities", {}).get("add", [])) <= ALLOWED
            assert all(mount["readOnly"] for mount in container["volumeMounts"] if mount["name"] in host)
        for container in spec.get("initContainers", []):
            assert "nvidia.com/gpu" not in str(container["resources"])


def test_a_reservation_selects_the_nodes_autopilot_creates(render: Render) -> None:
    """On Standard the node pool carries the reservation, here the pods do."""
    capacity = {"kind": "reservation", "reservation": "ours", "placementPolicy": "near"}
    selectors = []
    for kind in ("gke-autopilot", "gke-standard"):
        values = shapes.merge(AUTOPILOT, {"platform": {"kind": kind, "capacity": capacity}})
        cluster = by_kind(render("raycluster", values), "RayCluster")
        selectors.append(cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"])
    standard = {"cloud.google.com/gke-accelerator": "nvidia-b200"}
    assert selectors[1] == standard
    assert selectors[0] == {
        **standard,
        "cloud.google.com/gke-gpu-driver-version": "latest",
        "cloud.google.com/reservation-name": "ours",
        "cloud.google.com/reservation-affinity": "specific",
        "cloud.google.com/gke-placement-group": "gemma-ray",
        "cloud.google.com/placement-policy-name": "near",
    }


@pytest.mark.parametrize(
    ("cpu", "memory", "chosen"), [("32", "128Gi", True), ("16", "64Gi", False), ("16", "104Gi", True)]
)
def test_a_large_head_gets_a_compute_class_with_enough_room(
    cpu: str, memory: str, chosen: bool, render: Render
) -> None:
    """Autopilot's default class ends at 30 cores and 110 GiB a pod, sidecars included."""
    head = {"cpu": cpu, "memory": memory}
    cluster = by_kind(render("raycluster", shapes.merge(AUTOPILOT, {"ray": {"head": head}})), "RayCluster")
    selector = cluster["spec"]["headGroupSpec"]["template"]["spec"].get("nodeSelector")
    assert selector == ({"cloud.google.com/compute-class": "Balanced"} if chosen else None)


def test_the_pods_request_the_latest_driver_when_the_image_needs_it(render: Render) -> None:
    """There is no node pool that could say it."""
    cluster = by_kind(render("raycluster", AUTOPILOT), "RayCluster")
    spec = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    assert spec["nodeSelector"]["cloud.google.com/gke-gpu-driver-version"] == "latest"
    assert "make the node pool" not in str(spec["initContainers"])


def test_the_notes_name_the_pinned_installer_and_no_node_pool(render_text: RenderText) -> None:
    """Autopilot lets Google's own manifest pass and no other privileged pod."""
    notes = render_text("network", AUTOPILOT).notes or ""
    assert "node-pools" not in notes
    assert "992db81257553607f1477945f1b3219632991829/gpudirect-rdma/nccl-rdma-installer-autopilot.yaml" in notes


SIDECAR = {"image": "a:1", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}


@pytest.mark.parametrize(
    ("layer", "values", "message"),
    thin(
        [
            (
                "raycluster",
                {"ray": {"head": {"ephemeralStorage": "50Gi"}}},
                r"10Gi of local disk .*ray\.head\.ephemeralSt",
            ),
            ("raycluster", {"ray": {"gcsfuse": {"ephemeralStorage": "8Gi"}}}, r"the GCS FUSE sidecar 8Gi"),
            (
                "raycluster",
                {"ray": {"head": {"ephemeralStorage": "5Gi"}, "logs": {"fluentBit": {"enabled": True}}}},
                r"ray-head 5Gi, fluent-bit 1Gi, the GCS FUSE sidecar 5Gi",
            ),
            (
                "raycluster",
                {"ray": {"gcsfuse": {"memory": "16Gi"}}},
                r"ray\.gcsfuse\.memory is 16Gi, but Autopilot gives the sidecar at most 14Gi",
            ),
            (
                "network",
                {"network": {"rdmaInstaller": {"enabled": True}}},
                r"refuses privileged pods, except those of Google's own",
            ),
            (
                "raycluster",
                {"platform": {"capacity": {"kind": "reservation", "reservation": "ours/reservationBlocks/one"}}},
                r"Write the name alone",
            ),
            (
                "raycluster",
                {"ray": {"workers": {"podSpec": {"hostNetwork": True}}}},
                r"ray\.workers\.podSpec\.hostNetwork",
            ),
            (
                "raycluster",
                {"ray": {"head": {"podSpec": {"nodeSelector": {"cloud.google.com/gke-nodepool": "x"}}}}},
                r"no node pools to select",
            ),
            (
                "raycluster",
                {"ray": {"workers": {"securityContext": {"privileged": True}}}},
                r"refuses privileged container",
            ),
            (
                "raycluster",
                {"ray": {"workers": {"sidecars": {"x": SIDECAR}}}},
                r"ray\.workers\.sidecars\.x\.securityContext: Autopilot refuses the capability SYS_ADMIN",
            ),
            (
                "raycluster",
                {"ray": {"head": {"volumes": {"x": {"hostPath": {"path": "/var"}}}}}},
                r"ray\.head\.volumes\.x: Autopilot allows only the node's GPU driver folders",
            ),
        ],
        3,
    ),
)
def test_settings_autopilot_forbids_are_refused_at_render_time(
    layer: str, values: dict[str, Any], message: str, render_text: RenderText
) -> None:
    """Each with a sentence that says what to change."""
    with pytest.raises(RenderError, match=message):
        render_text(layer, shapes.merge(AUTOPILOT, values))


def test_settings_autopilot_forbids_are_refused_for_an_ephemeral_cluster_too(render_text: RenderText) -> None:
    """An ephemeral cluster has the same pods."""
    values = {"job": {"cluster": {"mode": "ephemeral"}}, "ray": {"head": {"podSpec": {"hostPID": True}}}}
    with pytest.raises(RenderError, match=r"ray\.head\.podSpec\.hostPID"):
        render_text("grpo-job", shapes.merge(AUTOPILOT, values))
