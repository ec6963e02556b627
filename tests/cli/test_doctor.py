"""`grpo doctor` on bundles; tests/e2e/test_doctor.py has clusters and planted faults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.live import bundle, examination
from tests.live import bundles


def test_the_report_lists_passed_and_skipped_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "b.tar.gz")
    bundles.write(Path(path))
    assert cli.main(["doctor", "--from", path, "--show-commands"]) == 0
    shown = capsys.readouterr().out
    assert "not checked  nodes: nodes: forbidden\n" in shown
    assert "pass         operator: kuberay-system/kuberay-operator is available, version v1.6.2\n" in shown
    assert "by hand: kubectl get deployments -A -l app.kubernetes.io/name=kuberay-operator\n" in shown
    assert "not checked  rights: the bundle was not saved by grpo doctor" in shown


def test_a_failure_names_its_value_and_location(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = bundles.evidence()
    (head,) = evidence.expected.objects["raycluster"][0]["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
    head["env"] = [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}]
    evidence.expected.places["huggingface.secret.key"] = ("token", "site.yaml:3:5")
    evidence.objects["secrets"] = [{"metadata": {"name": "hf"}, "keys": ["other"]}]
    bundle.write(str(tmp_path / "b"), evidence)
    assert cli.main(["doctor", "--from", str(tmp_path / "b"), "--format", "json"]) == 1
    (found,) = [each for each in json.loads(capsys.readouterr().out) if each["check"] == "secrets"]
    assert (found["state"], found["at"]) == ("fail", "site.yaml:3:5")
    assert found["text"] == "Secret hf has no key token, only other"


def test_every_check_has_a_unique_id_and_reads_some_resource() -> None:
    checks = examination.checks()
    assert len({each.id for each in checks}) == len(checks) >= 15
    assert all(each.reads for each in checks)
