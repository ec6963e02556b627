"""Waiting for GPU workers: a stand-in for Ray's client says what the cluster offers, and changes its mind."""

from __future__ import annotations

import signal
from types import SimpleNamespace
from typing import Any

import pytest

from .simulation.machine import Launch, Machine
from .simulation.processes import Process


class Ray:
    """What ray_nodes.py uses of Ray's client."""

    def __init__(self) -> None:
        self.offers: Any = None
        self.noise: list[str] = []

    def __call__(self, process: Process) -> SimpleNamespace:
        """Return the module that a process imports."""
        for line in self.noise:
            process.print(line)
        return SimpleNamespace(
            init=lambda address, **_: self.init(process, address),
            nodes=lambda: [
                {"Alive": alive, "Resources": {"CPU": 8, **({"GPU": gpus} if gpus else {})}}
                for gpus, alive in self.offers["nodes"]
            ],
            available_resources=lambda: {"CPU": 8, "GPU": self.offers["free"]},
        )

    def init(self, process: Process, address: str) -> None:
        assert address == "auto"
        assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in process.environ
        if self.offers is None:
            raise ConnectionError("Could not find any running Ray instance")

    def offer(self, nodes: list[list[Any]], free: float) -> None:
        self.offers = {"nodes": nodes, "free": free}


HEAD, NODE = [0, True], [8.0, True]


@pytest.fixture
def ray(machine: Machine) -> Ray:
    machine.libraries["ray"] = found = Ray()
    return found


def start(machine: Machine, *options: object, seconds: float = 20, **changes: Any) -> Launch:
    return machine.start(*options, workers={"nodes": 2, "gpus": 8, "timeoutSeconds": seconds}, **changes)


def test_the_trainer_starts_once_all_nodes_are_present_and_free(machine: Machine, ray: Ray) -> None:
    ray.offer([HEAD, NODE, [8.0, False]], 8)
    launch = start(machine)
    launch.says("waiting for 2 nodes with 8 free GPUs each: 1 nodes with 8 GPUs, 8 of 8 GPUs free")
    ray.offer([HEAD, NODE, NODE], 16)
    assert launch.wait() == 0, launch.output
    assert "the GPU workers are ready: 2 nodes with 8 GPUs, 16 of 16 GPUs free" in launch.output
    assert len(machine.intervals()) == 1


@pytest.mark.parametrize(
    ("nodes", "free", "text"),
    [
        ([HEAD, NODE], 8, "pods of the GPU workers are missing"),
        ([HEAD, NODE, NODE], 12, "something else uses the GPUs"),
        ([HEAD, *[[4.0, True]] * 4], 16, "pods of the GPU workers are missing"),
    ],
)
def test_missing_nodes_are_an_error(machine: Machine, ray: Ray, nodes: list[list[Any]], free: float, text: str) -> None:
    ray.offer(nodes, free)
    launch = start(machine, seconds=6)
    assert launch.wait() == 1
    last = launch.last
    assert text in last
    assert "this run needs 2 nodes with 8 GPUs each" in last
    assert "raise job.attempt" in last
    assert machine.record()["state"] == "released"
    assert machine.intervals() == []


def test_a_missing_ray_is_a_one_line_error(machine: Machine, ray: Ray) -> None:
    launch = start(machine)
    assert launch.wait() == 1
    assert "cannot ask Ray for its nodes: ConnectionError: Could not find any running" in launch.output
    assert "Traceback" not in launch.output


def test_a_ray_error_during_a_long_wait_is_survived(machine: Machine, ray: Ray) -> None:
    ray.offer([HEAD, NODE], 8)
    launch = start(machine)
    launch.says("waiting for 2 nodes with 8 free GPUs each: 1 nodes")
    ray.offers = {}
    launch.says("cannot ask Ray for its nodes: KeyError: 'nodes'")
    ray.offer([HEAD, NODE, NODE], 16)
    assert launch.wait() == 0, launch.output


def test_output_of_libraries_is_not_taken_for_a_report(machine: Machine, ray: Ray) -> None:
    ray.offer([HEAD, NODE, NODE], 16)
    ray.noise = ["1", '{"level": "warning"}', "null"]
    assert start(machine).wait() == 0


def test_a_retry_waits_for_the_nodes_again(machine: Machine, ray: Ray) -> None:
    ray.offer([HEAD, NODE, NODE], 16)
    launch = start(machine, "--code", 3, retries=1)
    machine.trains(1)
    ray.offers = None
    assert launch.wait() == 1
    assert "cannot ask Ray" in launch.output


def test_a_stop_signal_ends_the_wait_for_nodes(machine: Machine, ray: Ray) -> None:
    ray.offer([HEAD], 0)
    launch = start(machine)
    launch.says("waiting for 2 nodes")
    launch.signal(signal.SIGTERM)
    assert launch.wait() == 128 + signal.SIGTERM
    assert machine.record()["state"] == "released"


def test_a_run_without_workers_does_not_query_ray(machine: Machine) -> None:
    assert machine.start().wait() == 0
