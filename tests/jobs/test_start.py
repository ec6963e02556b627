"""What a launch checks before it owns the run: the cluster's facts, the image, the volume, the attempt."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.programs import PROGRAMS

from .harness import LAPSE, VERSION, load_program
from .simulation.machine import Launch, Machine

Change = Callable[[Machine], dict[str, Any]]


def refused(launch: Launch, *texts: str) -> None:
    assert launch.wait() == 1, launch.output
    last = launch.last
    assert last.startswith("grpo: ")
    assert "Traceback" not in launch.output
    for text in texts:
        assert text in last


def test_a_launch_trains_and_releases_the_run(machine: Machine) -> None:
    launch = machine.start()
    assert launch.wait() == 0, launch.output
    assert machine.record()["state"] == "released"
    assert (machine.directory / "checkpoints").is_dir()
    assert (machine.directory / "logs").is_dir()
    assert (machine.directory / "attempts/1/spec.sha256").read_text() == f"{1:064x}\n"
    config = machine.directory / "attempts/1/config.yaml"
    assert json.loads(config.read_text()) == {"grpo": {"num_prompts_per_step": 8}}
    assert not list(machine.directory.rglob(".*"))


def test_each_start_records_the_version_of_its_programs(machine: Machine) -> None:
    """An attempt that is started again may have newer programs; the records say which start had which."""
    launch = machine.start()
    assert launch.wait() == 0, launch.output
    assert launch.output.startswith(f"grpo: run gemma3-gsm8k, attempt 1, programs {VERSION}\n")
    again = machine.start_plan(machine.plan(), version="grpo-job 0.0.1, sha256 11")
    assert again.wait() == 0, again.output
    terms = [json.loads((machine.directory / f"owners/{term}.json").read_text()) for term in (1, 2)]
    assert [term["programs"] for term in terms] == [VERSION, "grpo-job 0.0.1, sha256 11"]
    assert machine.record()["programs"] == "grpo-job 0.0.1, sha256 11"


def test_differing_facts_are_named_with_both_values(machine: Machine) -> None:
    cluster = {**machine.facts, "accelerator": "b200", "gpusPerNode": 4, "mounts": {}}
    machine.environment["GRPO_CLUSTER_FACTS"] = json.dumps(cluster)
    launch = machine.start()
    refused(
        launch,
        "accelerator: the cluster has b200, this job was rendered for h200",
        "gpusPerNode: the cluster has 4, this job was rendered for 8",
        f"mounts.{machine.tmp / 'data'}: the cluster has nothing, this job was rendered for gemma-data",
        "same values files",
    )
    assert "rayVersion" not in launch.output
    assert not machine.directory.exists()


def test_a_fact_stated_only_by_the_cluster_is_ignored(machine: Machine) -> None:
    machine.environment["GRPO_CLUSTER_FACTS"] = json.dumps({**machine.facts, "framework": "nemo-rl"})
    assert machine.start().wait() == 0


def test_a_cluster_without_facts_causes_only_a_warning(machine: Machine) -> None:
    del machine.environment["GRPO_CLUSTER_FACTS"]
    launch = machine.start()
    assert launch.wait() == 0
    assert "grpo: warning: GRPO_CLUSTER_FACTS is not set" in launch.output


@pytest.mark.parametrize("text", ['"hf_secret"', "", "{", "[]"])
def test_unreadable_facts_are_rejected_and_not_printed(machine: Machine, text: str) -> None:
    machine.environment["GRPO_CLUSTER_FACTS"] = text
    launch = machine.start()
    refused(launch, "GRPO_CLUSTER_FACTS is not a JSON object", "upgrade the raycluster release")
    assert "hf_secret" not in launch.output


@pytest.mark.parametrize(
    ("change", "texts"),
    [
        (
            lambda machine: {"workingDirectory": "/opt/no-nemo-rl"},
            ["/opt/no-nemo-rl", "example/nemo-rl:v0.6.0", "job.version"],
        ),
        (lambda machine: {"requiredFiles": ["/opt/nemo-rl/none.yaml"]}, ["/opt/nemo-rl/none.yaml", "job.version"]),
        (lambda machine: {"command": ["no-such-uv", "run"]}, ["no-such-uv", "PATH"]),
        (
            lambda machine: {"runDirectory": "/scratch-of-nobody/run"},
            ["/scratch-of-nobody does not exist", "job.volume"],
        ),
        (
            lambda machine: {"runDirectory": "/proc/run/x", "facts": {"mounts": {"/proc": "proc-claim"}}},
            ["/proc/run/x", "claim proc-claim"],
        ),
    ],
    ids=["directory", "required-file", "program", "mount", "read-only"],
)
def test_missing_paths_and_programs_are_named(machine: Machine, change: Change, texts: list[str]) -> None:
    del machine.environment["GRPO_CLUSTER_FACTS"]
    refused(machine.start_plan({**machine.plan(), **change(machine)}), *texts)


def test_an_unmounted_volume_is_named(machine: Machine) -> None:
    (machine.tmp / "data").rmdir()
    refused(machine.start(), f"{machine.tmp / 'data'} does not exist", "claim gemma-data")


def test_required_files_that_exist_pass(machine: Machine) -> None:
    assert machine.start(requiredFiles=[__file__]).wait() == 0


def test_the_same_attempt_may_start_again(machine: Machine) -> None:
    assert machine.start().wait() == 0
    assert machine.start().wait() == 0


def test_a_changed_specification_needs_a_new_attempt(machine: Machine) -> None:
    assert machine.start().wait() == 0
    launch = machine.start(digest="f" * 64)
    refused(launch, "attempt 1 of gemma3-gsm8k", "000000000000", "ffffffffffff", "raise job.attempt")
    assert len(machine.intervals()) == 1
    assert machine.start(digest="f" * 64, attempt=2).wait() == 0


def test_an_older_attempt_that_arrives_late_is_rejected(machine: Machine) -> None:
    assert machine.start(attempt=10).wait() == 0
    refused(
        machine.start(attempt=9), "attempt 10 of gemma3-gsm8k exists", "this is attempt 9", "raise job.attempt above 10"
    )
    assert [name for _, _, name in machine.intervals()] == ["10"]


def test_a_rejected_attempt_does_not_block_a_retry_of_the_previous_one(machine: Machine) -> None:
    """On an ephemeral cluster each retry of attempt 1 is a launch of its own."""
    assert machine.start("--code", 5).wait() == 5
    refused(machine.start(attempt=2, neededFiles={"/data/none": "fetch"}), "/data/none does not exist")
    assert machine.start("--code", 5).wait() == 5
    assert [name for _, _, name in machine.intervals()] == ["1", "1"]


@pytest.mark.parametrize("end", ["gives up", "is stopped"])
def test_an_attempt_that_never_owned_the_run_does_not_block_a_retry_either(machine: Machine, end: str) -> None:
    first = machine.start("--run", 30)
    machine.trains(1)
    second = machine.start(attempt=2, takeoverSeconds=LAPSE + 1 if end == "gives up" else 30)
    second.says("owns the run")
    # While it waits, it is the one to go on.
    refused(machine.start(), "attempt 2 of gemma3-gsm8k exists")
    if end == "is stopped":
        second.signal(signal.SIGTERM)
    assert second.wait() == (1 if end == "gives up" else 128 + signal.SIGTERM)
    first.signal(signal.SIGTERM)
    first.wait()
    assert machine.start().wait() == 0


def test_an_empty_digest_is_rejected_after_a_while(machine: Machine) -> None:
    (machine.directory / "attempts/1").mkdir(parents=True)
    (machine.directory / "attempts/1/spec.sha256").touch()
    refused(machine.start(), "an empty one", "raise job.attempt")


@pytest.mark.parametrize("name", ["BEAT", "LAPSE"])
def test_time_settings_must_be_numbers(machine: Machine, name: str) -> None:
    machine.environment[f"GRPO_OWNER_{name}_SECONDS"] = "soon"
    launch = machine.start()
    refused(launch, f"GRPO_OWNER_{name}_SECONDS must be a number of seconds")
    assert "'soon'" not in launch.output


def test_time_settings_must_be_consistent(machine: Machine) -> None:
    machine.environment["GRPO_OWNER_BEAT_SECONDS"] = "2"
    refused(machine.start(), "four times GRPO_OWNER_BEAT_SECONDS")


def test_no_environment_value_is_printed(machine: Machine) -> None:
    launch = machine.start_plan(machine.plan(), HF_TOKEN="hf_shhh", WANDB_API_KEY="quiet")
    assert launch.wait() == 0
    assert "hf_shhh" not in launch.output
    assert "quiet" not in launch.output


def test_a_full_disk_does_not_use_up_the_attempt(machine: Machine) -> None:
    module = load_program("files")
    directory = machine.tmp / "full"
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


@pytest.mark.parametrize("change", [{"term": None}, {"term": "x"}, {"lapse": "60"}, {"lapse": None}, {"term": True}])
def test_a_damaged_record_is_taken_over_after_a_while(machine: Machine, change: dict[str, Any]) -> None:
    assert machine.start().wait() == 0
    path = machine.directory / "owner.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    launch = machine.start(attempt=2)
    assert launch.wait() == 0, launch.output
    assert "taking over" in launch.output


def test_non_numeric_names_are_ignored(machine: Machine) -> None:
    assert machine.start().wait() == 0
    (machine.directory / "attempts/²").mkdir()
    (machine.directory / "owners/x.json").touch()
    assert machine.start(attempt=2).wait() == 0


def test_a_job_configuration_that_is_not_json_is_ignored(machine: Machine) -> None:
    assert machine.start_plan(machine.plan(), RAY_JOB_CONFIG_JSON_ENV_VAR="{").wait() == 0
    assert machine.record()["job"] is None


def test_the_drivers_variables_reach_the_trainer(machine: Machine) -> None:
    command = ["python3", "-c", "import os; print('X is', os.environ['X'])"]
    launch = machine.start_plan(machine.plan(command=command, environment={"X": "it's $HOME"}))
    assert launch.wait() == 0
    assert "X is it's $HOME\n" in launch.output


def test_a_differing_variable_is_named_without_its_values(machine: Machine) -> None:
    facts = {**machine.facts, "environment": {"HF_HOME": "/data/other"}}
    machine.environment["GRPO_CLUSTER_FACTS"] = json.dumps({**machine.facts, "environment": {"HF_HOME": "/data/hf"}})
    launch = machine.start(facts=facts)
    refused(launch, "environment.HF_HOME is different on the cluster", "upgrade the outdated one")
    assert "/data/hf" not in launch.output
    assert "/data/other" not in launch.output


IDENTITY = {"run": "gemma3-gsm8k", "stack": "gemma", "framework": "nemo-rl", "model": "google/gemma-3-27b-it"}


def test_a_directory_of_a_different_run_is_rejected(machine: Machine) -> None:
    assert machine.start(identity=IDENTITY).wait() == 0
    assert machine.start(attempt=2, identity=IDENTITY).wait() == 0
    other = machine.start(attempt=3, identity={**IDENTITY, "model": "google/gemma-3-1b-it", "stack": "other"})
    refused(other, "belongs to another run", "model google/gemma-3-27b-it (here google/gemma-3-1b-it)", "stack gemma")
    assert "run gemma3-gsm8k (here" not in other.output
    assert len(machine.intervals()) == 2


def test_a_task_for_a_different_run_is_rejected_and_leaves_no_trace(machine: Machine) -> None:
    """Two stacks on one volume with the same job.name: the other's task clean must not touch this run."""
    tasks = machine.directory / "tasks/clean"
    changes = {"of": str(machine.directory), "runDirectory": str(tasks), "folders": []}
    refused(machine.start(identity=IDENTITY, **changes), "there is no run in", "Is job.name right")
    assert not machine.directory.exists()
    assert machine.start(identity=IDENTITY).wait() == 0
    refused(machine.start(identity={**IDENTITY, "stack": "other"}, **changes), "belongs to another run", "stack gemma")
    assert not tasks.exists()
    assert machine.start(identity=IDENTITY, **changes).wait() == 0


