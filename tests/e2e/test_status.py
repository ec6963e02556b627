"""`grpo status` on a cluster whose nodes are taken away, full, or of another kind."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from conftest import NewStack
from harness import suite
from harness.commands import ask, grpo
from harness.kube import Kube
from harness.stack import TOKEN, Stack
from harness.waiting import until


def answer(stack: Stack) -> dict[str, Any]:
    """Return the status as JSON."""
    done = ask("status", stack, "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    return dict(json.loads(done.stdout))


def waits(stack: Stack) -> str:
    """Return what the stack waits for, one a line."""
    return "\n".join(f"{', '.join(each['names'])}: {each['why']}" for each in answer(stack)["waits"])


def until_waits(stack: Stack, text: str) -> str:
    """Wait until the status has a text among its reasons, and return all reasons."""
    return until(lambda: found if text in (found := waits(stack)) else "", text, seconds=30, seen=lambda: waits(stack))


@pytest.fixture
def stack(new_stack: NewStack) -> Iterator[Stack]:
    """A stack whose storage is installed."""
    stack = new_stack("b200", "helm4")
    stack.install("storage")
    yield stack
    stack.uninstall_all()


def test_a_stack_that_is_not_installed_is_reported_as_such(new_stack: NewStack) -> None:
    found = answer(new_stack("b200", "helm4"))
    assert set(found["releases"].values()) <= {"not installed", "unknown"}
    assert (found["cluster"], found["job"], found["gpus_there"], found["healthy"]) == (
        "not there",
        "not there",
        0,
        False,
    )


def test_the_printed_commands_show_what_status_shows(stack: Stack) -> None:
    stack.install("raycluster")
    stack.until_ready()
    tools = f"{suite.TOOLS / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": tools, "KUBECONFIG": str(stack.kube.kubeconfig)}

    def shown(part: str) -> str:
        line = answer(stack)["commands"][part].replace("helm ", f"{stack.helm.program} ", 1)
        return subprocess.run(["sh", "-c", line], env=environment, text=True, capture_output=True, check=True).stdout

    assert stack.release("raycluster") in shown("releases")
    assert stack.cluster in shown("cluster")
    for part in ("pods", "waits"):
        assert all(pod["metadata"]["name"] in shown(part) for pod in stack.pods())


@pytest.mark.ci
def test_a_ready_cluster_is_shown_with_all_gpus(stack: Stack) -> None:
    stack.install("raycluster")
    stack.until_ready()
    found = answer(stack)
    assert found["cluster"] == "ready"
    assert [(role["name"], role["ready"], role["wanted"], role["gpus"]) for role in found["roles"]] == [
        ("head", 1, 1, 0),
        ("gpu", 2, 2, 8),
    ]
    assert (found["gpus_there"], found["gpus_wanted"], found["waits"]) == (16, 16, [])
    # A busy machine may answer late, and no kubelet runs a program in these pods.
    left = ("no answer within ", "exec in ")
    assert [why for why in found["unread"].values() if not why.startswith(left)] == []
    assert found["releases"]["raycluster"] == f"{stack.release('raycluster')} deployed, revision 1"


def cordon(kube: Kube, nodes: list[str]) -> Callable[[], object]:
    """Close nodes to new pods; the result opens them again."""
    kube.run("cordon", *nodes)
    return lambda: kube.run("uncordon", *nodes)


def relabel(kube: Kube, nodes: list[str]) -> Callable[[], object]:
    """Make the nodes look like another machine; the result undoes it."""
    kube.run("label", "node", *nodes, "cloud.google.com/gke-accelerator=nvidia-l4", "--overwrite")
    return lambda: kube.run("label", "node", *nodes, "cloud.google.com/gke-accelerator=nvidia-b200", "--overwrite")


def taint(kube: Kube, nodes: list[str]) -> Callable[[], object]:
    """Give the nodes a taint of a team; the result removes it."""
    kube.run("taint", "node", *nodes, "team=other:NoSchedule")
    return lambda: kube.run("taint", "node", *nodes, "team-")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(cordon, "with the taint node.kubernetes.io/unschedulable:NoSchedule", marks=pytest.mark.ci),
        (relabel, "without the label cloud.google.com/gke-accelerator=nvidia-b200 (it is nvidia-l4)"),
        (taint, "with the taint team=other:NoSchedule, which the pod does not tolerate"),
    ],
    ids=["cordoned", "of another machine", "tainted"],
)
def test_status_explains_why_no_node_fits_the_workers(
    stack: Stack, kube: Kube, change: Callable[[Kube, list[str]], Callable[[], object]], reason: str
) -> None:
    nodes = [name for each in kube.list("nodes") if (name := each["metadata"]["name"]).startswith("b200-")]
    undo = change(kube, nodes)
    try:
        stack.install("raycluster")
        found = until_waits(stack, f"4 {reason}")
        assert "it needs 8 nvidia.com/gpu" in found
        assert "The scheduler says: 0/10 nodes are available" in found
    finally:
        undo()


def test_status_explains_that_all_gpus_are_in_use(stack: Stack, new_stack: NewStack) -> None:
    other = new_stack("b200", "helm4", ray={"workers": {"replicas": 3}})
    other.install("storage", "raycluster")
    other.until_ready()
    try:
        stack.install("raycluster")
        found = until_waits(stack, "with only 0 of 8 nvidia.com/gpu left")
        assert "3 with only 0 of 8" in found or "4 with only 0 of 8" in found
    finally:
        other.uninstall_all()


def member(stack: Stack) -> str:
    """Make a kubeconfig of a service account that may only look into this namespace, without Secrets and nodes."""
    kube, name = stack.kube, stack.namespace
    kube.run("create", "serviceaccount", "reader", "-n", name)
    rules = ["--verb=get,list", "--resource=pods,events,persistentvolumeclaims,rayjobs.ray.io,rayclusters.ray.io"]
    kube.run("create", "role", "reader", "-n", name, *rules)
    kube.run("create", "rolebinding", "reader", "-n", name, "--role=reader", f"--serviceaccount={name}:reader")
    settings = yaml.safe_load(kube.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": kube.run("create", "token", "reader", "-n", name).strip()}
    path = stack.work / "member.kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    return str(path)


def test_a_team_member_sees_the_namespace_and_what_could_not_be_read(stack: Stack, kube: Kube) -> None:
    stack.install("raycluster")
    stack.until_ready()
    found = json.loads(ask("status", stack, "--format", "json", "--kubeconfig", member(stack)).stdout)
    assert (found["cluster"], found["gpus_there"], set(found["releases"].values())) == ("ready", 16, {"unknown"})
    assert {"nodes", "allPods", "releases"} <= set(found["unread"])
    assert 'cannot list resource "nodes"' in found["unread"]["nodes"]


def test_a_team_member_is_shown_why_a_worker_is_pending(stack: Stack, kube: Kube) -> None:
    """Without the nodes, the scheduler's words are what can be said."""
    nodes = [name for each in kube.list("nodes") if (name := each["metadata"]["name"]).startswith("b200-")]
    undo = cordon(kube, nodes)
    try:
        stack.install("raycluster")
        options = ("--format", "json", "--kubeconfig", member(stack))

        def said() -> str:
            shown = json.loads(ask("status", stack, *options).stdout)
            return "\n".join(each["why"] for each in shown["waits"])

        until(lambda: "0/10 nodes are available" in said(), "the scheduler's words", seconds=30, seen=said)
        causes = json.loads(ask("why", stack, *options).stdout)["causes"]
        assert causes[0]["id"] == "cannot-be-scheduled"
        assert "0/10 nodes are available" in json.dumps(causes[0])
    finally:
        undo()


