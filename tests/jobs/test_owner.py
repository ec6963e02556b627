"""One writer at a time: every order in which attempts can meet, on a simulated machine."""

from __future__ import annotations

import errno
import functools
import itertools
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from .harness import BEAT, LAPSE, WAIT
from .simulation.machine import Machine


def rewrite(path: Path, **changes: Any) -> None:
    record = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    draft = path.with_name("draft")
    draft.write_text(json.dumps(record), encoding="utf-8")
    draft.replace(path)


def test_the_record_names_the_runs_owner(machine: Machine) -> None:
    job = json.dumps({"runtime_env": {}, "metadata": {"job_submission_id": "gemma3-gsm8k-1-abc"}})
    launch = machine.start_plan(machine.plan(command=machine.trainer("--run", 6)), RAY_JOB_CONFIG_JSON_ENV_VAR=job)
    machine.trains("trainer")
    machine.until(lambda: machine.record()["beat"] >= 2, "beats")
    record = machine.record()
    assert record["state"] == "running"
    assert record["job"] == "gemma3-gsm8k-1-abc"
    assert (record["run"], record["attempt"], record["pid"]) == ("gemma3-gsm8k", 1, launch.process.pid)
    assert record["host"] == os.uname().nodename
    assert launch.wait() == 0
    assert machine.record()["token"] == record["token"]


def test_a_released_run_is_taken_over_at_once(machine: Machine) -> None:
    assert machine.start().wait() == 0
    second = machine.start(attempt=2)
    assert second.wait() == 0
    # A successor that waits names the attempt that it waits for.
    assert "attempt 1 (host" not in second.output
    machine.never_two()


def test_a_successor_waits_for_a_live_owner(machine: Machine) -> None:
    first = machine.start("--run", 1.5 * LAPSE)
    machine.trains(1)
    second = machine.start(attempt=2)
    second.says("attempt 1 (host")
    assert first.wait() == 0
    assert second.wait() == 0
    assert [name for _, _, name in machine.intervals()] == ["1", "2"]
    machine.never_two()


def test_a_successor_gives_up_after_the_takeover_time(machine: Machine) -> None:
    machine.start("--run", 30)
    machine.trains(1)
    second = machine.start(attempt=2, takeoverSeconds=LAPSE + 1)
    assert second.wait() == 1
    assert "attempt 1 (host" in second.last
    assert "delete its RayJob" in second.output
    assert machine.record()["attempt"] == 1


def test_a_killed_owner_is_replaced_and_its_trainer_is_gone(machine: Machine) -> None:
    first = machine.start("--run", 30, "--deaf")
    machine.trains(1)
    first.signal(signal.SIGKILL)
    first.wait()
    second = machine.start(attempt=2)
    assert second.wait() == 0
    assert "taking over" in second.output
    machine.never_two()
    (_, end, _), (start, _, _) = machine.intervals()
    assert start - end > LAPSE * 0.8


def test_a_successor_waits_while_the_trainer_saves(machine: Machine) -> None:
    first = machine.start("--run", 30, "--save", 1.5 * LAPSE)
    machine.trains(1)
    second = machine.start(attempt=2)
    second.says("owns the run")
    first.signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM
    assert second.wait() == 0
    machine.never_two()
    (start, end, _), _ = machine.intervals()
    assert end - start > 1.4 * LAPSE


@pytest.mark.parametrize("how", ["fresh", "released", "lapsed"])
def test_racing_successors_run_one_at_a_time(machine: Machine, how: str) -> None:
    if how != "fresh":
        first = machine.start("--run", 0.1 if how == "released" else 30)
        machine.trains(1)
        if how == "lapsed":
            first.signal(signal.SIGKILL)
        first.wait()
    racers = [machine.start("--run", 0.3, attempt=2) for _ in range(4)]
    assert [racer.wait() for racer in racers] == [0] * 4
    assert len(machine.intervals()) == 4 + (how != "fresh")
    machine.never_two()
    terms = sorted(int(path.stem) for path in (machine.directory / "owners").iterdir())
    assert terms == list(range(1, len(terms) + 1))


def test_only_the_newest_waiting_attempt_trains(machine: Machine) -> None:
    first = machine.start("--run", 60)
    machine.trains(1)
    second = machine.start(attempt=2)
    second.says("attempt 1 (host")
    third = machine.start(attempt=3)
    third.says("attempt 1 (host")
    first.signal(signal.SIGTERM)
    assert (first.wait(), second.wait(), third.wait()) == (128 + signal.SIGTERM, 1, 0)
    assert "attempt 3 of gemma3-gsm8k exists and this is attempt 2" in second.output
    assert [name for _, _, name in machine.intervals()] == ["1", "3"]
    machine.never_two()


