"""Compute the tutorial's placeholders from a stack's values files: names, sizes and flags.

They are computed independently of the charts, so that a test can compare them with rendered charts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from postrender.generate import reference, sources
from postrender.generate.sources import SourceError
from postrender.values import merge as merging

NAMESPACE = "rl"
EXAMPLE = "values/examples/site.yaml"
# The first GKE versions with RDMA; source: Google's guide to custom GKE clusters with these machines.
GKE = {"b200": "1.32.2-gke.1475000", "h200": "1.31.4-gke.1183000"}
# Cores of the machines for the head; each has 4 GB per core.
N2_STANDARD = (8, 16, 32, 48, 64, 80)
# A run with at most this many steps only shows that the chain works.
FEW_STEPS = 10
BUYING = {"on-demand": "", "spot": "--spot ", "reservation": "--reservation-affinity=specific --reservation={} "}

Tree = Mapping[str, Any]
Names = dict[str, str]


def only(condition: object, sentence: str) -> None:
    if not condition:
        raise SourceError(f"the tutorial is for {sentence}")


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 node, 2 nodes."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def units(quantity: str) -> float:
    """Return a quantity of memory or disk in GiB."""
    number, unit = re.fullmatch(r"([0-9.]+)(Mi|Gi|Ti)", quantity).groups()  # type: ignore[union-attr]
    return float(number) * {"Mi": 1 / 1024, "Gi": 1, "Ti": 1024}[unit]


def subnet_of(network: Tree, interface: Tree) -> tuple[str, str]:
    """Return VPC and subnet of an interface, with the names of the network chart."""
    rdma = interface["deviceMode"] == "RDMA"
    section, base = network["rdma" if rdma else "gvnic"], interface["network"]
    suffix = f"sub-{re.sub('.*-', '', base)}" if rdma else "sub"
    given = (section.get("subnets") or {}).get(base) if rdma else section.get("subnet")
    return section.get("vpc") or f"{section['prefix']}-net", given or f"{section['prefix']}-{suffix}"


def networks(tree: Tree) -> Names:
    """Return the names of VPCs, subnets and Network objects, and the commands that create the subnets."""
    given = tree["accelerator"]["interfaces"]
    interfaces = [given[name] for name in sorted(given, key=lambda name: int(name.removeprefix("eth")))]
    places = [subnet_of(tree["network"], interface) for interface in interfaces]
    prefix = tree["network"]["names"]["prefix"]
    (gvnic, subnet), rdma = places[0], places[1:]
    made = "\n".join(
        f"gcloud compute networks subnets create {name} --network={vpc} --region=$REGION --range=192.168.{number}.0/24"
        for number, (vpc, name) in enumerate(rdma, 1)
    )
    objects = [f"{prefix}{interface['network']}" for interface in interfaces]
    return {
        "gvnic_vpc": gvnic,
        "gvnic_subnet": subnet,
        "firewall": f"{gvnic.removesuffix('-net')}-internal",
        "rdma_vpc": rdma[0][0],
        "rdma_subnets": made,
        "rdma_count": str(len(rdma)),
        "subnet_count": str(len(places)),
        "all_subnets": " ".join(name for _, name in places),
        "networks": f"{objects[0]} and {objects[1]} to {objects[-1]}",
        "attached": " \\\n  ".join(
            f"--additional-node-network=network={vpc},subnetwork={name}" for vpc, name in places
        ),
    }


def machine(tree: Tree, attached: str) -> Names:
    """Return the facts of the GPU nodes and the flags of their node pool."""
    accelerator, capacity = tree["accelerator"], tree["platform"]["capacity"]
    head = tree["ray"]["head"]["gpus"]["enabled"]
    nodes = tree["ray"]["workers"]["replicas"] + (1 if head else 0)
    only(capacity["kind"] in BUYING, f"platform.capacity.kind {', '.join(BUYING)}; NOTES of network have the others")
    label, gpus = accelerator["label"], accelerator["gpusPerNode"]
    flags = [
        f"{BUYING[capacity['kind']].format(capacity.get('reservation'))}--num-nodes={nodes}",
        f"--accelerator=type={label},count={gpus},gpu-driver-version=latest",
        attached,
    ]
    return {
        "machine": accelerator["machineType"],
        "label": label,
        "gpus": str(gpus),
        "nodes": counted(nodes, "node"),
        "costly": f"The {nodes} GPU nodes are most of the cost: you pay by the hour, also when they idle. They exist"
        if nodes > 1
        else "The GPU node is most of the cost: you pay by the hour, also when it idles. It exists",
        "ready": f"{counted(nodes, 'node')} {'is' if nodes == 1 else 'are'}",
        "one_node": "one of the GPU nodes" if nodes > 1 else "the GPU node",
        "total": str(gpus * nodes),
        "gke": GKE[accelerator["name"]],
        "driver": str(tree["images"]["training"]["minimumDriver"]),
        "pool": " \\\n  ".join(flags),
    }


def head(tree: Tree) -> Names:
    """Return a machine type that fits the head and its bucket's sidecar, and the size of the boot disk in GB."""
    resources, sidecar = tree["ray"]["head"], tree["ray"]["gcsfuse"]
    cores = int(resources["cpu"]) + int(sidecar["cpu"])
    memory = units(resources["memory"]) + units(sidecar["memory"])
    fits = [size for size in N2_STANDARD if size > cores and size * 4 / 1.0737 * 0.9 > memory]
    only(fits, f"a head that fits an n2-standard machine, and this one asks for {cores} cores and {memory:g}Gi")
    disk = (units(resources["ephemeralStorage"]) + units(sidecar["ephemeralStorage"])) * 1.0737
    # GKE keeps up to 100 GiB of a boot disk for itself, and evicts pods on its last tenth.
    return {
        "head_machine": f"n2-standard-{fits[0]}",
        "head_cores": str(cores),
        "head_memory": f"{memory:g}Gi",
        "head_only_memory": resources["memory"],
        "head_disk": str(math.ceil((disk + 107.4) / 0.9 / 100) * 100),
    }