@pytest.mark.ci
def test_a_bundle_gives_the_same_status_later_and_contains_no_secret(stack: Stack, kube: Kube) -> None:
    token, password = "hf_" + "a1B2" * 8, "correct-horse-battery"
    stack.with_values(ray={"head": {"env": {"MY_PASSWORD": {"value": password}}}}).install("raycluster")
    stack.until_ready()
    pod = stack.pods()[0]["metadata"]["name"]
    kube.run("annotate", "pod", pod, "-n", stack.namespace, f"note={token}", f"url=https://me:{password}@example.org/x")
    kube.run("annotate", "raycluster", stack.cluster, "-n", stack.namespace, f"arguments=--api-key={password}")
    path = stack.work / "evidence.tar.gz"
    now = ask("status", stack, "--bundle", str(path))
    assert "objects/pods.json" in now.stderr
    later = grpo("status", "--from", str(path))
    assert later.stdout == now.stdout
    with tarfile.open(path) as archive:
        texts = [archive.extractfile(entry).read().decode() for entry in archive]  # type: ignore[union-attr]
    assert any(pod in text for text in texts)
    assert not [word for word in (token, password, TOKEN) for text in (*texts, now.stdout, now.stderr) if word in text]


def test_an_unreachable_api_server_is_reported(stack: Stack) -> None:
    away = stack.work / "away.kubeconfig"
    settings = yaml.safe_load(stack.kube.kubeconfig.read_text())
    settings["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    away.write_text(yaml.safe_dump(settings))
    done = ask("status", stack, "--kubeconfig", str(away))
    assert done.returncode == 3
    assert "nothing can be read" in done.stderr
    assert "Traceback" not in done.stderr
