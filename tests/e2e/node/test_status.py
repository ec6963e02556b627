"""`grpo status` and `grpo doctor` on nodes whose pods run."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from conftest import Installed
from harness.commands import ask, grpo
from harness.waiting import until

pytestmark = pytest.mark.shared


@pytest.mark.ci
def test_status_shows_the_record_of_a_run(shared: Installed, tmp_path: Path) -> None:
    """The record is read in the head's pod; the bundle still has it when the run is gone."""
    shared.trainer.behave(hold=True)
    run = shared.with_run("is-shown")
    run.install("grpo-job")
    run.until_job("RUNNING", 120)
    bundle = str(tmp_path / "evidence.tar.gz")

    def shown() -> dict[str, object]:
        done = ask("status", run, "--format", "json", "--bundle", bundle)
        assert done.returncode in (0, 1), done.stderr
        return dict(json.loads(done.stdout))

    found = until(
        lambda: now if (now := shown())["record"] and not now["unread"] else None, "a whole answer", 60, seen=shown
    )
    assert (found["cluster"], found["job"], found["gpus_there"]) == ("ready", "Running, RUNNING", 16)
    assert found["record"]["attempt"] == 1  # type: ignore[index]
    assert found["gpus_used"] == 16
    with tarfile.open(bundle) as archive:
        about = json.load(archive.extractfile("about.json"))  # type: ignore[arg-type]
    assert about["ray"]["status"] == "RUNNING"
    assert (found["waits"], found["unread"]) == ([], {})
    shared.trainer.finish()
    run.until_job("SUCCEEDED", 120)
    run.uninstall("grpo-job")
    later = json.loads(grpo("status", "--from", bundle, "--format", "json").stdout)
    assert later["record"] == found["record"]


@pytest.mark.ci
@pytest.mark.usefixtures("as_on_gke")
def test_the_doctor_finds_nothing_on_a_healthy_cluster(shared: Installed) -> None:
    """The operator, the claims, and the installer are pods and volumes here."""
    done = ask("doctor", shared.stack, "--format", "json")
    results = json.loads(done.stdout)
    # This API server is no GKE, and the policy of the network layer is an option.
    assert {each["check"] for each in results if each["state"] != "pass"} == {"gke-version", "pod-policy"}
    assert done.returncode == 0
    passed = {each["check"] for each in results}
    assert {"operator", "nodes", "room", "networks", "kinds", "installer", "secrets", "claims", "rights"} <= passed