def places(tree: Tree) -> Names:
    """Return project, bucket, claim, Secret and service account."""
    stack, platform, job = tree["stack"], tree["platform"], tree["job"]
    volume = tree["storage"][job["volume"]]
    only(volume.get("gcsfuse"), "runs in a bucket (storage.NAME.gcsfuse); docs/options.md has the other volumes")
    names = stack.get("names") or {}
    account = names.get("serviceAccount") or stack["name"]
    pool = f"projects/{platform['projectNumber']}/locations/global/workloadIdentityPools/{platform['projectId']}"
    return {
        "project": platform["projectId"],
        "namespace": NAMESPACE,
        "stack": stack["name"],
        "cluster": names.get("cluster") or f"{stack['name']}-ray",
        "account": account,
        "member": f"principal://iam.googleapis.com/{pool}.svc.id.goog/subject/ns/{NAMESPACE}/sa/{account}",
        "bucket": volume["gcsfuse"]["bucket"],
        "claim": f"{stack['name']}-{job['volume']}",
        "secret": tree["huggingface"]["secret"]["name"],
        "key": tree["huggingface"]["secret"]["key"],
        "test_timeout": str(2 * tree["ray"]["test"]["timeoutSeconds"]),
    }


def output(tree: Tree, task: str) -> str:
    """Return the path of a job's output on its volume."""
    folder = "" if task == "train" else f"tasks/{task}/"
    return f"/runs/{tree['job']['name']}/{folder}attempts/{tree['job']['attempt']}/output.log"


def jobs(tree: Tree) -> Names:
    """Return names and directories of the run and of its tasks."""
    job, mount = tree["job"], tree["storage"][tree["job"]["volume"]]["mountPath"]
    found = {"run": job["name"], "directory": f"{mount}/runs/{job['name']}"}
    for task in ("train", "fetch", "convert", "evaluate"):
        middle = "" if task == "train" else f"-{task}"
        found[f"{task}_job"] = f"{job['name']}{middle}-{job['attempt']}"
    outputs = {"train_output": mount + output(tree, "train")}
    return found | outputs | {f"{task}_output": output(tree, task) for task in ("fetch", "evaluate")}


def settings(tree: Tree) -> Names:
    """Return what the recipe trains, for how many steps, and its benchmarks."""
    job, config = tree["job"], tree["job"]["config"]
    only(job["framework"] == "nemo-rl", "NeMo RL; docs/howto/verl.md has what differs with verl")
    fetched = [*job["fetch"]["models"], *job["fetch"]["datasets"]]
    benchmarks = job["evaluate"]["benchmarks"]
    only(benchmarks, "a recipe with benchmarks (job.evaluate.benchmarks)")
    model = config["policy"]["model_name"]
    gated = model.startswith(("google/gemma", "meta-llama/"))
    return {
        "model": model,
        "gated": f"{model} is gated: the owner of the token must accept its licence on the hub. " if gated else "",
        "downloads": " and ".join(fetched),
        "steps": counted(config["grpo"]["max_num_steps"], "step"),
        "few": f"; {counted(config['grpo']['max_num_steps'], 'step')} only show that the chain works"
        if config["grpo"]["max_num_steps"] <= FEW_STEPS
        else "",
        "saves": "step" if (period := config["checkpointing"]["save_period"]) == 1 else f"{period} steps",
        "metric": f"{config['checkpointing']['metric_name']:>8}",
        "benchmarks": "; ".join(
            f"{name}, {counted(one.get('samples', 1), 'answer')} to each question"
            f" at temperature {one.get('temperature', 0)}"
            for name, one in benchmarks.items()
        ),
    }


def needs_data(tree: Tree) -> bool:
    """Return whether training or evaluation reads files of task prepare-data."""
    overlay = tree["job"]["configFor"].get(tree["job"]["version"]) or {}
    text = f"{tree['job']['config'].get('data')}{overlay.get('data')}"
    return "GRPO_DATASETS" in text or "gsm8k" in tree["job"]["evaluate"]["benchmarks"]


