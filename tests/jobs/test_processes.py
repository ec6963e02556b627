"""Real launches: the entrypoint in a shell, processes, signals, pipes and evidence, which no simulation shows.

What the launcher decides, and when, is tested on the simulated machine. Here nothing depends on the time that a
step takes: a process may be held up for seconds anywhere.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo.generate.programs import code
from tests.programs import PROGRAMS

from .harness import VERSION, Site
from .test_guard import begin, evidence, guard, moments, start, status, steps

LIMIT = 300 << 20


def processes_of(site: Site) -> list[str]:
    """Return the processes of this test that live."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(site.tmp).encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def nothing_is_left(site: Site) -> None:
    site.until(lambda: not processes_of(site), "the end of all processes")


def hang(path: Path) -> None:
    """Let every read of a file hang, as on a server that does not answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


def test_the_entrypoint_trains_and_leaves_nothing_behind(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with a module that is called like one of Python's, and with a folder for temporary files."""
    elsewhere, temporary = site.tmp / "elsewhere", site.tmp / "temporary"
    elsewhere.mkdir()
    temporary.mkdir()
    (elsewhere / "uuid.py").write_text("raise SystemExit('replaced')")
    monkeypatch.chdir(elsewhere)
    launch = site.start_plan(site.plan(), TMPDIR=str(temporary))
    assert launch.wait() == 0, launch.output
    assert launch.output.startswith(f"grpo: run gemma3-gsm8k, attempt 1, programs {VERSION}\n")
    assert site.record()["state"] == "released"
    assert list(temporary.iterdir()) == list(site.directory.rglob(".*")) == []


def test_workers_get_the_reward_programs(site: Site) -> None:
    """All of jobs/rewards, beside what the values say of them; without rewards, none of it."""
    programs = {path.name: code(path.read_text()) for path in PROGRAMS["rewards"].parent.glob("*.py")}
    (site.tmp / "table").write_text("{}")
    body = f"cat >\"$programs/rewards.json\" <'{site.tmp / 'table'}'\n"
    assert site.start_plan(site.plan(shared=["rewards.json"]), body=body).wait() == 0
    folder = site.directory / "attempts/1/code"
    assert {path.name: path.read_text() for path in folder.iterdir()} == {**programs, "rewards.json": "{}"}
    assert site.start(attempt=2).wait() == 0
    assert not (site.directory / "attempts/2/code").exists()


def test_the_exit_code_reflects_the_trainers_exit_code_or_signal(site: Site) -> None:
    assert site.start("--code", 3).wait() == 3
    assert site.start("--kill", int(signal.SIGSEGV)).wait() == 128 + signal.SIGSEGV


def test_the_trainer_receives_a_signal_once_and_may_save(site: Site) -> None:
    """Ray sends it to the launch and to the trainer, and perhaps again."""
    command = site.trainer("--name", 1, "--run", 600, "--save", 0.5, "--code", 4)
    launch = site.start_plan(site.plan(command=command), RAY_JOB_CONFIG_JSON_ENV_VAR="{}")
    site.trains(1)
    assert "the trainer runs as process" in launch.output
    os.kill(site.trainer_pid(1), signal.SIGTERM)
    launch.signal(signal.SIGTERM)
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 4
    assert site.count("SIGTERM") == 1
    assert site.record()["state"] == "released"


def test_the_trainer_inherits_neither_the_plan_nor_the_program(site: Site) -> None:
    listing = site.tmp / "descriptors"
    launch = site.start("--descriptors", listing)
    assert launch.wait() == 0
    opened = json.loads(listing.read_text())
    assert opened.pop("0") == "/dev/null"
    assert opened.pop("1") == opened.pop("2")
    # The trainer's own: its log, and the listing that it writes.
    assert {Path(target).name for target in opened.values()} <= {"stamps", "descriptors"}


def test_a_command_that_cannot_be_executed_is_reported_in_one_line(site: Site) -> None:
    script = site.tmp / "bin" / "broken"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    launch = site.start(command=["broken"])
    assert launch.wait() == 1
    assert "Traceback" not in launch.output
    assert "broken" in launch.last
    assert site.record()["state"] == "released"


def test_unwritable_output_does_not_stop_the_run(site: Site) -> None:
    """Its volume is full, and a process that has left the trainer's group keeps the pipe open."""
    (site.directory / "attempts/1").mkdir(parents=True)
    (site.directory / "attempts/1/output.log").symlink_to("/dev/full")
    launch = site.start("--say", "still here", "--away")
    assert launch.wait() == 0
    assert "cannot write " in launch.output
    assert "still here" in launch.output


def test_a_trainers_process_group_ends_when_its_launcher_is_killed(site: Site) -> None:
    launch = site.start("--run", 600, "--deaf", "--leave")
    site.trains("left")
    launch.signal(signal.SIGKILL)
    launch.wait()
    nothing_is_left(site)


