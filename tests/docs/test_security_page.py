"""The page about security: each finding of the scanner has its reason there, and the scanner sees the pods of Ray."""

from __future__ import annotations

import yaml

from tests.conftest import ROOT
from tests.scan import PAGE, failed, problems, with_pods

REPORT = {"results": {"failed_checks": [{"check_id": "CKV_K8S_0", "check_name": "No pods", "resource": "Pod.a"}]}}


def test_findings_without_a_reason_and_reasons_without_a_finding_are_named() -> None:
    found = failed([REPORT, REPORT])
    assert problems(found, "| `CKV_K8S_0` | all | because |") == []
    assert problems(found, "| `CKV_K8S_1` | all | because |") == [
        "CKV_K8S_0 (No pods) has no reason on the page: Pod.a",
        "CKV_K8S_1 is on the page, and nothing is found",
    ]
    assert len(problems({}, PAGE.read_text("utf-8"))) > 5


def test_the_scanner_sees_head_and_workers() -> None:
    text = (ROOT / "tests/goldens/gemma3-27b-gsm8k-b200/raycluster.yaml").read_text("utf-8")
    seen = [each for each in with_pods(each for each in yaml.safe_load_all(text) if each) if each["kind"] == "Pod"]
    names = {container["name"] for pod in seen for container in pod["spec"]["containers"]}
    assert {"ray-head", "ray-worker"} < names
    assert all(pod["metadata"]["namespace"] for pod in seen if pod["spec"]["containers"][0]["name"] == "ray-head")
