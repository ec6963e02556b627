"""The guard of a training whose trainer hangs, is slow, or shows a sign; on a simulated machine."""

from __future__ import annotations

import errno
import json
import re
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from .harness import Site
from .simulation.machine import Launch, Machine

TRAINER = Path(__file__).with_name("guarded.py")
# Seconds that a phase may show nothing: where a test wants a stall, and where it wants none.
FLOOR, PATIENT = 3.0, 60.0
PHASES = ("loading", "firstStep", "step", "checkpoint", "validation")


def guard(*short: str, floor: float = FLOOR, **changes: Any) -> dict[str, Any]:
    """Return the settings of a guard with the floor for some phases, and a long one for the others."""
    return {
        "deadlines": {f"{phase}Seconds": floor if phase in short else PATIENT for phase in PHASES},
        "factor": 5,
        "restarts": 1,
        "evidenceSeconds": 20,
        "saveSeconds": 1,
        "stopOn": {},
        "limits": {},
        **changes,
    }


def begin(site: Site, lapse: int = 8, framework: str = "nemo-rl", body: str = "", **plan: Any) -> Any:
    """Start a run with a guard, on the simulated machine or with real processes."""
    identity = {"run": "gemma3-gsm8k", "framework": framework}
    return site.start_plan(site.plan(identity=identity, **plan), body=body, GRPO_OWNER_LAPSE_SECONDS=str(lapse))


def start(
    site: Site,
    *options: object,
    attempt: int = 1,
    settings: dict[str, Any] | None = None,
    **plan: Any,
) -> Any:
    words = ["python3", str(TRAINER), str(site.stamps), str(site.directory / "checkpoints"), *map(str, options)]
    return begin(site, attempt=attempt, command=words, guard=settings or guard(), **plan)


