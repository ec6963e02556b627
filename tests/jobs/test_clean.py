"""Cleaning a run: what goes, what stays, and that nobody trains meanwhile. Ray is played, and so is the clock."""

from __future__ import annotations

import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.played import Clock

from .tasks import Done, load_task, run_task, run_task_here

# It waits for a part of a beat, and no time is long enough for it to lose its run.
SHORT = {"GRPO_OWNER_BEAT_SECONDS": "0.01", "GRPO_OWNER_LAPSE_SECONDS": "60"}
RUN = "gemma3-gsm8k"
# Seconds of a clock that is played.
LAPSE = 20.0
# Ray as far as clean.py asks it: two nodes, which are folders here. Node "bad" cannot do anything.
RAY = """
import os
NODES = {"head": True, "w-1": True, "gone": False}
def nodes():
    found = {**NODES, "bad": True} if os.environ.get("BAD") else NODES
    return [{"Alive": alive, "NodeID": name, "NodeManagerHostname": name} for name, alive in found.items()]
get = lambda call, timeout: call()
shutdown = lambda: None
def init(address, **_):
    if "ALONE" in os.environ:
        raise ConnectionError("Could not find any running Ray instance.")
class remote:
    def __init__(self, function): self.function = function
    def options(self, num_cpus, max_retries, scheduling_strategy):
        assert (num_cpus, max_retries, scheduling_strategy.soft) == (0, 0, False)
        self.node = scheduling_strategy.node
        return self
    def remote(self, root, name): return lambda: self.call(root, name)
    def call(self, root, name):
        if self.node == "bad":
            raise RuntimeError("ray::remove_staged()\\nOSError: Read-only file system")
        return self.function(os.path.join(root, self.node), name)
"""
STRATEGY = """
class NodeAffinitySchedulingStrategy:
    def __init__(self, node, soft): self.node, self.soft = node, soft
"""


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"ray": RAY, "ray.util": "", "ray.util.scheduling_strategies": STRATEGY}
    for name, text in texts.items():
        module = types.ModuleType(name)
        exec(text, vars(module))  # noqa: S102  ours
        monkeypatch.setitem(sys.modules, name, module)


def fill(directory: Path) -> Path:
    """Make a run directory with everything that a run has."""
    for name in ("checkpoints/step_10/policy", "checkpoints/step_20", "hf/step_10", "logs/exp_001", "evaluations"):
        (directory / name).mkdir(parents=True)
        with (directory / name / "data").open("wb") as file:
            file.truncate(3 << 29)
    # The same content twice is one on the disk.
    os.link(directory / "checkpoints/step_10/policy/data", directory / "checkpoints/step_20/again")
    return directory


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return fill(tmp_path / "data/runs" / RUN)


def clean(tmp_path: Path, directory: Path, *what: str, run: str = RUN, start: Any = run_task_here, **more: str) -> Done:
    task: dict[str, Any] = {"task": "clean", "run": run, "runDirectory": str(directory), "stageDirectory": ""}
    task |= {"what": list(what)} if what else {}
    task["stageDirectory"] = more.pop("stage", str(tmp_path / "stage"))
    done: Done = start("clean", task, tmp_path, **{**SHORT, **more})
    return done


def names(directory: Path) -> list[str]:
    return sorted(name for name in os.listdir(directory) if name not in ("owners", "owner.json"))


def test_only_the_checkpoints_are_deleted(tmp_path: Path, directory: Path) -> None:
    said = clean(tmp_path, directory, "checkpoints", start=run_task).succeeds()
    assert names(directory) == ["evaluations", "hf", "logs"]
    assert f"checkpoints: 3.0 GiB freed in {directory}/checkpoints" in said
    assert f"the next attempt of {RUN} will start at step 0" in said
    record = json.loads((directory / "owner.json").read_text())
    assert (record["state"], record["task"]) == ("released", "clean")


def test_converted_copies_are_deleted_only_on_request(tmp_path: Path, directory: Path) -> None:
    said = clean(tmp_path, directory, "converted").succeeds()
    assert names(directory) == ["checkpoints", "evaluations", "logs"]
    assert "step 0" not in said


def test_each_file_is_counted_once(tmp_path: Path, directory: Path) -> None:
    (directory / "checkpoints/link").symlink_to(directory / "logs/exp_001/data")
    assert load_task("clean").tree_size(str(directory / "checkpoints")) == 3 << 30


