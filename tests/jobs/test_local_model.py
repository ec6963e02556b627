"""A training with a local copy of its model (job.stage), on the simulated machine with a stand-in for Ray's client."""

from __future__ import annotations

import functools
import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from .harness import Site, load_program
from .simulation.machine import Machine
from .simulation.processes import Process


class Ray:
    """A head and two GPU nodes, on which a task runs at once, in the order in which the tasks are given."""

    def __init__(self, process: Process) -> None:
        assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in process.environ
        self.process, self.remote = process, self.deferred

    def init(self, address: str, **_: object) -> None:
        assert address == "auto"

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"NodeID": f"{number}", "NodeManagerHostname": f"host-{number}", "Alive": True, "Resources": {"GPU": gpus}}
            for number, gpus in enumerate((0, 8, 8))
        ]

    def deferred(self, function: Callable[..., Any]) -> Any:
        remote = SimpleNamespace(remote=lambda *words: functools.partial(function, *words))
        return SimpleNamespace(options=lambda **_: remote)

    def wait(self, tasks: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        del timeout
        return tasks[:1], tasks[1:]

    def get(self, task: Callable[[], Any]) -> Any:
        if "HANG" in self.process.environ:
            self.process.print("hanging")
            self.process.clock.wait(3600)
        return task()

    def shutdown(self) -> None:
        """Do nothing."""


@pytest.fixture
def staged(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine with a model on its volume and with a Ray cluster."""
    machine.libraries["ray"] = Ray
    strategies: Any = ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda node_id, soft: node_id
    for module in (ModuleType("ray"), ModuleType("ray.util"), strategies):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    machine.environment["RAY_JOB_CONFIG_JSON_ENV_VAR"] = "{}"
    model = machine.tmp / "data/models/toy-1b"
    model.mkdir(parents=True)
    (model / "model-1.safetensors").write_bytes(b"x" * 1000)
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"a.weight": "model-1.safetensors"}}')
    (model / "config.json").write_text("{}")
    return machine


def start(site: Site, *options: object, limit: int = 1 << 30, **changes: Any) -> Any:
    model, disk = str(site.tmp / "data/models/toy-1b"), site.tmp / "scratch"
    room = {"directory": f"{disk}/grpo-models", "volume": str(disk), "bytes": limit, "advice": "raise the size"}
    plan = {"stage": {"model": model, "key": "--config", "room": room}, "identity": {"model": model}, **changes}
    return site.start(*options, **{"config": {"policy": {"model_name": model}}, **plan})


def told(launch: Any) -> list[str]:
    """Return the copy that each start of the trainer was told to read."""
    return re.findall(r"the trainer runs as process .* '--config=\"(.*)\"'", launch.output)


def test_the_trainer_reads_the_copy_and_the_run_keeps_the_original_name(staged: Machine) -> None:
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


# A cluster of one node, for a real process of the copy.
ONE_NODE = """
import types
init = lambda **_: None
nodes = lambda: [{"NodeID": "0", "NodeManagerHostname": "host-0", "Alive": True, "Resources": {"GPU": 8}}]
wait = lambda tasks, timeout: (tasks[:1], tasks[1:])
get = lambda task: task()
shutdown = lambda: None
def remote(function):
    return types.SimpleNamespace(options=lambda **_: types.SimpleNamespace(remote=lambda *a: lambda: function(*a)))
"""


@pytest.mark.full
def test_the_copy_is_made_in_a_separate_process(site: Site) -> None:
    package, model = site.tmp / "modules/ray/util", site.tmp / "data/models/toy-1b"
    for folder in (package, model):
        folder.mkdir(parents=True)
    (package.parent / "__init__.py").write_text(ONE_NODE)
    (package / "__init__.py").touch()
    (package / "scheduling_strategies.py").write_text("NodeAffinitySchedulingStrategy = dict\n")
    site.environment["PYTHONPATH"] = str(site.tmp / "modules")
    (model / "model-1.safetensors").write_bytes(b"x" * 1000)
    launch = start(site)
    assert launch.wait() == 0, launch.output
    (copy,) = told(launch)
    assert (Path(copy) / "model-1.safetensors").stat().st_size == 1000


def test_a_model_with_safetensors_needs_no_pytorch_weights(staged: Machine) -> None:
    model = staged.tmp / "data/models/toy-1b"
    (model / "a.bin.index.json").write_text('{"weight_map": {"a.weight": "pytorch_model-1.bin"}}')
    assert start(staged).wait() == 0


def test_retries_and_later_attempts_reuse_the_copy(staged: Machine) -> None:
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


def test_lack_of_space_ends_the_job_before_the_trainer_starts(staged: Machine) -> None:
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
def test_an_incomplete_model_is_not_copied(staged: Machine, lost: list[str], text: str) -> None:
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


def test_a_stop_signal_interrupts_the_copy(staged: Machine) -> None:
    staged.environment["HANG"] = "1"
    launch = start(staged)
    launch.says("hanging")
    launch.signal(signal.SIGTERM)
    asked = staged.now()
    assert launch.wait() == 128 + signal.SIGTERM, launch.output
    assert staged.now() - asked < 60
    assert "stopped by SIGTERM" in launch.output
    assert not staged.intervals()
    assert staged.record()["state"] == "released"


@pytest.mark.parametrize("key", ["policy.model_name", "actor_rollout_ref.model.path"])
def test_hydra_parses_the_override_that_names_the_copy(
    key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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
