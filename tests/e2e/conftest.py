"""The control plane that all end-to-end tests share."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from postrender.helm.engines import Embedded
from pytest_helm_charts.clusters import Cluster  # type: ignore[import-untyped]

from harness import leftovers, pods
from harness.apiserver import Tools
from harness.controlplane import ControlPlane
from harness.helm import Helm
from harness.image import Image
from harness.kube import Kube, KubectlError
from harness.nodes import Profile, cpu_node, gpu_node, read_profiles
from harness.rayhead import RayHeads
from harness.resolver import Resolver
from harness.stack import Stack
from harness.waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]
GPU_NODES, CPU_NODES = 4, 2
MACHINES = ("b200", "h200")
INSIDE = "GRPO_E2E_INSIDE"
SHOWN = "rayclusters,rayjobs,pods,services,events,persistentvolumeclaims,configmaps"

NewStack = Callable[..., Stack]


def pytest_configure() -> None:
    """Refuse to run outside the namespace, where the control plane would listen on the machine's own interfaces."""
    if INSIDE not in os.environ:
        pytest.exit("start these tests by `python tests/e2e/run.py [pytest arguments]`", returncode=3)
    leftovers.end_with_parent()


@pytest.fixture(scope="session")
def work() -> Path:
    """The folder of this run: data, keys, logs."""
    return Path(os.environ[INSIDE])


@pytest.fixture(scope="session")
def tools() -> Tools:
    """What `make tools` has built."""
    return Tools(REPOSITORY / ".tools/bin", REPOSITORY / ".tools/share")


@pytest.fixture(scope="session")
def profiles() -> dict[str, Profile]:
    """The accelerator profiles that have nodes here, by name."""
    known = read_profiles(REPOSITORY / "values/accelerators")
    return {name: known[name] for name in MACHINES}


@pytest.fixture(scope="session")
def control_plane(work: Path, tools: Tools) -> Iterator[ControlPlane]:
    """A running control plane; stopped at the end of the session, also after an interrupt."""
    plane = ControlPlane(work, tools)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(scope="session")
def kube_cluster(kube: Kube) -> Cluster:
    """pytest-helm-charts' cluster, for its factories; its own fixture asks for a cluster on the command line."""
    return kube.cluster


@pytest.fixture(scope="session")
def kube(control_plane: ControlPlane, profiles: dict[str, Profile], work: Path) -> Iterator[Kube]:
    """The administrator's kubectl on a cluster whose nodes are ready and whose head services resolve."""
    machines = [gpu_node(profile, number) for profile in profiles.values() for number in range(GPU_NODES)]
    kube = control_plane.kube
    kube.apply([*machines, *(cpu_node(number) for number in range(CPU_NODES))])
    until(lambda: all(map(pods.is_ready, kube.list("nodes"))), "nodes ready")
    until(lambda: kube.find("serviceaccount", "default", "default"), "the default service account")
    resolver = Resolver(kube, work / "hosts")
    resolver.start()
    try:
        yield kube
    finally:
        resolver.stop()


@pytest.fixture(scope="session")
def image(kube: Kube) -> Image:
    """The training image's files with a stand-in trainer."""
    return Image(REPOSITORY / ".tools/ray", Path(__file__).parent / "standins")


@pytest.fixture(scope="session")
def ray_heads(kube: Kube, work: Path, image: Image) -> Iterator[RayHeads]:
    """Real Ray heads for the namespaces that a test adds."""
    heads = RayHeads(kube, work)
    heads.start()
    try:
        yield heads
    finally:
        heads.stop()


@pytest.fixture(scope="session")
def helms(control_plane: ControlPlane, tools: Tools, work: Path) -> dict[str, Helm]:
    """Helm 3 and Helm 4 by name."""
    return {name: Helm(tools.bin / name, control_plane.kubeconfig, work / name) for name in ("helm3", "helm4")}


@pytest.fixture(params=["helm3", "helm4"])
def helm(request: pytest.FixtureRequest, helms: dict[str, Helm]) -> Helm:
    """Helm 3 and Helm 4, one after the other."""
    return helms[request.param]


@pytest.fixture(scope="session")
def engine() -> Iterator[Embedded]:
    """The Helm inside Python: hundreds of renders by a process each would take minutes."""
    with Embedded() as helm:
        yield helm


@pytest.fixture(scope="session")
def checkout(work: Path) -> Path:
    """A copy of charts and values: an edit during the run would make an unchanged upgrade a changed one."""
    folder = work / "checkout"
    for name in ("charts", "jobs", "values"):
        shutil.copytree(REPOSITORY / name, folder / name, symlinks=True)
    return folder


@pytest.fixture(scope="session")
def new_stack(kube: Kube, helms: dict[str, Helm], work: Path, checkout: Path) -> NewStack:
    """Make stacks, each in a new namespace unless one is named: new_stack("b200", "helm4", namespace="", **values)."""
    numbers = itertools.count(1)

    def make(accelerator: str = "b200", helm: str = "helm4", namespace: str = "", **values: object) -> Stack:
        stack = Stack(checkout, work, kube, helms[helm], namespace or f"team-{next(numbers)}", accelerator, values)
        if not namespace:
            stack.prepare_namespace()
        return stack

    return make


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the state of the cluster beside the logs when a test fails."""
    report: pytest.TestReport = yield
    kube = getattr(item, "funcargs", {}).get("kube")
    if report.failed and isinstance(kube, Kube):
        folder = Path(os.environ[INSIDE]) / "logs"
        name = "".join(letter if letter.isalnum() else "-" for letter in item.name)
        try:
            (folder / f"{name}.{call.when}.yaml").write_text(kube.run("get", SHOWN, "--all-namespaces", "-o", "yaml"))
        except KubectlError as error:
            (folder / f"{name}.{call.when}.txt").write_text(str(error))
    return report
