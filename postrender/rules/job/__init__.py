"""Rules over what a job asks of its cluster, whatever its framework: the charts refuse the same, without the line."""

from __future__ import annotations

from postrender.rules.values import Book, Said, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from postrender.effective import Effective

_book = Book("job", "", "charts/grpo-job/templates/")
RULES = _book.rules
_PAID = "the chart refuses to render it: an install fails, and a review pipeline too"


@_book.rule(
    "more-nodes-than-cluster",
    "C11 K1",
    "=job.nodes =ray.workers.replicas",
    title="the job uses no more nodes than the cluster has",
    why=_PAID,
    fix="lower job.nodes, or raise ray.workers.replicas",
    source="_run.tpl at 1.0.0",
)
def _nodes(run: Effective) -> str | None:
    if not _trains(run) or run.nodes <= run.have:
        return None
    return f"job.nodes is {run.nodes}, and the cluster has {run.have} GPU nodes"


@_book.rule(
    "no-gpu-node",
    "R27",
    "=ray.workers.replicas",
    title="the cluster has a GPU node",
    why=_PAID,
    fix="set ray.workers.replicas to 1 or more, or ray.head.gpus.enabled to true",
    source="_head.tpl at 1.0.0",
)
def _gpus(run: Effective) -> str | None:
    # What is no number is for the schema to tell.
    is_number = isinstance(run.value("ray.workers.replicas"), int)
    return "the cluster has no GPU node" if is_number and run.have < 1 else None


@_book.rule(
    "nodes-paid-and-not-used",
    "R27",
    "=job.nodes =ray.workers.replicas",
    title="a cluster that ends with its job has the job's nodes",
    why=_PAID,
    fix="lower ray.workers.replicas, or raise job.nodes",
    source="_run.tpl at 1.0.0",
)
def _unused(run: Effective) -> str | None:
    unused = _trains(run) and run.value("job.cluster.mode") == "ephemeral" and 0 < run.nodes < run.have
    return f"job.nodes is {run.nodes}, and the job's own cluster has {run.have} GPU nodes" if unused else None


@_book.rule(
    "image-of-another-version",
    "K3",
    "=images.training.tag =job.version",
    title="the image holds the version that job.version names",
    why=_PAID,
    fix="set both, as values/frameworks does for the older versions",
    source="_nemo_rl.tpl at 1.0.0",
)
def _image(run: Effective) -> str | None:
    tag, repository = str(run.value("images.training.tag")), str(run.value("images.training.repository"))
    is_release = tag.startswith("v") and all(part.isdecimal() for part in tag[1:].split("."))
    if run.framework != "nemo-rl" or not is_release or not repository.endswith("/nemo-rl") or tag == run.version:
        return None
    return f"images.training.tag is {tag}, and job.version {run.version}"


@_book.rule(
    "head-without-cpu",
    "C12",
    "=ray.head.numCpus =job.version",
    title="before v0.7.0 NeMo RL reserves a CPU on every node, the head included",
    why="silent: the job waits for ever for a CPU on the head",
    fix="set ray.head.numCpus to 1, as values/frameworks does",
    source="_nemo_rl.tpl at 1.0.0",
)
def _head(run: Effective) -> Iterator[Said]:
    older = run.framework == "nemo-rl" and not run.since("v0.7.0")
    if older and run.value("ray.head.gpus.enabled") is not True and run.value("ray.head.numCpus") == 0:
        what = f"ray.head.numCpus is 0, and {run.version} waits for a CPU on the head"
        yield Said(what, proposed={"=ray.head.numCpus": 1})


@_book.rule(
    "derived-key-differs",
    "R27",
    "",
    title="what the chart derives is not written differently",
    why=_PAID,
    fix="remove the key, and change the value that it follows from",
    source="_config.tpl at 1.0.0",
)
def _derived(run: Effective) -> Iterator[Said]:
    if not _trains(run):
        return
    for path, given, value in _differing(run.given, run.derived):
        what = "a map of its own" if isinstance(value, dict) else shown(value)
        yield Said(f"{path} is {shown(given)}, and the chart derives {what}", keys=[path])


def _trains(run: Effective) -> bool:
    """Say whether the job trains: another task takes one node and no configuration of the framework."""
    return run.value("job.task") in (None, "train")


def _differing(given: Mapping[str, Any], derived: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Compare what is written, as the chart does: it knows no ${...}, and true is not 1."""
    for key in derived.keys() & given.keys():
        here, theirs, ours = f"{path}{key}", given[key], derived[key]
        if isinstance(theirs, dict) and isinstance(ours, dict):
            yield from _differing(theirs, ours, f"{here}.")
        elif theirs != ours or isinstance(theirs, bool) != isinstance(ours, bool):
            yield here, theirs, ours
