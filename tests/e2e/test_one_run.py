"""A release is one run: an upgrade to another one is refused, and so is another specification of the same attempt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness.helm import Helm, HelmError
from harness.kube import Kube, Manifest
from harness.stack import Stack

GUARD = "gemma3-gsm8k-has-its-run-install-a-second-release"
LEFT = {("rayjobs", "other-1"), ("configmaps", "other-1-locked-raise-job.attempt")}


@pytest.fixture
def run(new_stack: NewStack, helm: Helm) -> Iterator[Stack]:
    """A run in the release of its name. There is no cluster: only Helm and the API server act."""
    stack = new_stack("b200", helm.program.name)
    stack.install("grpo-job")
    yield stack
    stack.uninstall("grpo-job")


def objects(stack: Stack, kube: Kube) -> dict[tuple[str, str], str]:
    """Return the identities of the RayJobs and ConfigMaps of a namespace."""
    kinds = ("rayjobs", "configmaps")
    items = [(kind, item["metadata"]) for kind in kinds for item in kube.list(kind, stack.namespace)]
    return {(kind, item["name"]): item["uid"] for kind, item in items}


def replace_by(other: Stack, run: Stack, *, safe: bool = True) -> None:
    """Upgrade the release of a run with the values of another one."""
    run.helm.upgrade(run.release("grpo-job"), run.chart("grpo-job"), run.namespace, other.options(), safe)


def steps(run: Stack, number: int) -> Stack:
    """Change the specification of a run."""
    return run.with_values(job={"config": {"grpo": {"max_num_steps": number}}})


def rayjob(run: Stack, kube: Kube) -> Manifest:
    """Return the RayJob of a run without what others than Helm write."""
    job = kube.get("rayjob", run.run, run.namespace)
    return {"uid": job["metadata"]["uid"], "labels": job["metadata"]["labels"], "spec": job["spec"]}


@pytest.mark.ci
def test_a_changed_spec_is_refused_and_changes_nothing(run: Stack, kube: Kube) -> None:
    before = rayjob(run, kube)
    with pytest.raises(HelmError, match=r"locked-raise-job\.attempt"):
        steps(run, 11).upgrade("grpo-job")
    assert rayjob(run, kube) == before


def test_without_the_rollback_option_a_refused_spec_stays_in_the_rayjob(run: Stack, kube: Kube) -> None:
    """So the launcher compares the digest of the specification once more (tests/jobs/test_start.py)."""
    before = rayjob(run, kube)
    with pytest.raises(HelmError, match=r"locked-raise-job\.attempt"):
        steps(run, 11).upgrade("grpo-job", safe=False)
    after = rayjob(run, kube)
    assert after["uid"] == before["uid"]
    assert '"max_num_steps": 11' in after["spec"]["entrypoint"]


def test_unchanged_and_label_only_upgrades_pass(run: Stack, kube: Kube) -> None:
    before = rayjob(run, kube)
    run.upgrade("grpo-job")
    assert rayjob(run, kube) == before
    run.with_values(stack={"labels": {"cost-centre": "17"}}).upgrade("grpo-job")
    after = rayjob(run, kube)
    assert after["labels"]["cost-centre"] == "17"
    assert (after["uid"], after["spec"]) == (before["uid"], before["spec"])


def test_upgrading_to_a_newer_chart_leaves_the_attempt_running(run: Stack, kube: Kube) -> None:
    """As a GitOps fleet takes it: nothing of the values changed. A rollback passes as well."""
    before = rayjob(run, kube)
    newer = run.with_newer_programs("0.1.1")
    newer.upgrade("grpo-job")
    after = rayjob(run, kube)
    assert after["uid"] == before["uid"]
    assert after["labels"]["helm.sh/chart"] == "grpo-job-0.1.1"
    assert "'grpo-job 0.1.1, sha256 " in after["spec"]["entrypoint"]
    with pytest.raises(HelmError, match=r"locked-raise-job\.attempt"):
        steps(newer, 11).upgrade("grpo-job")
    newer.roll_back("grpo-job", 1)
    assert rayjob(run, kube) == before


@pytest.mark.parametrize("safe", [pytest.param(True, marks=pytest.mark.ci), False])
def test_a_different_run_in_the_release_is_refused_and_the_first_goes_on(run: Stack, kube: Kube, safe: bool) -> None:
    """As after a change of the recipe, which brings another job.name."""
    before, other = objects(run, kube), run.with_values(job={"name": "other"})
    with pytest.raises(HelmError, match=f"{GUARD}.* immutable"):
        replace_by(other, run, safe=safe)
    # Only Helm 4 takes a refused run back. The documentation says what to delete otherwise.
    left = set() if safe and run.helm.major == 4 else LEFT
    after = objects(run, kube)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == left
    for kind, name in left:
        kube.delete(kind, name, run.namespace)
    run.upgrade("grpo-job")
    assert objects(run, kube) == before
    other.install("grpo-job")
    assert objects(run, kube).keys() >= {*before, *LEFT}
    other.uninstall("grpo-job")


def test_a_task_in_the_release_of_a_training_run_is_refused(run: Stack, kube: Kube) -> None:
    before = objects(run, kube)
    with pytest.raises(HelmError, match=GUARD):
        replace_by(run.with_values(job={"task": "fetch"}), run)
    assert before.items() <= objects(run, kube).items()


def test_after_an_uninstall_the_release_can_start_a_different_run(run: Stack, kube: Kube) -> None:
    run.uninstall("grpo-job")
    words = (run.release("grpo-job"), run.chart("grpo-job"), run.namespace)
    run.helm.install(*words, run.with_values(job={"name": "other"}).options())
    assert kube.find("rayjob", "other-1", run.namespace) is not None
