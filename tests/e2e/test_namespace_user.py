"""A member of a team, as examples/team sets it up: edits one namespace and Ray objects in it, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from conftest import NewStack
from harness import suite
from harness.commands import Done, ask, grpo
from harness.helm import Helm, HelmError
from harness.kube import Kube, KubectlError, Manifest, dump
from harness.stack import Stack
from harness.waiting import until

USER = "mallory@example.org"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples/team"
# What raycluster and grpo-job render on machines other than this one.
ELSEWHERE = (("resource.k8s.io", "resourceclaimtemplates"), ("resource.nvidia.com", "computedomains"))


def example(name: str, namespace: str) -> list[Manifest]:
    """Return the objects of an example, in another namespace."""
    found = list(yaml.safe_load_all((EXAMPLES / name).read_text()))
    for one in found:
        if "namespace" in one["metadata"]:
            one["metadata"]["namespace"] = namespace
    return found


def group() -> str:
    """Return the group that the example names."""
    (name,) = {one["name"] for each in example("rbac.yaml", "") for one in each.get("subjects", [])}
    return str(name)


def as_member(stack: Stack) -> Stack:
    """Return the same stack, installed by a member of the team."""
    return stack.with_helm(replace(stack.helm, user=USER, groups=(group(),)))


def is_allowed(kube: Kube, namespace: str, api: str, resource: str) -> bool:
    """Ask the API server whether a member may create an object; the kind need not exist."""
    what = {"namespace": namespace, "verb": "create", "group": api, "resource": resource}
    spec = {"user": USER, "groups": [group()], "resourceAttributes": what}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return kube.run("create", "-f", "-", "-o", "jsonpath={.status.allowed}", stdin=dump([review])) == "true"


@pytest.fixture
def stack(new_stack: NewStack, helm: Helm, kube: Kube) -> Stack:
    """A stack in a team's namespace whose storage the administrator has installed."""
    stack = new_stack("b200", helm.program.name)
    kube.create([*example("rbac.yaml", stack.namespace), *example("quota.yaml", stack.namespace)])
    stack.install("storage")
    return stack


@pytest.mark.ci
def test_the_namespaced_layers_need_no_administrator(stack: Stack, kube: Kube) -> None:
    mine = as_member(stack)
    mine.install("raycluster")
    stack.until_ready()
    mine.install("grpo-job")
    mine.upgrade("raycluster")
    assert kube.find("rayjob", stack.run, stack.namespace) is not None
    assert [is_allowed(kube, stack.namespace, *kind) for kind in ELSEWHERE] == [True, True]
    mine.uninstall("grpo-job", "raycluster")
    stack.uninstall("storage")


@pytest.mark.ci
def test_the_cluster_scoped_layers_need_an_administrator(stack: Stack) -> None:
    """Otherwise the test above would prove nothing."""
    stack.uninstall("storage")
    mine = as_member(stack)
    for layer in ("network", "storage"):
        with pytest.raises(HelmError, match="forbidden"):
            mine.install(layer)


def test_the_quota_fits_one_stack_and_a_second_starts_once_it_is_gone(stack: Stack, kube: Kube) -> None:
    stack.install("raycluster")
    stack.until_ready()
    second = stack.with_values(stack={"name": "second"})
    second.install("storage", "raycluster")
    refusal = "exceeded quota: rl-team, requested: requests.cpu=32"
    until(lambda: refusal in kube.events(stack.namespace), "the head of a second stack refused")
    assert len(stack.pods()) == 3
    stack.uninstall("raycluster")
    # The operator tries again after growing intervals.
    second.until_ready(seconds=60)
    second.uninstall("raycluster", "storage")
    stack.uninstall("storage")


