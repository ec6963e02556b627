"""`grpo why` names what was planted in real pods first, and `grpo status` says a reason.

Head pods of stacks of one namespace fail beside each other, each of its own fault; runs fail on the shared stack.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from conftest import Installed
from harness.commands import explain
from harness.kube import Kube, Manifest
from harness.stack import Stack
from harness.waiting import until

pytestmark = pytest.mark.shared

NAMESPACE = "planted"
# What a head asks for here: nine of them fit beside the shared stack.
LITTLE = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}}


@dataclass(frozen=True)
class Fault:
    """What is wrong with a head, and what is said of it: the first cause, and words of the reason.

    `seen` stands in the pod's status or events once the fault has shown; the reason, if it is empty.
    """

    cause: str
    reason: str
    command: tuple[str, ...] = ("sleep", "3600")
    values: dict[str, Any] = field(default_factory=dict)
    change: Callable[[Manifest], None] = lambda _: None
    has_claim: bool = True
    seen: str = ""


def shell(line: str) -> tuple[str, ...]:
    """Run a line of shell instead of Ray."""
    return ("sh", "-c", line)


def of_secret(**names: str) -> dict[str, Any]:
    """Return the values that name another Secret or key."""
    return {"huggingface": {"secret": names}}


def without_folder(spec: Manifest) -> None:
    """Mount a folder that the node does not have."""
    spec["volumes"].append({"name": "planted", "hostPath": {"path": "/no/such/folder", "type": "Directory"}})
    spec["containers"][0]["volumeMounts"].append({"name": "planted", "mountPath": "/planted"})


def read_only(spec: Manifest) -> None:
    """Let the container only read what it mounts."""
    for mount in spec["containers"][0]["volumeMounts"]:
        mount["readOnly"] = True


HEADS = {
    "no-image": Fault("image-pull", "ImagePull", values={"images": {"training": {"tag": "v0.7.0-none"}}}),
    "no-claim": Fault("claim-not-bound", 'persistentvolumeclaim "no-claim-data" not found', has_claim=False),
    "no-secret": Fault("secret-missing", 'secret "none" not found', values=of_secret(name="none")),
    "no-key": Fault("secret-missing", "couldn't find key none", values=of_secret(key="none")),
    "no-program": Fault("container-not-created", "no-such-program", ("no-such-program",)),
    "no-folder": Fault("mount-fails", "FailedMount", change=without_folder),
    "no-memory": Fault("host-oom", "OOMKilled", ("python3", "-c", "b'x' * (1 << 28)")),
    "killed": Fault("killed", "exit code 137", shell("timeout -s KILL 1 sleep 9; exit $?"), seen='"exitCode": 137'),
    "ends": Fault("container-crashes", "exit code 3", shell("exit 3"), seen="Back-off restarting"),
    "read-only": Fault("not-writable", "exit code 1", shell("touch /data/x"), change=read_only, seen='"exitCode": 1'),
}


@pytest.fixture(scope="module")
def stacks(shared: Installed, kube: Kube) -> Iterator[dict[str, Stack]]:
    """A stack for each fault; their heads are there, and have failed or wait."""
    base = replace(shared.stack, namespace=NAMESPACE)
    base.prepare_namespace()
    found = {name: base.with_values(stack={"name": name}).with_values(**each.values) for name, each in HEADS.items()}
    kube.create([item for name, stack in found.items() for item in objects(HEADS[name], stack)], NAMESPACE)
    yield found
    kube.run("delete", "namespace", NAMESPACE, "--timeout=120s")


def objects(fault: Fault, stack: Stack) -> list[Manifest]:
    """Return the head of a stack as KubeRay makes it, and what it needs."""
    rendered = [item for layer in ("storage", "raycluster") for item in stack.render(layer)]
    kinds = ["ServiceAccount", *(["PersistentVolumeClaim"] if fault.has_claim else [])]
    needed = [item for item in rendered if item["kind"] in kinds]
    (cluster,) = [item for item in rendered if item["kind"] == "RayCluster"]
    template = copy.deepcopy(cluster["spec"]["headGroupSpec"]["template"])
    labels = {"ray.io/cluster": stack.cluster, "ray.io/node-type": "head", "ray.io/is-ray-node": "yes"}
    about = {"name": f"{stack.cluster}-head", "labels": {**template["metadata"].get("labels", {}), **labels}}
    return [*needed, {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": broken(fault, template["spec"])}]


def broken(fault: Fault, spec: Manifest) -> Manifest:
    """Return the spec of a head with its fault."""
    container = spec["containers"][0]
    container.update(command=list(fault.command), args=[], resources=LITTLE)
    for each in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"):
        container.pop(each, None)
    fault.change(spec)
    return spec


@pytest.mark.parametrize("name", HEADS)
def test_why_explains_a_head_that_does_not_start(
    name: str, stacks: dict[str, Stack], kube: Kube, tmp_path: Path
) -> None:
    fault, stack = HEADS[name], stacks[name]
    head = f"{stack.cluster}-head"

    def said() -> str:
        events = [line for line in kube.events(NAMESPACE).splitlines() if line.split()[0] == head]
        status = json.dumps(kube.get("pod", head, NAMESPACE)["status"]).replace('\\"', '"')
        return "\n".join([status, *events])

    sign = fault.seen or fault.reason
    until(lambda: sign in said(), sign, 90, seen=said)
    found: list[Any] = []

    def is_named() -> bool:
        """Ask again: a container that was started again runs for a moment."""
        found[:] = explain(stack, tmp_path)
        causes, status = found
        waits = " ".join(f"{each['names']} {each['why']}" for each in status["waits"])
        return causes[:1] == [fault.cause] and fault.reason in waits

    until(is_named, f"{fault.cause}: {fault.reason}", 30, seen=lambda: str(found))


@pytest.mark.ci
def test_why_explains_failed_runs(shared: Installed, tmp_path: Path) -> None:
    """One has another image than its cluster, of the other one the trainer is killed in its third step."""
    shared.trainer.behave(steps=3, die_at=2)
    killed = shared.with_run("is-killed")
    other = shared.with_run("is-other").with_values(images={"training": {"tag": "v0.7.0-ours"}})
    for run in (killed, other):
        run.install("grpo-job")
    for run, cause in ((other, "layers-disagree"), (killed, "killed")):
        run.until_job("FAILED", 180)
        causes, status = explain(run, tmp_path)
        assert causes[0] == cause, causes
        assert status["job"].startswith("Failed, FAILED"), status["job"]
        assert status["reason"]
        run.uninstall("grpo-job")
