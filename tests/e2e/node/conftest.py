"""The cluster of real nodes that all tests here share: one for heads, two that pretend to have GPUs."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness import goodcluster, suite
from harness.apiserver import Tools
from harness.helm import Helm
from harness.image import ENVIRONMENT
from harness.kube import Kube
from harness.nodes import Profile
from harness.realnode.cluster import OPERATOR, RealCluster
from harness.realnode.gpus import pretend
from harness.realnode.images import Image, platform
from harness.realnode.machine import CONTROL_PLANE
from harness.realnode.provisioner import CLASS, provisioning
from harness.realnode.runtime import PAUSE
from harness.stack import TOKEN, Stack, merge
from harness.trainer import Trainer
from harness.waiting import until

# The hub of the tests of fetching, and the planted failures.
sys.path += [str(suite.REPOSITORY / part) for part in ("tests/jobs", "tests/e2e/planted")]
from hub import Hub, serve

pytest_plugins = ["harness.fixtures", "choice"]

REPOSITORY = suite.REPOSITORY
HERE = REPOSITORY / "tests/e2e"
TOOLS = Tools(REPOSITORY / ".tools/bin", REPOSITORY / ".tools/share")
CACHE = (REPOSITORY / ".tools/node").resolve()
STATE = "/data/standin"
# The images by the names that the recipes ask for; a layer of Ray each.
RAYS = {"v0.6.0": "ray-2.54.0", "v0.7.0": "ray-2.55.1", "v0.8.0": "ray-2.58.0"}
TRAINING = {f"nvcr.io/nvidia/nemo-rl:{version}": ray for version, ray in RAYS.items()}
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
SECRET = {"secret": {"name": "hf-secret", "key": "hf_api_token"}}
# Of the pods of other namespaces only the operator reaches the job API.
POLICY = {"networkPolicy": {"operatorNamespace": OPERATOR}}
# The stacks on which runs are tested: variables of each kind, and time to save.
RAY = {
    "env": {"E2E_ALL": {"value": "all"}, "E2E_SECRET": SECRET},
    "head": {"jobStopSeconds": 20, "env": {"E2E_ALL": {"value": "head"}}},
    "workers": {"env": {"E2E_WORKERS": {"value": "1"}}},
}

NewStack = Callable[..., Stack]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of the shared stack last: it stays to the end, and the GPU nodes have no room for another one."""
    items.sort(key=lambda item: item.get_closest_marker("shared") is not None)


@pytest.fixture(scope="session")
def cluster(work: Path) -> Iterator[RealCluster]:
    """A running cluster; stopped at the end of the session, also after an interrupt."""
    running = RealCluster(work, TOOLS, CACHE)
    try:
        running.start(images(), ["cpu-1", *GPU_NODES])
        running.install_operator()
        yield running
    finally:
        left = running.stop()
    assert not left, f"control groups that could not be removed: {left}"


def images() -> list[Image]:
    """Describe the images: Debian with a Ray and the stand-in trainer."""
    base, trainer = CACHE / "base", trainer_layer()
    environment = {**ENVIRONMENT, "STANDIN_STATE": STATE}
    training = [Image(name, [base, CACHE / ray, trainer], environment) for name, ray in TRAINING.items()]
    planted = Image(
        "docker.io/planted/trainer:1",
        [base, CACHE / RAYS["v0.7.0"], planted_layer()],
        {**ENVIRONMENT, "PYTHONPATH": "/opt/nemo-rl"},
    )
    return [*platform(base, TOOLS.bin / "ray-operator"), *training, planted]


def planted_layer() -> Path:
    """Lay the trainer of the planted failures out as an image has the code of both frameworks."""
    source, layer = HERE / "planted/image", CACHE / "planted"
    for path in source.rglob("*.*"):
        if path.suffix in (".py", ".yaml"):
            write_if_changed(layer / "opt/nemo-rl" / path.relative_to(source), path.read_text())
    return layer


def write_if_changed(path: Path, text: str) -> None:
    """Write a file of an image only if its text differs: a newer file would mean a new image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def trainer_layer() -> Path:
    """Lay the stand-ins of trainer and evaluation out as the image has NeMo RL's code."""
    trainer = (HERE / "standins/run_grpo.py").read_text()
    files = {"examples/configs/grpo_math_1B.yaml": "{}\n"}
    files |= dict.fromkeys(("examples/run_grpo.py", "examples/run_grpo_math.py"), trainer)
    files["examples/run_eval.py"] = (REPOSITORY / "tests/jobs/run_eval.py").read_text()
    files["behaviour.json"] = json.dumps({"version": "v0.7.0"})
    for name, text in files.items():
        write_if_changed(CACHE / "trainer/opt/nemo-rl" / name, text)
    return CACHE / "trainer"


@pytest.fixture(scope="session")
def kube(cluster: RealCluster, work: Path) -> Iterator[Kube]:
    """The administrator's kubectl on a cluster that gives folders to claims."""
    with provisioning(cluster.kube, work / "volumes"):
        yield cluster.kube


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
        for number, name in enumerate(GPU_NODES):
            pretend(cluster.nodes[name], profiles[accelerator], number)
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


@pytest.fixture(scope="session")
def hub(cluster: RealCluster) -> Iterator[Hub]:
    """A Hugging Face hub that pods reach, and that knows the token of the stacks."""
    with serve(CONTROL_PLANE) as found:
        found.tokens[TOKEN] = True
        yield found


@pytest.fixture(scope="session")
def shared(new_stack: NewStack, hub: Hub) -> Iterator[Installed]:
    """A stack whose cluster is ready, for all tests with the mark `shared`."""
    own = {"env": {"HF_ENDPOINT": {"value": hub.url}}, **POLICY}
    with installed(new_stack("b200", "helm4", ray=merge(RAY, own))) as found:
        yield found


@pytest.fixture
def as_on_gke(shared: Installed, kube: Kube) -> Iterator[None]:
    """What GKE has beside the nodes: controllers that say that networks are ready, and the installer of the plugin."""
    daemon = goodcluster.installer(PAUSE)
    kube.create([daemon])
    goodcluster.make_networks_ready(kube)
    until(lambda: goodcluster.ready_installers(kube) == len(GPU_NODES), "the installer on the nodes", 60)
    yield
    kube.delete("daemonset", daemon["metadata"]["name"], daemon["metadata"]["namespace"])
