"""What must be true of a plant: its end, the seconds it lost, its steps, its evidence, and that nothing is left."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, dataclass
from typing import Any

from harness import suite
from kinds import DEADLINES, Record
from plant import Result
from ray_site import GPUS

sys.path += [str(suite.REPOSITORY / "jobs/runlog")]
import log_readers
from history import History
from steps import Step

# Seconds that a failure may cost besides the deadline and the time since the last checkpoint.
MORE = 180.0
# The moments of status.json are those of its writer, once in some seconds.
TOLERANCE = 6.0
REASON = re.compile(r"has shown nothing(?: new)? for (\d+) s, and its deadline is (\d+) s")
SHOWS = re.compile(r"stalled: phase (.+?)(?: after step \d+)? has shown")


@dataclass(frozen=True)
class Loss:
    """The time that one failure has cost, in seconds.

    `lost` is from the state that was trained again, which is in the last checkpoint, to the moment at which a trainer
    is there again, or to the end of the job; `since` is the part of it before the failure.
    """

    lost: float
    since: float
    deadline: float


def judge(result: Result) -> Record:
    """Raise AssertionError unless everything is as it must be; return the record of the plant."""
    ended(result)
    found = losses(result)
    for loss in found:
        assert loss.lost <= loss.deadline + loss.since + MORE, loss
    counted_once(result)
    hours(result, found)
    evident(result)
    assert not result.left, result.left
    worst = max(found, key=lambda loss: loss.lost - loss.since, default=Loss(0.0, 0.0, 0.0))
    about = {"kind": result.kind.name, "seed": result.seed, "framework": result.framework, **asdict(worst)}
    return {**about, "end": result.jobs[-1]["status"], "starts": len(result.all("driver"))}


def ended(result: Result) -> None:
    """Judge the end of the job, its last line, and status.json."""
    kind, status = result.kind, result.status
    assert len(result.all("driver")) == kind.starts, result.logs
    last = result.logs[0].strip().splitlines()[-1]
    if kind.last or kind.again:
        assert result.jobs[0]["status"] == "FAILED", result.jobs
        assert kind.last in last, last
    end = result.jobs[-1]
    assert end["status"] == ("FAILED" if kind.fails else "SUCCEEDED"), result.logs[-1]
    assert end["driver_exit_code"] == int(kind.fails)
    assert (status["run"], status["attempt"], status["gpus"]) == (result.run, 1, GPUS)
    assert status["state"] == "ended"
    assert (status["exitCode"] != 0) == kind.fails
    if kind.fails:
        assert last == f"grpo: {status['reason']}"
    else:
        assert not status.get("reason")
        assert "stopped" not in {one["sign"] for one in status["findings"]}
    signs = [one["sign"] for one in status["findings"]]
    assert kind.finding in ("", *signs), status
    # A restart is in status.json of this start of the job; one of the start before is not.
    assert signs.count("stalled") == (len(stalls(result)) if not kind.again else 0), status
    if not result.orders.get("chatter"):
        reached = max((one["step"] for one in result.all("ended")), default=0)
        # Ray brings the lines of verl's worker about a second late, and it may work until Ray ends it.
        ahead = 0 if not kind.fails else 4 if result.framework == "verl" else 1
        assert 0 <= reached - status["step"] <= ahead, (status, reached)


def stalls(result: Result) -> list[tuple[float, str]]:
    """Return the deadline and the phase of each stall that the guard has called one."""
    found = []
    for line in "\n".join(result.logs).splitlines():
        match, phase = REASON.search(line), SHOWS.search(line)
        if line.startswith("grpo: guard: the trainer has stalled") and match and phase:
            found.append((float(match[2]), phase[1]))
    return found


def failures(result: Result) -> list[float]:
    """Return the moments at which something went wrong: a fault, or the end of the first bad step."""
    if "measures" in result.orders:
        bad = result.orders["measures"]["from"]
        return [one["at"] for one in result.all("ended") if one["step"] == bad][:1]
    return [one["at"] for one in result.all("fault")]


def losses(result: Result) -> list[Loss]:
    """Measure each failure that has cost something; the deadline of one that ends by itself is 0."""
    kind, found = result.kind, list[Loss]()
    shown = stalls(result)
    if kind.phase:
        # A trainer that is started again may stand still in its first step.
        phases = [{kind.phase}, *({kind.phase, "first step"} for _ in shown[1:])]
        for (seconds, phase), expected in zip(shown, phases, strict=True):
            assert phase in expected, shown
            # verl has not said yet that it saves.
            later = DEADLINES["checkpoint"] if result.framework == "verl" else 0
            assert seconds in (DEADLINES[phase], DEADLINES[phase] + later), shown
        assert len(shown) == len(failures(result)), (shown, result.events)
    elif kind.finding != "slow":
        assert not shown, shown
    if kind.starts == 1 and not kind.fails:
        return []
    for index, at in enumerate(failures(result)):
        found.append(loss(result, at, shown[index][0] if shown else 0.0))
    return found


def loss(result: Result, at: float, deadline: float) -> Loss:
    """Measure one failure."""
    start = max(one["at"] for one in result.all("start") if one["at"] < at)
    saved = [one for one in result.all("saved") if one["at"] < at]
    # A start that has saved nothing yet has lost its own time only: what was before it is another failure's.
    since = max(start, saved[-1]["began"] if saved else start)
    again = [one["at"] for one in result.all("start") if one["at"] > at]
    # A retry fails as well while the volume is full; the job that is submitted again does not.
    there = again[-1 if result.kind.again else 0] if again else result.ends[-1]
    back = [one["at"] for one in result.all("begins") if again and one["at"] > there]
    # After the last step nothing is trained again.
    end = min(back, default=there)
    return Loss(end - since, at - since, deadline)


def counted_once(result: Result) -> None:
    """Judge the steps: each start goes on after the newest checkpoint, and readers count each step once."""
    saved = 0
    for one in result.events:
        if one["event"] == "saved":
            saved = one["step"]
        elif one["event"] == "start":
            assert one["done"] == saved, result.events
    history = History()
    steps = [one for one in log_readers.reader(result.framework).feed(result.output) if isinstance(one, Step)]
    for step in steps:
        history.add(step)
    numbers = [step.number for step in history.steps]
    assert numbers == list(range(1, len(numbers) + 1)) or len(numbers) >= 200, numbers
    if not result.kind.fails and not result.orders.get("chatter"):
        assert numbers == list(range(1, result.orders["steps"] + 1)), numbers


def hours(result: Result, found: list[Loss]) -> None:
    """Compare GPU-hours with what the trainers themselves have noted."""
    seconds = {name: value * 3600 / GPUS for name, value in result.status["gpuHours"].items()}
    trained = 0.0
    for driver in result.all("driver"):
        following = [one["at"] for one in result.all("driver") if one["at"] > driver["at"]]
        own = [one["at"] for one in result.events if one["at"] < min(following, default=float("inf"))]
        trained += max(own) - driver["at"]
    assert seconds["spent"] >= trained - TOLERANCE, (seconds, trained)
    assert seconds["spent"] <= result.ends[-1] - result.events[0]["at"] + TOLERANCE, seconds
    assert seconds["unsaved"] == 0, seconds
    assert seconds["lost"] <= seconds["spent"] + 0.01, seconds
    # At least the time to the failure and the deadline is lost, and no more than until the next trainer is there.
    least, most = sum(one.since + one.deadline for one in found), sum(one.lost for one in found)
    assert least - TOLERANCE * len(found) <= seconds["lost"] <= most + TOLERANCE, (seconds, found)


def evident(result: Result) -> None:
    """Judge the evidence: complete, readable, and with the function that hangs."""
    kind = result.kind
    if kind.evidence is None:
        return
    assert len(result.evidence) == kind.evidence, [sorted(texts) for texts in result.evidence]
    for texts in result.evidence:
        assert texts["reason.txt"].strip() in result.logs[0], texts["reason.txt"]
        assert texts["output.txt"].strip()
        if kind.is_whole:
            whole(texts, kind.stack)


def whole(texts: dict[str, str], function: str) -> None:
    """Judge a folder whose collection was not interrupted."""
    assert "complete.txt" in texts, sorted(texts)
    assert re.search(r"\d+\.\d+/2\.0 GPU", texts["ray-status.txt"]), texts["ray-status.txt"]
    # A trainer that hangs before it has workers has no actors: Ray's own of the job is there.
    assert "JobSupervisor" in texts["ray-actors.txt"], texts["ray-actors.txt"]
    assert "TASK" in texts["ray-tasks.txt"].upper(), texts["ray-tasks.txt"]
    assert any(name.endswith("/processes.txt") and "ray::" in text for name, text in texts.items()), sorted(texts)
    for each in ("ray-nodes.txt", "ray-deaths.txt", "worker-logs.txt", "memory.txt", "nvidia-smi.txt"):
        assert any(name.rpartition("/")[2] == each and text.strip() for name, text in texts.items()), (
            each,
            sorted(texts),
        )
    stacks = {name: text for name, text in texts.items() if "/stacks-" in name}
    assert stacks
    assert not function or any(f"{function} (" in text for text in stacks.values()), stacks


def record(result: Result) -> dict[str, Any]:
    """Return everything, for a person who looks into a failure."""
    return {**vars(result), "kind": result.kind.name}