@pytest.mark.full
def test_a_launcher_stopped_for_too_long_loses_its_trainer(site: Site) -> None:
    """Nothing of the launcher runs meanwhile, and its trainer ignores SIGTERM."""
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "6"
    launch = site.start("--run", 600, "--deaf", "--leave", retries=1)
    site.trains("left")
    launch.signal(signal.SIGSTOP)
    members = {str(pid) for _, pid, _, _ in site.lines()}
    site.until(lambda: not members.intersection(processes_of(site)), "the end of the trainer's group")
    (site.directory / "owners/9.json").write_text("{}")
    launch.signal(signal.SIGCONT)
    assert launch.wait() == 1
    assert "its fence has killed the trainer" in launch.output
    assert "taken over" in launch.last
    nothing_is_left(site)


@pytest.mark.full
def test_leftover_trainer_processes_end_before_the_run_is_released(site: Site) -> None:
    launch = site.start("--run", 2, "--leave")
    site.trains("left")
    assert launch.wait() == 0
    assert site.record()["state"] == "released"
    nothing_is_left(site)


def test_sigterm_stops_a_hung_launch(site: Site) -> None:
    """Its main thread is in a call that does not return, so another thread must see the signal."""
    hang(site.directory / "run.json")
    launch = site.start(identity={"run": "gemma3-gsm8k"})
    launch.says("waiting for the volume")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in launch.output


@pytest.mark.full
def test_the_launch_gives_up_on_a_volume_that_hangs_at_the_start(site: Site) -> None:
    hang(site.directory / "attempts/1/spec.sha256")
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "1"
    launch = site.start(takeoverSeconds=3, retries=3)
    assert launch.wait() == 1
    assert f"the volume of {site.directory} did not answer for 3 s (job.takeoverSeconds)" in launch.last
    assert site.intervals() == []


@pytest.mark.full
def test_a_hung_heartbeat_stops_the_trainer(site: Site) -> None:
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "6"
    launch = site.start("--run", 600)
    site.trains(1)
    record, trap = site.directory / "owner.json", site.directory / "trap"

    def is_hung() -> bool:
        # A heartbeat that was being written puts the record back.
        if not record.is_fifo() and not launch.ended():
            os.mkfifo(trap)
            trap.replace(record)
        return launch.ended()

    site.until(is_hung, "the end of the launch")
    assert launch.wait() == 1
    assert "the owner record could not be written" in launch.output
    assert site.count("SIGTERM") == 1


@pytest.mark.full
def test_racing_launches_run_one_at_a_time(site: Site) -> None:
    """Only a file system can say which of four processes has created a file."""
    racers = [site.start("--run", 0.3, attempt=2) for _ in range(4)]
    assert [racer.wait() for racer in racers] == [0] * 4
    assert len(site.intervals()) == 4
    site.never_two()
    terms = sorted(int(path.stem) for path in (site.directory / "owners").iterdir())
    assert terms == list(range(1, len(terms) + 1))


CHATTY = """
import os, signal, sys, time
log, end = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT), time.monotonic() + 600
def note(word): os.write(log, f"1 {os.getpid()} {word} {time.monotonic()}\\n".encode())
signal.signal(signal.SIGTERM, lambda *_: (note("SIGTERM"), os._exit(0)))
lines = 0
while time.monotonic() < end:
    note("alive")
    print("x" * 9999, flush=True)
    lines += 1
    note(f"line-{lines}")
    time.sleep(0.002)
"""


@pytest.mark.full
def test_a_hung_output_copy_does_not_keep_a_signal_from_the_trainer(site: Site) -> None:
    """The trainer prints a lot, and output.log takes 64 KiB and then hangs."""
    script, log = site.tmp / "chatty.py", site.directory / "attempts/1/output.log"
    script.write_text(CHATTY)
    hang(log)
    # Held open by the test, so that opening it does not hang already.
    held = os.open(log, os.O_RDWR)
    try:
        launch = site.start_plan(site.plan(command=["python3", str(script), str(site.stamps)]))
        # More than the log, the queue before it, and the pipe hold.
        site.until(lambda: site.count("line-600"), "output that the log does not take")
        launch.signal(signal.SIGTERM)
        assert launch.wait() == 128 + signal.SIGTERM
        assert site.count("SIGTERM") == 1
    finally:
        os.close(held)


@pytest.mark.full
def test_stall_evidence_is_collected_before_the_restart(site: Site) -> None:
    """The trainer is stopped by SIGSTOP, and has a child that ignores SIGTERM."""
    settings = guard("step", floor=12, evidenceSeconds=60)
    launch = start(site, "--stall", "step@3", "--stop", "--child", settings=settings, lapse=120)
    assert launch.wait() == 0, launch.output
    assert "phase step" in launch.output
    assert "restart 1 of 1" in launch.output
    assert steps(site) == [1, 2, 3, 4]
    (folder,) = evidence(site)
    assert "the trainer has stalled" in (folder / "reason.txt").read_text()
    assert "Setting up compute cluster" in (folder / "output.txt").read_text(encoding="utf-8")
    (pod,) = [path for path in folder.iterdir() if path.is_dir()]
    listed = (pod / "processes.txt").read_text()
    assert "python3" in listed.partition("other: ")[0]
    others = listed.partition("other: ")[2].splitlines()
    assert any(line.startswith(f"other: {os.getpid()} ") for line in others)
    assert all(len(line.split(" ")) <= 3 for line in others)
    site.never_two()
    nothing_is_left(site)


