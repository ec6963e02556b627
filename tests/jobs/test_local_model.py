"""A training with a local copy of its model (job.stage), in real launches with a stand-in for Ray's client."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from .harness import SOON, Launch, Site, load_program

# Three nodes, each a process that runs its task at once, in the order in which the tasks are given.
RAY = """
import json, multiprocessing, os, sys, types

def init(address, **_):
    assert address == "auto"
    assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ

def nodes():
    gpus = json.loads(os.environ["NODES"])
    return [
        {"NodeID": f"{number}", "NodeManagerHostname": f"host-{number}", "Alive": True, "Resources": {"GPU": each}}
        for number, each in enumerate(gpus)
    ]

def available_resources():
    return {"GPU": sum(json.loads(os.environ["NODES"]))}

def remote(function):
    def start(*words):
        return lambda: function(*words)
    return types.SimpleNamespace(options=lambda **_: types.SimpleNamespace(remote=start))

def wait(tasks, timeout):
    return tasks[:1], tasks[1:]

def get(task):
    if os.path.exists(os.environ["HANG"]):
        print("hanging", flush=True)
        import time
        time.sleep(60)
    return task()

def shutdown():
    pass
"""
STRATEGIES = "class NodeAffinitySchedulingStrategy:\n    def __init__(self, node_id, soft):\n        pass\n"


@pytest.fixture
def staged(site: Site) -> Site:
    """Return a site with a model on its volume and with a Ray cluster of a head and two GPU nodes."""
    package = site.tmp / "modules/ray"
    (package / "util").mkdir(parents=True)
    (package / "__init__.py").write_text(RAY)
    (package / "util/__init__.py").touch()
    (package / "util/scheduling_strategies.py").write_text(STRATEGIES)
    site.environment |= {
        "PYTHONPATH": str(site.tmp / "modules"),
        "NODES": "[0, 8, 8]",
        "HANG": str(site.tmp / "hang"),
        "RAY_JOB_CONFIG_JSON_ENV_VAR": "{}",
    }
    model = site.tmp / "data/models/toy-1b"
    model.mkdir(parents=True)
    (model / "model-1.safetensors").write_bytes(b"x" * 1000)
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"a.weight": "model-1.safetensors"}}')
    (model / "config.json").write_text("{}")
    return site


def start(site: Site, *options: object, limit: int = 1 << 30, **changes: Any) -> Launch:
    model, disk = str(site.tmp / "data/models/toy-1b"), site.tmp / "scratch"
    room = {"directory": f"{disk}/grpo-models", "volume": str(disk), "bytes": limit, "advice": "raise the size"}
    plan = {"stage": {"model": model, "key": "--config", "room": room}, "identity": {"model": model}, **changes}
    return site.start(*options, **{"config": {"policy": {"model_name": model}}, **plan})


def told(launch: Launch) -> list[str]:
    """Return the copy that each start of the trainer was told to read."""
    return re.findall(r"the trainer runs as process .* '--config=\"(.*)\"'", launch.output)


def test_the_trainer_reads_the_copy_and_the_run_keeps_the_name(staged: Site) -> None:
    launch = start(staged)
    assert launch.wait() == 0, launch.output
    (copy,) = told(launch)
    assert re.fullmatch(rf"{staged.tmp}/scratch/grpo-models/[0-9a-f]{{12}}/toy-1b", copy)
    assert (Path(copy) / "model-1.safetensors").stat().st_size == 1000
    # The head's node has no GPU: it got the small files, and then the first node with GPUs the rest.
    assert re.search(r"grpo: host-0 has a copy.*\ngrpo: host-1 has a copy.*\ngrpo: host-2 has its copy", launch.output)
    name = str(staged.tmp / "data/models/toy-1b")
    assert json.loads((staged.directory / "run.json").read_text()) == {"model": name}
    config = json.loads((staged.directory / "attempts/1/config.yaml").read_text())
    assert config == {"policy": {"model_name": name}}


def test_weights_of_pytorch_need_not_be_there_too(staged: Site) -> None:
    model = staged.tmp / "data/models/toy-1b"
    (model / "a.bin.index.json").write_text('{"weight_map": {"a.weight": "pytorch_model-1.bin"}}')
    assert start(staged).wait() == 0


@pytest.mark.full
def test_a_retry_and_the_next_attempt_copy_nothing(staged: Site) -> None:
    launch = start(staged, "--code", 3, retries=1)
    assert launch.wait() == 3
    first, second = told(launch)
    assert first == second
    assert launch.output.count("has a copy") == 2
    assert launch.output.count("has its copy already") == 4
    later = start(staged, attempt=2)
    assert later.wait() == 0, later.output
    assert told(later) == [first]
    assert "has a copy" not in later.output


def test_no_room_ends_the_job_before_the_trainer_starts(staged: Site) -> None:
    launch = start(staged, limit=100)
    assert launch.wait() == 1
    assert f"host-1: the copy needs 0.0 GiB, and 0.0 GiB are free in {staged.tmp}/scratch" in launch.output
    assert "whose limit is 0.0 GiB; raise the size" in launch.output
    assert launch.last.startswith("grpo: job.stage could not copy ")
    assert not staged.intervals()
    assert staged.record()["state"] == "released"


@pytest.mark.parametrize(
    ("lost", "text"),
    [
        (["model-1.safetensors"], "toy-1b has no weights"),
        (
            ["model-1.safetensors", "bad"],
            "toy-1b lacks 1 files of its model.safetensors.index.json, the first is model-1",
        ),
        (
            ["model-1.safetensors", "model.safetensors.index.json", "config.json", ""],
            "neither a folder nor in the Hugging",
        ),
    ],
)
def test_a_model_that_is_not_whole_is_not_copied(staged: Site, lost: list[str], text: str) -> None:
    model = staged.tmp / "data/models/toy-1b"
    for name in lost:
        if name == "bad":
            (model / "adapter.safetensors").touch()
        elif name:
            (model / name).unlink()
        else:
            model.rmdir()
    launch = start(staged)
    assert launch.wait() == 1
    last = launch.last
    assert text in last
    assert last.endswith("Run job.task fetch of the same values files first")
    assert not staged.intervals()


def test_a_stop_signal_ends_the_copy(staged: Site) -> None:
    (staged.tmp / "hang").touch()
    launch = start(staged)
    launch.says("hanging")
    launch.signal(signal.SIGTERM)
    assert launch.wait(SOON) == 128 + signal.SIGTERM, launch.output
    assert "stopped by SIGTERM" in launch.output
    assert not staged.intervals()
    assert staged.record()["state"] == "released"


@pytest.mark.parametrize("key", ["policy.model_name", "actor_rollout_ref.model.path"])
def test_hydra_reads_the_word_that_names_the_copy(key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Both frameworks give their overrides to this parser."""
    parser = pytest.importorskip("hydra.core.override_parser.overrides_parser").OverridesParser.create()
    local_model = load_program("local_model")
    monkeypatch.setattr(local_model, "run_program", lambda _words: 0)
    model = tmp_path / "odd {name}=1, x"
    model.mkdir()
    (model / "model.safetensors").touch()
    stage = {"model": str(model), "key": key, "room": {"directory": "/scratch/grpo-models", "advice": ""}}
    (word,) = local_model.with_local_model([], stage)
    (override,) = parser.parse_overrides([word])
    assert override.key_or_group == key
    assert re.fullmatch(r"/scratch/grpo-models/[0-9a-f]{12}/odd {name}=1, x", override.value())
