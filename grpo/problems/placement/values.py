"""Rules over what any framework's job needs from its cluster: the charts reject the same, but without a line number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo.problems.checks import quoted
from grpo.problems.topic import Topic
from grpo.values import images
from postrender import secrets
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig

TOPIC = Topic("job", framework="", source="charts/grpo-job/templates/")
_FIXED = "remove the key: the chart sets it"
# A release has three numbers: v0.7.0.
_DOTS = 2


@TOPIC.problem("=job.nodes =ray.workers.replicas", fails=Fails.AT_RENDER, source="_run.tpl at 0.1.0")
def more_nodes_than_cluster(run: RunConfig) -> str | None:
    """the job uses more nodes than the cluster has

    Fix: lower job.nodes, or raise ray.workers.replicas
    """
    if not run.trains or run.wanted <= run.have:
        return None
    return f"job.nodes is {run.wanted}, and the cluster has {run.have} GPU nodes"


@TOPIC.problem("=ray.workers.replicas", fails=Fails.AT_RENDER, source="_head.tpl at 0.1.0")
def no_gpu_node(run: RunConfig) -> str | None:
    """the cluster has no GPU node

    Fix: set ray.workers.replicas to 1 or more, or ray.head.gpus.enabled to true
    """
    # The schema reports what is not a number.
    is_number = isinstance(run.value("ray.workers.replicas"), int)
    return "the cluster has no GPU node" if is_number and run.have < 1 else None


@TOPIC.problem("=job.nodes =ray.workers.replicas", fails=Fails.AT_RENDER, source="_run.tpl at 0.1.0")
def nodes_paid_and_not_used(run: RunConfig) -> str | None:
    """a cluster that is deleted with its job has unused nodes

    Fix: lower ray.workers.replicas, or raise job.nodes
    """
    unused = run.trains and run.value("job.cluster.mode") == "ephemeral" and 0 < run.nodes < run.have
    return f"job.nodes is {run.nodes}, and the job's own cluster has {run.have} GPU nodes" if unused else None


@TOPIC.problem(
    "=stack.names.cluster =job.cluster.mode", fails=Fails.SILENT, source="rayjob.yaml at 0.1.0", severity=WARNING
)
def cluster_not_used(run: RunConfig) -> str | None:
    """stack.names.cluster names a cluster, but the job creates another one

    Why: the job creates its own cluster and pays for its nodes, while the named cluster stays unused
    Fix: set job.cluster.mode to existing, or remove stack.names.cluster
    """
    name = run.value("stack.names.cluster")
    if not name or run.value("job.cluster.mode") != "ephemeral":
        return None
    return f"stack.names.cluster is {name}, and job.cluster.mode is ephemeral"


@TOPIC.problem("=images.training.tag =job.version", fails=Fails.AT_RENDER, source="_nemo_rl.tpl at 0.1.0")
def image_of_another_version(run: RunConfig) -> str | None:
    """the image's version differs from job.version

    Fix: set both to the same version, as values/frameworks does
    """
    tag = _release(run)
    is_whole = tag.startswith("v") and tag.count(".") == _DOTS
    return f"images.training.tag is {tag}, and job.version {run.version}" if is_whole else None


@TOPIC.problem("=images.training.tag", fails=Fails.AT_START, source="_nemo_rl.tpl at 0.1.0")
def image_not_published(run: RunConfig) -> Iterator[Finding]:
    """the tag of NVIDIA's image does not have the form of a release

    Why: NVIDIA publishes no such image, so the pods stay in ImagePullBackOff
    Fix: use a release's tag: v and three numbers, as in job.version
    """
    tag = _release(run)
    # A registry of one's own may have such a tag.
    is_theirs = images.is_published(run.value("images.training.repository"))
    if tag and is_theirs and not (tag.startswith("v") and tag.count(".") == _DOTS):
        yield Finding(f"images.training.tag is {tag}", proposed={"=images.training.tag": run.version})


def _release(run: RunConfig) -> str:
    """Return the tag of NeMo RL's image if it names a different release than job.version; otherwise an empty text."""
    tag, repository = str(run.value("images.training.tag")), str(run.value("images.training.repository"))
    is_release = all(part.isdecimal() for part in tag.removeprefix("v").split("."))
    is_other = run.framework == "nemo-rl" and repository.endswith("/nemo-rl") and tag != run.version
    return tag if is_release and is_other else ""


