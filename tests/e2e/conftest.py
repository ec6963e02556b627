"""The control plane that the tests of this folder share: nodes and pods are kwok's, and no container runs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from grpo.helm.engines import Embedded
from pytest_helm_charts.clusters import Cluster

from harness import pods, suite
from harness.apiserver import Tools
from harness.controlplane import ControlPlane
from harness.foreign import Foreign
from harness.helm import Helm
from harness.kube import Kube
from harness.nodes import Profile, cpu_node, gpu_node
from harness.postrenderer import PostRenderer
from harness.stack import Stack
from harness.waiting import until

pytest_plugins = ["harness.fixtures"]

REPOSITORY = suite.REPOSITORY
GPU_NODES, CPU_NODES = 4, 2
MACHINES = ("b200", "h200")

NewStack = Callable[..., Stack]
NewForeign = Callable[[Stack], Foreign]
Machines = Callable[[str], list[str]]


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
def kube(control_plane: ControlPlane, profiles: dict[str, Profile]) -> Kube:
    """The administrator's kubectl on a cluster whose nodes are ready."""
    machines = [gpu_node(profiles[name], number) for name in MACHINES for number in range(GPU_NODES)]
    kube = control_plane.kube
    kube.apply([*machines, *(cpu_node(number) for number in range(CPU_NODES))])
    until(lambda: all(map(pods.is_ready, kube.list("nodes"))), "nodes ready")
    until(lambda: kube.find("serviceaccount", "default", "default"), "the default service account")
    return kube


@pytest.fixture(scope="session")
def engine() -> Iterator[Embedded]:
    """The Helm inside Python: hundreds of renders by a process each would take minutes."""
    with Embedded() as helm:
        yield helm


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


@pytest.fixture(scope="module", autouse=True)
def uninstalled(kube: Kube, helms: dict[str, Helm]) -> Iterator[None]:
    """Uninstall what the tests of a file have left, as a failed one does: the next file needs the nodes."""
    yield
    for release in json.loads(helms["helm4"].run("list", "--all-namespaces", "-o", "json")):
        print(f"left behind: {release['name']} in {release['namespace']}")
        helms["helm4"].uninstall(release["name"], release["namespace"])
    for kind in ("rayjobs", "rayclusters"):
        kube.run("delete", kind, "--all", "--all-namespaces", "--timeout=60s")


@pytest.fixture
def machines(kube: Kube, profiles: dict[str, Profile]) -> Iterator[Machines]:
    """Make two nodes of a profile, and delete them after the test."""
    made: list[str] = []

    def make(name: str) -> list[str]:
        nodes = [gpu_node(profiles[name], number) for number in range(2)]
        kube.apply(nodes)
        made.extend(node["metadata"]["name"] for node in nodes)
        until(lambda: all(pods.is_ready(kube.get("node", each)) for each in made), "nodes ready")
        return made

    yield make
    for each in made:
        kube.delete("node", each)


@pytest.fixture(scope="session")
def renderer(work: Path, helms: dict[str, Helm]) -> PostRenderer:
    """The post-renderer, as a program and as a plugin."""
    made = PostRenderer(REPOSITORY, work / "post-render")
    made.prepare(helms["helm4"])
    return made


@pytest.fixture(scope="session")
def new_foreign(renderer: PostRenderer, tools: Tools) -> NewForeign:
    """Make the description of KubeRay's chart beside a stack of ours."""
    return lambda ours: Foreign(ours, renderer, tools.share / "kuberay-ray-cluster")
