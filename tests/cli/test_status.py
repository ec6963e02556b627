"""`grpo status` on bundles; tests/e2e/test_status.py has clusters."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.cluster.evidence import Evidence
from grpo.live import bundle, client, collection
from tests.live import bundles


@pytest.fixture
def saved(tmp_path: Path) -> str:
    bundles.write(tmp_path / "b.tar.gz")
    return str(tmp_path / "b.tar.gz")


@pytest.fixture
def unpacked(saved: str) -> str:
    """A bundle after gunzip."""
    Path(saved).with_suffix("").write_bytes(gzip.decompress(Path(saved).read_bytes()))
    return saved.removesuffix(".gz")


@pytest.mark.parametrize("form", ["saved", "unpacked"])
@pytest.mark.parametrize("command", ["why", "watch", "report", "status", "doctor"])
def test_a_bundle_given_without_from_is_recognized(
    command: str, form: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    path = request.getfixturevalue(form)
    assert cli.main([command, path]) == 2
    shown = capsys.readouterr().err
    assert f" --from {path}\n" in shown
    assert "gunzip" not in shown


@pytest.mark.parametrize("command", ["why", "status"])
def test_a_bundle_may_be_uncompressed(command: str, unpacked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--from", unpacked]) == 0
    assert "stack s in namespace rl" in capsys.readouterr().out


def test_a_running_stack_is_shown_with_cluster_and_run(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--from", saved]) == 0
    shown = capsys.readouterr().out
    for line in (
        "stack s in namespace rl, context gke",
        "cluster: ready, 8 of 8 GPUs on nodes, 8 in use by the run",
        "  head  1 of 1 pods ready",
        "  gpu   1 of 1 pods ready",
        "run run-1: Running, RUNNING",
        "  attempt 1, running, step 7, reward 0.5, phase step",
        "  GPU-hours 4, lost 0.5, not saved yet 0.1",
        "  2026-11-25T11:00:00Z kl-blow-up: KL is 12",
        "  nodes  forbidden",
    ):
        assert line in shown.splitlines(), shown
    assert re.search(r"^  last known line .+ ago, record written .+ ago$", shown, re.MULTILINE), shown
    assert re.search(r"^  last checkpoint: step 6, .+ ago$", shown, re.MULTILINE), shown


@pytest.mark.parametrize(
    ("ray", "shown", "code"),
    [
        ({"status": "RUNNING", "message": "Job is running."}, "run run-1: Running, RUNNING", 0),
        ({"status": "SUCCEEDED", "message": ""}, "run run-1: Running, RUNNING, but Ray says SUCCEEDED", 0),
        ({"status": "FAILED", "message": "exit code 1"}, "  failed: Ray says FAILED: exit code 1", 1),
        ({"status": "STOPPED", "message": None}, "  failed: Ray says STOPPED", 1),
    ],
)
def test_the_job_status_comes_from_ray(
    ray: dict[str, Any], shown: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An operator that has stopped says for ever that a job runs."""
    evidence = bundles.evidence()
    evidence.ray = ray
    path = str(tmp_path / "r.tar.gz")
    bundle.write(path, evidence)
    assert cli.main(["status", "--from", path]) == code
    assert shown in capsys.readouterr().out.splitlines()


