"""One writer at a time: every order in which attempts can meet, with real processes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .harness import BEAT, LAPSE, SOON, WAIT, Site, hang, load_program, until


def rewrite(path: Path, **changes: Any) -> None:
    record = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    draft = path.with_name("draft")
    draft.write_text(json.dumps(record), encoding="utf-8")
    draft.replace(path)


def test_the_record_says_who_owns_the_run(site: Site) -> None:
    job = json.dumps({"runtime_env": {}, "metadata": {"job_submission_id": "gemma3-gsm8k-1-abc"}})
    launch = site.start_plan(site.plan(command=site.trainer("--run", 6)), RAY_JOB_CONFIG_JSON_ENV_VAR=job)
    site.trains("trainer")
    until(lambda: site.record()["beat"] >= 2, "beats")
    record = site.record()
    assert record["state"] == "running"
    assert record["job"] == "gemma3-gsm8k-1-abc"
    assert (record["run"], record["attempt"], record["pid"]) == ("gemma3-gsm8k", 1, launch.process.pid)
    assert record["host"] == os.uname().nodename
    assert launch.wait() == 0
    assert site.record()["token"] == record["token"]


def test_a_released_run_is_taken_at_once(site: Site) -> None:
    assert site.start().wait() == 0
    second = site.start(attempt=2)
    assert second.wait() == 0
    # A successor that waits names the attempt that it waits for.
    assert "attempt 1 (host" not in second.output
    site.never_two()


@pytest.mark.full
def test_a_successor_waits_for_an_owner_that_is_alive(site: Site) -> None:
    first = site.start("--run", 1.5 * LAPSE)
    site.trains(1)
    second = site.start(attempt=2)
    second.says("attempt 1 (host")
    assert first.wait() == 0
    assert second.wait() == 0
    assert [name for _, _, name in site.intervals()] == ["1", "2"]
    site.never_two()


@pytest.mark.full
def test_a_successor_gives_up(site: Site) -> None:
    site.start("--run", 30)
    site.trains(1)
    second = site.start(attempt=2, takeoverSeconds=LAPSE + 1)
    assert second.wait() == 1
    assert "attempt 1 (host" in second.last
    assert "delete its RayJob" in second.output
    assert site.record()["attempt"] == 1


@pytest.mark.full
def test_an_owner_that_was_killed_is_replaced_and_its_trainer_is_gone(site: Site) -> None:
    first = site.start("--run", 30, "--deaf")
    site.trains(1)
    first.signal(signal.SIGKILL)
    first.wait()
    second = site.start(attempt=2)
    assert second.wait() == 0
    assert "taking over" in second.output
    site.never_two()
    (_, end, _), (start, _, _) = site.intervals()
    assert start - end > LAPSE * 0.8


@pytest.mark.full
def test_a_successor_waits_while_the_trainer_saves(site: Site) -> None:
    first = site.start("--run", 30, "--save", 1.5 * LAPSE)
    site.trains(1)
    second = site.start(attempt=2)
    second.says("owns the run")
    first.signal(signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM
    assert second.wait() == 0
    site.never_two()
    (start, end, _), _ = site.intervals()
    assert end - start > 1.5 * LAPSE


@pytest.mark.full
@pytest.mark.parametrize("how", ["fresh", "released", "lapsed"])
def test_racing_successors_run_one_after_the_other(site: Site, how: str) -> None:
    if how != "fresh":
        first = site.start("--run", 0.1 if how == "released" else 30)
        site.trains(1)
        if how == "lapsed":
            first.signal(signal.SIGKILL)
        first.wait()
    # A lapse that four starting processes on a busy machine do not reach by accident.
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "8"
    racers = [site.start("--run", 0.3, attempt=2) for _ in range(4)]
    assert [racer.wait() for racer in racers] == [0] * 4
    assert len(site.intervals()) == 4 + (how != "fresh")
    site.never_two()
    terms = sorted(int(path.stem) for path in (site.directory / "owners").iterdir())
    assert terms == list(range(1, len(terms) + 1))


@pytest.mark.full
def test_only_the_newest_of_the_waiting_attempts_trains(site: Site) -> None:
    first = site.start("--run", 60)
    site.trains(1)
    second = site.start(attempt=2)
    second.says("attempt 1 (host")
    third = site.start(attempt=3)
    third.says("attempt 1 (host")
    first.signal(signal.SIGTERM)
    assert (first.wait(), second.wait(), third.wait()) == (128 + signal.SIGTERM, 1, 0)
    assert "attempt 3 of gemma3-gsm8k exists and this is attempt 2" in second.output
    assert [name for _, _, name in site.intervals()] == ["1", "3"]
    site.never_two()


@pytest.mark.parametrize("deaf", [False, True])
def test_a_stolen_token_stops_the_trainer(site: Site, deaf: bool) -> None:
    launch = site.start("--run", 30, *["--deaf"] * deaf)
    site.trains(1)

    def steal() -> bool:
        # A beat that was being written may put the owner's record back.
        rewrite(site.directory / "owner.json", token="somebody-else", attempt=7)
        return launch.ended()

    until(steal, "the launch ends")
    assert launch.wait() == 1
    assert "taken over by attempt 7" in launch.output
    assert site.count("SIGTERM") == 1
    assert site.record()["token"] == "somebody-else"


def test_a_higher_term_stops_the_trainer(site: Site) -> None:
    launch = site.start("--run", 30)
    site.trains(1)
    (site.directory / "owners/2.json").write_text("{}")
    assert launch.wait() == 1
    assert site.record()["term"] == 1


def test_a_deleted_record_stops_the_trainer(site: Site) -> None:
    launch = site.start("--run", 30)
    site.trains(1)

    def delete() -> bool:
        (site.directory / "owner.json").unlink(missing_ok=True)
        return launch.ended()

    until(delete, "the launch ends")
    assert launch.wait() == 1
    assert "owner.json is gone" in launch.output


@pytest.mark.full
def test_a_late_write_of_an_earlier_owner_is_overruled(site: Site) -> None:
    assert site.start().wait() == 0
    late = (site.directory / "owner.json").read_text(encoding="utf-8")
    second = site.start("--run", 60, attempt=2)
    site.trains(2)
    (site.directory / "late").write_text(late, encoding="utf-8")
    (site.directory / "late").replace(site.directory / "owner.json")
    until(lambda: site.record()["term"] == 2, "the owner writes its record again")
    second.signal(signal.SIGTERM)
    assert second.wait() == 128 + signal.SIGTERM


@pytest.mark.full
def test_a_frozen_owner_stops_when_it_wakes_and_its_successor_goes_on(site: Site) -> None:
    first = site.start("--run", 30)
    site.trains(1)
    trainer = site.trainer_pid(1)
    for pid in (trainer, first.process.pid):
        os.kill(pid, signal.SIGSTOP)
    second = site.start("--run", 5, attempt=2)
    site.trains(2)
    for pid in (first.process.pid, trainer):
        os.kill(pid, signal.SIGCONT)
    woken = time.monotonic()
    assert first.wait() == 1
    assert time.monotonic() - woken < SOON
    assert second.wait() == 0
    assert site.record()["attempt"] == 2
    assert site.record()["state"] == "released"


def test_lost_storage_stops_the_trainer_before_a_successor_may_start(site: Site) -> None:
    launch = site.start("--run", 60, "--deaf")
    site.trains(1)
    gone = time.monotonic()
    site.directory.rename(site.tmp / "elsewhere")
    assert launch.wait() == 1
    assert "could not be written" in launch.output
    assert site.intervals()[0][1] - gone < LAPSE


@pytest.mark.full
def test_a_full_volume_costs_neither_the_trainer_nor_a_successor_time(site: Site) -> None:
    """The record has its place on the volume; a new file would have none."""
    first = site.start("--run", 1.5 * LAPSE)
    site.trains(1)
    # Right after a heartbeat, so that no draft is being moved.
    beat = site.record()["beat"]
    until(lambda: site.record()["beat"] > beat, "a heartbeat")
    (site.directory / "trap").symlink_to("/dev/full")
    (site.directory / "trap").replace(site.directory / f".owner.json.{site.record()['token']}")
    assert first.wait() == 0, first.output
    assert site.record()["state"] == "released"
    second = site.start(attempt=2)
    assert second.wait() == 0
    assert "attempt 1 (host" not in second.output


@pytest.mark.full
def test_hanging_storage_stops_the_trainer_before_a_successor_may_start(site: Site) -> None:
    launch = site.start("--run", 30)
    site.trains(1)
    hung = hang(site.directory / "owner.json")
    assert launch.wait() == 1
    assert site.intervals()[0][1] - hung < LAPSE


def owner_of(site: Site, patience: float) -> tuple[Any, Any]:
    """Return the program and an owner of the run whose heart does not beat by itself."""
    program = load_program("owner")
    # There is no other attempt that the claim has to wait for.
    program.BEAT = BEAT
    found = program.Owner(site.plan(1), site.directory, patience)
    found.claims.mkdir(parents=True)
    assert found.claim(1, lapsed=False)
    return program, found


def patience_of(owner: Any) -> float:
    """Return for how many seconds after its last record the owner goes on, without the rounding of a large clock."""
    return round(owner.stop_at - owner.written, 3)


def test_an_owner_that_saves_may_be_silent_for_longer_and_says_so_before(site: Site) -> None:
    """At the defaults 300 s instead of 160; a successor waits for 450 s instead of 240, of its 600."""
    program, owner = owner_of(site, 600)
    assert patience_of(owner) == program.FENCE == 160
    owner.save(True)
    assert owner.soon.is_set()
    # Not before a successor can read it.
    assert patience_of(owner) == 160
    owner.write("running")
    assert (patience_of(owner), site.record()["lapse"]) == (300, 450)
    owner.saving = False
    before = owner.stop_at
    owner.write("running")
    assert (patience_of(owner), site.record()["lapse"]) == (160, 240)
    assert owner.stop_at < before


def test_a_record_that_is_written_in_place_counts_with_the_shorter_time_before_it_is_there(site: Site) -> None:
    """A full volume: a part of the record asks a successor for nothing."""
    program, owner = owner_of(site, 600)
    owner.save(True)
    owner.write("running")
    seen = []

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    started = time.monotonic()
    program.write_atomically, program.write_in_place = full, lambda *_: seen.append(owner.stop_at)
    owner.write("running")
    assert 160 <= seen[0] - started < 161
    assert owner.stop_at == seen[0]


def test_a_write_that_returns_too_late_gives_no_more_time(site: Site) -> None:
    program, owner = owner_of(site, 600)
    owner.save(True)
    owner.stop_at = time.monotonic() - 1
    owner.write("running")
    assert patience_of(owner) == program.FENCE


def test_a_dead_volume_holds_gpus_for_twenty_minutes_at_most(site: Site) -> None:
    _, owner = owner_of(site, 86400)
    owner.save(True)
    owner.write("running")
    assert (patience_of(owner), site.record()["lapse"]) == (1200, 1800)


def test_a_save_never_shortens_the_time_of_the_values(site: Site) -> None:
    _, owner = owner_of(site, 60)
    owner.saving = True
    owner.write("running")
    assert (patience_of(owner), site.record()["lapse"]) == (160, 240)


def test_a_write_that_hangs_or_fails_counts_with_the_shorter_time(site: Site) -> None:
    """It may be carried out at any moment, and a successor then reads it."""
    program, owner = owner_of(site, 600)
    owner.saving = True
    owner.write("running")
    owner.saving = False

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    written, program.write_atomically = program.write_atomically, fail
    started = time.monotonic()
    with pytest.raises(OSError, match="Input/output error"):
        owner.write("running")
    assert 160 <= owner.stop_at - started < 161
    # From now on no record is certain to be the last one that is carried out.
    program.write_atomically, owner.saving = written, True
    owner.write("running")
    assert (patience_of(owner), site.record()["lapse"]) == (160, 240)


@pytest.mark.full
def test_a_short_loss_of_the_storage_is_survived(site: Site) -> None:
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "12"
    launch = site.start("--run", 8)
    site.trains(1)
    site.directory.rename(site.tmp / "elsewhere")
    launch.says("cannot write the owner record")
    (site.tmp / "elsewhere").rename(site.directory)
    assert launch.wait() == 0
    assert site.record()["state"] == "released"


@pytest.mark.full
def test_a_claim_without_a_record_is_waited_for(site: Site) -> None:
    assert site.start().wait() == 0
    (site.directory / "owners/2.json").write_text("{}")
    started = time.monotonic()
    assert site.start(attempt=2).wait() == 0
    assert time.monotonic() - started > LAPSE
    assert site.record()["term"] == 3


@pytest.mark.full
def test_an_unreadable_record_is_waited_for(site: Site) -> None:
    assert site.start().wait() == 0
    (site.directory / "owner.json").write_text("{")
    started = time.monotonic()
    assert site.start(attempt=2).wait() == 0
    assert time.monotonic() - started > LAPSE


@pytest.mark.full
def test_an_owner_with_a_longer_lapse_is_given_that_time(site: Site) -> None:
    assert site.start().wait() == 0
    rewrite(site.directory / "owner.json", state="running", lapse=1.5 * LAPSE)
    started = time.monotonic()
    assert site.start(attempt=2).wait() == 0
    assert time.monotonic() - started > 1.5 * LAPSE


def test_a_look_that_takes_long_is_no_silence_of_the_owner(site: Site) -> None:
    """The attempt that waits, or its volume, was paused after it had read: the owner may have written since then."""
    owner, lapse = load_program("owner"), 3.0
    owner.BEAT, owner.LAPSE = BEAT, lapse
    waiting = owner.Owner(site.plan(2), site.directory, WAIT)
    running = {"state": "running", "term": 1, "lapse": lapse}
    looks = iter([(0.0, running), (1.5 * lapse, running), (0.0, {**running, "state": "released"})])

    def look() -> tuple[dict[str, Any], int]:
        duration, record = next(looks)
        time.sleep(duration)
        return record, 1

    waiting.look = look
    assert waiting.wait(time.monotonic() + WAIT) == (2, False)


@pytest.mark.full
def test_a_stop_while_waiting_ends_at_once_and_touches_nothing(site: Site) -> None:
    first = site.start("--run", 30)
    site.trains(1)
    second = site.start(attempt=2)
    second.says("owns the run")
    second.signal(signal.SIGTERM)
    assert second.wait(SOON) == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in second.output
    assert not first.ended()
    assert [name for _, _, name in site.intervals()] == ["1"]


def test_a_stop_while_taking_over_releases_the_run(site: Site) -> None:
    site.environment["GRPO_OWNER_BEAT_SECONDS"] = "10"
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "40"
    launch = site.start(takeoverSeconds=60)
    until((site.directory / "owner.json").exists, "the record")
    launch.signal(signal.SIGINT)
    assert launch.wait(SOON) == 128 + signal.SIGINT
    assert site.record()["state"] == "released"
    assert site.intervals() == []


def test_a_deleted_run_directory_starts_afresh(site: Site) -> None:
    assert site.start(attempt=3).wait() == 0
    shutil.rmtree(site.directory)
    assert site.start(attempt=1).wait() == 0
    assert site.record()["term"] == 1


@pytest.mark.full
@pytest.mark.parametrize("case", range(3))
def test_a_store_that_tells_no_second_creator_still_has_one_owner(site: Site, case: int) -> None:
    launch = load_program("owner")
    launch.BEAT = 0.3

    def create_without_exclusion(path: Path, text: str) -> bool:
        launch.write_atomically(path, text, str(threading.get_ident()))
        return True

    launch.create_exclusively = create_without_exclusion
    (site.directory / "owners").mkdir(parents=True)
    owners = [launch.Owner(site.plan(attempt), site.directory, WAIT) for attempt in (1, 2, 3)]
    # A busy machine may hold up a thread for longer than the pause that follows the write of each.
    written, pause = threading.Barrier(len(owners)), launch.pause
    launch.pause = lambda seconds: (written.wait(60), pause(seconds))
    won: list[bool] = []
    for term in range(1, 10):
        with ThreadPoolExecutor(len(owners)) as pool:
            won = list(pool.map(lambda owner, term=term: owner.claim(term, lapsed=case > 0), owners))
        assert [owner.term for owner in owners] == [term * int(one) for one in won]
        # Nobody wins where the claim of one and the record of another were written last; they try the next term.
        if any(won):
            break
    assert sum(won) == 1