def test_the_runs_modules_take_precedence_over_the_pods(machine: Machine) -> None:
    script = "import os; print(os.environ['PYTHONPATH'])"
    plan = machine.plan(command=["python3", "-c", script], environment={"PYTHONPATH": "/a"})
    launch = machine.start_plan(plan, PYTHONPATH="/b:/c")
    assert launch.wait() == 0
    assert "/a:/b:/c" in launch.output


def test_a_check_that_finds_a_mistake_ends_the_run(machine: Machine) -> None:
    check = ["python3", "-c", "import sys; print('grpo: the reward has a typo'); sys.exit(1)"]
    refused(machine.start(checks=[check]), "found a mistake, see above")
    assert machine.intervals() == []


def test_a_hung_check_is_stopped_with_the_run(machine: Machine) -> None:
    launch = machine.start(checks=[["sh", "-c", "echo hanging; sleep 60"]])
    launch.says("hanging")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert machine.record()["state"] == "released"


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_a_directory_that_does_not_identify_its_run_is_rejected(machine: Machine, text: str) -> None:
    machine.directory.mkdir(parents=True)
    (machine.directory / "run.json").write_text(text)
    refused(machine.start(identity=IDENTITY), "does not identify a run", "choose another job.name")


HANGING = ("run.json", "spec.sha256", "owner.json")


