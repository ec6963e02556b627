"""What a launch checks before it owns the run: the cluster's facts, the image, the volume, the attempt."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import thin
from tests.programs import PROGRAMS

from .harness import LAPSE, SOON, VERSION, Launch, Site, load_program

Change = Callable[[Site], dict[str, Any]]


def refused(launch: Launch, *texts: str) -> None:
    assert launch.wait() == 1, launch.output
    last = launch.last
    assert last.startswith("grpo: ")
    assert "Traceback" not in launch.output
    for text in texts:
        assert text in last


def test_a_launch_trains_and_releases(site: Site) -> None:
    launch = site.start()
    assert launch.wait() == 0, launch.output
    assert site.record()["state"] == "released"
    assert (site.directory / "checkpoints").is_dir()
    assert (site.directory / "logs").is_dir()
    assert (site.directory / "attempts/1/spec.sha256").read_text() == f"{1:064x}\n"
    config = site.directory / "attempts/1/config.yaml"
    assert json.loads(config.read_text()) == {"grpo": {"num_prompts_per_step": 8}}
    assert not list(site.directory.rglob(".*"))


def test_each_start_records_the_version_of_its_programs(site: Site) -> None:
    """An attempt that is started again may have newer programs; the records say which start had which."""
    launch = site.start()
    assert launch.wait() == 0, launch.output
    assert launch.output.startswith(f"grpo: run gemma3-gsm8k, attempt 1, programs {VERSION}\n")
    again = site.start_plan(site.plan(), version="grpo-job 0.0.1, sha256 11")
    assert again.wait() == 0, again.output
    terms = [json.loads((site.directory / f"owners/{term}.json").read_text()) for term in (1, 2)]
    assert [term["programs"] for term in terms] == [VERSION, "grpo-job 0.0.1, sha256 11"]
    assert site.record()["programs"] == "grpo-job 0.0.1, sha256 11"


def test_nothing_stays_in_the_folder_for_temporary_files(site: Site) -> None:
    (site.tmp / "temporary").mkdir()
    launch = site.start_plan(site.plan(), TMPDIR=str(site.tmp / "temporary"))
    assert launch.wait() == 0, launch.output
    assert list((site.tmp / "temporary").iterdir()) == []


def test_facts_that_differ_are_named_with_both_values(site: Site) -> None:
    cluster = {**site.facts, "accelerator": "b200", "gpusPerNode": 4, "mounts": {}}
    site.environment["GRPO_CLUSTER_FACTS"] = json.dumps(cluster)
    started = time.monotonic()
    launch = site.start()
    refused(
        launch,
        "accelerator: the cluster has b200, this job was rendered for h200",
        "gpusPerNode: the cluster has 4, this job was rendered for 8",
        f"mounts.{site.tmp / 'data'}: the cluster has nothing, this job was rendered for gemma-data",
        "same values files",
    )
    assert "rayVersion" not in launch.output
    assert time.monotonic() - started < SOON
    assert not site.directory.exists()


def test_a_fact_that_only_the_cluster_states_does_not_matter(site: Site) -> None:
    site.environment["GRPO_CLUSTER_FACTS"] = json.dumps({**site.facts, "framework": "nemo-rl"})
    assert site.start().wait() == 0


def test_a_cluster_of_another_chart_cannot_be_compared(site: Site) -> None:
    del site.environment["GRPO_CLUSTER_FACTS"]
    launch = site.start()
    assert launch.wait() == 0
    assert "grpo: warning: GRPO_CLUSTER_FACTS is not set" in launch.output


@pytest.mark.parametrize("text", thin(['"hf_secret"', "", "{", "[]"], 4))
def test_unreadable_facts_are_refused_and_not_printed(site: Site, text: str) -> None:
    site.environment["GRPO_CLUSTER_FACTS"] = text
    launch = site.start()
    refused(launch, "GRPO_CLUSTER_FACTS is not a JSON object", "upgrade the raycluster release")
    assert "hf_secret" not in launch.output


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (
            lambda site: {"workingDirectory": "/opt/no-nemo-rl"},
            ["/opt/no-nemo-rl", "example/nemo-rl:v0.6.0", "job.version"],
        ),
        (lambda site: {"requiredFiles": ["/opt/nemo-rl/none.yaml"]}, ["/opt/nemo-rl/none.yaml", "job.version"]),
        (lambda site: {"command": ["no-such-uv", "run"]}, ["no-such-uv", "PATH"]),
        (lambda site: {"runDirectory": "/scratch-of-nobody/run"}, ["/scratch-of-nobody does not exist", "job.volume"]),
        (
            lambda site: {"runDirectory": "/proc/run/x", "facts": {"mounts": {"/proc": "proc-claim"}}},
            ["/proc/run/x", "claim proc-claim"],
        ),
    ],
    ids=["directory", "required-file", "program", "mount", "read-only"],
)
def test_what_is_missing_is_named(site: Site, change: Change, texts: list[str]) -> None:
    del site.environment["GRPO_CLUSTER_FACTS"]
    refused(site.start_plan({**site.plan(), **change(site)}), *texts)


def test_a_volume_that_is_not_mounted_is_named(site: Site) -> None:
    (site.tmp / "data").rmdir()
    refused(site.start(), f"{site.tmp / 'data'} does not exist", "claim gemma-data")


def test_required_files_that_exist_are_fine(site: Site) -> None:
    assert site.start(requiredFiles=[__file__]).wait() == 0


def test_the_same_attempt_may_start_again(site: Site) -> None:
    assert site.start().wait() == 0
    assert site.start().wait() == 0


def test_another_specification_needs_another_attempt(site: Site) -> None:
    assert site.start().wait() == 0
    launch = site.start(digest="f" * 64)
    refused(launch, "attempt 1 of gemma3-gsm8k", "000000000000", "ffffffffffff", "raise job.attempt")
    assert len(site.intervals()) == 1
    assert site.start(digest="f" * 64, attempt=2).wait() == 0


def test_an_older_attempt_that_comes_late_is_refused(site: Site) -> None:
    assert site.start(attempt=10).wait() == 0
    refused(
        site.start(attempt=9), "attempt 10 of gemma3-gsm8k exists", "this is attempt 9", "raise job.attempt above 10"
    )
    assert [name for _, _, name in site.intervals()] == ["10"]


@pytest.mark.full
def test_an_attempt_that_was_refused_stops_no_retry_of_the_one_before(site: Site) -> None:
    """On an ephemeral cluster each retry of attempt 1 is a launch of its own."""
    assert site.start("--code", 5).wait() == 5
    refused(site.start(attempt=2, neededFiles={"/data/none": "fetch"}), "/data/none does not exist")
    assert site.start("--code", 5).wait() == 5
    assert [name for _, _, name in site.intervals()] == ["1", "1"]


@pytest.mark.full
@pytest.mark.parametrize("end", ["gives up", "is stopped"])
def test_an_attempt_that_never_owned_the_run_stops_no_retry_either(site: Site, end: str) -> None:
    first = site.start("--run", 30)
    site.trains(1)
    second = site.start(attempt=2, takeoverSeconds=LAPSE + 1 if end == "gives up" else 30)
    second.says("owns the run")
    # While it waits, it is the one to go on.
    refused(site.start(), "attempt 2 of gemma3-gsm8k exists")
    if end == "is stopped":
        second.signal(signal.SIGTERM)
    assert second.wait() == (1 if end == "gives up" else 128 + signal.SIGTERM)
    first.signal(signal.SIGTERM)
    first.wait()
    assert site.start().wait() == 0


def test_a_digest_that_was_never_written_is_refused_after_a_while(site: Site) -> None:
    (site.directory / "attempts/1").mkdir(parents=True)
    (site.directory / "attempts/1/spec.sha256").touch()
    refused(site.start(), "an empty one", "raise job.attempt")


@pytest.mark.parametrize("name", ["BEAT", "LAPSE"])
def test_times_must_be_numbers(site: Site, name: str) -> None:
    site.environment[f"GRPO_OWNER_{name}_SECONDS"] = "soon"
    launch = site.start()
    refused(launch, f"GRPO_OWNER_{name}_SECONDS must be a number of seconds")
    assert "'soon'" not in launch.output


def test_times_must_fit_together(site: Site) -> None:
    site.environment["GRPO_OWNER_BEAT_SECONDS"] = "2"
    refused(site.start(), "four times GRPO_OWNER_BEAT_SECONDS")


def test_no_environment_value_is_printed(site: Site) -> None:
    launch = site.start_plan(site.plan(), HF_TOKEN="hf_shhh", WANDB_API_KEY="quiet")
    assert launch.wait() == 0
    assert "hf_shhh" not in launch.output
    assert "quiet" not in launch.output


def test_a_full_disk_does_not_use_up_the_attempt(site: Site) -> None:
    module = load_program("files")
    directory = site.tmp / "full"
    directory.mkdir()
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    module.os.fsync = full
    try:
        with pytest.raises(OSError, match="No space left"):
            module.create_exclusively(directory / "spec.sha256", "abc")
    finally:
        module.os.fsync = real
    assert list(directory.iterdir()) == []
    assert module.create_exclusively(directory / "spec.sha256", "abc")


@pytest.mark.full
@pytest.mark.parametrize("change", [{"term": None}, {"term": "x"}, {"lapse": "60"}, {"lapse": None}, {"term": True}])
def test_a_damaged_record_is_taken_over_after_a_while(site: Site, change: dict[str, Any]) -> None:
    assert site.start().wait() == 0
    path = site.directory / "owner.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    launch = site.start(attempt=2)
    assert launch.wait() == 0, launch.output
    assert "taking over" in launch.output


def test_names_that_are_no_numbers_are_passed_over(site: Site) -> None:
    assert site.start().wait() == 0
    (site.directory / "attempts/²").mkdir()
    (site.directory / "owners/x.json").touch()
    assert site.start(attempt=2).wait() == 0


def test_a_module_in_the_folder_of_the_job_replaces_none_of_pythons(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/uuid.py").write_text("raise SystemExit('replaced')")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert site.start().wait() == 0


def test_a_job_configuration_that_is_no_json_does_not_matter(site: Site) -> None:
    assert site.start_plan(site.plan(), RAY_JOB_CONFIG_JSON_ENV_VAR="{").wait() == 0
    assert site.record()["job"] is None


def test_the_drivers_variables_reach_the_trainer(site: Site) -> None:
    command = ["sh", "-c", 'echo "X is $X"']
    launch = site.start_plan(site.plan(command=command, environment={"X": "it's $HOME"}))
    assert launch.wait() == 0
    assert "X is it's $HOME\n" in launch.output


def test_a_variable_that_differs_is_named(site: Site) -> None:
    facts = {**site.facts, "environment": {"HF_HOME": "/data/other"}}
    site.environment["GRPO_CLUSTER_FACTS"] = json.dumps({**site.facts, "environment": {"HF_HOME": "/data/hf"}})
    launch = site.start(facts=facts)
    refused(launch, "environment.HF_HOME is different on the cluster", "upgrade the outdated one")
    assert "/data/hf" not in launch.output
    assert "/data/other" not in launch.output


IDENTITY = {"run": "gemma3-gsm8k", "stack": "gemma", "framework": "nemo-rl", "model": "google/gemma-3-27b-it"}


def test_the_directory_of_another_run_is_refused(site: Site) -> None:
    assert site.start(identity=IDENTITY).wait() == 0
    assert site.start(attempt=2, identity=IDENTITY).wait() == 0
    other = site.start(attempt=3, identity={**IDENTITY, "model": "google/gemma-3-1b-it", "stack": "other"})
    refused(other, "belongs to another run", "model google/gemma-3-27b-it (here google/gemma-3-1b-it)", "stack gemma")
    assert "run gemma3-gsm8k (here" not in other.output
    assert len(site.intervals()) == 2


def test_a_task_of_another_run_is_refused_and_leaves_no_trace(site: Site) -> None:
    """Two stacks on one volume with the same job.name: the other's task clean must not touch this run."""
    tasks = site.directory / "tasks/clean"
    changes = {"of": str(site.directory), "runDirectory": str(tasks), "folders": []}
    refused(site.start(identity=IDENTITY, **changes), "there is no run in", "Is job.name right")
    assert not site.directory.exists()
    assert site.start(identity=IDENTITY).wait() == 0
    refused(site.start(identity={**IDENTITY, "stack": "other"}, **changes), "belongs to another run", "stack gemma")
    assert not tasks.exists()
    assert site.start(identity=IDENTITY, **changes).wait() == 0


