"""The cluster of real nodes that all tests here share: one for heads, two that pretend to have GPUs."""

from __future__ import annotations

import contextlib
import filecmp
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import nodes, suite
from harness.apiserver import Tools
from harness.helm import Helm
from harness.image import ENVIRONMENT
from harness.kube import Kube
from harness.nodes import Profile
from harness.realnode.cluster import RealCluster
from harness.realnode.images import Image
from harness.realnode.node import Node
from harness.realnode.runtime import PAUSE
from harness.stack import Stack, merge
from harness.trainer import Trainer
from harness.waiting import until
from provisioner import CLASS, Provisioner

pytest_plugins = ["harness.fixtures"]

REPOSITORY = suite.REPOSITORY
HERE = REPOSITORY / "tests/e2e"
TOOLS = Tools(REPOSITORY / ".tools/bin", REPOSITORY / ".tools/share")
CACHE = (REPOSITORY / ".tools/node").resolve()
STATE = "/data/standin"
OPERATOR = "quay.io/kuberay/operator:v1.6.2"
# The images by the names that the recipes ask for; a layer of Ray each.
TRAINING = {"nvcr.io/nvidia/nemo-rl:v0.6.0": "ray-2.54.0", "nvcr.io/nvidia/nemo-rl:v0.7.0": "ray-2.55.1"}
# Three Ray nodes start beside each other on the processors of one machine.
READY_SECONDS = 360
GPU_NODES = ("gpu-1", "gpu-2")
# All that differs from the values that a user gives: this machine's size, and a volume that is a folder.
SMALL = {
    "accelerator": {"worker": {"cpu": "1", "memory": "2Gi", "ephemeralStorage": "1Gi"}, "sharedMemory": "256Mi"},
    "ray": {"head": {"cpu": "1", "memory": "2Gi", "ephemeralStorage": "1Gi"}},
    "storage": {"data": {"gcsfuse": None, "pvc": {"storageClassName": CLASS, "size": "20Ti"}}, "weights": None},
    "huggingface": {"cache": {"volume": "data"}},
    # A killed head leaves an owner behind that is waited for.
    "job": {"lapseSeconds": 60},
}

NewStack = Callable[..., Stack]


@pytest.fixture(scope="session")
def cluster(work: Path) -> Iterator[RealCluster]:
    """A running cluster; stopped at the end of the session, also after an interrupt."""
    running = RealCluster(work, TOOLS, CACHE)
    try:
        running.start(images(), ["cpu-1", *GPU_NODES])
        yield running
    finally:
        left = running.stop()
    assert not left, f"control groups that could not be removed: {left}"


def images() -> list[Image]:
    """Describe the images: Debian with a Ray and the stand-in trainer."""
    base, trainer = CACHE / "base", trainer_layer()
    environment = {**ENVIRONMENT, "STANDIN_STATE": STATE}
    training = [Image(name, [base, CACHE / ray, trainer], environment) for name, ray in TRAINING.items()]
    operator = Image(OPERATOR, [base, program_layer("ray-operator", "manager")], user="65532:65532")
    return [Image(PAUSE, [base], {}, ["/bin/sleep", "infinity"]), operator, *training]


def program_layer(program: str, name: str) -> Path:
    """Lay one of the programs out at the root of an image."""
    folder = CACHE / name
    folder.mkdir(exist_ok=True)
    source, target = TOOLS.bin / program, folder / name
    if not target.exists() or not filecmp.cmp(source, target):
        shutil.copy2(source, target)
    return folder


def trainer_layer() -> Path:
    """Lay the stand-in trainer out as the image has NeMo RL's code."""
    examples = CACHE / "trainer/opt/nemo-rl/examples"
    files = {"configs/grpo_math_1B.yaml": "{}\n"}
    files |= dict.fromkeys(("run_grpo.py", "run_grpo_math.py"), (HERE / "standins/run_grpo.py").read_text())
    (examples / "configs").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        # A newer file would mean a new image.
        if not (examples / name).exists() or (examples / name).read_text() != text:
            (examples / name).write_text(text)
    return CACHE / "trainer"


def pretend(cluster: RealCluster, profile: Profile) -> None:
    """Let the GPU nodes look like a machine as its cloud shows it; processors and memory are real."""
    for number, name in enumerate(GPU_NODES):
        node = cluster.nodes[name]
        shown = nodes.gpu_node(profile, number)
        real = ("cpu", "memory", "pods")
        node.offer({key: value for key, value in shown["status"]["capacity"].items() if key not in real})
        labels = {
            key: text for key, text in shown["metadata"]["labels"].items() if not key.startswith("kubernetes.io/")
        }
        node.label(labels)
        node.taint(shown["spec"]["taints"])
        install_driver(node, profile)


def install_driver(node: Node, profile: Profile) -> None:
    """Put onto a machine what the installers of GKE leave there: two folders, NCCL's script and its tuner."""
    folders = {entry["mountPath"]: entry["hostPath"] for entry in profile.values["hostPaths"].values()}
    node.machine.run("mkdir", "-p", *folders.values())
    inside, outside = next((mount, path) for mount, path in folders.items() if path.endswith("gib"))
    for file in (profile.values["nccl"]["environmentScript"], profile.values["nccl"]["tunerConfig"]):
        place = Path(outside) / Path(file).relative_to(inside)
        node.machine.run(
            "sh", "-ec", 'mkdir -p "$1"; echo export NCCL_IB_TC=52 >"$1/$2"', "sh", place.parent, place.name
        )


@pytest.fixture(scope="session")
def kube(cluster: RealCluster, work: Path) -> Iterator[Kube]:
    """The administrator's kubectl on a cluster that gives folders to claims."""
    until(lambda: cluster.kube.find("serviceaccount", "default", "default"), "the default service account")
    storage_class = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS}}
    cluster.kube.apply([{**storage_class, "provisioner": "kubernetes.io/no-provisioner"}])
    provisioner = Provisioner(cluster.kube, work / "volumes")
    provisioner.start()
    try:
        yield cluster.kube
    finally:
        provisioner.stop()


@pytest.fixture(scope="session")
def new_stack(
    kube: Kube,
    cluster: RealCluster,
    profiles: dict[str, Profile],
    helms: dict[str, Helm],
    work: Path,
    checkout: Path,
) -> NewStack:
    """Make stacks in new namespaces, on nodes that look like their machine: new_stack("b200", "helm4", **values)."""
    numbers = itertools.count(1)

    def make(accelerator: str = "b200", helm: str = "helm4", **values: object) -> Stack:
        pretend(cluster, profiles[accelerator])
        site = merge(SMALL, values)
        stack = Stack(checkout, work, kube, helms[helm], f"team-{next(numbers)}", accelerator, site)
        stack.prepare_namespace()
        return stack

    return make


@dataclass(frozen=True)
class Installed:
    """A stack whose cluster is ready, with the orders and records of its trainer, which lie on its volume."""

    stack: Stack
    trainer: Trainer

    def with_run(self, name: str, **job: object) -> Stack:
        """Return the stack with a run of its own name."""
        return self.stack.with_values(job={"name": name, **job})


@contextlib.contextmanager
def installed(stack: Stack) -> Iterator[Installed]:
    """Install the layers below a run, wait until the cluster is ready, and uninstall all releases in the end."""
    try:
        stack.install("network", "storage", "raycluster")
        stack.until_ready(READY_SECONDS)
        yield Installed(stack, Trainer(stack.on_volume(STATE)))
    finally:
        stack.uninstall_all()
