"""How a run operates: retries that resume, machines that are taken away, nodes without RDMA, an open job API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.plan import cost
from grpo.problems.topic import Topic
from grpo.runlog.shared import SIGNS
from grpo.values.derived import mapping
from postrender.finding import WARNING, Finding
from postrender.problem import Fails
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
_KIND: Final = "platform.capacity.kind"
_LABELS: Final = "accelerator.nodeSelector"
_TAINTS: Final = "accelerator.tolerations"
# Each cloud has a label or a taint of its own for nodes that it takes away; all have one of these words in it.
_TAKEN: Final = re.compile(r"\b(spot|preemptible|interruptable)\b", re.IGNORECASE)
_REQUIRED: Final = "ray.kueue.topology.required"
_STOP: Final = "ray.head.jobStopSeconds"
# What the charts add to it (charts/common/templates/_pod.tpl), and the sum by default: no run counts on that.
_MORE_SECONDS: Final = 30
_USUAL_SECONDS: Final = 150
# What GKE gives a pod: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms (half of 30 s; a Standard
# node pool of 1.35 can raise the 30 s to 120 s) and how-to/extended-duration-pods (scale-down, upgrade).
_SPOT_SECONDS: Final = 15
_SCALE_DOWN_SECONDS: Final = 600
_UPGRADE_SECONDS: Final = 3600
# Labels of a single node.
_HOSTS: Final = ("kubernetes.io/hostname", "cloud.google.com/gce-topology-host")
_BLOCK: Final = "cloud.google.com/gce-topology-block"

# The steps between two checkpoints, and the last step, which saves too.
_SAVES: Final = {
    "nemo-rl": ("checkpointing.save_period", "grpo.max_num_steps"),
    "verl": ("trainer.save_freq", "trainer.total_training_steps"),
}


def _retries(run: RunConfig) -> int:
    value = run.value("job.retries")
    return value if isinstance(value, int) else 0


@TOPIC.problem(
    "=job.retries", fails=Fails.COSTS, source="verl/trainer/ppo/v1/trainer_base.py:854 at 0.9.1", severity=WARNING
)
def retry_from_scratch(run: RunConfig) -> Iterator[Finding]:
    """a retry does not resume from a checkpoint

    Why: each retry starts again at step 0, and the earlier steps are paid for but lost
    Fix: save checkpoints and let the run resume (verl: resume_mode auto), or set job.retries to 0
    """
    if not run.trains or _retries(run) < 1:
        return
    what = f"job.retries is {_retries(run)}, and"
    if run.framework == "verl" and run.at("trainer.resume_mode") == "disable":
        what = f'{what} trainer.resume_mode is "disable"'
        fix = "set trainer.resume_mode to auto, or job.retries to 0"
        yield Finding(what, keys=["trainer.resume_mode", "=job.retries"], fix=fix)
    if run.framework == "nemo-rl" and run.at("checkpointing.enabled") is False:
        what = f"{what} checkpointing.enabled is false"
        fix = "set checkpointing.enabled to true, or job.retries to 0"
        yield Finding(what, keys=["checkpointing.enabled", "=job.retries"], fix=fix)


@TOPIC.problem("=job.deadlineSeconds", fails=Fails.LATER, source="grpo/plan/cost.py at 0.1.0", severity=WARNING)
def deadline_before_checkpoint(run: RunConfig) -> Iterator[Finding]:
    """the deadline ends an attempt before its first checkpoint

    Why: the attempt ends with nothing saved: all its steps are paid for but lost
    Fix: raise job.deadlineSeconds, or save after fewer steps
    """
    deadline, time = run.value("job.deadlineSeconds"), cost.step_time(run)
    # NeMo RL can save before a time of its own.
    saves_before = run.at("checkpointing.checkpoint_must_save_by") is not None
    if not isinstance(deadline, int) or deadline < 1 or time is None or not run.trains or saves_before:
        return
    period, last = _SAVES[run.framework]
    steps = run.integer(period)
    if run.given_has(last) and run.at(last) is not None:
        steps = min(steps, run.integer(last))
    if 0 < deadline < steps * time.seconds:
        what = f"job.deadlineSeconds is {deadline}, and the {steps} steps before the first checkpoint take about"
        yield Finding(f"{what} {steps * time.seconds:.0f} s (job.stepTimes)", keys=["=job.deadlineSeconds", period])


@TOPIC.problem(
    "=job.guard.deadlines.stepSeconds =job.guard.deadlines.firstStepSeconds",
    fails=Fails.AT_FIRST_STEP,
    source="jobs/guard/heartbeat.py at 0.1.0",
)
def guard_below_step_time(run: RunConfig) -> Iterator[Finding]:
    """the guard gives a step less time than it takes

    Why: the guard mistakes the first steps for a stall and stops a healthy trainer
    Fix: raise the deadline to several times the duration of a step, or remove the line
    """
    time = cost.step_time(run)
    if time is None or not run.trains or run.value("job.guard.enabled") is False:
        return
    for name in ("firstStepSeconds", "stepSeconds"):
        key = f"job.guard.deadlines.{name}"
        deadline = run.value(key)
        if isinstance(deadline, int) and deadline <= time.seconds:
            yield Finding(
                f"{key} is {deadline}, and a step takes {time.seconds:.0f} s (job.stepTimes)", keys=[f"={key}"]
            )


@TOPIC.problem("=job.guard.stopOn", fails=Fails.AT_START, source="jobs/runlog/signs.py at 0.1.0")
def guard_unknown_sign(run: RunConfig) -> Iterator[Finding]:
    """job.guard.stopOn names an unknown sign

    Why: the launcher rejects the name at startup, and the pods have waited for nothing
    Fix: use one of the names in the message
    """
    for name, entry in mapping(run.value("job.guard.stopOn")).items():
        if entry is not None and name not in SIGNS:
            known = ", ".join(sorted(SIGNS))
            yield Finding(f"there is no sign {name}; there are {known}", keys=[f"=job.guard.stopOn.{name}"])


@TOPIC.problem(
    "=job.guard.stopOn", fails=Fails.SILENT, source="charts/grpo-job/templates/_guard.tpl at 0.1.0", severity=WARNING
)
def guard_stops_nothing(run: RunConfig) -> str | None:
    """job.guard.stopOn is set, but the guard is off

    Why: the run continues after a sign that should have stopped it, and holds its GPUs
    Fix: remove the line job.guard.enabled, or job.guard.stopOn
    """
    is_off = run.value("job.guard.enabled") is False and mapping(run.value("job.guard.stopOn"))
    return "job.guard.enabled is false, so job.guard.stopOn stops nothing" if is_off else None


@TOPIC.problem(
    f"={_KIND} ={_LABELS} ={_TAINTS} =job.retries",
    fails=Fails.LATER,
    source="schemas/values/platform.yaml at 0.1.0",
    severity=WARNING,
)
def machines_taken_away(run: RunConfig) -> Iterator[Finding]:
    """the machines can be taken away, but the training job has no retries

    Why: the machines disappear during training, and nothing restarts the run
    Fix: set job.retries, for instance to 10; each retry resumes from the last checkpoint
    """
    if not run.trains or _retries(run):
        return
    kind = run.value(_KIND)
    if kind in ("spot", "flex-start"):
        yield Finding(f"{_KIND} is {kind}, and job.retries is 0", keys=[f"={_KIND}"])
    for section in (_LABELS, _TAINTS):
        for name, entry in mapping(run.value(section)).items():
            value = mapping(entry).get("value") if section == _TAINTS else entry
            said = f"{name}: {value}" if value else name
            if _TAKEN.search(said) and value != "false":
                yield Finding(f"{section} has {said}, and job.retries is 0", keys=[f"={section}"])
                return


def _asked(run: RunConfig, part: str) -> tuple[int, str]:
    """Return how many seconds a part's pods may take to end, and the key that sets this."""
    key = f"ray.{part}.podSpec.terminationGracePeriodSeconds"
    grace, stop = run.value(key), run.value(_STOP)
    computed = (stop if isinstance(stop, int) else 0) + _MORE_SECONDS
    return (grace, key) if isinstance(grace, int) and grace > computed else (computed, _STOP)