def status(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((site.directory / "status.json").read_text(encoding="utf-8"))
    return found


def evidence(site: Site, attempt: int = 1) -> list[Path]:
    return sorted((site.directory / f"attempts/{attempt}/evidence").glob("*"))


def steps(site: Site) -> list[int]:
    return [int(word[5:]) for _, _, word, _ in site.lines() if word.startswith("step-")]


def moments(site: Site, word: str) -> list[float]:
    return [moment for _, _, found, moment in site.lines() if found == word]


def nothing_is_left(machine: Machine) -> None:
    """No process of a trainer, of its evidence or of its launcher lives."""
    # The fence of a trainer learns that its launcher is gone.
    machine.sleep(0)
    assert [process.pid for process in machine.living()] == []


def test_a_healthy_training_is_left_alone(machine: Machine) -> None:
    launch = start(machine)
    assert launch.wait() == 0, launch.output
    assert "guard:" not in launch.output
    found = status(machine)
    assert (found["state"], found["step"], found["reward"], found["exitCode"]) == ("ended", 4, 0.5, 0)
    assert found["gpuHours"]["lost"] == found["gpuHours"]["unsaved"] == 0
    assert found["checkpoint"]["step"] == 4
    assert found["started"] <= found["checkpoint"]["time"] <= found["updated"]
    assert found["findings"] == []
    assert evidence(machine) == []


@pytest.mark.parametrize("where", ["step@3", "loading@0", "step@1", "validation@2", "checkpoint@2"])
def test_a_stall_costs_only_its_deadline_and_a_restart(machine: Machine, where: str) -> None:
    phase = where.partition("@")[0]
    launch = start(machine, "--stall", where, "--stop", settings=guard("firstStep" if where == "step@1" else phase))
    assert launch.wait() == 0, launch.output
    name = "first step" if where == "step@1" else phase
    assert f"phase {name}" in launch.output
    assert "restart 1 of 1" in launch.output
    # Saved once each: what a start had not saved is done again by the next one, and only that.
    assert sorted(int(path.name[5:]) for path in (machine.directory / "checkpoints").glob("step_*")) == [1, 2, 3, 4]
    assert steps(machine) == [1, 2, 3, 4]
    stalled, again = moments(machine, "stalls")[0], moments(machine, "start")[1]
    # The floor and the evidence; then the stop, and a look five times a heartbeat.
    assert again - stalled == pytest.approx(FLOOR + machine.evidence_seconds, abs=1)
    (folder,) = evidence(machine)
    assert "the trainer has stalled" in (folder / "reason.txt").read_text()
    assert "Setting up compute cluster" in (folder / "output.txt").read_text(encoding="utf-8")
    assert status(machine)["state"] == "ended"
    assert [each["sign"] for each in status(machine)["findings"]] == ["stalled"]
    machine.never_two()
    nothing_is_left(machine)


def test_a_repeated_stall_ends_the_attempt_with_its_reason(machine: Machine) -> None:
    launch = start(
        machine, "--stall", "step@3", "--always", "--every", 2, "--deaf", settings=guard("step", "firstStep")
    )
    assert launch.wait() == 1, launch.output
    last = launch.last
    assert "the trainer has stalled: phase first step after step 2" in last
    assert "gave up after 1 of 1 restarts (job.guard.restarts) without a new checkpoint" in last
    assert f"evidence: {evidence(machine)[1]}" in last
    assert len(moments(machine, "start")) == 2
    assert status(machine)["reason"] in last
    assert machine.record()["state"] == "released"
    nothing_is_left(machine)


def test_a_stall_after_a_new_checkpoint_counts_as_a_new_one(machine: Machine) -> None:
    """A run that gets on between its stalls is not given up."""
    (machine.directory / "checkpoints").mkdir(parents=True)
    # The first start stalls in step 2, the second one in step 3, the third one does not.
    script = machine.tmp / "each.py"
    script.write_text(
        "import os, pathlib, sys\n"
        f"done = len(os.listdir({str(machine.directory / 'checkpoints')!r}))\n"
        "stall = ['--always', '--stall', f'step@{done + 2}'] if done < 2 else []\n"
        f"os.execv(sys.executable, [sys.executable, {str(TRAINER)!r}, *sys.argv[1:], *stall])\n"
    )
    words = ["python3", str(script), str(machine.stamps), str(machine.directory / "checkpoints")]
    launch = begin(machine, command=words, guard=guard("step"))
    assert launch.wait() == 0, launch.output
    assert launch.output.count("restart 1 of 1") == 2
    assert len(moments(machine, "start")) == 3
    assert steps(machine) == [1, 2, 3, 4]


def test_a_child_that_ignores_sigterm_is_killed(machine: Machine) -> None:
    launch = start(machine, "--stall", "step@2", "--deaf", "--child", settings=guard("step", restarts=0))
    assert launch.wait() == 1, launch.output
    assert "gave up after 0 of 0 restarts" in launch.output
    nothing_is_left(machine)


@pytest.mark.parametrize("slow", ["step@4=2", "step@1=2", "checkpoint@2=2", "validation@3=2"])
def test_a_slow_phase_below_its_floor_is_not_a_stall(machine: Machine, slow: str) -> None:
    launch = start(machine, "--time", slow)
    assert launch.wait() == 0, launch.output
    assert "guard:" not in launch.output
    assert len(moments(machine, "start")) == 1


def test_the_deadline_follows_the_runs_step_times(machine: Machine) -> None:
    """Steps of a second make a pause of four a slow step, though the floor is shorter."""
    launch = start(machine, "--time", "step=1", "--time", "step@4=4", settings=guard("step", factor=20))
    assert launch.wait() == 0, launch.output
    assert "guard:" not in launch.output


def test_a_trainer_that_recovers_while_evidence_is_collected_is_not_stopped(machine: Machine) -> None:
    machine.evidence_seconds = 30
    launch = start(machine, "--time", "step@3=6", settings=guard("step"))
    assert launch.wait() == 0, launch.output
    assert "the trainer made progress again and is not stopped" in launch.output
    assert len(moments(machine, "start")) == 1
    assert [finding["sign"] for finding in status(machine)["findings"]] == ["stalled", "slow"]
    nothing_is_left(machine)


def test_hung_evidence_collection_delays_nothing(machine: Machine) -> None:
    machine.evidence_seconds = 120
    launch = start(machine, "--stall", "step@2", settings=guard("step", restarts=0, evidenceSeconds=8))
    assert launch.wait() == 1, launch.output
    assert "the evidence is incomplete after 8 s (job.guard.evidenceSeconds)" in launch.output
    assert (evidence(machine)[0] / "output.txt").exists()
    nothing_is_left(machine)


# As py-spy says it without the capability: to a user, to root in a container of Docker, and to root elsewhere. The last
# one is about a process that has ended.
REFUSED = [
    ("Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'", True),
    ("Permission Denied\n\nIt looks like you are running in a docker container.", True),
    ("Error: Failed to open process 7\nReason: Operation not permitted (os error 1)", True),
    ("Error: Failed to open process 7\nReason: No such file or directory (os error 2)", False),
]


@pytest.mark.parametrize(("said", "is_named"), REFUSED)
def test_a_pod_that_may_not_read_stacks_names_the_missing_capability(
    said: str, is_named: bool, jobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 1\n")
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    text = jobs("node_evidence").stacks(7)
    assert text.startswith(f"{said}\n(py-spy ended with exit code 1)\n")
    assert text.endswith("needs the capability SYS_PTRACE\n") == is_named


def test_new_output_at_the_start_of_a_stall_does_not_prevent_detection(machine: Machine) -> None:
    """The first step prints something that the guard does not know, and hangs."""
    script = (
        "import os, sys, time\n"
        "print('▶ Setting up compute cluster...', flush=True)\n"
        "print('=' * 25, 'Step 1/4', '=' * 25, flush=True)\n"
        "if os.path.exists(sys.argv[1]): sys.exit()\n"
        "open(sys.argv[1], 'w').close(); time.sleep(1); print('INFO: the engine starts', flush=True); time.sleep(600)\n"
    )
    launch = begin(machine, command=["python3", "-c", script, str(machine.stamps)], guard=guard("firstStep", floor=6))
    assert launch.wait() == 0, launch.output
    assert re.search(r"phase first step has shown nothing new for \d+ s, and its deadline is 6 s", launch.output)
    assert [finding["sign"] for finding in status(machine)["findings"]] == ["stalled"]


def test_unrecognised_output_stops_nothing(machine: Machine) -> None:
    launch = start(machine, "--chatter", 6, settings=guard("loading"))
    assert launch.wait() == 0, launch.output
    assert launch.output.count("cannot judge") == 1
    assert [finding["sign"] for finding in status(machine)["findings"]] == ["not-understood"]


LOOP = "import itertools, time\nfor count in itertools.count(): print({line}, flush=True); time.sleep(0.1)\n"


def run_script(machine: Machine, script: str, **settings: Any) -> Launch:
    """Start a program of its own as the trainer of a run with NeMo RL."""
    return begin(machine, command=["python3", "-c", script], guard=guard("loading", **settings))


@pytest.mark.parametrize(
    "script",
    [
        "import time; time.sleep(60)",
        LOOP.format(line="'Waiting for the placement group'"),
        LOOP.format(line="f'11:{count // 60:02}:{count % 60:02} Retrying in {count}s [Retry {count}/inf].'"),
        "print('▶ Setting up compute cluster...')\n" + LOOP.format(line="'(autoscaler) Error: no node'"),
    ],
    ids=["silent", "loop", "retries", "loop-after-a-known-line"],
)
def test_a_trainer_that_hangs_before_its_first_recognised_line_is_stopped(machine: Machine, script: str) -> None:
    launch = run_script(machine, script, restarts=0)
    assert launch.wait() == 1, launch.output
    last = launch.last
    assert "the trainer has stalled: phase loading has shown nothing new for " in last
    assert "gave up after 0 of 0 restarts" in last
    (folder,) = evidence(machine)
    assert "phase loading" in (folder / "reason.txt").read_text()
    assert (folder / "complete.txt").exists()
    found = status(machine)
    assert (found["phase"], found["reason"] in last) == ("loading", True)
    nothing_is_left(machine)


def test_a_known_program_with_a_custom_step_format_is_not_stopped(machine: Machine) -> None:
    """It loads as NeMo RL does, and then prints what no reader knows."""
    script = "import time\nprint('▶ Setting up compute cluster...', flush=True)\n" + (
        "for count in range(100): print('iteration', count, flush=True); time.sleep(0.1)\n"
    )
    launch = run_script(machine, script)
    assert launch.wait() == 0, launch.output
    assert launch.output.count("cannot judge") == 1


def test_a_long_start_with_new_output_is_not_a_stall_and_its_steps_are_watched(machine: Machine) -> None:
    """It cannot judge for a while, and can when it understands a step."""
    script = "import os, sys, time\nfor count in range(90): print('shard', count, flush=True); time.sleep(0.1)\n"
    script += f"os.execv(sys.executable, [sys.executable, {str(TRAINER)!r}, *sys.argv[1:]])\n"
    words = ["python3", "-c", script, str(machine.stamps), str(machine.directory / "checkpoints"), "--stall", "step@3"]
    launch = begin(machine, command=words, guard=guard("loading", "step"))
    assert launch.wait() == 0, launch.output
    assert launch.output.count("cannot judge") == 1
    assert "the trainer has stalled: phase step after step 2" in launch.output
    assert steps(machine) == [1, 2, 3, 4]


def test_a_paused_launcher_is_not_a_stall(machine: Machine) -> None:
    """A machine that was frozen goes on later, with the trainer; the owner of the run must bear the pause too."""
    settings = guard(*PHASES, floor=12, factor=2)
    launch = start(machine, "--time", "step@3=1.5", settings=settings, takeoverSeconds=90, lapse=60)
    machine.until(lambda: moments(machine, "step-2"), "the second step")
    trainer = machine.trainer_pid(1)
    for pid in (launch.process.pid, trainer):
        machine.kill(pid, signal.SIGSTOP)
    machine.sleep(13)
    for pid in (launch.process.pid, trainer):
        machine.kill(pid, signal.SIGCONT)
    assert launch.wait() == 0, launch.output
    assert "stalled" not in launch.output


def end_while_paused(launch: Launch, machine: Machine) -> None:
    """Let the trainer print its last steps and end while the launcher is paused."""
    machine.until(lambda: moments(machine, "step-2"), "the second step")
    machine.kill(launch.process.pid, signal.SIGSTOP)
    trainer = machine.table.processes[machine.trainer_pid(1)]
    machine.until(lambda: not trainer.alive, "the end of the trainer")
    machine.kill(launch.process.pid, signal.SIGCONT)
    assert launch.wait() == 0, launch.output


def test_the_trainers_last_output_is_recorded_despite_a_paused_launcher(machine: Machine) -> None:
    launch = start(machine, "--time", "step@3=6", takeoverSeconds=90, lapse=60)
    end_while_paused(launch, machine)
    assert (status(machine)["step"], status(machine)["phase"]) == (4, "ended")


def test_a_sign_in_the_last_output_of_a_successful_training_stops_nothing(machine: Machine) -> None:
    settings = guard(stopOn={"not-a-number": {"steps": 1}})
    launch = start(
        machine, "--time", "step@3=6", "--loss", "nan", "--bad-from", 4, settings=settings, takeoverSeconds=90, lapse=60
    )
    end_while_paused(launch, machine)
    assert [finding["sign"] for finding in status(machine)["findings"]] == ["not-a-number"]
    assert "collecting evidence" not in launch.output


def test_a_training_that_succeeds_before_it_is_stopped_is_not_reported_as_stopped(machine: Machine) -> None:
    machine.evidence_seconds = 30
    settings = guard(stopOn={"not-a-number": {"steps": 1}})
    launch = start(machine, "--loss", "nan", "--bad-from", 3, "--time", "step@4=6", settings=settings)
    assert launch.wait() == 0, launch.output
    assert "collecting evidence" in launch.output
    last = status(machine)["findings"][-1]["text"]
    assert last.startswith("the trainer ended before it was stopped; the reason to stop it was: step 3 shows the sign ")


def test_by_default_a_sign_is_reported_and_stops_nothing(machine: Machine) -> None:
    launch = start(machine, "--loss", "nan", "--bad-from", 3)
    assert launch.wait() == 0, launch.output
    assert launch.output.count("guard: step 3: the loss is nan (sign not-a-number)") == 1
    (found,) = status(machine)["findings"]
    assert found["sign"] == "not-a-number"


@pytest.mark.parametrize(("phase", "code"), [("checkpoint", 0), ("step", 1)])
def test_a_save_may_delay_the_owner_record_for_longer_than_a_step(machine: Machine, phase: str, code: int) -> None:
    """6 s are two thirds of the lapse, and 45 s half of the time of a successor."""
    launch = start(machine, "--time", f"{phase}@2=15", takeoverSeconds=90, lapse=9)
    launch.says("Saving checkpoint for step 2" if phase == "checkpoint" else "Step 2/4")
    # The record says what this phase may take.
    lapse = 67.5 if phase == "checkpoint" else 9
    machine.until(lambda: machine.record()["lapse"] == lapse, "the record of the phase")
    machine.volume.hang("owner.json")
    machine.sleep(9)
    assert ("stopping the trainer" in launch.output) == bool(code)
    machine.volume.answer()
    assert launch.wait() == code, launch.output


def test_a_step_printed_twice_is_counted_once(machine: Machine) -> None:
    settings = guard(stopOn={"not-a-number": {"steps": 2}})
    options = ("--steps", 60, "--time", "step=0.2", "--loss", "nan", "--bad-from", 3, "--twice")
    launch = start(machine, *options, framework="verl", settings=settings)
    assert launch.wait() == 1, launch.output
    assert "step 4 shows the sign not-a-number (job.guard.stopOn)" in launch.last


def test_a_sign_ends_the_attempt_when_the_values_say_so(machine: Machine) -> None:
    settings = guard(stopOn={"dead-reward": {"steps": 2}}, restarts=5)
    options = ("--steps", 60, "--time", "step=0.2", "--reward", "0.0000", "--loss", "0.0000")
    launch = start(machine, *options, settings=settings, retries=3)
    assert launch.wait() == 1, launch.output
    last = launch.last
    assert "shows the sign dead-reward (job.guard.stopOn)" in last
    assert len(moments(machine, "start")) == 1
    assert max(steps(machine)) < 50
    assert evidence(machine)[0].name in last
    # KubeRay's next cluster of the same attempt takes no GPUs.
    again = start(machine, *options, settings=settings, workers={"nodes": 1, "gpus": 8, "timeoutSeconds": 600})
    assert again.wait() == 1
    assert "the guard has ended this attempt: step " in again.last
    nothing_is_left(machine)


def test_the_values_set_the_limit_for_a_sign(machine: Machine) -> None:
    """As the chart writes it; by the defaults the same run shows another sign, at step 3."""
    settings = guard(limits={"deadSteps": 4.0, "steps": 2, "generationKl": 0.0002})
    launch = start(machine, "--reward", "0.0000", "--loss", "0.0000", settings=settings)
    assert launch.wait() == 0, launch.output
    assert [finding["text"].partition(":")[0] for finding in status(machine)["findings"]] == ["step 2", "step 4"]
    assert "guard: step 4: the mean reward of 4 steps is 0, and the loss is below 0.0001" in launch.output
    assert "the KL of policy and generation is 0.0003, for 2 steps above 0.0002" in launch.output


def test_an_unknown_sign_is_rejected_before_anything_starts(machine: Machine) -> None:
    launch = start(machine, settings=guard(stopOn={"bad-luck": {}}))
    assert launch.wait() == 1
    assert "job.guard.stopOn: there is no sign bad-luck; there are dead-reward" in launch.last
    assert not machine.stamps.exists()


def test_an_unwritable_status_file_does_not_affect_the_run(machine: Machine) -> None:
    machine.volume.fail("status.json", errno.ENOSPC)
    launch = start(machine)
    assert launch.wait() == 0, launch.output
    assert launch.output.count("cannot write ") == 1
    assert "No space left on device; the run continues" in launch.output


def test_a_hang_that_affects_only_the_status_file_does_not_affect_the_run(machine: Machine) -> None:
    machine.volume.hang("status.json")
    launch = start(machine)
    assert launch.wait() == 0, launch.output
    # The last write gets a few seconds.
    assert machine.now() < 10


def test_unwritable_evidence_does_not_prevent_the_restart(machine: Machine) -> None:
    folder = machine.directory / "attempts/1"
    folder.mkdir(parents=True)
    (folder / "evidence").write_text("a file is in the way")
    launch = start(machine, "--stall", "step@2", settings=guard("step"))
    assert launch.wait() == 0, launch.output
    assert "restart 1 of 1" in launch.output
    assert " is incomplete: the program that collects it ended with exit code 1" in launch.output


def test_a_killed_launchers_lost_time_is_counted_at_the_next_start(machine: Machine) -> None:
    launch = start(machine, "--steps", 3, "--stall", "step@3", settings=guard())
    machine.until(lambda: moments(machine, "stalls"), "the third step")
    machine.until(
        lambda: (machine.directory / "status.json").exists() and status(machine).get("step") == 2,
        "the record of step 2",
    )
    launch.signal(signal.SIGKILL)
    nothing_is_left(machine)
    before = status(machine)
    assert before["state"] == "running"
    again = start(machine, "--steps", 3, attempt=2, settings=guard())
    assert again.wait() == 0, again.output
    assert status(machine)["attempt"] == 2
    assert steps(machine) == [1, 2, 3]


def test_an_external_stop_is_not_a_stall(machine: Machine) -> None:
    launch = start(machine, "--stall", "step@2", "--time", "loading=0.1", settings=guard())
    machine.until(lambda: moments(machine, "stalls"), "the second step")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert "guard:" not in launch.output
    assert status(machine)["exitCode"] == 128 + signal.SIGTERM


def test_a_finished_training_that_does_not_exit_is_not_repeated(machine: Machine) -> None:
    launch = start(machine, "--stall", "ended@0", settings=guard("loading"))
    assert launch.wait() == 1, launch.output
    assert "the training has ended, but its processes have not" in launch.last
    assert len(moments(machine, "start")) == 1


def test_a_stall_uses_up_a_restart_but_no_retry(machine: Machine) -> None:
    launch = start(machine, "--stall", "step@2", retries=1, settings=guard("step"))
    assert launch.wait() == 0, launch.output
    assert "retry 1 of" not in launch.output
    assert "restart 1 of 1" in launch.output


def test_a_failing_reader_stops_nothing(
    machine: Machine, jobs: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine.directory / "attempts/1").mkdir(parents=True)
    plan = machine.plan(identity={"framework": "nemo-rl"}, guard=guard())
    with jobs("guard").Guard(plan, SimpleNamespace(lost="", save=lambda _: None)) as watch:
        watch.begin(0, 0)
        monkeypatch.setattr(watch.reader, "feed", lambda text: 1 / 0)
        for _ in range(3):
            watch.hear(b"line\n")
            assert watch.look(paused=False) == ""
    said = capsys.readouterr().out
    assert said.count("the output cannot be read (ZeroDivisionError: division by zero)") == 1
    assert status(machine)["findings"][0]["sign"] == "not-understood"