@pytest.mark.parametrize("name", HANGING)
def test_a_volume_that_hangs_at_the_start_is_reported_and_abandoned(machine: Machine, name: str) -> None:
    machine.volume.hang(name)
    machine.environment["GRPO_OWNER_LAPSE_SECONDS"] = "1"
    launch = machine.start(identity={"run": "gemma3-gsm8k"}, takeoverSeconds=3, retries=3)
    refused(
        launch, f"the volume of {machine.directory} did not answer for 3 s (job.takeoverSeconds)", "raise job.attempt"
    )
    assert machine.now() == pytest.approx(3, abs=0.2)
    assert f"waiting for the volume of {machine.directory} for " in launch.output
    assert machine.count("alive") == 0


def test_a_slow_volume_is_reported_once(machine: Machine) -> None:
    machine.volume.hang("spec.sha256")
    launch = machine.start()
    launch.says("waiting for the volume")
    machine.volume.answer()
    assert launch.wait() == 0, launch.output
    assert launch.output.count("waiting for the volume") == 1
    assert launch.output.count("the volume answers again") == 1


def test_a_stop_signal_stops_a_hung_launch(machine: Machine) -> None:
    machine.volume.hang("run.json")
    launch = machine.start(identity={"run": "gemma3-gsm8k"})
    launch.says("waiting for the volume")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in launch.output


