"""A rollback of a run: to an earlier attempt it is refused and nothing has changed, else it passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness.helm import Helm, HelmError
from harness.kube import Kube
from harness.stack import Stack
from harness.waiting import until

LABELS = {"stack": {"labels": {"cost-centre": "17"}}}


@pytest.fixture
def run(new_stack: NewStack, helm: Helm) -> Iterator[Stack]:
    """A run at its second attempt, revision 3 of its release. There is no cluster: only Helm and the API server act."""
    stack = new_stack("b200", helm.program.name)
    stack.install("grpo-job")
    stack.with_values(job={"attempt": 2}).upgrade("grpo-job")
    second = stack.with_values(job={"attempt": 2}, **LABELS)
    second.upgrade("grpo-job")
    yield second
    second.uninstall("grpo-job")


def identities(stack: Stack, kube: Kube) -> dict[str, str]:
    """Return the identities of the RayJobs and ConfigMaps of the run; hooks make theirs again with each upgrade."""
    items = [*kube.list("rayjobs", stack.namespace), *kube.list("configmaps", stack.namespace)]
    names = {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
    return {name: "" if "-is-over-" in name else uid for name, uid in names.items() if name.startswith(stack.job)}


def ended(stack: Stack, attempt: int) -> str:
    """Return the name of the ConfigMap that says that an attempt is over."""
    return f"{stack.job}-{attempt}-is-over-raise-job.attempt-or-remove-this-revision"


@pytest.mark.ci
def test_a_rollback_to_an_earlier_attempt_is_refused(run: Stack, kube: Kube) -> None:
    before = identities(run, kube)
    assert ended(run, 1) in before
    with pytest.raises(HelmError, match=r"-1-is-over-raise-job\.attempt"):
        run.roll_back("grpo-job", 1)
    assert identities(run, kube) == before
    mend(run, kube)
    run.upgrade("grpo-job")
    assert identities(run, kube) == before


def mend(run: Stack, kube: Kube) -> None:
    """Take the revision of a refused rollback away, as the notes say: Helm leaves it pending, and refuses upgrades."""
    release = run.release("grpo-job")
    assert run.helm.status(release, run.namespace) == "pending-rollback"
    remove_refused(run, kube)
    assert run.helm.status(release, run.namespace) == "deployed"


def remove_refused(run: Stack, kube: Kube) -> None:
    """Remove the revision that was refused."""
    which = f"owner=helm,name={run.release('grpo-job')},status notin (deployed,superseded)"
    kube.run("delete", "secret", "--namespace", run.namespace, "--selector", which)


@pytest.mark.ci
@pytest.mark.parametrize("back", ["rollback", "upgrade"])
def test_an_uninstall_removes_everything_or_is_refused(run: Stack, kube: Kube, back: str) -> None:
    """The newest revision is the refused one: its attempt is gone, and the one that runs is not its own."""
    before = identities(run, kube)
    first = run.with_values(job={"attempt": 1})
    ways = {"rollback": lambda: run.roll_back("grpo-job", 1), "upgrade": lambda: first.upgrade("grpo-job", safe=False)}
    with pytest.raises(HelmError, match=r"-1-is-over-"):
        ways[back]()
    for _ in range(2):
        with pytest.raises(HelmError, match=r"-1-is-over-raise-job\.attempt-or-remove-this-revision"):
            run.uninstall("grpo-job")
        assert identities(run, kube) == before
    remove_refused(run, kube)
    run.uninstall("grpo-job")
    assert identities(run, kube) == {}
    run.install("grpo-job")


def test_a_refused_uninstall_does_not_block_a_newer_attempt(run: Stack, kube: Kube) -> None:
    with pytest.raises(HelmError, match=r"-1-is-over-"):
        run.with_values(job={"attempt": 1}).upgrade("grpo-job", safe=False)
    with pytest.raises(HelmError, match=r"-1-is-over-"):
        run.uninstall("grpo-job")
    third = run.with_values(job={"attempt": 3})
    third.upgrade("grpo-job")
    assert kube.find("rayjob", third.run, third.namespace) is not None
    third.uninstall("grpo-job")
    assert identities(run, kube) == {}
    run.install("grpo-job")


def test_an_upgrade_to_an_earlier_attempt_is_refused(run: Stack, kube: Kube) -> None:
    """As after `--set job.attempt=2`, which the next upgrade forgets."""
    before = identities(run, kube)
    with pytest.raises(HelmError, match=r"-1-is-over-raise-job\.attempt"):
        run.with_values(job={"attempt": 1}).upgrade("grpo-job", safe=False)
    assert identities(run, kube) == before
    run.upgrade("grpo-job")


def test_an_attempt_that_cannot_be_created_leaves_the_previous_one_running(run: Stack, kube: Kube) -> None:
    """The rollback option takes everything back, and the same attempt may come again."""
    before = identities(run, kube)
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "runs"}}
    kube.apply([{**quota, "spec": {"hard": {"count/rayjobs.ray.io": "1"}}}], run.namespace)
    until(lambda: kube.get("resourcequota", "runs", run.namespace).get("status", {}).get("used"), "a quota that counts")
    third = run.with_values(job={"attempt": 3})
    with pytest.raises(HelmError, match="exceeded quota: runs"):
        third.upgrade("grpo-job")
    after = identities(run, kube)
    if run.helm.major == 4:
        assert (run.helm.status(run.release("grpo-job"), run.namespace), after) == ("deployed", before)
    # Helm 3 cannot patch an object of Ray's that its failed revision does not have, so it leaves the new lock.
    assert before.items() <= after.items()
    kube.delete("resourcequota", "runs", run.namespace)
    third.upgrade("grpo-job")
    assert kube.find("rayjob", third.run, third.namespace) is not None
    assert ended(run, 2) in identities(run, kube)


def test_uninstalling_leaves_no_attempt_behind(run: Stack, kube: Kube) -> None:
    run.uninstall("grpo-job")
    assert identities(run, kube) == {}
    run.install("grpo-job")


def test_a_rollback_within_an_attempt_passes(run: Stack, kube: Kube) -> None:
    before = identities(run, kube)
    run.roll_back("grpo-job", 2)
    assert identities(run, kube) == before
    job = kube.get("rayjob", run.run, run.namespace)
    assert "cost-centre" not in job["metadata"]["labels"]


def test_raising_the_attempt_again_keeps_older_attempts_closed(run: Stack, kube: Kube) -> None:
    third = run.with_values(job={"attempt": 3})
    third.upgrade("grpo-job")
    for revision, attempt in ((1, 1), (3, 2)):
        with pytest.raises(HelmError, match=rf"-{attempt}-is-over-raise-job\.attempt"):
            third.roll_back("grpo-job", revision)
        mend(third, kube)
    assert kube.find("rayjob", third.run, third.namespace) is not None


def test_an_upgrade_warns_that_a_started_attempt_is_not_restarted(run: Stack) -> None:
    said = run.helm.upgrade(run.release("grpo-job"), run.chart("grpo-job"), run.namespace, run.options())
    assert "If attempt 2 has started before, this upgrade starts nothing, even if the attempt has failed" in said
    assert "raise job.attempt" in said
