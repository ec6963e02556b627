"""Models on local disks: when they are copied, that a copy is whole, and which node gets what."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.programs import flat_folder

from .harness import load_program

MOUNTS = """overlay / overlay rw 0 0
gemma-bucket /data fuse rw,user_id=0 0 0
10.0.0.2@tcp:/lfs /data/lustre lustre rw 0 0
/dev/sda1 /data/with\\040space ext4 rw 0 0
bucket /models fuse.gcsfuse rw 0 0
overlay /shadowed fuse rw 0 0
/dev/sdb1 /shadowed ext4 rw 0 0
"""


@pytest.fixture
def staging() -> Any:
    return load_program("model_staging")


def room(disk: Path, limit: int = 0) -> dict[str, Any]:
    """Return the room for copies on a disk, which may have a limit, as a volume of the chart has."""
    found = {"directory": str(disk), "advice": "set job.evaluate.stageDirectory"}
    return {**found, "volume": str(disk.parent), "bytes": limit} if limit else found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a model as the hub's cache has it: links to blobs."""
    blobs, snapshot = tmp_path / "hub/blobs", tmp_path / "hub/snapshots/abc"
    blobs.mkdir(parents=True)
    (snapshot / "sub").mkdir(parents=True)
    for name, size in (("config.json", 10), ("model-1.safetensors", 1000), ("sub/tokenizer.model", 20)):
        blob = blobs / name.replace("/", "-")
        blob.write_bytes(b"x" * size)
        (snapshot / name).symlink_to(blob)
    return snapshot