@pytest.mark.parametrize("deaf", [False, True])
def test_a_stolen_token_stops_the_trainer(machine: Machine, deaf: bool) -> None:
    launch = machine.start("--run", 30, *["--deaf"] * deaf)
    machine.trains(1)

    def steal() -> bool:
        # A beat that was being written may put the owner's record back.
        rewrite(machine.directory / "owner.json", token="somebody-else", attempt=7)
        return launch.ended()

    machine.until(steal, "the launch ends")
    assert launch.wait() == 1
    assert "taken over by attempt 7" in launch.output
    assert machine.count("SIGTERM") == 1
    assert machine.record()["token"] == "somebody-else"


def test_a_higher_term_stops_the_trainer(machine: Machine) -> None:
    launch = machine.start("--run", 30)
    machine.trains(1)
    (machine.directory / "owners/2.json").write_text("{}")
    assert launch.wait() == 1
    assert machine.record()["term"] == 1


def test_a_deleted_record_stops_the_trainer(machine: Machine) -> None:
    launch = machine.start("--run", 30)
    machine.trains(1)

    def delete() -> bool:
        (machine.directory / "owner.json").unlink(missing_ok=True)
        return launch.ended()

    machine.until(delete, "the launch ends")
    assert launch.wait() == 1
    assert "owner.json is gone" in launch.output


def test_a_late_write_by_an_earlier_owner_is_overruled(machine: Machine) -> None:
    assert machine.start().wait() == 0
    late = (machine.directory / "owner.json").read_text(encoding="utf-8")
    second = machine.start("--run", 60, attempt=2)
    machine.trains(2)
    (machine.directory / "late").write_text(late, encoding="utf-8")
    (machine.directory / "late").replace(machine.directory / "owner.json")
    machine.until(lambda: machine.record()["term"] == 2, "the owner writes its record again")
    second.signal(signal.SIGTERM)
    assert second.wait() == 128 + signal.SIGTERM


def test_a_frozen_owner_stops_on_waking_and_its_successor_continues(machine: Machine) -> None:
    first = machine.start("--run", 30)
    machine.trains(1)
    trainer = machine.trainer_pid(1)
    for pid in (trainer, first.process.pid):
        machine.kill(pid, signal.SIGSTOP)
    second = machine.start("--run", 5, attempt=2)
    machine.trains(2)
    for pid in (first.process.pid, trainer):
        machine.kill(pid, signal.SIGCONT)
    woken = machine.now()
    assert first.wait() == 1
    # It looks five times a heartbeat.
    assert machine.now() - woken <= BEAT
    assert second.wait() == 0
    assert machine.record()["attempt"] == 2
    assert machine.record()["state"] == "released"


def test_lost_storage_stops_the_trainer_before_a_successor_may_start(machine: Machine) -> None:
    launch = machine.start("--run", 60, "--deaf")
    machine.trains(1)
    gone = machine.now()
    machine.directory.rename(machine.tmp / "elsewhere")
    assert launch.wait() == 1
    assert "could not be written" in launch.output
    assert machine.intervals()[0][1] - gone < LAPSE


def test_a_full_volume_delays_neither_the_trainer_nor_a_successor(machine: Machine) -> None:
    """The record has its place on the volume; a new file would have none."""
    first = machine.start("--run", 1.5 * LAPSE)
    machine.trains(1)
    (machine.directory / f".owner.json.{machine.record()['token']}").symlink_to("/dev/full")
    assert first.wait() == 0, first.output
    assert machine.record()["state"] == "released"
    second = machine.start(attempt=2)
    assert second.wait() == 0
    assert "attempt 1 (host" not in second.output


def test_hanging_storage_stops_the_trainer_before_a_successor_may_start(machine: Machine) -> None:
    launch = machine.start("--run", 30)
    machine.trains(1)
    hung = machine.now()
    machine.volume.hang("owner.json")
    assert launch.wait() == 1
    assert machine.intervals()[0][1] - hung < LAPSE


def owner_of(machine: Machine, patience: float) -> tuple[Any, Any]:
    """Return the program and an owner of the run whose heart does not beat by itself."""
    for name in ("BEAT", "LAPSE"):
        del machine.environment[f"GRPO_OWNER_{name}_SECONDS"]
    program = machine.program("owner")
    found = program.Owner(machine.plan(1), machine.directory, patience)
    found.claims.mkdir(parents=True)
    assert found.claim(1, lapsed=False)
    return program, found


