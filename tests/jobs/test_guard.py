"""The guard of a training: real launches whose trainer hangs, is slow, or shows a sign."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import thin

from .harness import Launch, Site, hang, until

TRAINER = Path(__file__).with_name("guarded.py")
# Seconds that a phase may show nothing: where a test wants a stall, and where it wants none on a busy machine either.
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


def begin(site: Site, lapse: int = 8, body: str = "", **plan: Any) -> Launch:
    """Start a run with a guard.

    Its owner is not what is tested here: a busy machine may hold the heartbeat back for longer than others allow.
    """
    identity = {"run": "gemma3-gsm8k", "framework": plan.pop("framework", "nemo-rl")}
    environment = {"GRPO_OWNER_LAPSE_SECONDS": str(lapse)}
    return site.start_plan(site.plan(identity=identity, **plan), body=body, **environment)


def start(
    site: Site,
    *options: object,
    attempt: int = 1,
    settings: dict[str, Any] | None = None,
    **plan: Any,
) -> Launch:
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


def nothing_is_left(site: Site) -> None:
    """No process of a trainer, of its evidence or of its launcher lives."""

    def left() -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(site.tmp).encode() in path.read_bytes():
                    found.append(path.parent.name)
            except OSError:
                continue
        return found

    until(lambda: not left(), "the end of all processes")


def test_a_training_that_goes_well_is_left_alone(site: Site) -> None:
    launch = start(site)
    assert launch.wait() == 0, launch.output
    assert "guard:" not in launch.output
    found = status(site)
    assert (found["state"], found["step"], found["reward"], found["exitCode"]) == ("ended", 4, 0.5, 0)
    assert found["gpuHours"]["lost"] == found["gpuHours"]["unsaved"] == 0
    assert found["checkpoint"]["step"] == 4
    assert found["started"] <= found["checkpoint"]["time"] <= found["updated"]
    assert found["findings"] == []
    assert evidence(site) == []


@pytest.mark.parametrize("where", thin(["step@3", "loading@0", "step@1", "validation@2", "checkpoint@2"], 5))
def test_a_stall_costs_its_deadline_and_a_restart(site: Site, where: str) -> None:
    phase = where.partition("@")[0]
    launch = start(site, "--stall", where, "--stop", settings=guard("firstStep" if where == "step@1" else phase))
    assert launch.wait() == 0, launch.output
    name = "first step" if where == "step@1" else phase
    assert f"phase {name}" in launch.output
    assert "restart 1 of 1" in launch.output
    # Saved once each: what a start had not saved is done again by the next one, and only that.
    assert sorted(int(path.name[5:]) for path in (site.directory / "checkpoints").glob("step_*")) == [1, 2, 3, 4]
    assert steps(site) == [1, 2, 3, 4]
    stalled, again = moments(site, "stalls")[0], moments(site, "start")[1]
    # The floor, the evidence within its time, the stop, and a start on a busy machine.
    assert again - stalled < FLOOR + 20 + 30
    (folder,) = evidence(site)
    assert "the trainer has stalled" in (folder / "reason.txt").read_text()
    assert "Setting up compute cluster" in (folder / "output.txt").read_text(encoding="utf-8")
    (pod,) = [path for path in folder.iterdir() if path.is_dir()]
    listed = (pod / "processes.txt").read_text()
    assert "python3" in listed.partition("other: ")[0]
    others = listed.partition("other: ")[2].splitlines()
    assert any(line.startswith(f"other: {os.getpid()} ") for line in others)
    assert all(len(line.split(" ")) <= 3 for line in others)
    assert status(site)["state"] == "ended"
    # Output that reaches the guard late on a busy machine may look new after the floor.
    assert [each["sign"] for each in status(site)["findings"] if each["sign"] != "not-understood"] == ["stalled"]
    site.never_two()
    nothing_is_left(site)


@pytest.mark.full
def test_the_same_stall_again_ends_the_attempt_with_its_reason(site: Site) -> None:
    launch = start(site, "--stall", "step@3", "--always", "--every", 2, "--deaf", settings=guard("step", "firstStep"))
    assert launch.wait() == 1, launch.output
    last = launch.last
    assert "the trainer has stalled: phase first step after step 2" in last
    assert "gave up after 1 of 1 restarts (job.guard.restarts) without a new checkpoint" in last
    assert f"evidence: {evidence(site)[1]}" in last
    assert len(moments(site, "start")) == 2
    assert status(site)["reason"] in last
    assert site.record()["state"] == "released"
    nothing_is_left(site)


@pytest.mark.full
def test_a_stall_after_a_new_checkpoint_is_another_one(site: Site) -> None:
    """A run that gets on between its stalls is not given up."""
    (site.directory / "checkpoints").mkdir(parents=True)
    # The first start stalls in step 2, the second one in step 3, the third one does not.
    script = site.tmp / "each.py"
    script.write_text(
        "import os, pathlib, sys\n"
        f"done = len(os.listdir({str(site.directory / 'checkpoints')!r}))\n"
        "stall = ['--always', '--stall', f'step@{done + 2}'] if done < 2 else []\n"
        f"os.execv(sys.executable, [sys.executable, {str(TRAINER)!r}, *sys.argv[1:], *stall])\n"
    )
    words = ["python3", str(script), str(site.stamps), str(site.directory / "checkpoints")]
    launch = begin(site, command=words, guard=guard("step"))
    assert launch.wait() == 0, launch.output
    assert launch.output.count("restart 1 of 1") == 2
    assert len(moments(site, "start")) == 3
    assert steps(site) == [1, 2, 3, 4]


@pytest.mark.full
def test_a_child_that_ignores_sigterm_is_killed(site: Site) -> None:
    launch = start(site, "--stall", "step@2", "--deaf", "--child", settings=guard("step", restarts=0))
    assert launch.wait() == 1, launch.output
    assert "gave up after 0 of 0 restarts" in launch.output
    nothing_is_left(site)


@pytest.mark.parametrize("slow", thin(["step@4=2", "step@1=2", "checkpoint@2=2", "validation@3=2"], 4))
@pytest.mark.full
def test_a_slow_phase_below_its_floor_is_no_stall(site: Site, slow: str) -> None:
    launch = start(site, "--time", slow)
    assert launch.wait() == 0, launch.output
    assert "guard:" not in launch.output
    assert len(moments(site, "start")) == 1


@pytest.mark.full
def test_the_deadline_follows_the_times_of_the_run(site: Site) -> None:
    """Steps of a second make a pause of four a slow step, though the floor is shorter."""
    launch = start(site, "--time", "step=1", "--time", "step@4=4", settings=guard("step", factor=20))
    assert launch.wait() == 0, launch.output
    assert "guard:" not in launch.output


@pytest.mark.full
def test_a_trainer_that_goes_on_while_evidence_is_collected_is_not_stopped(site: Site) -> None:
    slow = site.tmp / "bin" / "nvidia-smi"
    slow.write_text("#!/bin/sh\nsleep 30\n")
    slow.chmod(0o755)
    launch = start(site, "--time", "step@3=6", settings=guard("step"))
    assert launch.wait() == 0, launch.output
    assert "the trainer made progress again and is not stopped" in launch.output
    assert len(moments(site, "start")) == 1
    assert [finding["sign"] for finding in status(site)["findings"]] == ["stalled", "slow"]
    nothing_is_left(site)


@pytest.mark.full
def test_evidence_that_hangs_holds_nothing(site: Site) -> None:
    slow = site.tmp / "bin" / "nvidia-smi"
    slow.write_text("#!/bin/sh\nsleep 120\n")
    slow.chmod(0o755)
    launch = start(site, "--stall", "step@2", settings=guard("step", restarts=0, evidenceSeconds=8))
    assert launch.wait() == 1, launch.output
    assert "the evidence is incomplete after 8 s (job.guard.evidenceSeconds)" in launch.output
    assert (evidence(site)[0] / "output.txt").exists()
    nothing_is_left(site)


@pytest.mark.full
def test_stacks_do_not_show_the_arguments_of_a_process(site: Site) -> None:
    spy = site.tmp / "bin" / "py-spy"
    # As py-spy 0.4.3 prints it: dump --nonblocking --pid N.
    spy.write_text(
        '#!/bin/sh\necho "Process $4: $(tr "\\0" " " </proc/$4/cmdline)"\necho "Python v3.13.0"\necho spend\n'
    )
    spy.chmod(0o755)
    launch = start(site, "--stall", "step@2", settings=guard("step", restarts=0))
    assert launch.wait() == 1, launch.output
    texts = [path.read_text() for path in evidence(site)[0].rglob("stacks-*.txt")]
    assert texts
    assert all("Python v3.13.0\nspend\n" in text for text in texts)
    assert not any("--stall" in text for text in texts)


# As py-spy says it without the capability: to a user, to root in a container of Docker, and to root elsewhere. The last
# one is about a process that has ended.
REFUSED = [
    ("Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'", True),
    ("Permission Denied\n\nIt looks like you are running in a docker container.", True),
    ("Error: Failed to open process 7\nReason: Operation not permitted (os error 1)", True),
    ("Error: Failed to open process 7\nReason: No such file or directory (os error 2)", False),
]


@pytest.mark.parametrize(("said", "is_named"), REFUSED)
def test_a_pod_that_may_not_read_stacks_is_told_the_capability(
    said: str, is_named: bool, jobs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "py-spy"
    spy.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 1\n")
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    text = jobs("node_evidence").stacks(7)
    assert text.startswith(f"{said}\n(py-spy ended with exit code 1)\n")
    assert text.endswith("needs the capability SYS_PTRACE\n") == is_named


@pytest.mark.full
def test_new_output_at_the_begin_of_a_stall_is_no_reason_not_to_judge(site: Site) -> None:
    """The first step prints something that the guard does not know, and hangs."""
    script = (
        "import os, sys, time\n"
        "print('▶ Setting up compute cluster...', flush=True)\n"
        "print('=' * 25, 'Step 1/4', '=' * 25, flush=True)\n"
        "if os.path.exists(sys.argv[1]): sys.exit()\n"
        "open(sys.argv[1], 'w').close(); time.sleep(1); print('INFO: the engine starts', flush=True); time.sleep(600)\n"
    )
    launch = begin(site, command=["python3", "-c", script, str(site.stamps)], guard=guard("firstStep", floor=6))
    assert launch.wait() == 0, launch.output
    assert re.search(r"phase first step has shown nothing new for \d+ s, and its deadline is 6 s", launch.output)
    assert [finding["sign"] for finding in status(site)["findings"]] == ["stalled"]


def test_output_that_is_not_understood_stops_nothing(site: Site) -> None:
    launch = start(site, "--chatter", 6, settings=guard("loading"))
    assert launch.wait() == 0, launch.output
    assert launch.output.count("cannot judge") == 1
    assert [finding["sign"] for finding in status(site)["findings"]] == ["not-understood"]


LOOP = "import itertools, time\nfor count in itertools.count(): print({line}, flush=True); time.sleep(0.1)\n"


def run_script(site: Site, script: str, **settings: Any) -> Launch:
    """Start a program of its own as the trainer of a run with NeMo RL."""
    return begin(site, command=["python3", "-c", script], guard=guard("loading", **settings))


@pytest.mark.full
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
def test_a_trainer_that_hangs_before_its_first_known_line_is_stopped(site: Site, script: str) -> None:
    launch = run_script(site, script, restarts=0)
    assert launch.wait() == 1, launch.output
    last = launch.last
    assert "the trainer has stalled: phase loading has shown nothing new for " in last
    assert "gave up after 0 of 0 restarts" in last
    (folder,) = evidence(site)
    assert "phase loading" in (folder / "reason.txt").read_text()
    assert (folder / "complete.txt").exists()
    found = status(site)
    assert (found["phase"], found["reason"] in last) == ("loading", True)
    nothing_is_left(site)


@pytest.mark.full
def test_the_start_of_a_known_program_with_steps_of_its_own_is_not_stopped(site: Site) -> None:
    """It loads as NeMo RL does, and then prints what no reader knows."""
    script = "import time\nprint('▶ Setting up compute cluster...', flush=True)\n" + (
        "for count in range(100): print('iteration', count, flush=True); time.sleep(0.1)\n"
    )
    launch = run_script(site, script)
    assert launch.wait() == 0, launch.output
    assert launch.output.count("cannot judge") == 1


@pytest.mark.full
def test_a_long_start_with_new_output_is_no_stall_and_its_steps_are_watched(site: Site) -> None:
    """It cannot judge for a while, and can when it understands a step."""
    script = "import os, sys, time\nfor count in range(90): print('shard', count, flush=True); time.sleep(0.1)\n"
    script += f"os.execv(sys.executable, [sys.executable, {str(TRAINER)!r}, *sys.argv[1:]])\n"
    words = ["python3", "-c", script, str(site.stamps), str(site.directory / "checkpoints"), "--stall", "step@3"]
    launch = begin(site, command=words, guard=guard("loading", "step"))
    assert launch.wait() == 0, launch.output
    assert launch.output.count("cannot judge") == 1
    assert "the trainer has stalled: phase step after step 2" in launch.output
    assert steps(site) == [1, 2, 3, 4]


@pytest.mark.full
def test_a_pause_of_the_launcher_is_no_stall(site: Site) -> None:
    """A machine that was frozen goes on later, with the trainer; the owner of the run must bear the pause too."""
    settings = guard(*PHASES, floor=12, factor=2)
    launch = start(site, "--time", "step@3=1.5", settings=settings, takeoverSeconds=90, lapse=60)
    until(lambda: moments(site, "step-2"), "the second step")
    trainer = site.trainer_pid(1)
    for pid in (launch.process.pid, trainer):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(13)
    for pid in (launch.process.pid, trainer):
        os.kill(pid, signal.SIGCONT)
    assert launch.wait() == 0, launch.output
    assert "stalled" not in launch.output


def end_while_paused(launch: Launch, site: Site) -> None:
    """Let the trainer print its last steps and end while the launcher is paused."""
    until(lambda: moments(site, "step-2"), "the second step")
    os.kill(launch.process.pid, signal.SIGSTOP)
    stat = Path(f"/proc/{site.trainer_pid(1)}/stat")
    # Its parent, which is paused, keeps what is left of it.
    until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "the end of the trainer")
    os.kill(launch.process.pid, signal.SIGCONT)
    assert launch.wait() == 0, launch.output


def test_what_a_trainer_printed_last_is_noted_when_the_launcher_was_paused_meanwhile(site: Site) -> None:
    launch = start(site, "--time", "step@3=6", takeoverSeconds=90, lapse=60)
    end_while_paused(launch, site)
    assert (status(site)["step"], status(site)["phase"]) == (4, "ended")


@pytest.mark.full
def test_a_sign_in_the_last_output_of_a_training_that_went_well_stops_nothing(site: Site) -> None:
    settings = guard(stopOn={"not-a-number": {"steps": 1}})
    launch = start(
        site, "--time", "step@3=6", "--loss", "nan", "--bad-from", 4, settings=settings, takeoverSeconds=90, lapse=60
    )
    end_while_paused(launch, site)
    assert [finding["sign"] for finding in status(site)["findings"]] == ["not-a-number"]
    assert "collecting evidence" not in launch.output


def test_a_training_that_ends_well_before_it_is_stopped_is_not_called_stopped(site: Site) -> None:
    slow = site.tmp / "bin" / "nvidia-smi"
    slow.write_text("#!/bin/sh\nsleep 30\n")
    slow.chmod(0o755)
    settings = guard(stopOn={"not-a-number": {"steps": 1}})
    launch = start(site, "--loss", "nan", "--bad-from", 3, "--time", "step@4=6", settings=settings)
    assert launch.wait() == 0, launch.output
    assert "collecting evidence" in launch.output
    last = status(site)["findings"][-1]["text"]
    assert last.startswith("the trainer ended before it was stopped; the reason to stop it was: step 3 shows the sign ")


def test_a_sign_is_reported_and_stops_nothing_by_default(site: Site) -> None:
    launch = start(site, "--loss", "nan", "--bad-from", 3)
    assert launch.wait() == 0, launch.output
    assert launch.output.count("guard: step 3: the loss is nan (sign not-a-number)") == 1
    (found,) = status(site)["findings"]
    assert found["sign"] == "not-a-number"


@pytest.mark.full
@pytest.mark.parametrize(("phase", "code"), [("checkpoint", 0), ("step", 1)])
def test_a_save_may_hold_up_the_owner_record_for_longer_than_a_step(site: Site, phase: str, code: int) -> None:
    """6 s are two thirds of the lapse, and 45 s half of the time of a successor."""
    launch = start(site, "--time", f"{phase}@2=15", takeoverSeconds=90, lapse=9)
    record, kept = (site.directory / name for name in ("owner.json", "kept"))
    launch.says("Saving checkpoint for step 2" if phase == "checkpoint" else "Step 2/4")
    # The record says what this phase may take once the guard has read the line; until then it may be the one before.
    beat, lapse = site.record()["beat"], 67.5 if phase == "checkpoint" else 9
    until(lambda: site.record()["beat"] >= beat + 2, "two heartbeats")
    until(lambda: site.record()["lapse"] == lapse, "the record of the phase")
    kept.write_bytes(record.read_bytes())
    hung = hang(record)
    time.sleep(hung + 9 - time.monotonic())
    assert ("stopping the trainer" in launch.output) == bool(code)
    os.close(os.open(record, os.O_RDWR))
    kept.replace(record)
    assert launch.wait() == code, launch.output


@pytest.mark.full
def test_a_step_that_is_printed_twice_counts_once(site: Site) -> None:
    settings = guard(stopOn={"not-a-number": {"steps": 2}})
    options = ("--steps", 60, "--time", "step=0.2", "--loss", "nan", "--bad-from", 3, "--twice")
    launch = start(site, *options, framework="verl", settings=settings)
    assert launch.wait() == 1, launch.output
    assert "step 4 shows the sign not-a-number (job.guard.stopOn)" in launch.last


def test_a_sign_ends_the_attempt_where_the_values_say_so(site: Site) -> None:
    settings = guard(stopOn={"dead-reward": {"steps": 2}}, restarts=5)
    options = ("--steps", 60, "--time", "step=0.2", "--reward", "0.0000", "--loss", "0.0000")
    launch = start(site, *options, settings=settings, retries=3)
    assert launch.wait() == 1, launch.output
    last = launch.last
    assert "shows the sign dead-reward (job.guard.stopOn)" in last
    assert len(moments(site, "start")) == 1
    assert max(steps(site)) < 50
    assert evidence(site)[0].name in last
    # KubeRay's next cluster of the same attempt takes no GPUs.
    again = start(site, *options, settings=settings, workers={"nodes": 1, "gpus": 8, "timeoutSeconds": 600})
    assert again.wait() == 1
    assert "the guard has ended this attempt: step " in again.last
    nothing_is_left(site)


def test_a_limit_of_the_values_decides_what_is_a_sign(site: Site) -> None:
    """As the chart writes it; by the defaults the same run shows another sign, at step 3."""
    settings = guard(limits={"deadSteps": 4.0, "steps": 2, "generationKl": 0.0002})
    launch = start(site, "--reward", "0.0000", "--loss", "0.0000", settings=settings)
    assert launch.wait() == 0, launch.output
    assert [finding["text"].partition(":")[0] for finding in status(site)["findings"]] == ["step 2", "step 4"]
    assert "guard: step 4: the mean reward of 4 steps is 0, and the loss is below 0.0001" in launch.output
    assert "the KL of policy and generation is 0.0003, for 2 steps above 0.0002" in launch.output


def test_an_unknown_sign_is_refused_before_anything_starts(site: Site) -> None:
    launch = start(site, settings=guard(stopOn={"bad-luck": {}}))
    assert launch.wait() == 1
    assert "job.guard.stopOn: there is no sign bad-luck; there are dead-reward" in launch.last
    assert not site.stamps.exists()


def test_status_that_cannot_be_written_costs_nothing(site: Site) -> None:
    """As on a full volume."""
    site.directory.mkdir(parents=True)
    (site.directory / ".status.json.draft").symlink_to("/dev/full")
    launch = start(site)
    assert launch.wait() == 0, launch.output
    assert launch.output.count("cannot write ") == 1
    assert "No space left on device; the run continues" in launch.output


def test_a_volume_that_hangs_for_the_status_alone_costs_nothing(site: Site) -> None:
    site.directory.mkdir(parents=True)
    os.mkfifo(site.directory / ".status.json.draft")
    started = time.monotonic()
    launch = start(site)
    assert launch.wait() == 0, launch.output
    assert time.monotonic() - started < PATIENT


@pytest.mark.full
def test_evidence_that_cannot_be_written_does_not_keep_the_restart(site: Site) -> None:
    folder = site.directory / "attempts/1"
    folder.mkdir(parents=True)
    (folder / "evidence").write_text("a file is in the way")
    launch = start(site, "--stall", "step@2", settings=guard("step"))
    assert launch.wait() == 0, launch.output
    assert "restart 1 of 1" in launch.output
    assert " is incomplete: the program that collects it ended with exit code 1" in launch.output


@pytest.mark.full
def test_a_launcher_that_is_killed_counts_its_loss_at_the_next_start(site: Site) -> None:
    launch = start(site, "--steps", 3, "--stall", "step@3", settings=guard())
    until(lambda: moments(site, "stalls"), "the third step")
    until(lambda: (site.directory / "status.json").exists() and status(site).get("step") == 2, "the record of step 2")
    launch.process.kill()
    launch.wait()
    nothing_is_left(site)
    before = status(site)
    assert before["state"] == "running"
    again = start(site, "--steps", 3, attempt=2, settings=guard())
    assert again.wait() == 0, again.output
    assert status(site)["attempt"] == 2
    assert steps(site) == [1, 2, 3]


def test_a_stop_from_outside_is_no_stall(site: Site) -> None:
    launch = start(site, "--stall", "step@2", "--time", "loading=0.1", settings=guard())
    until(lambda: moments(site, "stalls"), "the second step")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert "guard:" not in launch.output
    assert status(site)["exitCode"] == 128 + signal.SIGTERM


@pytest.mark.full
def test_a_training_that_has_ended_and_does_not_exit_is_not_trained_again(site: Site) -> None:
    launch = start(site, "--stall", "ended@0", settings=guard("loading"))
    assert launch.wait() == 1, launch.output
    assert "the training has ended, but its processes have not" in launch.last
    assert len(moments(site, "start")) == 1


@pytest.mark.full
def test_a_stall_takes_a_restart_and_no_retry(site: Site) -> None:
    launch = start(site, "--stall", "step@2", retries=1, settings=guard("step"))
    assert launch.wait() == 0, launch.output
    assert "retry 1 of" not in launch.output
    assert "restart 1 of 1" in launch.output


def test_a_reader_that_fails_stops_nothing(
    site: Site, jobs: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (site.directory / "attempts/1").mkdir(parents=True)
    plan = site.plan(identity={"framework": "nemo-rl"}, guard=guard())
    with jobs("guard").Guard(plan, SimpleNamespace(lost="", save=lambda _: None)) as watch:
        watch.begin(0, 0)
        monkeypatch.setattr(watch.reader, "feed", lambda text: 1 / 0)
        for _ in range(3):
            watch.hear(b"line\n")
            assert watch.look(paused=False) == ""
    said = capsys.readouterr().out
    assert said.count("the output cannot be read (ZeroDivisionError: division by zero)") == 1
    assert status(site)["findings"][0]["sign"] == "not-understood"
