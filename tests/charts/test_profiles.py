"""Every accelerator profile: what renders, and what is refused because the mechanism does not exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests import options
from tests.conftest import PROFILES, Object, Render, by_kind, thin

RenderText = Callable[..., Rendered]
MACHINES = options.machines()
ARM: dict[str, Any] = {"images": {"training": {"arm64": True}}}


def quantity(text: str) -> int:
    """Return a quantity of memory in MiB."""
    return int(text[:-2]) * {"Mi": 1, "Gi": 1024, "Ti": 1024**2}[text[-2:]]


def parts(objects: list[Object]) -> tuple[Object, Object]:
    """Return the pod templates of head and workers."""
    spec = by_kind(objects, "RayCluster")["spec"]
    return spec["headGroupSpec"]["template"], spec["workerGroupSpecs"][0]["template"]


def variables(template: Object) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in template["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize("profile", thin(PROFILES, 6))
def test_a_profile_renders_workers_with_all_gpus_of_the_machine(profile: str, render: Render) -> None:
    """The worker takes the GPUs of its machine, and tells Ray as many."""
    objects = render("raycluster", options.alone(profile), accelerator=profile)
    _, worker = parts(objects)
    limits = worker["spec"]["containers"][0]["resources"]["limits"]
    gpus = MACHINES[profile]["gpusPerNode"]
    assert limits.get("nvidia.com/gpu") == (str(gpus) if gpus else None)
    group = by_kind(objects, "RayCluster")["spec"]["workerGroupSpecs"][0]
    assert group["rayStartParams"] == {"num-gpus": str(gpus)}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_file_is_named_after_its_machine(profile: str) -> None:
    """--accelerator takes the file's name, and job.configFor the machine's: other clouds stand before it."""
    assert re.fullmatch(rf"([a-z]+-)?{MACHINES[profile]['name']}", profile)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_worker_fits_its_node(profile: str) -> None:
    """A pod that asks for more than its node has stays Pending."""
    machine = MACHINES[profile]
    node, worker = machine.get("node"), machine["worker"]
    if node is None:
        pytest.skip("the profile does not say what its node has")
    assert int(worker["cpu"]) <= int(node["cpu"])
    assert quantity(worker["memory"]) <= quantity(node["memory"])
    assert quantity(machine["sharedMemory"]) <= quantity(worker["memory"])


@pytest.mark.parametrize("profile", [name for name in PROFILES if MACHINES[name]["name"] != name])
def test_a_machine_of_another_cloud_names_its_network(profile: str) -> None:
    """With a name NCCL fails where the network is missing; without one it would use TCP."""
    machine = MACHINES[profile]
    assert machine["nccl"]["net"] in ("IB", "Libfabric")
    efa = "vpc.amazonaws.com/efa" in machine.get("resources", {})
    assert (machine["nccl"]["net"] == "Libfabric") == efa


@pytest.mark.parametrize("profile", [name for name in PROFILES if MACHINES[name]["name"] in ("gb200", "gb300")])
def test_a_rack_has_an_imex_channel_or_does_not_use_nvlink(profile: str) -> None:
    """NCCL ends where the nodes are linked and the pods have no channel."""
    machine = MACHINES[profile]
    assert bool(machine.get("nvlinkDomainNodes")) != (machine["nccl"].get("env", {}).get("NCCL_MNNVL_ENABLE") == "0")


@pytest.mark.parametrize(
    "profile", [name for name in PROFILES if "nvidia.com/rdma-vf" in MACHINES[name].get("resources", {})]
)
def test_multus_attaches_each_virtual_function(profile: str) -> None:
    """Multus gives a pod one of the functions that it requests for each entry."""
    machine = MACHINES[profile]
    entries = machine["annotations"]["k8s.v1.cni.cncf.io/networks"].split(",")
    assert len(entries) == int(machine["resources"]["nvidia.com/rdma-vf"])
    assert len({entry.strip() for entry in entries}) == 1


@pytest.mark.parametrize("profile", thin(PROFILES, 4))
def test_the_notes_describe_the_node(profile: str, render_text: RenderText) -> None:
    """Machine type, GPUs, and what a pod takes of the node."""
    machine = MACHINES[profile]
    notes = render_text("raycluster", options.alone(profile), accelerator=profile).notes
    assert f"machine type {machine['machineType']}" in notes
    assert f"a pod takes {machine['worker']['cpu']} cores and {machine['worker']['memory']}" in notes
    if "gpuMemoryGigabytes" in machine:
        gpus = f"{machine['gpusPerNode']} {machine['gpuArchitecture'].title()} GPUs"
        assert f"{gpus} of {machine['gpuMemoryGigabytes']} GB" in notes


@pytest.mark.parametrize("profile", thin([name for name in PROFILES if MACHINES[name]["gpusPerNode"]], 6))
def test_every_gpu_profile_can_render_a_training_run(profile: str, render: Render) -> None:
    """The same recipe renders on each machine with GPUs."""
    jobs = render("grpo-job", options.alone(profile), accelerator=profile)
    assert [item["kind"] for item in jobs] == ["ConfigMap", "ConfigMap", "RayJob", "ConfigMap"]


def test_pods_claim_a_compute_domain_for_nvlink_across_nodes(render: Render) -> None:
    """Both halves of the claim, beside the taint and the selector of arm64."""
    objects = render("raycluster", ARM, accelerator="gb200")
    domain = by_kind(objects, "ComputeDomain")
    assert domain["spec"] == {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "gemma-ray-nvlink-2"}}}
    _, worker = parts(objects)
    spec = worker["spec"]
    assert spec["resourceClaims"] == [{"name": "nvlink", "resourceClaimTemplateName": "gemma-ray-nvlink-2"}]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "nvlink"}]
    assert spec["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-gb200", "kubernetes.io/arch": "arm64"}
    assert {"key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64", "effect": "NoSchedule"} in spec[
        "tolerations"
    ]
    assert variables(worker)["NCCL_PXN_C2C"] == "1"
    assert "NCCL_TUNER_CONFIG_PATH" not in variables(worker)


def test_changing_the_node_count_renames_the_compute_domain(render: Render) -> None:
    """The spec of a ComputeDomain is immutable, and an upgrade would be refused."""
    names = {
        by_kind(
            render("raycluster", {**ARM, "ray": {"workers": {"replicas": count}}}, accelerator="gb200"), "ComputeDomain"
        )["metadata"]["name"]
        for count in (2, 4)
    }
    assert names == {"gemma-ray-nvlink-2", "gemma-ray-nvlink-4"}


def test_dranet_and_nvlink_claims_coexist(render: Render) -> None:
    """A pod of both names two templates."""
    objects = render("raycluster", {**ARM, "network": {"mode": "dranet"}}, accelerator="gb200")
    _, worker = parts(objects)
    assert [claim["name"] for claim in worker["spec"]["resourceClaims"]] == ["rdma", "nvlink"]
    assert worker["spec"]["containers"][0]["resources"]["claims"] == [{"name": "rdma"}, {"name": "nvlink"}]
    template = by_kind(objects, "ResourceClaimTemplate")
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 4


@pytest.mark.parametrize("profile", ["gb200", "gb300", "coreweave-gb200"])
def test_null_leaves_the_nvlink_domain_out(profile: str, render: Render) -> None:
    """As coreweave-gb200 says, for a cluster without NVIDIA's driver."""
    values = options.merge(options.alone(profile), {**ARM, "accelerator": {"nvlinkDomainNodes": None}})
    objects = render("raycluster", values, accelerator=profile)
    assert not [item for item in objects if item["kind"] == "ComputeDomain"]
    _, worker = parts(objects)
    assert "nvlink" not in [claim["name"] for claim in worker["spec"].get("resourceClaims", [])]