def patience_of(owner: Any) -> float:
    """Return for how many seconds after its last record the owner goes on, without the rounding of a large clock."""
    return round(owner.stop_at - owner.written, 3)


def test_a_saving_owner_announces_a_longer_silence_in_advance(machine: Machine) -> None:
    """At the defaults 300 s instead of 160; a successor waits for 450 s instead of 240, of its 600."""
    program, owner = owner_of(machine, 600)
    assert patience_of(owner) == program.FENCE_SECONDS == 160
    owner.save(True)
    assert owner.soon.is_set()
    # Not before a successor can read it.
    assert patience_of(owner) == 160
    owner.write("running")
    assert (patience_of(owner), machine.record()["lapse"]) == (300, 450)
    owner.saving = False
    before = owner.stop_at
    owner.write("running")
    assert (patience_of(owner), machine.record()["lapse"]) == (160, 240)
    assert owner.stop_at < before


def test_the_shorter_silence_applies_until_a_write_in_place_is_complete(machine: Machine) -> None:
    """A full volume: a part of the record asks a successor for nothing."""
    program, owner = owner_of(machine, 600)
    owner.save(True)
    owner.write("running")
    seen = []

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    program.write_atomically, program.write_in_place = full, lambda *_: seen.append(owner.stop_at)
    owner.write("running")
    assert seen[0] - program.now() == pytest.approx(160)
    assert owner.stop_at == seen[0]


def test_a_write_that_returns_too_late_extends_no_deadline(machine: Machine) -> None:
    program, owner = owner_of(machine, 600)
    owner.save(True)
    owner.stop_at = program.now() - 1
    owner.write("running")
    assert patience_of(owner) == program.FENCE_SECONDS


def test_a_dead_volume_holds_gpus_for_at_most_twenty_minutes(machine: Machine) -> None:
    _, owner = owner_of(machine, 86400)
    owner.save(True)
    owner.write("running")
    assert (patience_of(owner), machine.record()["lapse"]) == (1200, 1800)


def test_a_save_never_shortens_the_configured_lapse(machine: Machine) -> None:
    _, owner = owner_of(machine, 60)
    owner.saving = True
    owner.write("running")
    assert (patience_of(owner), machine.record()["lapse"]) == (160, 240)


def test_the_shorter_silence_applies_when_a_write_hangs_or_fails(machine: Machine) -> None:
    """It may be carried out at any moment, and a successor then reads it."""
    program, owner = owner_of(machine, 600)
    owner.saving = True
    owner.write("running")
    owner.saving = False

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    written, program.write_atomically = program.write_atomically, fail
    with pytest.raises(OSError, match="Input/output error"):
        owner.write("running")
    assert owner.stop_at - program.now() == pytest.approx(160)
    # From now on no record is certain to be the last one that is carried out.
    program.write_atomically, owner.saving = written, True
    owner.write("running")
    assert (patience_of(owner), machine.record()["lapse"]) == (160, 240)


def test_a_brief_storage_outage_is_survived(machine: Machine) -> None:
    machine.environment["GRPO_OWNER_LAPSE_SECONDS"] = "12"
    launch = machine.start("--run", 8)
    machine.trains(1)
    machine.directory.rename(machine.tmp / "elsewhere")
    launch.says("cannot write the owner record")
    (machine.tmp / "elsewhere").rename(machine.directory)
    assert launch.wait() == 0
    assert machine.record()["state"] == "released"


def test_a_successor_waits_for_a_claim_without_a_record(machine: Machine) -> None:
    assert machine.start().wait() == 0
    (machine.directory / "owners/2.json").write_text("{}")
    started = machine.now()
    assert machine.start(attempt=2).wait() == 0
    assert machine.now() - started > LAPSE
    assert machine.record()["term"] == 3


def test_a_successor_waits_for_an_unreadable_record(machine: Machine) -> None:
    assert machine.start().wait() == 0
    (machine.directory / "owner.json").write_text("{")
    started = machine.now()
    assert machine.start(attempt=2).wait() == 0
    assert machine.now() - started > LAPSE


def test_a_successor_honours_an_owners_longer_lapse(machine: Machine) -> None:
    assert machine.start().wait() == 0
    rewrite(machine.directory / "owner.json", state="running", lapse=1.5 * LAPSE)
    started = machine.now()
    assert machine.start(attempt=2).wait() == 0
    assert machine.now() - started > 1.5 * LAPSE