def preparation(tree: Tree) -> Names:
    """Return the tutorial's step for task prepare-data, or the reason why there is none."""
    run, version = tree["job"]["name"], tree["job"]["version"]
    if not needs_data(tree):
        why = f"NeMo RL {version} reads the data set of this recipe itself, and the evaluation downloads its benchmarks"
        return {"prepare": f"You do not need the task `prepare-data`: {why}.", "prepare_release": ""}
    release, job = f"{run}-prepare-data", f"{run}-prepare-data-{tree['job']['attempt']}"
    lines = [
        "Training or evaluation reads prepared files in `datasets/` on the volume:\n",
        "```bash",
        f'helm install {release} charts/grpo-job "${{F[@]}}" --namespace {NAMESPACE} --set job.task=prepare-data'
        " --set job.cluster.mode=ephemeral",
        f"kubectl wait --for=jsonpath='{{.status.jobDeploymentStatus}}'=Complete rayjob/{job}"
        f" --namespace {NAMESPACE} --timeout=1h",
        "```",
    ]
    return {"prepare": "\n".join(lines), "prepare_release": f"{release} "}


def duration(steps: int, seconds: str) -> str:
    """Return the duration of the steps in words; empty `seconds` means unknown."""
    if not seconds:
        return "hours"
    minutes = math.ceil(steps * float(seconds) / 60)
    long = f"{minutes / 60:.1f} hours" if minutes >= 60 else counted(minutes, "minute")
    return f"about {long} ({counted(steps, 'step')} of {seconds} s)"


def header(recipe: str, steps: int) -> Names:
    """Return time, disk size and expected result from the comment at the top of a recipe."""
    text = re.sub(r"\n#? *", " ", recipe.split("\nimages:", maxsplit=1)[0])
    disk, seconds = (re.search(pattern, text) for pattern in (r"step is about ([0-9]+) GiB", r"([0-9.]+) s a step"))
    expected = re.search(r"Expected: (.*)", text)
    only(disk and expected, "a recipe whose header has the disk size of a step and the expected result")
    # The sentence on published runs refers to a table in the header, so drop it.
    result = expected[1].split(" The published")[0].strip() if expected else ""
    size = int(disk[1]) if disk else 0
    # A checkpoint contains the weights and the two moments of Adam, all in float32.
    return {
        "disk": str(size),
        "weights": str(math.ceil(size / 3)),
        "time": duration(steps, seconds[1] if seconds else ""),
        "expected": f"Expected: {result}",
    }


def machines(root: Path) -> Names:
    """Return the table of the two machines, from their profiles."""
    trees = [merging.load([str(root / f"values/accelerators/{name}.yaml")]).effective()["accelerator"] for name in GKE]
    rows = [
        ("machine", [one["machineType"] for one in trees]),
        ("accelerator", [one["label"] for one in trees]),
        ("GKE with RDMA", list(GKE.values())),
        ("memory of a worker", [one["worker"]["memory"] for one in trees]),
        ("tuner of NCCL", [one["nccl"]["tunerConfig"].rpartition("/")[2] for one in trees]),
    ]
    lines = [f"| | {' | '.join(f'`{name}`' for name in GKE)} |", "|---|---|---|"]
    return {"machines": "\n".join([*lines, *(f"| {title} | {' | '.join(cells)} |" for title, cells in rows)])}


# What the page installs besides the charts; a test compares it with the charts' notes.
OPERATOR = (
    "helm install kuberay-operator kuberay-operator --repo https://ray-project.github.io/kuberay-helm/ --version 1.6.2"
    " --namespace ray-system --create-namespace"
)
INSTALLER = (
    "https://raw.githubusercontent.com/GoogleCloudPlatform/container-engine-accelerators/"
    "992db81257553607f1477945f1b3219632991829/gpudirect-rdma/nccl-rdma-installer.yaml"
)


def names(root: Path, files: Sequence[str]) -> Names:
    """Return every placeholder of the template with its text."""
    tree = merging.overlay(
        reference.defaults(sources.load(root), "grpo-job"),
        merging.load([str(root / name) for name in files]).effective(),
    )
    only(tree.get("accelerator", {}).get("name") in GKE, f"accelerator {' and '.join(GKE)}")
    only(tree["platform"]["kind"] == "gke-standard", "GKE Standard; docs/howto/autopilot.md has the other kind")
    only(tree["network"]["mode"] == "multiNetwork", "network.mode multiNetwork")
    recipe = next((name for name in files if "images:" in (root / name).read_text("utf-8")), "")
    only(recipe, "a recipe among the files")
    given = ["my-site.yaml" if name == EXAMPLE else name for name in files]
    found = {**networks(tree), **head(tree), **places(tree), **jobs(tree), **settings(tree), **preparation(tree)}
    found |= machine(tree, found.pop("attached")) | machines(root)
    found |= header((root / recipe).read_text("utf-8"), tree["job"]["config"]["grpo"]["max_num_steps"])
    found |= {"operator": OPERATOR, "installer": INSTALLER, "recipe": Path(recipe).stem, "site": EXAMPLE}
    return found | {"files": " ".join(f"-f {name}" for name in given), "count": str(len(files))}
