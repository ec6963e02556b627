"""The kinds of planted failures: what the trainer or its surroundings do, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

Record = dict[str, Any]
FRAMEWORKS = ("nemo-rl", "verl")
# What values.yaml says; a healthy phase that is slow takes this share of its deadline.
DEADLINES = {"loading": 45, "first step": 20, "step": 12, "checkpoint": 12, "validation": 12, "ended": 45}
SLOW = 0.7
STEPS = 6
# A run that only a sign ends.
ENDLESS = 2000


@dataclass(frozen=True)
class Kind:
    """A kind of failure and its end.

    `starts` counts the starts of the trainer, `evidence` the folders of evidence (None: not judged), `last` is in the
    last line of a job that fails. `act` is what the test does from outside when the trainer has come to the place.
    """

    name: str
    what: str
    orders: Callable[[Random, str], Record]
    # The phase that the guard names, if it is the guard that stops the trainer.
    phase: str = ""
    starts: int = 2
    evidence: int | None = 1
    last: str = ""
    # A sign or a remark that status.json must show.
    finding: str = ""
    stack: str = ""
    act: str = ""
    # As KubeRay does after a failure: the same attempt once more.
    again: bool = False
    settings: Record = field(default_factory=dict)
    frameworks: tuple[str, ...] = FRAMEWORKS

    @property
    def fails(self) -> bool:
        """Whether the run is over with this failure."""
        return bool(self.last) and not self.again

    @property
    def is_whole(self) -> bool:
        """Whether each folder of evidence must be complete: a step that ends interrupts its own."""
        return bool(self.evidence) and self.finding != "slow"

    @property
    def outcome(self) -> str:
        """Say what comes of it, in a word; CI runs the first kind of each."""
        if self.again:
            return "submitted again"
        if self.fails:
            return "ended with a reason"
        return "left alone" if self.starts == 1 else "started again by the guard" if self.phase else "retried"


def base(rng: Random, **orders: Any) -> Record:
    return {
        "steps": STEPS,
        "saves": rng.choice((1, 2)),
        "validates": rng.choice((2, 3)),
        "faults": [],
        **orders,
    }


def fault(phase: str, step: int, where: str, act: str = "stand-still", **more: Any) -> Record:
    return {"phase": phase, "step": step, "where": where, "act": act, **more}


def at_step(where: str, act: str = "stand-still", **more: Any) -> Callable[[Random, str], Record]:
    """Plant something in the work of a step after the first checkpoint."""
    return lambda rng, _: base(rng, faults=[fault("step", rng.randint(3, 5), where, act, **more)])


def at_phase(phase: str, every: str, where: str, act: str = "stand-still", **more: Any) -> Callable[..., Record]:
    """Plant something in a phase that only each second or third step has."""

    def orders(rng: Random, _: str) -> Record:
        found = base(rng)
        steps = [step for step in range(3, STEPS + 1) if step % found[every] == 0]
        return {**found, "faults": [fault(phase, rng.choice(steps), where, act, **more)]}

    return orders


def at_start(
    where: tuple[str, ...], phase: str, step: int, act: str = "stand-still", **more: Any
) -> Callable[..., Record]:
    return lambda rng, _: base(rng, faults=[fault(phase, step, rng.choice(where), act, **more)])


def measures(steps: int = ENDLESS, **values: Any) -> Callable[[Random, str], Record]:
    """Show bad measures from a step on."""
    return lambda rng, _: base(rng, steps=steps, measures={"from": rng.randint(4, 5), "values": values})


def blow_up(rng: Random, framework: str) -> Record:
    """Let answers be ten times longer, or the policy leave the reference where the framework prints that."""
    bad = measures(kl=3.5) if framework == "verl" else measures(length=2500.5)
    return bad(rng, framework)


def twice(rng: Random, _: str) -> Record:
    where = rng.choice(("driver", "worker"))
    return base(rng, saves=1, faults=[fault("step", 3, where), fault("step", 5, where)])


def clock(rng: Random, _: str) -> Record:
    return base(rng, faults=[fault("step", 3, "driver", "wait", seconds=30.0)])


def clock_and_stall(rng: Random, _: str) -> Record:
    return base(rng, faults=[fault("step", rng.randint(3, 5), rng.choice(("driver", "worker")))])


def slow(phase: str) -> float:
    return DEADLINES[phase] * SLOW


def stop_on(*signs: str) -> Record:
    return {"job": {"guard": {"stopOn": {name: {"steps": 1} for name in signs}}}}


KINDS = [
    Kind(
        "stall-generation",
        "a Ray worker hangs in a step",
        at_step("worker"),
        phase="step",
        stack="stand_still",
    ),
    Kind(
        "stall-loading",
        "the driver or a worker hangs before the first step",
        at_start(("driver", "worker"), "loading", 0),
        phase="loading",
        stack="stand_still",
    ),
    Kind(
        "stall-first-step",
        "a Ray worker hangs in the first step",
        at_start(("worker",), "step", 1),
        phase="first step",
        stack="stand_still",
    ),
    Kind(
        "stall-driver",
        "the driver hangs in a step",
        at_step("driver"),
        phase="step",
        stack="stand_still",
    ),
    Kind(
        "stall-checkpoint",
        "the save of a checkpoint hangs",
        at_phase("checkpoint", "saves", "driver"),
        phase="checkpoint",
        stack="stand_still",
    ),
    Kind(
        "stall-validation",
        "a Ray worker hangs in a validation",
        at_phase("validation", "validates", "worker"),
        phase="validation",
        stack="stand_still",
    ),
    Kind(
        "stall-twice",
        "two stalls with a new checkpoint between",
        twice,
        phase="step",
        starts=3,
        evidence=2,
        stack="stand_still",
    ),
    Kind(
        "driver-stopped",
        "the driver gets SIGSTOP, so it cannot take SIGTERM",
        at_step("driver", "stop-driver"),
        phase="step",
        stack="fail",
    ),
    Kind(
        "worker-stopped",
        "a Ray worker gets SIGSTOP",
        at_step("worker", "stop"),
        phase="step",
        stack="fail",
    ),
    Kind(
        "clock-jump-and-stall",
        "the clock of the day jumps by a day while a trainer hangs",
        clock_and_stall,
        phase="step",
        stack="stand_still",
        act="jump",
    ),
    Kind(
        "stall-always",
        "the same stall after the restart",
        lambda rng, _: base(rng, faults=[fault("step", rng.randint(3, 5), "worker", times=9)]),
        phase="step",
        evidence=2,
        last="gave up after 1 of 1 restarts (job.guard.restarts) without a new checkpoint; evidence: /data/runs/",
        stack="stand_still",
    ),
    Kind(
        "stall-after-the-end",
        "the training ends, and its processes do not",
        at_start(("driver",), "ended", 0),
        phase="ended",
        starts=1,
        last="the training has ended, but its processes have not",
        stack="stand_still",
    ),
    Kind(
        "worker-killed",
        "a Ray worker gets SIGKILL",
        at_step("worker", "kill"),
    ),
    Kind(
        "driver-killed",
        "the driver gets SIGKILL",
        at_step("driver", "kill-driver"),
    ),
    Kind(
        "raylet-killed",
        "the raylet of the GPU node gets SIGKILL, and the node comes back",
        at_step("driver", "wait", seconds=60.0),
        act="kill-raylet",
    ),
    Kind(
        "not-a-number",
        "the loss is NaN, with `stopOn`",
        measures(loss=float("nan")),
        starts=1,
        last="shows the sign not-a-number (job.guard.stopOn); evidence: /data/runs/",
        finding="not-a-number",
        settings=stop_on("not-a-number"),
    ),
    Kind(
        "dead-reward",
        "the reward is 0 for every answer, with `stopOn`",
        measures(reward=0.0),
        starts=1,
        last="shows the sign dead-reward (job.guard.stopOn); evidence: /data/runs/",
        finding="dead-reward",
        settings=stop_on("dead-reward"),
    ),
    Kind(
        "blow-up",
        "answers become ten times longer, or the KL blows up (verl), with `stopOn`",
        blow_up,
        starts=1,
        last="(job.guard.stopOn); evidence: /data/runs/",
        settings=stop_on("length-explosion", "kl-blow-up"),
    ),
    Kind(
        "sign-without-stop",
        "the loss is NaN, without `stopOn`",
        measures(steps=STEPS + 2, loss=float("nan")),
        starts=1,
        evidence=0,
        finding="not-a-number",
    ),
    Kind(
        "slow-first-step",
        "a healthy first step takes 70 % of its deadline",
        at_start(("worker",), "step", 1, "slow", seconds=slow("first step")),
        starts=1,
        evidence=0,
    ),
    Kind(
        "slow-checkpoint",
        "a healthy save takes 70 % of its deadline",
        at_phase("checkpoint", "saves", "driver", "slow", seconds=slow("checkpoint")),
        starts=1,
        evidence=0,
    ),
    Kind(
        "long-validation",
        "a healthy validation takes 70 % of its deadline",
        at_phase("validation", "validates", "worker", "slow", seconds=slow("validation")),
        starts=1,
        evidence=0,
    ),
    Kind(
        "late",
        "a step ends after its deadline, while evidence is collected",
        at_step("worker", "slow", seconds=DEADLINES["step"] + 2.0),
        starts=1,
        finding="slow",
    ),
    Kind(
        "clock-jump",
        "the clock of the day jumps a day forward, then two back",
        clock,
        starts=1,
        evidence=0,
        act="jump",
    ),
    Kind(
        "pause",
        "launcher, trainer and workers are paused for longer than the deadline, as with their machine",
        at_step("driver", "wait", seconds=2.0),
        starts=1,
        evidence=0,
        act="pause",
    ),
    Kind(
        "not-understood",
        "a trainer prints what the guard does not know",
        lambda rng, _: base(rng, chatter=DEADLINES["loading"] + 5.0),
        starts=1,
        evidence=0,
        finding="not-understood",
    ),
    Kind(
        "launcher-killed",
        "the launcher (the supervisor of the trainer) gets SIGKILL",
        at_step("driver", "wait", seconds=60.0),
        evidence=None,
        act="kill-launcher",
        again=True,
    ),
    Kind(
        "launcher-killed-saving",
        "the launcher gets SIGKILL while a checkpoint is saved",
        at_phase("checkpoint", "saves", "driver", "wait", seconds=60.0),
        evidence=None,
        act="kill-launcher",
        again=True,
    ),
    Kind(
        "volume-hangs-briefly",
        "the volume answers nothing (`fsfreeze`) for less than two thirds of `job.lapseSeconds`",
        at_step("driver", "wait", seconds=30.0),
        starts=1,
        evidence=0,
        act="freeze-briefly",
    ),
    Kind(
        "volume-hangs",
        "the volume answers nothing for longer than that, and comes back",
        at_step("driver", "wait", seconds=60.0),
        evidence=None,
        act="freeze",
    ),
    Kind(
        "volume-hangs-in-a-save",
        "the volume answers nothing for as long, during a save",
        at_phase("checkpoint", "saves", "driver", "wait", seconds=60.0),
        starts=1,
        evidence=0,
        act="freeze",
    ),
    Kind(
        "volume-full",
        "the volume has no room; it gets some after the run has failed",
        at_phase("checkpoint", "saves", "driver", "wait", seconds=30.0),
        starts=3,
        evidence=None,
        last="the trainer ended with exit code 1",
        act="fill",
        again=True,
    ),
]


# Those that a trainer plants itself, also in a pod.
FROM_INSIDE = [kind for kind in KINDS if not kind.act]


def planned(kind: Kind, seed: int) -> tuple[str, Record]:
    """Return the framework and the orders of a kind and a seed; the same ones each time."""
    framework = kind.frameworks[(seed - 1) % len(kind.frameworks)]
    rng = Random(f"{kind.name} {seed}")  # noqa: S311 - it must give the same plant each time
    return framework, {"framework": framework, **kind.orders(rng, framework)}


def first_of_each_outcome(places: list[Kind]) -> list[Kind]:
    """Return what CI runs: of each outcome the first kind of a list."""
    first = {kind.outcome: kind for kind in reversed(places)}
    return [kind for kind in places if kind in first.values()]