def test_a_machine_without_gpus_is_kept_off_gpu_nodes(render: Render) -> None:
    """No toleration, no selector, no driver: what a try-out needs."""
    _, worker = parts(render("raycluster", accelerator="cpu"))
    assert "tolerations" not in worker["spec"]
    assert "nodeSelector" not in worker["spec"]
    assert "DoesNotExist" in str(worker["spec"]["affinity"])
    assert not [volume for volume in worker["spec"]["volumes"] if "hostPath" in volume]
    assert "LD_LIBRARY_PATH" not in variables(worker)
    # Only processes that share GPU memory need what the runtime's default forbids.
    assert worker["spec"]["containers"][0]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_a_machine_without_rdma_has_its_own_settings(render: Render) -> None:
    """NCCL is told not to look for a plugin."""
    _, worker = parts(render("raycluster", accelerator="rtx-pro-6000"))
    found = {name: value for name, value in variables(worker).items() if name.startswith("NCCL_")}
    assert found == {
        "NCCL_IB_DISABLE": "1",
        "NCCL_NET_PLUGIN": "none",
        "NCCL_P2P_LEVEL": "SYS",
        "NCCL_SOCKET_IFNAME": "eth0",
    }


@pytest.mark.parametrize(
    ("profile", "layer", "values", "message"),
    thin(
        [
            ("h100-mega", "raycluster", {}, r"network\.mode multiNetwork does not work on h100-mega, because .*TCPXO"),
            ("h100-mega", "network", {}, r"Set network\.mode to none"),
            ("h100-mega", "grpo-job", {"network": {"mode": "dranet"}}, r"GKE has DRANET for other machines"),
            ("rtx-pro-6000", "raycluster", {"network": {"mode": "dranet"}}, r"has no accelerator\.claims: .* to none"),
            ("cpu", "grpo-job", {}, r"accelerator\.gpusPerNode of cpu is 0, but training needs GPUs"),
            (
                "cpu",
                "raycluster",
                {"ray": {"head": {"gpus": {"enabled": True}}}},
                r"ray\.head\.gpus\.enabled: .*no GPUs",
            ),
            ("gb200", "raycluster", {}, r"the nodes of gb200 are arm64: .* set images\.training\.arm64 to true"),
            (
                "gb200",
                "raycluster",
                {**ARM, "ray": {"workers": {"replicas": 19}}},
                r"19 GPU nodes, but an NVLink domain of gb200 has at most 18",
            ),
            ("gb200", "network", {"platform": {"kind": "gke-autopilot"}}, r"documents A4X for GKE Standard only"),
            *(
                ("gb200", "raycluster", {**ARM, "platform": {"capacity": {"kind": kind}}}, r"sold by reservation only")
                for kind in ("spot", "flex-start", "queued")
            ),
        ],
        3,
    ),
)
def test_settings_a_machine_does_not_support_are_refused(
    profile: str, layer: str, values: dict[str, Any], message: str, render_text: RenderText
) -> None:
    """With the reason, and not half-rendered."""
    with pytest.raises(RenderError, match=message):
        render_text(layer, values, accelerator=profile)
