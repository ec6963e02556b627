"""The NetworkPolicy of a cluster, enforced: who reaches Ray, and who does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import Installed, NewStack, installed
from harness.connections import address, connects
from harness.helm import HelmError
from harness.kube import Kube, KubectlError, Manifest
from harness.realnode.cluster import OPERATOR
from harness.waiting import until

JOBS, GCS, CLIENT = 8265, 6379, 10001
POLICY = {"networkPolicy": {"operatorNamespace": OPERATOR}}


@pytest.fixture(scope="module")
def ready(new_stack: NewStack) -> Iterator[Installed]:
    """A stack whose job API is open to the operator's namespace alone, and asks for no token."""
    with installed(new_stack("b200", "helm4", ray={**POLICY, "tokenAuth": {"enabled": False}})) as found:
        yield found


@pytest.fixture(scope="module")
def stranger(ready: Installed, kube: Kube) -> Manifest:
    """A pod of another namespace."""
    kube.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strangers"}}])
    container = {"name": "shell", "image": "nvcr.io/nvidia/nemo-rl:v0.7.0", "command": ["sleep", "3600"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    kube.create([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec}], "strangers")

    def running() -> Manifest | None:
        pod = kube.get("pod", "stranger", "strangers")
        return pod if pod["status"]["phase"] == "Running" else None

    return until(running, "the stranger", 60)


def test_the_operator_runs_a_job_and_the_token_waits_for_its_end(ready: Installed, kube: Kube) -> None:
    """The hook asks the head that runs, whatever the new release says of the token."""
    ready.trainer.behave(hold=True)
    run = ready.with_run("policy")
    run.install("grpo-job")
    until(ready.trainer.calls, "a trainer", 180)
    with pytest.raises(HelmError, match=f"{run.cluster}-idle-check"):
        run.with_values(ray={"tokenAuth": {"enabled": True}}).upgrade("raycluster", safe=False)
    said = kube.logs(kube.get("pod", f"{run.cluster}-idle-check", run.namespace))
    assert f"{run.job_status()['jobId']} (RUNNING)" in said
    ready.trainer.finish()
    run.until_job("SUCCEEDED", 180)
    run.uninstall("grpo-job")


def test_the_pods_of_the_cluster_reach_each_other(ready: Installed, kube: Kube) -> None:
    head, *workers = ready.stack.pods()
    assert [connects(kube, worker, address(head), GCS) for worker in workers] == [True, True]


@pytest.mark.parametrize("port", [JOBS, GCS, CLIENT])
def test_a_stranger_does_not(ready: Installed, kube: Kube, stranger: Manifest, port: int) -> None:
    head = ready.stack.pods()[0]
    assert connects(kube, head, address(head), port), "the port is closed for everybody"
    assert not connects(kube, stranger, address(head), port)


@pytest.mark.parametrize("mode", ["existing", "ephemeral"])
def test_without_the_operators_token_no_head_starts(
    mode: str, ready: Installed, kube: Kube, stranger: Manifest
) -> None:
    """KubeRay 1.5.0 or older drops authOptions. What is left of the pod must not become a cluster that is open."""
    stack = ready.stack.with_values(ray={"tokenAuth": {"enabled": True}}, job={"cluster": {"mode": mode}})
    layer, kind = ("raycluster", "RayCluster") if mode == "existing" else ("grpo-job", "RayJob")
    spec = next(item for item in stack.render(layer) if item["kind"] == kind)["spec"]
    head = spec.get("rayClusterSpec", spec)["headGroupSpec"]["template"]["spec"]["containers"][0]
    given = [f"{entry['name']}={entry['value']}" for entry in head["env"] if entry["name"].startswith("RAY_")]
    refusal = "Token authentication is enabled but no authentication token was found"
    with pytest.raises(KubectlError, match=refusal):
        kube.execute(stranger, "env", *given, "ray", "start", "--head", "--num-cpus=1")


def test_the_stranger_is_not_cut_off_from_everything(ready: Installed, kube: Kube, stranger: Manifest) -> None:
    """Otherwise the refusals above would show nothing."""
    operator = kube.list("pods", OPERATOR)[0]
    assert connects(kube, stranger, address(operator), 8080)