@TOPIC.problem("=ray.head.numCpus =job.version", fails=Fails.AT_SETUP, source="_nemo_rl.tpl at 0.1.0")
def head_without_cpu(run: RunConfig) -> Iterator[Finding]:
    """before v0.7.0 NeMo RL reserves a CPU on the head, but ray.head.numCpus is 0

    Why: the job waits forever for a CPU on the head
    Fix: set ray.head.numCpus to 1, as values/frameworks does
    """
    older = run.framework == "nemo-rl" and not run.since("v0.7.0")
    if older and run.value("ray.head.gpus.enabled") is not True and run.value("ray.head.numCpus") == 0:
        what = f"ray.head.numCpus is 0, and {run.version} waits for a CPU on the head"
        yield Finding(what, proposed={"=ray.head.numCpus": 1})


@TOPIC.problem(
    "=accelerator.gpusPerNode =accelerator.name",
    fails=Fails.AT_RENDER,
    source="charts/grpo-job/templates/_run.tpl at 0.1.0",
)
def profile_without_gpus(run: RunConfig) -> str | None:
    """a training job runs on machines without GPUs

    Fix: choose another profile; this one is only for trying out storage, secrets and Ray
    """
    none = run.value("job.task") in (None, "train", "evaluate") and run.value("accelerator.gpusPerNode") == 0
    return f"the machines of profile {run.accelerator} have no GPUs" if none else None


@TOPIC.problem(
    "=images.training.arm64 =images.training.tag =accelerator.name",
    fails=Fails.AT_RENDER,
    source="charts/common/templates/_worker.tpl at 0.1.0",
)
def image_for_arm64(run: RunConfig) -> str | None:
    """the nodes are arm64, but the image is not marked as an arm64 image

    Fix: choose an arm64 image, and set images.training.arm64 to true
    """
    arm = run.value("accelerator.architecture") == "arm64" and run.value("images.training.arm64") is not True
    return f"images.training.arm64 is not true, and the nodes of {run.accelerator} are arm64" if arm else None


@TOPIC.problem("", fails=Fails.EXPOSES, source="charts/common/templates/_environment.tpl at 0.1.0")
def secret_by_value(run: RunConfig) -> Iterator[Finding]:
    """the values contain a secret instead of naming a Kubernetes Secret

    Why: values end up in Git, in the release's Secret and in logs
    Fix: put it into a Kubernetes Secret, and name that Secret and its key under ray.env
    """
    for section in ("job.env", "ray.env", "ray.head.env", "ray.workers.env"):
        given = run.value(section)
        for name, entry in given.items() if isinstance(given, dict) else ():
            value = entry.get("value") if isinstance(entry, dict) else entry
            if isinstance(value, str) and secrets.is_literal(name, value):
                yield Finding(f"{section}.{name} has a secret in the values", keys=[f"={section}.{name}"])
    for path, value in _texts(run.given):
        if secrets.is_literal(path.rpartition(".")[2], value) and "${" not in value:
            yield Finding(f"{path} has a secret in the values", keys=[path])


def _texts(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _texts(value, f"{path}{key}.")
        elif isinstance(value, str):
            yield f"{path}{key}", value


@TOPIC.problem("", fails=Fails.AT_RENDER, source="_config.tpl at 0.1.0")
def derived_key_differs(run: RunConfig) -> Iterator[Finding]:
    """a key's value differs from the one that the chart derives for it

    Fix: remove the key, and change the value that it is derived from
    """
    if not run.trains:
        return
    for path, given, value in _differing(run.given, run.derived):
        what = "a map of its own" if isinstance(value, dict) else quoted(value)
        is_secret = secrets.names_secret(path.rpartition(".")[2])
        words = "another text" if is_secret else f"{quoted(given)}, and the chart derives {what}"
        source = run.source_of(path)
        fix = f"remove the key; it is derived from {source}: change that" if source else _FIXED
        yield Finding(f"{path} is {words}", keys=[path], fix=fix)


def _differing(given: Mapping[str, Any], derived: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the keys whose values differ, by the chart's comparison: ${...} is not resolved, and true is not 1."""
    for key in derived.keys() & given.keys():
        here, theirs, ours = f"{path}{key}", given[key], derived[key]
        if isinstance(theirs, dict) and isinstance(ours, dict):
            yield from _differing(theirs, ours, f"{here}.")
        elif theirs != ours or isinstance(theirs, bool) != isinstance(ours, bool):
            yield here, theirs, ours