def test_json_reports_health_gpus_and_releases(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--from", saved, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["healthy"], found["gpus_there"], found["gpus_used"], found["record"]["step"]) == (True, 8, 8, 7)
    assert found["releases"] == {
        "network": "unknown",
        "raycluster": "s-ray deployed, revision 1",
        "grpo-job": "run deployed, revision 1",
    }


def test_the_release_named_by_a_storage_class_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plural of its kind ends in -es."""
    evidence = bundles.evidence()
    item = {"kind": "StorageClass", "metadata": {"name": "fast"}}
    evidence.expected.objects["raycluster"].insert(0, item)
    notes = {"annotations": {"meta.helm.sh/release-name": "of-the-team"}}
    evidence.objects["storageclasses"] = [{"metadata": {"name": "fast", **notes}}]
    labels = {"name": "of-the-team", "status": "deployed", "version": "3"}
    evidence.objects["releases"].append({"metadata": {"name": "of-the-team.v3", "labels": labels}})
    bundle.write(str(tmp_path / "b"), evidence)
    cli.main(["status", "--from", str(tmp_path / "b"), "--format", "json"])
    assert json.loads(capsys.readouterr().out)["releases"]["raycluster"] == "of-the-team deployed, revision 3"


def test_show_commands_prints_a_kubectl_or_helm_command_for_each_part(
    saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below the part that they show; kubectl and helm are given names that exist."""
    assert cli.main(["status", "--from", saved, "--show-commands"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = {lines[at - 1].split()[0]: line for at, line in enumerate(lines) if line.startswith("  by hand: ")}
    assert shown["run"] == "  by hand: kubectl describe rayjob run-1 -n rl"
    assert shown["gpu"].startswith("  by hand: kubectl get pods -n rl -l grpo-charts/stack=s ")
    assert shown["cluster:"] == "  by hand: kubectl get rayclusters s-ray -n rl"
    (record,) = [line for line in lines if "status.json" in line]
    assert record.endswith(" -c ray-head -- cat /data/runs/run/status.json")
    cli.main(["status", "--from", saved])
    assert "by hand" not in capsys.readouterr().out


def test_a_failed_run_is_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = bundles.evidence()
    status = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "reason": "AppFailed", "message": "exit code 1"}
    evidence.objects["rayjobs"][0]["status"] = status
    bundle.write(str(tmp_path / "b"), evidence)
    assert cli.main(["status", "--from", str(tmp_path / "b")]) == 1
    assert "  failed: AppFailed: exit code 1" in capsys.readouterr().out


def test_a_deleted_run_is_not_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = bundles.evidence()
    evidence.objects["rayjobs"] = []
    bundle.write(str(tmp_path / "b"), evidence)
    assert cli.main(["status", "--from", str(tmp_path / "b")]) == 1
    assert "run run-1: not there" in capsys.readouterr().out


def test_a_rayjob_without_its_release_is_left_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As after an uninstall at a revision that has another attempt. What is not Helm's, or not ours, is none."""
    labels = {"helm.sh/chart": "grpo-job-0.1.0", "app.kubernetes.io/part-of": "s"}
    about = {"name": "old-2", "labels": labels, "annotations": {"meta.helm.sh/release-name": "old"}}
    command = "kubectl delete rayjob/old-2 configmap/old-2-locked-raise-job.attempt --ignore-not-found -n rl"
    line = f"  RayJob old-2, because its release old is gone; end it: {command}"
    record: dict[str, Any] = {"metadata": {"name": "sh.helm.release.v1.old.v1", "labels": {"name": "old"}}}
    flux = {**labels, "helm.toolkit.fluxcd.io/name": "old"}
    for changed, more, found in (
        ({}, {}, True),
        ({}, {"releases": [record]}, False),
        ({}, {"configmaps": [record]}, False),
        ({"annotations": {}}, {}, False),
        ({"labels": flux}, {}, False),
        ({"labels": {**labels, "app.kubernetes.io/part-of": "t"}}, {}, False),
        ({"labels": {**labels, "helm.sh/chart": "theirs-1"}}, {}, False),
        ({"deletionTimestamp": "2026-11-25T12:00:00Z"}, {}, False),
    ):
        evidence = bundles.evidence()
        evidence.objects["configmaps"] = []
        evidence.objects["rayjobs"].append({"metadata": {**about, **changed}, "spec": {}})
        for kind, items in more.items():
            evidence.objects[kind] += items
        bundle.write(str(tmp_path / "b"), evidence)
        assert cli.main(["status", "--from", str(tmp_path / "b")]) == int(found)
        assert (line in capsys.readouterr().out.splitlines()) is found, changed
    del evidence.objects["releases"]
    evidence.objects["rayjobs"][-1] = {"metadata": about, "spec": {}}
    bundle.write(str(tmp_path / "b"), evidence)
    cli.main(["status", "--from", str(tmp_path / "b")])
    assert line not in capsys.readouterr().out.splitlines()


def test_a_missing_worker_is_counted_as_not_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = bundles.evidence()
    del evidence.objects["pods"][1]
    bundle.write(str(tmp_path / "b"), evidence)
    assert cli.main(["status", "--from", str(tmp_path / "b")]) == 1
    assert "  gpu   0 of 1 pods ready  1 not created yet" in capsys.readouterr().out


def test_watch_refreshes_until_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The second answer has another step; Ctrl-C comes in the second pause."""
    pauses: list[float] = []

    def collect(*_: object, **__: object) -> Evidence:
        evidence = bundles.evidence()
        evidence.record["step"] = 7 + len(pauses)
        return evidence

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(client, "connect", lambda **_: contextlib.nullcontext(SimpleNamespace(namespace="rl")))
    monkeypatch.setattr(collection, "collect", collect)
    monkeypatch.setattr(time, "sleep", sleep)
    assert cli.main(["status", "--accelerator", "b200", "--watch", "3"]) == 130
    shown, said = capsys.readouterr()
    assert (pauses, said) == ([3, 3], "")
    assert re.findall(r"^  attempt 1, running, (step \d)", shown, re.MULTILINE) == ["step 7", "step 8"]
    first, second = shown.split("\n\nstack s in namespace rl")
    assert first.startswith("stack s in namespace rl")
    assert "step 8" in second


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_a_file_that_is_not_a_bundle_is_refused(
    tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "b.tar.gz"
    if content is None:
        with tarfile.open(path, "w:gz"):
            pass
    else:
        path.write_bytes(content)
    assert cli.main(["status", "--from", str(path)]) == 2
    assert "this is not a grpo bundle" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("about.json", []),
        ("about.json", {"format": 1}),
        ("about.json", {"format": "2", "context": "c", "time": 1.0, "unread": {}, "record": {}}),
        ("about.json", {"format": 1, "context": "c", "time": "now", "unread": {}, "record": {}}),
        ("expected.json", {}),
        ("expected.json", []),
        ("expected.json", {"name": "s", "namespace": "rl", "releases": {}, "objects": {"grpo-job": ["x"]}}),
        ("expected.json", {"name": "s", "namespace": "rl", "releases": [], "objects": {}}),
        ("expected.json", {"name": "s", "namespace": "rl", "releases": {"network": None}, "objects": {}}),
        ("expected.json", {"name": "s", "namespace": "rl", "releases": {}, "objects": {}, "places": {"a": ["b"]}}),
        ("about.json", {"format": 1, "context": "c", "time": 1.0, "unread": {"nodes": None}, "record": {}}),
        ("logs.json", ["x"]),
        ("logs.json", {"driver": None}),
        ("objects/pods.json", {"items": []}),
        ("objects/pods.json", ["x"]),
    ],
)
def test_a_damaged_bundle_is_refused(
    saved: str, name: str, content: object, capsys: pytest.CaptureFixture[str]
) -> None:
    put(saved, name, content)
    assert cli.main(["why", "--from", saved]) == 2
    assert f"{saved}: this is not a grpo bundle, or a damaged one\n  fix: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "record",
    [
        {"gpuHours": {"spent": "x", "lost": None, "unsaved": [1]}},
        {"gpuHours": {"spent": 10**400}, "reward": 10**400},
        {"findings": ["x", {"text": 1}, None]},
        {"findings": {"a": 1}},
        {"checkpoint": {"step": {}, "time": []}, "heartbeat": 1, "updated": {}},
    ],
)
def test_a_record_with_unexpected_types_is_shown_as_is(saved: str, record: dict[str, Any]) -> None:
    """A program in a pod writes it, and an object may have been written by anybody."""
    evidence = bundles.evidence()
    evidence.record |= record
    evidence.objects["allPods"] = [{"metadata": {"name": "a"}, "spec": {"nodeName": {"a": 1}}}]
    Path(saved).unlink()
    bundle.write(saved, evidence)
    for command in ("status", "doctor", "why"):
        assert cli.main([command, "--from", saved]) in (0, 1)


def test_a_bundle_with_an_oversized_header_is_refused(
    saved: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bundle, "_MAX_BYTES", 1 << 20)
    with tarfile.open(saved, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("about.json")
        entry.pax_headers = {"comment": "x" * (1 << 20)}
        archive.addfile(entry)
    assert cli.main(["status", "--from", saved]) == 2
    assert "this is not a grpo bundle" in capsys.readouterr().err


def test_a_truncated_bundle_is_refused(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(saved).write_bytes(Path(saved).read_bytes()[:-200])
    assert cli.main(["status", "--from", saved]) == 2
    assert "this is not a grpo bundle, or a damaged one" in capsys.readouterr().err


def test_a_bundle_from_a_newer_version_is_refused(saved: str, capsys: pytest.CaptureFixture[str]) -> None:
    put(saved, "about.json", {"format": 2})
    assert cli.main(["status", "--from", saved]) == 2
    assert "a newer version of grpo has made this bundle" in capsys.readouterr().err


def put(path: str, name: str, content: object) -> None:
    """Replace a file in a bundle."""
    with tarfile.open(path) as archive:
        members = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    assert name in members
    with tarfile.open(path, "w:gz") as archive:
        for each, data in {**members, name: json.dumps(content).encode()}.items():
            entry = tarfile.TarInfo(each)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["status"], 2, "SITE.yaml, or grpo status RUN --namespace NAME"),
        (["status", "--from", "missing.tar.gz"], 3, "there is no such file"),
        (["doctor", "--from", "."], 3, ".: cannot be read: Is a directory\n  fix: name a file that you may read"),
        (["status", "--from", "b", "--watch", "3"], 2, "a bundle does not change"),
        (["status", "--from", "b", "-n", "rl"], 2, "--from reads a bundle"),
        (
            ["status", "--accelerator", "b200", "--kubeconfig", "missing"],
            3,
            "there is no kubeconfig: missing does not exist",
        ),
    ],
)
def test_wrong_command_lines_are_refused(
    words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == code
    assert message in capsys.readouterr().err