def test_unprepared_data_is_rejected(machine: Machine) -> None:
    missing = machine.tmp / "data/datasets/gsm8k/train.jsonl"
    refused(machine.start(neededFiles={str(missing): "prepare-data"}), str(missing), "run job.task prepare-data")
    missing.parent.mkdir(parents=True)
    missing.touch()
    assert machine.start(neededFiles={str(missing): "prepare-data"}).wait() == 0


def test_a_task_gets_its_task_file_and_its_program(machine: Machine) -> None:
    script = (
        "import json, pathlib, sys\n"
        "program, task = (pathlib.Path(name).read_text() for name in sys.argv[1:])\n"
        "print(json.loads(task)['prompt'], program[:13])"
    )
    folder = machine.directory / "attempts/1"
    command = ["python3", "-c", script, "{programs}/files.py", str(folder / "task.json")]
    launch = machine.start_plan(machine.plan(command=command, task={"prompt": "é \U0001f600"}, folders=[]))
    assert launch.wait() == 0, launch.output
    assert 'é \U0001f600 """Read and w' in launch.output
    assert sorted(path.name for path in machine.directory.iterdir()) == ["attempts", "owner.json", "owners"]


def test_code_for_the_workers_is_written_to_the_volume(machine: Machine) -> None:
    assert machine.start(shared=["files.py"]).wait() == 0
    assert (machine.directory / "attempts/1/code/files.py").read_text() == PROGRAMS["files"].read_text()