def test_modules_of_the_run_come_before_those_of_the_pod(site: Site) -> None:
    script = "import os; print(os.environ['PYTHONPATH'])"
    plan = site.plan(command=["python3", "-c", script], environment={"PYTHONPATH": "/a"})
    launch = site.start_plan(plan, PYTHONPATH="/b:/c")
    assert launch.wait() == 0
    assert "/a:/b:/c" in launch.output


def test_a_check_that_finds_a_mistake_ends_the_run(site: Site) -> None:
    check = ["python3", "-c", "import sys; print('grpo: the reward has a typo'); sys.exit(1)"]
    refused(site.start(checks=[check]), "found a mistake, see above")
    assert site.intervals() == []


def test_a_check_that_hangs_is_stopped_with_the_run(site: Site) -> None:
    launch = site.start(checks=[["sh", "-c", "echo hanging; sleep 60"]])
    launch.says("hanging")
    launch.signal(signal.SIGTERM)
    assert launch.wait(SOON) == 128 + signal.SIGTERM
    assert site.record()["state"] == "released"


@pytest.mark.full
@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_directory_that_does_not_say_whose_it_is_is_refused(site: Site, text: str) -> None:
    site.directory.mkdir(parents=True)
    (site.directory / "run.json").write_text(text)
    refused(site.start(identity=IDENTITY), "does not identify a run", "choose another job.name")


