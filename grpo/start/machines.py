"""Compute what the guide says about the machines: VPCs and subnets, node pools, the head's machine.

The names are computed independently of the charts, so that a test can compare them with rendered charts.
"""

from __future__ import annotations

import math

from grpo.start.words import Names, Tree, bucket, gpu_nodes, is_autopilot, is_google, listed, only, units
from grpo.values import capacity as capacities
from grpo.values import gke_versions
from postrender import paths
from postrender.counting import counted
from postrender.values import merge, profiles

_PROFILES = ("b200", "h200")
_WITH_RDMA = ("a4-highgpu-8g", "a3-ultragpu-8g")
# Cores of the machines for the head; each has 4 GB per core.
_N2_STANDARD = (8, 16, 32, 48, 64, 80)
# A dot in a name, for the paths of kubectl in a shell.
_DOT = r"\\."
# The flags of the node pool by platform.capacity.kind, as charts/network/templates/_installer.tpl has them.
_FLEXIBLE = (
    "--flex-start --num-nodes=0 --enable-autoscaling --total-max-nodes={nodes} --no-enable-autorepair "
    "--location-policy=ANY --reservation-affinity=none"
)
_BUYING = {
    "on-demand": "--num-nodes={nodes}",
    "spot": "--spot --num-nodes={nodes}",
    "reservation": "--reservation-affinity=specific --reservation={reservation} --num-nodes={nodes}",
    "flex-start": _FLEXIBLE,
    "queued": f"{_FLEXIBLE} --enable-queued-provisioning",
}
_INSTALLER = (
    "https://raw.githubusercontent.com/GoogleCloudPlatform/container-engine-accelerators/"
    "992db81257553607f1477945f1b3219632991829/gpudirect-rdma/nccl-rdma-installer{}.yaml"
)


def machine(tree: Tree) -> Names:
    """Return facts about the GPU nodes, and their node pool's flags."""
    accelerator, capacity = tree["accelerator"], tree["platform"]["capacity"]
    only(
        accelerator["gpusPerNode"],
        f"accelerator {accelerator['name']}, which has no GPUs, so nothing can train on it",
        "choose a profile of a machine with GPUs (values/accelerators)",
    )
    only(
        capacity["kind"] != "queued" or tree["ray"]["kueue"]["queue"],
        "platform.capacity.kind queued without ray.kueue.queue, whose Kueue requests the nodes",
        "set ray.kueue.queue (docs/howto/kueue.md), or take flex-start",
    )
    nodes = gpu_nodes(tree)
    gpus = accelerator["gpusPerNode"]
    return {
        "profile": accelerator["name"],
        "machine": accelerator["machineType"],
        "label": _label(accelerator),
        "gpus": str(gpus),
        "gpu_local": str(accelerator["worker"]["ephemeralStorage"]),
        "nodes": counted(nodes, "node"),
        "costly": f"The {nodes} GPU nodes are most of the cost: you pay by the hour, also when they idle. They exist"
        if nodes > 1
        else "The GPU node is most of the cost: you pay by the hour, also when it idles. It exists",
        "ready": f"{counted(nodes, 'node')} {'is' if nodes == 1 else 'are'}",
        "one_node": "one of the GPU nodes" if nodes > 1 else "the GPU node",
        "total": str(gpus * nodes),
        "driver": str(tree["images"]["training"]["minimumDriver"]),
        "pool": " \\\n  ".join(_pool(tree, nodes)),
        "kinds_sold": listed([f"`{kind}`" for kind in capacities.instead(tree)]),
        "capacity": capacity["kind"],
        "net": network_of_nccl(tree),
    }


def waits(tree: Tree) -> bool:
    """Say whether GKE makes the nodes only when pods ask for them and machines are free."""
    return tree["platform"]["capacity"]["kind"] in ("flex-start", "queued")