def _granted(run: RunConfig, part: str) -> tuple[int, str]:
    """Return how many seconds GKE gives a part's pods, and on which occasion."""
    on_gpu_node = part == "workers" or run.value("ray.head.gpus.enabled") is True
    if run.value(_KIND) == "spot" and on_gpu_node:
        return _SPOT_SECONDS, "by default when Google takes a Spot machine away"
    if run.value("ray.disruptionBudget.enabled") is False:
        return _SCALE_DOWN_SECONDS, "when it removes a node (ray.disruptionBudget.enabled is false)"
    return _UPGRADE_SECONDS, "when it upgrades a node"


@TOPIC.problem(
    f"={_STOP}",
    fails=Fails.AT_CHECKPOINT,
    source="docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms at 1.35.0",
    severity=WARNING,
)
def time_to_save_not_given(run: RunConfig) -> Iterator[Finding]:
    """the pods may take longer to save than the platform gives them

    Why: the node is removed earlier, so what the trainer saves at its end is cut off
    Fix: do not rely on a final save: save every few steps, and remove the line that raises the time
    """
    if not str(run.value("platform.kind")).startswith("gke-"):
        return
    found: dict[str, str] = {}
    for part in ("head", "workers"):
        seconds, key = _asked(run, part)
        limit, when = _granted(run, part)
        if seconds > max(limit, _USUAL_SECONDS):
            found[key] = f"the pods may take {seconds} s to save and end, and GKE gives them {limit} s {when}"
    yield from (Finding(what, keys=[f"={key}"]) for key, what in found.items())