def test_a_slow_read_is_not_taken_for_a_silent_owner(machine: Machine) -> None:
    """The attempt that waits, or its volume, was paused after it had read: the owner may have written since then."""
    owner = machine.program("owner")
    waiting = owner.Owner(machine.plan(2), machine.directory, WAIT)
    running = {"state": "running", "term": 1, "lapse": LAPSE}
    looks = iter([(0.0, running), (1.5 * LAPSE, running), (0.0, {**running, "state": "released"})])

    def look() -> tuple[dict[str, Any], int]:
        duration, record = next(looks)
        machine.sleep(duration)
        return record, 1

    waiting.look = look
    assert waiting.wait(owner.now() + WAIT) == (2, False)


def test_a_stop_while_waiting_takes_effect_at_once_and_changes_nothing(machine: Machine) -> None:
    first = machine.start("--run", 30)
    machine.trains(1)
    second = machine.start(attempt=2)
    second.says("owns the run")
    asked = machine.now()
    second.signal(signal.SIGTERM)
    assert second.wait() == 128 + signal.SIGTERM
    assert machine.now() - asked <= BEAT
    assert "stopped by SIGTERM" in second.output
    assert not first.ended()
    assert [name for _, _, name in machine.intervals()] == ["1"]


def test_a_stop_while_taking_over_releases_the_run(machine: Machine) -> None:
    machine.environment["GRPO_OWNER_BEAT_SECONDS"] = "10"
    machine.environment["GRPO_OWNER_LAPSE_SECONDS"] = "40"
    launch = machine.start(takeoverSeconds=60)
    machine.until((machine.directory / "owner.json").exists, "the record")
    asked = machine.now()
    launch.signal(signal.SIGINT)
    assert launch.wait() == 128 + signal.SIGINT
    assert machine.now() - asked <= 1
    assert machine.record()["state"] == "released"
    assert machine.intervals() == []


def test_a_run_starts_afresh_after_its_directory_is_deleted(machine: Machine) -> None:
    assert machine.start(attempt=3).wait() == 0
    shutil.rmtree(machine.directory)
    assert machine.start(attempt=1).wait() == 0
    assert machine.record()["term"] == 1


@pytest.mark.parametrize("lapsed", [False, True])
@pytest.mark.parametrize("delays", [*itertools.permutations((0.0, 0.1 * BEAT, 0.3 * BEAT))])
def test_a_run_has_one_owner_even_when_the_store_lets_several_create_a_claim(
    machine: Machine, delays: tuple[float, ...], lapsed: bool
) -> None:
    """An object store: each of three attempts creates the same claim; the last one to write has it."""
    (machine.directory / "owners").mkdir(parents=True)
    won: dict[int, bool] = {}

    def claim(attempt: int) -> None:
        program = machine.program("owner")
        write = program.write_atomically
        program.create_exclusively = lambda path, text: write(path, text) is None
        machine.sleep(delays[attempt - 1])
        won[attempt] = program.Owner(machine.plan(attempt), machine.directory, WAIT).claim(1, lapsed=lapsed)

    for attempt in (1, 2, 3):
        machine.start_task(functools.partial(claim, attempt))
    machine.until(lambda: len(won) == 3, "the claims")
    last = 1 + delays.index(max(delays))
    assert won == {attempt: attempt == last for attempt in (1, 2, 3)}


@pytest.mark.parametrize("taken", [False, True])
def test_a_delayed_launcher_loses_its_trainer_and_says_why(machine: Machine, taken: bool) -> None:
    """Even a trainer that ignores SIGTERM; it starts again if nobody has taken the run meanwhile."""
    launch = machine.start("--run", 2 * LAPSE, "--deaf", retries=1)
    machine.trains(1)
    launch.process.frozen, stopped = True, machine.now()
    machine.sleep(2 * LAPSE)
    ((_, end, _),) = machine.intervals()
    assert LAPSE * 0.8 < end - stopped < LAPSE
    if taken:
        (machine.directory / "owners/2.json").write_text("{}")
    launch.process.frozen = False
    assert launch.wait() == (1 if taken else 0), launch.output
    assert "could not prove that it owns the run: its fence has killed the trainer" in launch.output
    assert len(machine.intervals()) == (1 if taken else 2)
    machine.never_two()


def test_a_fence_that_was_itself_paused_reads_the_latest_heartbeat(machine: Machine) -> None:
    launch = machine.start("--run", 4 * LAPSE)
    machine.trains(1)
    (fence,) = [each for each in machine.living() if each.pid == each.group and each.parent]
    fence.frozen = True
    machine.sleep(2 * LAPSE)
    fence.frozen = False
    assert launch.wait() == 0, launch.output
    assert len(machine.intervals()) == 1