def test_the_quota_refuses_pods_without_the_default_requests(stack: Stack, kube: Kube) -> None:
    """A pod of somebody who states no requests; without the LimitRange the quota refuses it."""
    container = {"name": "shell", "image": "shell"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shell"}, "spec": {"containers": [container]}}
    kube.create([pod], stack.namespace, dry_run=True)
    kube.delete("limitrange", "rl-team", stack.namespace)
    with pytest.raises(KubectlError, match="must specify requests"):
        kube.create([pod], stack.namespace, dry_run=True)
    stack.uninstall("storage")


LOOKER = "looker"


@pytest.fixture
def looker(stack: Stack, kube: Kube) -> Iterator[Path]:
    """A kubeconfig of somebody who has live.yaml only, on a cluster whose pods are ready."""
    name = stack.namespace
    subject = {"kind": "ServiceAccount", "name": LOOKER, "namespace": name}
    objects = [{**one, "subjects": [subject]} if "subjects" in one else one for one in example("live.yaml", name)]
    kube.run("create", "serviceaccount", LOOKER, "-n", name)
    kube.create(objects)
    stack.install("raycluster", "grpo-job")
    stack.until_ready()
    settings = yaml.safe_load(kube.kubeconfig.read_text())
    settings["users"][0]["user"] = {"token": kube.run("create", "token", LOOKER, "-n", name).strip()}
    path = stack.work / "looker.kubeconfig"
    path.write_text(yaml.safe_dump(settings))
    yield path
    stack.uninstall_all()
    kube.run("delete", "clusterrole,clusterrolebinding", "grpo-live")


def refused(done: Done) -> set[str]:
    """Return the kinds that the API server did not let a command read."""
    assert done.returncode in (0, 1), done.stderr
    return {kind for kind, why in json.loads(done.stdout)["unread"].items() if "forbidden" in why.lower()}


@pytest.mark.parametrize("command", ["status", "why"])
def test_the_read_only_role_is_enough_for_the_commands(stack: Stack, looker: Path, command: str) -> None:
    done = ask(command, stack, "--format", "json", "--kubeconfig", str(looker))
    # Who may list Secrets reads their values; the names of Helm's releases are not worth that.
    assert refused(done) == {"releases", "secrets"}


def submits(stack: Stack) -> tuple[str, ...]:
    folder = stack.work / "code"
    folder.mkdir(exist_ok=True)
    (folder / "a.py").touch()
    return ("submit", str(folder))


@pytest.mark.parametrize("words", [lambda _: ("logs",), submits], ids=["logs", "submit"])
def test_the_read_only_role_allows_exec_in_the_head_pod(
    stack: Stack, kube: Kube, looker: Path, words: Callable[[Stack], tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """These pods have no kubelet: with the right the API server fails, without it it refuses."""
    monkeypatch.setenv("KUBECONFIG", str(looker))
    monkeypatch.setenv("PATH", f"{suite.TOOLS / 'bin'}:/usr/bin:/bin")
    files = [word for option in stack.options() for word in ("-f", option.removeprefix("--values="))]
    after = ["--", "true"] if words(stack)[0] == "submit" else []
    where = ["-n", stack.namespace, "--cluster", stack.cluster, "--helm", str(stack.helm.program)]

    def said() -> str:
        done = grpo(*words(stack), *files, *where, *after)
        assert done.returncode == 3, done.stdout
        return done.stderr

    assert "forbidden" not in said().lower()
    rules = [each for each in example("live.yaml", stack.namespace)[0]["rules"] if each["resources"] != ["pods/exec"]]
    kube.run("patch", "role", "rl-team-live", "-n", stack.namespace, "--type=merge", "-p", json.dumps({"rules": rules}))
    until(lambda: "forbidden" in said().lower(), "a refusal without pods/exec")


def test_the_read_only_role_cannot_change_anything(stack: Stack, kube: Kube, looker: Path) -> None:
    kinds = (("", "pods"), ("", "secrets"), ("ray.io", "rayjobs"), ("ray.io", "rayclusters"), ("apps", "deployments"))
    for group_, resource in kinds:
        for verb in ("create", "delete", "patch", *(["list", "get"] if resource == "secrets" else [])):
            what = f"{resource}.{group_}".rstrip(".")
            words = [
                "auth",
                "can-i",
                verb,
                what,
                "-n",
                stack.namespace,
                f"--as=system:serviceaccount:{stack.namespace}:{LOOKER}",
            ]
            assert kube.run(*words, ok=(0, 1)).strip() == "no", words