@pytest.mark.full
def test_hung_evidence_collection_is_killed(site: Site) -> None:
    slow = site.tmp / "bin" / "nvidia-smi"
    slow.write_text(f"#!/bin/sh\n: {site.tmp}\nsleep 600\n")
    slow.chmod(0o755)
    settings = guard("step", floor=12, restarts=0, evidenceSeconds=8)
    launch = start(site, "--stall", "step@2", settings=settings, lapse=120)
    assert launch.wait() == 1, launch.output
    assert "the evidence is incomplete after 8 s (job.guard.evidenceSeconds)" in launch.output
    assert (evidence(site)[0] / "output.txt").exists()
    nothing_is_left(site)


@pytest.mark.full
def test_stack_dumps_do_not_show_process_arguments(site: Site) -> None:
    spy = site.tmp / "bin" / "py-spy"
    # As py-spy 0.4.3 prints it: dump --nonblocking --pid N.
    spy.write_text(
        '#!/bin/sh\necho "Process $4: $(tr "\\0" " " </proc/$4/cmdline)"\necho "Python v3.13.0"\necho spend\n'
    )
    spy.chmod(0o755)
    settings = guard("step", floor=12, restarts=0, evidenceSeconds=60)
    launch = start(site, "--stall", "step@2", settings=settings, lapse=120)
    assert launch.wait() == 1, launch.output
    texts = [path.read_text() for path in evidence(site)[0].rglob("stacks-*.txt")]
    assert texts
    assert all("Python v3.13.0\nspend\n" in text for text in texts)
    assert not any("--stall" in text for text in texts)


def test_evidence_keeps_the_workers_last_lines_and_the_memory_use(site: Site) -> None:
    logs = site.tmp / "ray/session_latest/logs"
    logs.mkdir(parents=True)
    (logs / "worker-1a-01000000-77.out").write_text("many lines\n" * 100_000 + "the last words\n")
    (logs / "worker-1a-01000000-77.err").write_text("")
    (logs / "raylet.out").write_text("a worker died\n" + "[state-dump] 24 total\n" * 10_000)
    # As if they were written while the trainer runs.
    for path in logs.iterdir():
        os.utime(path, (time.time() + 3600,) * 2)
    old = logs / "worker-0f-00000000-11.err"
    old.write_text("of another run\n")
    os.utime(old, (1, 1))
    site.environment["RAY_TMPDIR"] = str(site.tmp)
    launch = start(site, "--crash", "step@2=5", settings=guard(evidenceSeconds=60), lapse=120)
    assert launch.wait() == 5, launch.output
    (folder,) = evidence(site)
    assert launch.last == f"grpo: guard: the trainer ended with exit code 5; evidence: {folder}"
    assert (folder / "complete.txt").exists()
    assert status(site)["state"] == "ended"
    (pod,) = [path for path in folder.iterdir() if path.is_dir()]
    text = (pod / "worker-logs.txt").read_text()
    assert "== worker-1a-01000000-77.out\n" in text
    assert "the last words\n" in text
    assert "a worker died" in text
    assert "another run" not in text
    assert "state-dump" not in text
    assert ".err" not in text
    assert len(text) < 100_000
    assert "oom_kill" in (pod / "memory.txt").read_text()
    nothing_is_left(site)


@pytest.fixture
def small_pod(site: Site) -> Iterator[Path]:
    """Make a control group with little memory, as a pod has one."""
    for base, file in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = Path(base) / f"grpo-test-{os.getpid()}"
        try:
            folder.mkdir()
            (folder / file).write_text(str(LIMIT))
            break
        except OSError:
            continue
    else:
        pytest.skip("this user cannot make a control group")
    yield folder
    site.until(lambda: not (folder / "cgroup.procs").read_text(), "the end of the group's processes")
    folder.rmdir()


@pytest.mark.full
def test_a_trainer_killed_for_its_memory_is_reported_as_out_of_memory(site: Site, small_pod: Path) -> None:
    body = f"echo $$ > {small_pod}/cgroup.procs\n"
    words = ["python3", str(Path(__file__).with_name("guarded.py")), str(site.stamps)]
    options: list[Any] = [str(site.directory / "checkpoints"), "--crash", "step@2=memory"]
    settings = guard(evidenceSeconds=60)
    launch = begin(site, command=[*words, *options], guard=settings, body=body, lapse=120)
    assert launch.wait() == 128 + signal.SIGKILL, launch.output
    last = launch.last
    why = "exit code 137 (SIGKILL): out of memory: the kernel killed 1 process of this pod, whose limit is 0.3 GiB"
    assert f"the trainer ended with {why}; evidence: " in last
    # A task without a guard says it too.
    launch = site.start_plan(site.plan(2, command=[*words[:2], str(site.tmp / "other"), *options]), body=body)
    assert launch.wait() == 128 + signal.SIGKILL, launch.output
    assert launch.last == f"grpo: the trainer ended with {why}"
    assert len(moments(site, "start")) == 1