def hang(path: Path) -> None:
    """Let every read of a file hang, as on a server that does not answer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)


HANGING = ("run.json", "attempts/1/spec.sha256", "owner.json")


@pytest.mark.full
@pytest.mark.parametrize("name", HANGING)
def test_a_volume_that_hangs_at_the_start_is_told_and_given_up(site: Site, name: str) -> None:
    hang(site.directory / name)
    site.environment["GRPO_OWNER_LAPSE_SECONDS"] = "1"
    launch = site.start(identity={"run": "gemma3-gsm8k"}, takeoverSeconds=3, retries=3)
    started = time.monotonic()
    refused(launch, f"the volume of {site.directory} did not answer for 3 s (job.takeoverSeconds)", "raise job.attempt")
    assert time.monotonic() - started > 2.5
    assert f"waiting for the volume of {site.directory} for " in launch.output
    assert site.count("alive") == 0


def test_a_volume_that_answers_late_is_told(site: Site) -> None:
    record = site.directory / "attempts/1/spec.sha256"
    hang(record)
    launch = site.start()
    launch.says("waiting for the volume")
    writer = os.open(record, os.O_WRONLY)
    os.write(writer, f"{1:064x}".encode())
    os.close(writer)
    assert not record.unlink()
    record.write_text(f"{1:064x}\n")
    assert launch.wait() == 0, launch.output
    # A busy machine may have a slow volume after that.
    until_then, answers, _ = launch.output.partition("the volume answers again")
    assert (until_then.count("waiting for the volume"), bool(answers)) == (1, True)


def test_a_stop_reaches_a_launch_that_hangs(site: Site) -> None:
    hang(site.directory / "run.json")
    launch = site.start(identity={"run": "gemma3-gsm8k"})
    launch.says("waiting for the volume")
    launch.signal(signal.SIGTERM)
    assert launch.wait(SOON) == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in launch.output


def test_data_that_nobody_prepared_is_refused(site: Site) -> None:
    missing = site.tmp / "data/datasets/gsm8k/train.jsonl"
    refused(site.start(neededFiles={str(missing): "prepare-data"}), str(missing), "run job.task prepare-data")
    missing.parent.mkdir(parents=True)
    missing.touch()
    assert site.start(neededFiles={str(missing): "prepare-data"}).wait() == 0


def test_a_task_gets_its_file_and_its_program(site: Site) -> None:
    script = "import json, sys; print(json.load(open(sys.argv[2]))['prompt'], open(sys.argv[1]).read()[:13])"
    folder = site.directory / "attempts/1"
    command = ["python3", "-c", script, "{programs}/files.py", str(folder / "task.json")]
    launch = site.start_plan(site.plan(command=command, task={"prompt": "é \U0001f600"}, folders=[]))
    assert launch.wait() == 0, launch.output
    assert 'é \U0001f600 """Read and w' in launch.output
    assert sorted(path.name for path in site.directory.iterdir()) == ["attempts", "owner.json", "owners"]


def test_code_for_the_workers_lies_on_the_volume(site: Site) -> None:
    assert site.start(shared=["files.py"]).wait() == 0
    assert (site.directory / "attempts/1/code/files.py").read_text() == PROGRAMS["files"].read_text()


def test_workers_get_the_programs_of_the_rewards(site: Site) -> None:
    """All of jobs/rewards, beside what the values say of them; without rewards, none of it."""
    programs = {path.name: path.read_text() for path in PROGRAMS["rewards"].parent.glob("*.py")}
    (site.tmp / "table").write_text("{}")
    body = f"cat >\"$programs/rewards.json\" <'{site.tmp / 'table'}'\n"
    assert site.start_plan(site.plan(shared=["rewards.json"]), body=body).wait() == 0
    code = site.directory / "attempts/1/code"
    assert {path.name: path.read_text() for path in code.iterdir()} == {**programs, "rewards.json": "{}"}
    assert site.start(attempt=2).wait() == 0
    assert not (site.directory / "attempts/2/code").exists()
