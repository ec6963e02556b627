"""The table of fields that never change: tests/e2e/test_locked.py asks an API server about the same cases."""

from __future__ import annotations

import copy
from typing import Any

import yaml

from postrender.manifests import apiserver
from postrender.values.merge import overlay
from tests.conftest import ROOT

CASES = yaml.safe_load((ROOT / "tests/e2e/locked.yaml").read_text(encoding="utf-8"))
# What our charts render besides, and why the API server lets all of it change.
OPEN = {
    "GKENetworkParamSet": "GKE's definition has no rule",
    "Network": "GKE's definition has no rule",
    "NetworkPolicy": "the update is validated as a new one",
    "Pod": "only hooks of Helm, which make it anew",
    "PodDisruptionBudget": "changes since Kubernetes 1.15",
    "PodMonitor": "the definition has no rule",
    "PodMonitoring": "the definition has no rule",
    "Service": "its addresses are the server's",
    "ServiceAccount": "nothing refers to its fields",
    "ValidatingAdmissionPolicy": "the update is validated as a new one",
    "ValidatingAdmissionPolicyBinding": "the update is validated as a new one",
}


def refusals(item: Any, change: Any) -> list[apiserver.Refusal]:
    return apiserver.refusals([copy.deepcopy(item)], [overlay(item, change)])


def test_the_table_rejects_what_the_api_server_rejects() -> None:
    told = set()
    for case in CASES:
        item = case["object"]
        assert apiserver.refusals([item], [item]) == []
        for change in case.get("refused", []):
            found = refusals(item, change)
            assert found, (item["kind"], change)
            told |= {each.source for each in found}
        for change in case.get("allowed", []):
            assert refusals(item, change) == [], (item["kind"], change)
    assert told == {row.source for row in apiserver.FIXED}


def test_every_kind_rendered_by_a_chart_is_classified() -> None:
    rendered = set()
    for path in (ROOT / "charts").glob("*/templates/*.yaml"):
        rendered |= {line.split()[1] for line in path.read_text("utf-8").splitlines() if line.startswith("kind: ")}
    fixed = {kind for row in apiserver.FIXED for kind in row.kinds}
    assert rendered == (rendered & fixed) | {*OPEN}
    assert not fixed & {*OPEN}


def test_only_changes_to_the_same_object_are_rejected_and_hooks_are_exempt() -> None:
    sealed = CASES[0]["object"]
    for metadata in ({"name": "other"}, {"namespace": "other"}, {"annotations": {"helm.sh/hook": "post-upgrade"}}):
        assert refusals(sealed, {"metadata": metadata, "data": {"a": "2"}}) == []
    (found,) = refusals(sealed, {"data": {"spec.yaml": "2"}})
    assert (found.object, found.fields) == ("ConfigMap/sealed", (("data", "spec.yaml"),))
    assert found.fix == "take the change back, or delete ConfigMap sealed first"


def test_a_suspended_job_may_move_its_pods_to_different_nodes() -> None:
    (job,) = [case["object"] for case in CASES if case["object"]["kind"] == "Job"]
    template = {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}
    assert refusals(job, template)
    assert refusals(overlay(job, {"spec": {"suspend": True}}), template) == []


def run(name: str, namespace: str = "rl", chart: str = "grpo-job") -> Any:
    metadata = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": chart}}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata}


def test_an_older_attempt_of_the_same_run_is_rejected() -> None:
    """A number is no text: 10 is newer than 9. Other runs, tasks and RayJobs of others count by themselves."""
    (found,) = apiserver.refusals([run("a-10"), run("a-8")], [run("a-9")])
    assert (found.object, found.fields) == ("RayJob/a-10", (("metadata", "name"),))
    assert found.why.startswith("attempt 9 of this run is older than attempt 10")
    assert found.fix.startswith("raise job.attempt above 10 ")
    for other in (
        run("a-10"),
        run("a-11"),
        run("a-fetch-1"),
        run("b-1"),
        run("a-1", "other"),
        run("a-1", chart="mine"),
    ):
        assert apiserver.refusals([run("a-10")], [other]) == []
    assert apiserver.refusals([run("a-10")], []) == []
    assert apiserver.refusals([], [run("a-1")]) == []