@TOPIC.problem(
    f"={_REQUIRED}",
    fails=Fails.PENDING,
    source="kueue/site/content/en/docs/concepts/topology_aware_scheduling.md at v0.17.0",
)
def topology_of_one_host(run: RunConfig) -> Iterator[Finding]:
    """the workers must be on one host, but they do not fit there

    Why: Kueue admits them only if one host has room for all, so the workload waits forever
    Fix: name a higher level of your Topology, or use ray.kueue.topology.preferred
    """
    level, workers = run.value(_REQUIRED), run.value("ray.workers.replicas")
    if level not in _HOSTS or not isinstance(workers, int):
        return
    labels = mapping(run.value("accelerator.nodeSelector"))
    known = profiles.chosen({label: {str(value)} for label, value in labels.items()})
    if not known or workers * run.gpus <= max(machine.gpus for machine in known):
        return
    what = f"{_REQUIRED} is {level}, and {workers} workers of {run.gpus} GPUs do not fit on one {known[0].name}"
    higher = f"such as {_BLOCK}" if known[0].is_google else "which your Topology names"
    yield Finding(what, fix=f"name a higher level, {higher}, or use ray.kueue.topology.preferred")


@TOPIC.problem(
    "=network.mode", fails=Fails.COSTS, source="charts/common/templates/_network.tpl at 0.1.0", severity=WARNING
)
def nodes_without_rdma(run: RunConfig) -> str | None:
    """several nodes train without the machine's RDMA interfaces

    Why: NCCL falls back to TCP over the pod network, which is many times slower
    Fix: set network.mode as docs/options.md shows, or use one node
    """
    offered = profiles.modes(mapping(run.value("accelerator")))
    if run.value("stack.names.cluster"):
        # Its pods have the network that their owner gave them.
        return None
    if run.value("network.mode") != "none" or not run.trains or run.nodes < 2 or not offered:
        return None
    modes = " or ".join(offered)
    return f"network.mode is none, and {run.nodes} nodes of {run.accelerator} have RDMA with network.mode {modes}"


@TOPIC.problem(
    "=ray.tokenAuth.enabled =ray.networkPolicy.enabled",
    fails=Fails.EXPOSES,
    source="charts/common/templates/_protection.tpl at 0.1.0",
    severity=WARNING,
)
def open_job_api(run: RunConfig) -> str | None:
    """neither a token nor a NetworkPolicy protects Ray's job API

    Why: anyone who can reach port 8265 of the head can run code on the GPUs, with the pods' secrets
    Fix: remove one of the two lines; without a token, name the operator's namespace under ray.networkPolicy
    """
    switches = ("ray.tokenAuth.enabled", "ray.networkPolicy.enabled")
    is_open = all(run.value(switch) is False for switch in switches)
    return "ray.tokenAuth.enabled and ray.networkPolicy.enabled are both false" if is_open else None
