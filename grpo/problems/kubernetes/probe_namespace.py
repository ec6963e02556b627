"""The namespace, and the user's rights."""

from __future__ import annotations

from collections.abc import Iterator

from grpo.cluster.evidence import Evidence
from grpo.problems.probe import Result, failed, passed, skipped
from grpo.problems.problem import probe
from postrender.manifests.pods import mapping


@probe("namespace", "the namespace is missing", "namespaces")
def namespace(evidence: Evidence) -> Iterator[Result]:
    """Check that the namespace exists and is not being deleted."""
    name = evidence.expected.namespace
    by_hand = f"kubectl get namespace {name}"
    if said := absent(evidence):
        create = f"kubectl create namespace {name}"
        is_leaving = evidence.find("namespaces", name) is not None
        yield failed(said, fix=f"wait until it is gone, then {create}" if is_leaving else create, command=by_hand)
    else:
        yield passed(f"namespace {name} is there", command=by_hand)


def absent(evidence: Evidence) -> str:
    """Return why nothing can be created in the namespace: it does not exist, or it is being deleted."""
    if "namespaces" in evidence.unread:
        return ""
    name = evidence.expected.namespace
    item = evidence.find("namespaces", name)
    if item is None:
        return f"there is no namespace {name}"
    gone = mapping(item.get("status")).get("phase") == "Terminating"
    return f"namespace {name} is being deleted" if gone else ""


@probe("rights", "you may not install what the charts make", "reviews")
def rights(evidence: Evidence) -> Iterator[Result]:
    """Check the API server's answers for what Helm will do: create each kind, and keep its records as Secrets."""
    if "reviews" not in evidence.objects:
        yield skipped("the bundle was not saved by grpo doctor, and has no answers about your rights")
    for review in evidence.of("reviews"):
        what = mapping(mapping(review.get("spec")).get("resourceAttributes"))
        group = f".{what['group']}" if what.get("group") else ""
        place = f" in {what['namespace']}" if what.get("namespace") else ""
        scope = f" -n {what['namespace']}" if what.get("namespace") else ""
        text = f"{what.get('verb')} {what.get('resource')}{group}{place}"
        command = f"kubectl auth can-i {what.get('verb')} {what.get('resource')}{group}{scope}"
        if mapping(review.get("status")).get("allowed"):
            yield passed(f"you may {text}", command=command)
        else:
            fix = "ask an administrator to install this layer or to grant it (examples/team/rbac.yaml)"
            yield failed(f"you may not {text}", "", fix, command)
