"""500 nodes and 2,000 pods, and API servers that are slow, away, or empty: an answer in seconds, and what it lacks."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from conftest import NewStack
from harness import crowd
from harness.apiserver import ApiServer, Ports, Tools
from harness.commands import Done, ask
from harness.kube import Kube
from harness.nodes import Profile, gpu_node
from harness.processes import Programs
from harness.proxy import stalling
from harness.stack import Stack

COMMANDS = ("status", "doctor", "why")
WAITING = 64
# Seconds of processor time for everything: Python, four charts, 2,500 objects. The clock of a busy machine says little.
MOST = 6.0


@dataclass
class Timed:
    """What a command has said, and its seconds: on the clock and of the processor."""

    done: Done
    clock: float
    processor: float


def timed(command: str, stack: Stack, kubeconfig: Path, *options: str) -> Timed:
    """Run a command and measure it."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = ask(command, stack, *options, "--kubeconfig", str(kubeconfig))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timed(done, time.monotonic() - start, used)


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Stack:
    """A stack whose workers are many."""
    return new_stack("b200", "helm4", ray={"workers": {"replicas": WAITING}})


@pytest.fixture(scope="module")
def server(work: Path, tools: Tools, stack: Stack, profiles: dict[str, Profile]) -> Iterator[ApiServer]:
    """An API server with a crowd: the pods of others use all GPUs."""
    programs = Programs(work / "scale" / "logs")
    # No controller would take the taint away that a new node gets until it is ready.
    flags = ["--disable-admission-plugins=TaintNodesByCondition"]
    server = ApiServer(work / "scale", tools, programs, Ports(api=36443, etcd=32379, peer=32380), flags)
    try:
        server.start()
        server.apply_crds("kuberay-crds", "gke-crds")
        fill(server, stack, profiles)
        yield server
    finally:
        server.kube.close()
        programs.stop()


def fill(server: ApiServer, stack: Stack, profiles: dict[str, Profile]) -> None:
    """Make the nodes, the pods of others, and the workers of the stack, which wait."""
    (cluster,) = [item for item in stack.render("raycluster") if item["kind"] == "RayCluster"]
    template = cluster["spec"]["workerGroupSpecs"][0]["template"]
    labels = {"ray.io/cluster": stack.cluster, "ray.io/node-type": "worker", "ray.io/group": "gpu"}
    mine = {"grpo-charts/stack": stack.name, "ray.io/is-ray-node": "yes", **labels}
    for name in ("others", stack.namespace):
        crowd.create(server, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
        accounts = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": each, "namespace": name}}
            for each in ("default", stack.name)
        ]
        crowd.create(server, accounts)
    crowd.create(server, crowd.nodes(gpu_node(profiles["b200"], 0), crowd.NODES))
    # Four pods on each node take its eight GPUs.
    quarter = {"limits": {"nvidia.com/gpu": "2", "cpu": "50", "memory": "800Gi"}}
    (container,) = template["spec"]["containers"]
    part = {"spec": {**template["spec"], "containers": [{**container, "resources": quarter}]}}
    crowd.create(server, crowd.pods(part, "others", crowd.PODS, {"app": "other"}, placed=True))
    crowd.create(server, crowd.pods(template, stack.namespace, WAITING, mine, placed=False))


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_handles_500_nodes_and_2000_pods_within_its_cpu_limit(
    server: ApiServer, stack: Stack, command: str
) -> None:
    before = len(server.requests())
    found = timed(command, stack, server.audited, "--format", "json")
    assert found.done.returncode == 1, found.done.stderr
    print(f"{command}: {found.clock:.1f} s, {found.processor:.1f} s of processor time")
    assert "500 with only 0 of 8 nvidia.com/gpu" in found.done.stdout
    assert found.processor < MOST
    lists = [each for each in server.requests()[before:] if each["verb"] == "list"]
    asked = [parse_qs(urlsplit(each["requestURI"]).query) for each in lists]
    assert all(query.get("limit") == ["500"] for query in asked), lists
    pods = [query for query, each in zip(asked, lists, strict=True) if each["requestURI"].startswith("/api/v1/pods")]
    # The operator's pod is found by its labels; all others stand in one list.
    whole = ["continue" in query for query in pods if "labelSelector" not in query]
    assert whole == [False, True, True, True, True]


def away(stack: Stack, command: str, server: ApiServer) -> Timed:
    """Ask an address where nobody listens."""
    settings = json.loads(server.audited.read_text())
    settings["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    path = stack.work / "away.kubeconfig"
    path.write_text(json.dumps(settings))
    return timed(command, stack, path)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_ends_when_the_api_server_is_away_or_silent(server: ApiServer, stack: Stack, command: str) -> None:
    """It ends by itself. How long it waits is asserted with a clock of its own, in tests/live; here it is printed."""
    base = away(stack, command, server)
    assert (base.done.returncode, "nothing can be read" in base.done.stderr) == (3, True)
    with stalling(server, stack.work, after=0) as kubeconfig:
        found = timed(command, stack, kubeconfig)
    print(f"{command}: away {base.clock:.1f} s, silent {found.clock:.1f} s")
    assert found.done.returncode == 3
    assert "nothing can be read from the API server" in found.done.stderr
    assert "Traceback" not in found.done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_ends_when_the_api_server_stops_answering_midway(
    server: ApiServer, stack: Stack, command: str
) -> None:
    """Short lists arrive, the nodes and the pods of all namespaces do not."""
    base = away(stack, command, server)
    with stalling(server, stack.work, after=200_000) as kubeconfig:
        found = timed(command, stack, kubeconfig)
    print(f"{command}: away {base.clock:.1f} s, stopped {found.clock:.1f} s")
    assert found.done.returncode in (0, 1), found.done.stderr
    assert "Traceback" not in found.done.stderr
    for kind in ("nodes", "allPods"):
        assert any(
            kind in line and ("no answer" in line or "timed out" in line) for line in found.done.stdout.splitlines()
        )


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_copes_with_half_of_the_objects_deleted(new_stack: NewStack, kube: Kube, command: str) -> None:
    """Every second object of a running stack, of each kind that its charts render."""
    stack = new_stack("b200", "helm4", stack={"name": "half"})
    stack.install("storage", "raycluster", "grpo-job")
    stack.until_ready()
    missing = {
        "status": '"job": "not there"',
        "doctor": "claim half-weights is being deleted",
        "why": f"of stack half in namespace {stack.namespace}: not there",
    }
    rendered = [item for layer in ("storage", "raycluster", "grpo-job") for item in stack.render(layer)]
    try:
        for item in halved(rendered):
            kube.run(
                "delete", kind_of(item), item["metadata"]["name"], "-n", stack.namespace, "--wait=false", ok=(0, 1)
            )
        found = timed(command, stack, kube.kubeconfig, "--format", "json")
        print(f"{command}: {found.clock:.1f} s with half of the objects")
        assert found.done.returncode == 1, found.done.stderr
        assert missing[command] in found.done.stdout, found.done.stdout
    finally:
        stack.uninstall_all()


def halved(rendered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every second object, without those of hooks."""
    lasting = [item for item in rendered if "helm.sh/hook" not in item["metadata"].get("annotations", {})]
    return lasting[::2]


def kind_of(item: dict[str, Any]) -> str:
    """Write a kind as kubectl takes it, with its group where it has one."""
    group = item["apiVersion"].rpartition("/")[0]
    return f"{item['kind'].lower()}.{group}" if group else item["kind"].lower()