def _pool(tree: Tree, nodes: int) -> list[str]:
    """Return the node pool's flags, as in the notes of the network chart."""
    accelerator, capacity = tree["accelerator"], tree["platform"]["capacity"]
    policy = f" --placement-policy={capacity['placementPolicy']}" if capacity["placementPolicy"] else ""
    flags = [
        _BUYING[capacity["kind"]].format(nodes=nodes, reservation=capacity.get("reservation")) + policy,
        f"--accelerator=type={_label(accelerator)},count={accelerator['gpusPerNode']},gpu-driver-version=latest",
    ]
    mode = tree["network"]["mode"]
    if mode == "dranet":
        flags.append("--accelerator-network-profile=auto --node-labels=cloud.google.com/gke-networking-dra-driver=true")
    elif mode == "multiNetwork":
        places = [_subnet(tree["network"], interface) for interface in _interfaces(tree)]
        flags += [f"--additional-node-network=network={vpc},subnetwork={name}" for vpc, name in places]
    return flags


def _label(accelerator: Tree) -> str:
    return str(accelerator["nodeSelector"].get(profiles.ACCELERATOR, ""))


def _interfaces(tree: Tree) -> list[Tree]:
    given = tree["accelerator"]["interfaces"]
    return [given[name] for name in sorted(given, key=lambda name: int(name.removeprefix("eth")))]


def _subnet(network: Tree, interface: Tree) -> tuple[str, str]:
    """Return an interface's VPC and subnet, with the network chart's names."""
    rdma = interface["deviceMode"] == "RDMA"
    section, base = network["rdma" if rdma else "gvnic"], interface["network"]
    suffix = f"sub-{base.rpartition('-')[2]}" if rdma else "sub"
    given = (section.get("subnets") or {}).get(base) if rdma else section.get("subnet")
    return section.get("vpc") or f"{section['prefix']}-net", given or f"{section['prefix']}-{suffix}"


def networks(tree: Tree) -> Names:
    """Return the names of VPCs, subnets and Network objects, and the commands that create the subnets."""
    mode, kind, accelerator = tree["network"]["mode"], tree["platform"]["kind"], tree["accelerator"]
    if not is_google(tree):
        return _devices(tree)
    if mode == "none":
        return {}
    if mode == "dranet":
        return {"gke": gke_versions.dranet(accelerator["machineType"], kind)[0], "installer": _installer(tree)}
    only(
        accelerator["machineType"] in _WITH_RDMA,
        f"the RDMA networks of {accelerator['name']} ({accelerator['machineType']}), only for those of "
        f"{' and '.join(_WITH_RDMA)}",
    )
    given = _interfaces(tree)
    places = [_subnet(tree["network"], interface) for interface in given]
    (gvnic, subnet), rdma = places[0], places[1:]
    prefix = tree["network"]["names"]["prefix"]
    objects = [f"{prefix}{interface['network']}" for interface in given]
    made = "\n".join(
        f"gcloud compute networks subnets create {name} --network={vpc} --region=$REGION --range=192.168.{number}.0/24"
        for number, (vpc, name) in enumerate(rdma, 1)
    )
    return {
        "gke": gke_versions.RDMA[accelerator["machineType"]][0],
        "installer": _installer(tree),
        "gvnic_vpc": gvnic,
        "gvnic_subnet": subnet,
        "firewall": f"{gvnic.removesuffix('-net')}-internal",
        "rdma_vpc": rdma[0][0],
        "rdma_subnets": made,
        "rdma_count": str(len(rdma)),
        "subnet_count": str(len(places)),
        "all_subnets": " ".join(name for _, name in places),
        "networks": f"{objects[0]} and {objects[1]} to {objects[-1]}",
    }


def _devices(tree: Tree) -> Names:
    """Return what a worker requests or claims for RDMA outside GKE: columns for `kubectl get nodes`, and phrases."""
    mode, accelerator = tree["network"]["mode"], tree["accelerator"]
    requested = (accelerator.get("resources") or {}) if mode == "devices" else {}
    claims = (accelerator.get("claims") or {}) if mode == "dranet" else {}
    classes = listed([f"`{claim['deviceClass']}`" for claim in claims.values()])
    return {
        "columns": "".join(f",{name}:.status.allocatable.{name.replace('.', _DOT)}" for name in requested),
        "requested": "".join(f" and `{name}: {amount}`" for name, amount in requested.items()),
        "claimed": f" Each worker claims {classes}." if claims else "",
    }


