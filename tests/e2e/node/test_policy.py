"""The NetworkPolicy of a cluster, enforced, and its token: who reaches Ray, and who does not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import POLICY, Installed, NewStack, installed
from harness.connections import address, connects
from harness.helm import HelmError
from harness.kube import Kube, KubectlError, Manifest
from harness.realnode.cluster import OPERATOR
from harness.waiting import until

JOBS, GCS, CLIENT = 8265, 6379, 10001
ASK = """
import os, sys, urllib.error, urllib.request
shown = {"own": os.environ["RAY_AUTH_TOKEN"], "wrong": "f" * 32}
headers = {"Authorization": f"Bearer {shown[sys.argv[1]]}"} if sys.argv[1] in shown else {}
request = urllib.request.Request("http://127.0.0.1:8265/api/jobs/", headers=headers)
try:
    print(urllib.request.urlopen(request).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture
def without_token(new_stack: NewStack) -> Iterator[Installed]:
    """A stack whose job API is open to the operator's namespace alone, as that of `shared`, and asks for no token."""
    with installed(new_stack("b200", "helm4", ray={**POLICY, "tokenAuth": {"enabled": False}})) as found:
        yield found


@pytest.fixture(scope="module")
def stranger(kube: Kube) -> Manifest:
    """A pod of another namespace."""
    kube.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strangers"}}])
    container = {"name": "shell", "image": "nvcr.io/nvidia/nemo-rl:v0.7.0", "command": ["sleep", "3600"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    kube.create([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec}], "strangers")

    def running() -> Manifest | None:
        pod = kube.get("pod", "stranger", "strangers")
        return pod if pod["status"]["phase"] == "Running" else None

    return until(running, "the stranger", 60)


def test_the_operator_runs_a_job_and_a_token_change_waits_for_its_end(without_token: Installed, kube: Kube) -> None:
    """The hook asks the head that runs, whatever the new release says of the token."""
    trainer = without_token.trainer
    trainer.behave(hold=True)
    run = without_token.with_run("policy")
    run.install("grpo-job")
    until(trainer.calls, "a trainer", 180)
    with pytest.raises(HelmError, match=f"{run.cluster}-idle-check"):
        run.with_values(ray={"tokenAuth": {"enabled": True}}).upgrade("raycluster", safe=False)
    said = kube.logs(kube.get("pod", f"{run.cluster}-idle-check", run.namespace))
    assert f"{run.job_status()['jobId']} (RUNNING)" in said
    trainer.finish()
    run.until_job("SUCCEEDED", 180)
    run.uninstall("grpo-job")


@pytest.mark.ci
@pytest.mark.shared
@pytest.mark.parametrize(("token", "answer"), [("own", "200"), ("wrong", "403"), ("none", "401")])
def test_the_head_answers_only_requests_with_its_token(shared: Installed, kube: Kube, token: str, answer: str) -> None:
    assert kube.execute(shared.stack.pods()[0], "python3", "-c", ASK, token).strip() == answer


@pytest.mark.ci
@pytest.mark.shared
def test_the_pods_of_the_cluster_reach_each_other(shared: Installed, kube: Kube) -> None:
    head, *workers = shared.stack.pods()
    assert [connects(kube, worker, address(head), GCS) for worker in workers] == [True, True]


@pytest.mark.ci
@pytest.mark.shared
@pytest.mark.parametrize("port", [JOBS, GCS, CLIENT])
def test_a_pod_outside_the_cluster_cannot_connect(shared: Installed, kube: Kube, stranger: Manifest, port: int) -> None:
    head = shared.stack.pods()[0]
    assert connects(kube, head, address(head), port), "the port is closed for everybody"
    assert not connects(kube, stranger, address(head), port)


@pytest.mark.ci
@pytest.mark.shared
@pytest.mark.parametrize("mode", ["existing", "ephemeral"])
def test_without_the_operators_token_no_head_starts(
    mode: str, shared: Installed, kube: Kube, stranger: Manifest
) -> None:
    """KubeRay 1.5.0 or older drops authOptions. What is left of the pod must not become a cluster that is open."""
    stack = shared.stack.with_values(job={"cluster": {"mode": mode}})
    layer, kind = ("raycluster", "RayCluster") if mode == "existing" else ("grpo-job", "RayJob")
    spec = next(item for item in stack.render(layer) if item["kind"] == kind)["spec"]
    head = spec.get("rayClusterSpec", spec)["headGroupSpec"]["template"]["spec"]["containers"][0]
    given = [f"{entry['name']}={entry['value']}" for entry in head["env"] if entry["name"].startswith("RAY_")]
    refusal = "Token authentication is enabled but no authentication token was found"
    with pytest.raises(KubectlError, match=refusal):
        kube.execute(stranger, "env", *given, "ray", "start", "--head", "--num-cpus=1")


@pytest.mark.ci
@pytest.mark.shared
def test_a_pod_outside_the_cluster_can_connect_elsewhere(kube: Kube, stranger: Manifest) -> None:
    """Otherwise the refusals above would show nothing."""
    operator = kube.list("pods", OPERATOR)[0]
    assert connects(kube, stranger, address(operator), 8080)