def test_a_second_clean_finds_nothing(tmp_path: Path, directory: Path) -> None:
    clean(tmp_path, directory, "checkpoints").succeeds()
    said = clean(tmp_path, directory, "checkpoints").succeeds()
    assert f"checkpoints: {directory}/checkpoints does not exist" in said


def test_leftovers_of_an_interrupted_clean_are_deleted(tmp_path: Path, directory: Path) -> None:
    (directory / ".deleted").mkdir()
    (directory / "checkpoints").rename(directory / ".deleted/checkpoints-1234")
    clean(tmp_path, directory, "checkpoints").succeeds()
    assert names(directory) == ["evaluations", "hf", "logs"]


def test_links_are_not_followed(tmp_path: Path, directory: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("mine")
    (directory / "checkpoints/step_20/link").symlink_to(precious)
    (directory / "checkpoints/best").symlink_to(precious / "data")
    clean(tmp_path, directory, "checkpoints").succeeds()
    assert (precious / "data").read_text() == "mine"
    (directory / "checkpoints").symlink_to(precious)
    said = clean(tmp_path, directory, "checkpoints").fails()
    assert f"{directory}/checkpoints is a link to {precious}: clean follows no links" in said
    (directory / "checkpoints").unlink()
    (directory / "checkpoints").mkdir()
    (directory / ".deleted").symlink_to(precious)
    assert ".deleted is a link" in clean(tmp_path, directory, "checkpoints").fails()
    assert (precious / "data").read_text() == "mine"


@pytest.mark.parametrize("path", ["{0}/../other", "{0}/checkpoints", "runs/gemma3-gsm8k", "{0}/"])
def test_a_directory_of_a_different_run_is_rejected(tmp_path: Path, directory: Path, path: str) -> None:
    (directory.parent / "other").mkdir()
    task = {"run": RUN, "runDirectory": path.format(directory), "what": ["checkpoints"]}
    assert f"is not the directory of run {RUN}" in run_task_here("clean", task, tmp_path, **SHORT).fails()
    assert (directory / "checkpoints/step_10").exists()


def test_a_missing_run_is_reported(tmp_path: Path, directory: Path) -> None:
    said = clean(tmp_path, directory.with_name("gema"), "checkpoints", run="gema").fails()
    assert "there is no run gema on this volume" in said
    linked = directory.with_name("linked")
    linked.symlink_to(directory)
    assert "is not a directory" in clean(tmp_path, linked, "checkpoints", run="linked").fails()
    assert "clean does not know logs: expected checkpoints" in clean(tmp_path, directory, "logs").fails()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made, owner = Clock(), load_task("owner")
    for name, value in {
        "now": made.monotonic,
        "pause": made.sleep,
        "LAPSE_SECONDS": LAPSE,
        "FENCE_SECONDS": LAPSE * owner.PART,
    }.items():
        monkeypatch.setattr(owner, name, value)
    monkeypatch.setattr(load_task("clean"), "LAPSE_SECONDS", LAPSE)
    return made


def owner_of(directory: Path, attempt: int) -> Any:
    """Return a new owner of a run; its heart does not beat by itself."""
    (directory / "owners").mkdir(exist_ok=True)
    owner = load_task("owner").Owner({"run": RUN, "attempt": attempt}, directory, 3600.0)
    owner.acquire()
    return owner


def clean_here(directory: Path, clock: Clock) -> None:
    load_task("clean").main({"run": RUN, "runDirectory": str(directory), "what": ["checkpoints"]})


def test_a_training_run_is_left_alone(directory: Path, clock: Clock) -> None:
    trains = owner_of(directory, 1)

    def beat() -> None:
        trains.beats += 1
        trains.write("running")

    clock.meanwhile = beat
    with pytest.raises(load_task("runtime").JobError, match=r"nothing was deleted, because .* attempt 1 \(host"):
        clean_here(directory, clock)
    assert (directory / "checkpoints/step_10").exists()
    trains.check()
    trains.release()
    clock.meanwhile = lambda: None
    clean_here(directory, clock)
    assert not (directory / "checkpoints").exists()
    # The owner records still work: the next attempt takes the run at once.
    before = clock.moment
    owner_of(directory, 2).release()
    assert clock.moment - before < LAPSE


def test_a_run_with_a_silent_owner_is_cleaned(
    directory: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    owner_of(directory, 1)
    clean_here(directory, clock)
    assert "owns the run, silent for" in capsys.readouterr().out
    assert clock.moment >= LAPSE
    assert not (directory / "checkpoints").exists()


@pytest.mark.parametrize("task", ["convert", "evaluate"])
def test_clean_waits_for_a_task_that_reads_checkpoints(directory: Path, clock: Clock, task: str) -> None:
    folder = directory / "tasks" / task
    folder.mkdir(parents=True)
    reads = owner_of(folder, 1)

    def beat() -> None:
        reads.beats += 1
        reads.write("running")

    clock.meanwhile = beat
    said = rf"nothing was deleted, because {folder} is in use: attempt 1"
    with pytest.raises(load_task("runtime").JobError, match=said):
        clean_here(directory, clock)
    assert (directory / "checkpoints/step_10").exists()
    # The run itself is free again.
    assert json.loads((directory / "owner.json").read_text())["state"] == "released"


@pytest.fixture
def program(clock: Clock) -> Any:
    """Return clean.py as a module for which no time passes."""
    return load_task("clean")


def test_clean_owns_the_run_while_it_deletes_its_folders(
    directory: Path, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    states, rename = [], os.rename

    def watched(source: str, target: str) -> None:
        states.append(json.loads((directory / "owner.json").read_text())["state"])
        rename(source, target)

    monkeypatch.setattr(program.os, "rename", watched)
    program.main({"run": RUN, "runDirectory": str(directory), "what": ["checkpoints"]})
    assert states == ["running"]


def test_a_bucket_without_folder_renames_is_emptied_in_place(
    directory: Path, program: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states, remove = [], program.remove

    def refuse(source: str, target: str) -> None:
        raise OSError(24, "Too many open files")

    def watched(path: str) -> None:
        states.append(json.loads((directory / "owner.json").read_text())["state"])
        remove(path)

    monkeypatch.setattr(program.os, "rename", refuse)
    monkeypatch.setattr(program, "remove", watched)
    program.main({"run": RUN, "runDirectory": str(directory), "what": ["checkpoints"]})
    assert states == ["running", "running"]
    assert names(directory) == ["evaluations", "hf", "logs"]
    assert "checkpoints (Too many open files)" in capsys.readouterr().out


def test_deletion_stops_when_ownership_is_lost(directory: Path, program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        # Another attempt takes the run meanwhile.
        (directory / "owners/99.json").write_text("{}")
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(program.os, "rename", refuse)
    with pytest.raises(program.JobError, match="the run was taken over"):
        program.main({"run": RUN, "runDirectory": str(directory), "what": ["checkpoints"]})
    assert (directory / "checkpoints/step_10/policy/data").exists()


def staged(tmp_path: Path, *nodes: str) -> list[Path]:
    """Lay copies of this run and of another one onto nodes."""
    copies = [tmp_path / "stage" / node / "grpo-staged" / name for node in nodes for name in (RUN, "other")]
    for copy in copies:
        (copy / "step_10").mkdir(parents=True)
        with (copy / "step_10/model.safetensors").open("wb") as file:
            file.truncate(1 << 30)
    return copies


def test_staged_copies_are_deleted_on_every_node(tmp_path: Path, directory: Path, ray: None) -> None:
    copies = staged(tmp_path, "head", "w-1")
    said = clean(tmp_path, directory).succeeds()
    assert [copy.exists() for copy in copies] == [False, True, False, True]
    for host in ("head", "w-1"):
        assert f"staged: 1.0 GiB freed in {tmp_path}/stage of {host}" in said
    assert "gone" not in said
    assert not (directory / "checkpoints").exists()


def test_a_failing_node_is_named_and_the_others_are_cleaned(tmp_path: Path, directory: Path, ray: None) -> None:
    copies = staged(tmp_path, "head", "w-1")
    said = clean(tmp_path, directory, BAD="1")
    assert "were not deleted on every node: bad: OSError: Read-only file system" in said.fails()
    assert [copy.exists() for copy in copies] == [False, True, False, True]
    assert names(directory) == ["evaluations", "hf", "logs"]


def test_without_ray_only_the_local_node_is_cleaned_and_the_output_says_so(
    tmp_path: Path, directory: Path, ray: None
) -> None:
    (copy, other) = staged(tmp_path, ".")
    said = clean(tmp_path, directory, "staged", ALONE="1").succeeds()
    assert "no Ray cluster is running here" in said
    assert (copy.exists(), other.exists()) == (False, True)
    assert (directory / "checkpoints").exists()
    assert "stageDirectory must be an absolute path" in clean(tmp_path, directory, "staged", stage="x").fails()