@pytest.mark.parametrize(
    ("path", "kind", "needed"),
    [
        ("/data/runs/x", "fuse", True),
        ("/data", "fuse", True),
        ("/database", "overlay", False),
        ("/data/lustre/x", "lustre", False),
        ("/data/with space/x", "ext4", False),
        ("/models/x", "fuse.gcsfuse", True),
        ("/shadowed/x", "ext4", False),
    ],
)
def test_the_mount_type_decides_whether_a_copy_is_needed(
    staging: Any, tmp_path: Path, path: str, kind: str, needed: bool
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert staging.mount_type(path, str(mounts)) == kind
    assert staging.needed(path, str(mounts)) is needed


def test_without_a_mount_list_no_copy_is_needed(staging: Any, tmp_path: Path) -> None:
    assert not staging.needed("/data", str(tmp_path / "none"))


def test_a_copy_is_complete_and_reused(staging: Any, model: Path, tmp_path: Path) -> None:
    files, target = staging.files_of(str(model)), tmp_path / "disk/0/step_30"
    assert files == {"config.json": 10, "model-1.safetensors": 1000, "sub/tokenizer.model": 20}
    said = staging.copy(str(model), str(target), files, room(tmp_path / "disk"))
    assert re.match(r"has a copy of 0\.0 GiB after \d+ s", said)
    assert staging.files_of(str(target)) == files
    assert not any(path.is_symlink() for path in target.rglob("*"))
    first = (target / "config.json").stat().st_ino
    assert staging.copy(str(model), str(target), files, room(tmp_path / "disk")) == "has its copy already"
    assert (target / "config.json").stat().st_ino == first


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_damaged_copy_is_made_again(staging: Any, model: Path, tmp_path: Path, damage: str) -> None:
    files, target = staging.files_of(str(model)), tmp_path / "disk/0/step_30"
    staging.copy(str(model), str(target), files, room(tmp_path / "disk"))
    (target / "model-1.safetensors").unlink()
    if damage == "short":
        (target / "model-1.safetensors").touch()
    for left in (target.parent, tmp_path / "disk/of-another-run"):
        (left / "step_30.part").mkdir(parents=True)
    assert staging.copy(str(model), str(target), files, room(tmp_path / "disk")).startswith("has a copy")
    assert not os.listdir(tmp_path / "disk/of-another-run")
    assert staging.files_of(str(target)) == files
    assert os.listdir(target.parent) == ["step_30"]


def test_a_model_that_changes_while_being_copied_is_rejected(staging: Any, model: Path, tmp_path: Path) -> None:
    files = {**staging.files_of(str(model)), "config.json": 11}
    with pytest.raises(OSError, match="still being written"):
        staging.copy(str(model), str(tmp_path / "disk/0/step_30"), files, room(tmp_path / "disk"))
    assert not (tmp_path / "disk/0/step_30").exists()


def test_a_disk_that_is_too_small_is_reported(
    staging: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: types.SimpleNamespace(free=100))
    with pytest.raises(
        OSError, match=r"needs 0.0 GiB, and 0.0 GiB are free in .*/disk; set job.evaluate.stageDirectory"
    ):
        staging.copy(
            str(model), str(tmp_path / "disk/0/step_30"), staging.files_of(str(model)), room(tmp_path / "disk")
        )
    assert not (tmp_path / "disk/0").exists()


def test_the_volumes_size_limit_applies_in_addition_to_the_disks_free_space(
    staging: Any, model: Path, tmp_path: Path
) -> None:
    """Kubernetes evicts a pod that writes more than its volume may hold, though the node's disk has more."""
    volume, files = tmp_path / "scratch", staging.files_of(str(model))
    (volume / "cache").mkdir(parents=True)
    (volume / "cache/kernels").write_bytes(b"x" * (1 << 20))
    target = volume / "grpo-models/0/step_30"
    with pytest.raises(OSError, match=r"free in .*/scratch, whose limit is 0.0 GiB; set job"):
        staging.copy(str(model), str(target), files, room(volume / "grpo-models", (1 << 20) + 1029))
    # The rest of an interrupted copy takes no room: it goes first.
    left = volume / "grpo-models/1/other.part"
    left.mkdir(parents=True)
    (left / "weights").write_bytes(b"x" * (1 << 20))
    assert "copy" in staging.copy(str(model), str(target), files, room(volume / "grpo-models", (1 << 20) + 1030))


def test_two_runs_on_one_node_copy_once(model: Path, tmp_path: Path) -> None:
    """Each in a process of its own, as Ray's workers are; one is killed in the middle, and the other copies again."""
    (model.parent.parent / "blobs/model-1.safetensors").write_bytes(b"x" * (8 << 20))
    words = [
        sys.executable,
        "-c",
        SLOWLY,
        str(model),
        str(tmp_path / "disk/0/step_30"),
        json.dumps(room(tmp_path / "disk")),
    ]
    environment = {**os.environ, "PYTHONPATH": str(flat_folder())}
    options: Any = {"stdout": subprocess.PIPE, "text": True}
    target = tmp_path / "disk/0/step_30"
    # It copies until it is killed.
    with subprocess.Popen(words, env={**environment, "PAUSE": "3600"}, **options) as first:
        try:
            assert [first.stdout.readline() for _ in range(2)] == ["asking\n", "copying\n"]
            others = [subprocess.Popen(words, env=environment, **options) for _ in range(2)]
            assert [other.stdout.readline() for other in others] == ["asking\n"] * 2
            # Nobody else copies meanwhile, and what is not whole is not there.
            assert not target.exists()
        finally:
            first.kill()
    said = sorted(other.communicate(timeout=120)[0].splitlines()[-1].split(" ")[1] for other in others)
    assert said == ["a", "its"]
    assert (target / "model-1.safetensors").stat().st_size == 8 << 20


def test_different_content_is_staged_in_a_different_folder(staging: Any, model: Path) -> None:
    first = staging.target_of(str(model), "/disk", "step_30")
    assert first == staging.target_of(str(model), "/disk", "step_30")
    assert Path(first).name == "step_30"
    os.utime(model / "config.json", (1, 1))
    assert staging.target_of(str(model), "/disk", "step_30") != first


# Copies with a pause after each file, and says when it asks for the lock and when it begins.
SLOWLY = """
import fcntl, json, os, shutil, sys, time
import model_staging

real, flock = shutil.copyfile, fcntl.flock

def lock(file, operation):
    print("asking", flush=True)
    flock(file, operation)

fcntl.flock = lock

def slow(source, target):
    # Two threads copy: in one piece, so that their lines do not mix.
    sys.stdout.write("copying\\n")
    sys.stdout.flush()
    real(source, target)
    time.sleep(float(os.environ.get("PAUSE", "0")))

shutil.copyfile = slow
source, target, room = sys.argv[1:]
print(model_staging.copy(source, target, model_staging.files_of(source), json.loads(room)), flush=True)
"""


class Ray(types.ModuleType):
    """A stand-in for Ray: a task runs at once, in its own folder for each node."""

    def __init__(self, nodes: list[dict[str, Any]]) -> None:
        super().__init__("ray")
        self.found, self.asked, self.closed, self.waited = nodes, [], False, 0

    def init(self, **options: Any) -> None:
        assert options["address"] == "auto"
        assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ
        if not self.found:
            raise ConnectionError("no cluster")

    def nodes(self) -> list[dict[str, Any]]:
        return self.found

    def remote(self, function: Any) -> Any:
        def options(num_cpus: int, max_retries: int, scheduling_strategy: str) -> Any:
            def start(source: str, target: str, files: dict[str, int], room: dict[str, Any]) -> Any:
                self.asked.append((scheduling_strategy, files))
                return lambda: function(source, f"{target}-{scheduling_strategy}", files, room)

            assert (num_cpus, max_retries) == (0, 0)
            return types.SimpleNamespace(remote=start)

        return types.SimpleNamespace(options=options)

    def wait(self, tasks: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        """Return one task at a time, the last first, and none at every second question."""
        self.waited += 1
        return ([], tasks) if self.waited % 2 else (tasks[-1:], tasks[:-1])

    def get(self, task: Any) -> Any:
        return task()

    def shutdown(self) -> None:
        self.closed = True


def node(name: str, gpus: int, alive: bool = True) -> dict[str, Any]:
    resources = {"CPU": 8, "GPU": gpus} if gpus else {"memory": 1}
    return {"NodeID": name, "NodeManagerHostname": f"host-{name}", "Alive": alive, "Resources": resources}


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ray]:
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    made = Ray([node("head", 0), node("a", 8), node("b", 8), node("gone", 8, alive=False)])
    strategies: Any = types.ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda node_id, soft: node_id if not soft else ""
    for name, module in (("ray", made), ("ray.util", types.ModuleType("ray.util")), (strategies.__name__, strategies)):
        monkeypatch.setitem(sys.modules, name, module)
    return made


def test_each_node_gets_only_the_files_that_it_needs(
    staging: Any, ray: Ray, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "disk/0/step_30"
    assert staging.main(str(model), str(target), json.dumps(room(tmp_path / "disk"))) == 0
    files = staging.files_of(str(model))
    small = {path: size for path, size in files.items() if path != "model-1.safetensors"}
    assert ray.asked == [("head", small), ("a", files), ("b", files)]
    assert staging.files_of(f"{target}-head") == small
    said = capsys.readouterr().out
    assert f"grpo: copying {model} to {target} on each node: 0.0 GiB, without GPUs no weights" in said
    assert re.search(r"grpo: host-a has a copy of 0\.0 GiB after \d+ s", said)
    assert "grpo: 3 nodes are still copying" in said
    assert ray.closed


def test_a_head_only_cluster_without_gpus_gets_every_file(staging: Any, ray: Ray, model: Path, tmp_path: Path) -> None:
    ray.found = [node("head", 0)]
    assert staging.main(str(model), str(tmp_path / "disk/0/step_30"), json.dumps(room(tmp_path / "disk"))) == 0
    assert ray.asked == [("head", staging.files_of(str(model)))]


def test_a_failing_node_is_named(
    staging: Any,
    ray: Ray,
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(_task: Any) -> None:
        raise RuntimeError("Traceback\n\nOSError: No space left on device")

    monkeypatch.setattr(ray, "get", full)
    assert staging.main(str(model), str(tmp_path / "disk/0/step_30"), json.dumps(room(tmp_path / "disk"))) == 1
    said = capsys.readouterr().out
    assert f"grpo: cannot copy {model}: host-b: OSError: No space left on device" in said
    assert ray.closed


def test_a_missing_cluster_is_reported(staging: Any, ray: Ray, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ray.found = []
    assert staging.main(str(model), "/nowhere", "{}") == 1
    assert "no Ray cluster is running here" in capsys.readouterr().out


def test_a_missing_ray_is_reported(
    staging: Any, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert staging.main(str(model), "/nowhere", "{}") == 1
    assert "ray cannot be imported" in capsys.readouterr().out


def test_the_engines_read_the_copy(
    jobs: Any, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluate = jobs("evaluate")
    started = []

    def start(words: list[str], check: bool) -> types.SimpleNamespace:
        started.append(words[2:])
        return types.SimpleNamespace(returncode=len(started) - 1)

    monkeypatch.setattr(evaluate.subprocess, "run", start)
    task = {"run": "gemma", "stageDirectory": str(tmp_path / "disk")}
    target = evaluate.staged(task, str(model))
    folder = f"{tmp_path}/disk/grpo-staged/gemma"
    assert started == [[str(model), target, json.dumps(room(Path(folder)))]]
    assert target.startswith(f"{tmp_path}/disk/grpo-staged/gemma/")
    with pytest.raises(evaluate.JobError, match="could not copy"):
        evaluate.staged(task, str(model))
    # What is in no cache yet cannot be copied, and what lies on a disk need not be.
    assert evaluate.staged(task, "google/nowhere") == "google/nowhere"
    said = capsys.readouterr().out
    assert "google/nowhere is not in the cache" in said
    assert "each node downloads google/nowhere" in said
    assert evaluate.staged({"run": "gemma"}, str(model)) == str(model)