def forbidden(tree: Tree) -> list[str]:
    """Describe what the Pod Security level `baseline` forbids the workers."""
    accelerator, has_network = tree["accelerator"], tree["network"]["mode"] != "none"
    folders = ["the driver folders of the node"] if accelerator.get("hostPaths") else []
    added = (accelerator.get("capabilities") or {}) if has_network and not is_autopilot(tree) else {}
    host = ["the network of the node"] if has_network and accelerator.get("hostNetwork") else []
    return [*folders, *(f"the capability {name}" for name in sorted(added) if added[name]), *host]


def network_of_nccl(tree: Tree) -> str:
    """Return NCCL's name for the network that the pods must use; empty if NCCL may choose TCP."""
    return str(tree["accelerator"]["nccl"].get("net") or "") if tree["network"]["mode"] != "none" else ""


def _installer(tree: Tree) -> str:
    arm64 = tree["accelerator"].get("architecture") == "arm64"
    return _INSTALLER.format("-autopilot" if is_autopilot(tree) else "-a4x" if arm64 else "")


def head(tree: Tree) -> Names:
    """Return a machine type that fits the head and its bucket sidecar, and the boot disk's size in GB."""
    resources, sidecar = tree["ray"]["head"], tree["ray"]["gcsfuse"]
    with_bucket = bool(bucket(tree))
    cores = int(resources["cpu"]) + (int(sidecar["cpu"]) if with_bucket else 0)
    memory = units(resources["memory"]) + (units(sidecar["memory"]) if with_bucket else 0)
    disk = units(resources["ephemeralStorage"]) + (units(sidecar["ephemeralStorage"]) if with_bucket else 0)
    found = {"head_cores": str(cores), "head_memory": f"{memory:g}Gi", "head_only_memory": resources["memory"]}
    found["head_local"] = f"{disk:g}Gi"
    if tree["platform"]["kind"] != "gke-standard":
        return found
    fits = [size for size in _N2_STANDARD if size > cores and size * 4 / 1.0737 * 0.9 > memory]
    only(
        fits,
        f"a head of {cores} cores and {memory:g}Gi, which fits no n2-standard machine",
        "ask for less: ray.head.cpu, ray.head.memory",
    )
    # GKE keeps up to 100 GiB of a boot disk for itself, and evicts pods on its last tenth.
    size = str(math.ceil((disk * 1.0737 + 107.4) / 0.9 / 100) * 100)
    return {**found, "head_machine": f"n2-standard-{fits[0]}", "head_disk": size}


def table() -> Names:
    """Return a table of the machines that have recipes, from their profiles."""
    trees = [merge.load([paths.accelerator(name)]).effective()["accelerator"] for name in _PROFILES]
    rows = [
        ("machine", [one["machineType"] for one in trees]),
        ("accelerator", [_label(one) for one in trees]),
        ("GKE with RDMA", [gke_versions.RDMA[one["machineType"]][0] for one in trees]),
        ("memory of a worker", [one["worker"]["memory"] for one in trees]),
        ("tuner of NCCL", [one["nccl"]["tunerConfig"].rpartition("/")[2] for one in trees]),
    ]
    lines = [f"| | {' | '.join(f'`{name}`' for name in _PROFILES)} |", "|---|---|---|"]
    return {"machines": "\n".join([*lines, *(f"| {title} | {' | '.join(cells)} |" for title, cells in rows)])}


def is_eks(tree: Tree) -> bool:
    """Return whether the machine is one of Amazon EKS, by the devices of its network."""
    return "vpc.amazonaws.com/efa" in (tree["accelerator"].get("resources") or {})
