"""Waiting for GPU workers: a stand-in for Ray's client says what the cluster offers, and changes its mind."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from .harness import SOON, Launch, Site

# Reads what the cluster offers from a file, as often as it is asked.
RAY = """
import json, os

def offers():
    return json.load(open(os.environ["OFFERS"]))

def init(address, **_):
    assert address == "auto"
    assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ
    if offers() is None:
        raise ConnectionError("Could not find any running Ray instance")

def nodes():
    resources = [({"CPU": 8, "GPU": gpus} if gpus else {"CPU": 8}, alive) for gpus, alive in offers()["nodes"]]
    return [{"Alive": alive, "Resources": those} for those, alive in resources]

def available_resources():
    return {"CPU": 8, "GPU": offers()["free"]}
"""
HEAD, NODE = [0, True], [8.0, True]


@pytest.fixture
def ray(site: Site) -> Site:
    (site.tmp / "modules").mkdir()
    (site.tmp / "modules/ray.py").write_text(RAY)
    site.environment |= {"PYTHONPATH": str(site.tmp / "modules"), "OFFERS": str(site.tmp / "offers.json")}
    return site


def offer(site: Site, nodes: list[list[Any]], free: float) -> None:
    draft = site.tmp / "offers.draft"
    draft.write_text(json.dumps({"nodes": nodes, "free": free}))
    draft.replace(site.tmp / "offers.json")


def start(site: Site, seconds: float = 20, **changes: Any) -> Launch:
    return site.start(workers={"nodes": 2, "gpus": 8, "timeoutSeconds": seconds}, **changes)


def test_the_trainer_starts_when_all_nodes_are_there_and_free(ray: Site) -> None:
    offer(ray, [HEAD, NODE, [8.0, False]], 8)
    launch = start(ray)
    launch.says("waiting for 2 nodes with 8 free GPUs each: 1 nodes with 8 GPUs, 8 of 8 GPUs free")
    offer(ray, [HEAD, NODE, NODE], 16)
    assert launch.wait() == 0, launch.output
    assert "the GPU workers are ready: 2 nodes with 8 GPUs, 16 of 16 GPUs free" in launch.output
    assert len(ray.intervals()) == 1


@pytest.mark.parametrize(
    ("nodes", "free", "text"),
    [
        ([HEAD, NODE], 8, "pods of the GPU workers are missing"),
        pytest.param([HEAD, NODE, NODE], 12, "something else uses the GPUs", marks=pytest.mark.full),
        pytest.param([HEAD, *[[4.0, True]] * 4], 16, "pods of the GPU workers are missing", marks=pytest.mark.full),
    ],
)
def test_nodes_that_do_not_come_are_an_error(ray: Site, nodes: list[list[Any]], free: float, text: str) -> None:
    offer(ray, nodes, free)
    launch = start(ray, seconds=6)
    assert launch.wait() == 1
    last = launch.last
    assert text in last
    assert "this run needs 2 nodes with 8 GPUs each" in last
    assert "raise job.attempt" in last
    assert ray.record()["state"] == "released"
    assert ray.intervals() == []


@pytest.mark.full
def test_no_ray_is_an_error_of_one_line(ray: Site) -> None:
    (ray.tmp / "offers.json").write_text("null")
    launch = start(ray)
    assert launch.wait() == 1
    assert "cannot ask Ray for its nodes: ConnectionError: Could not find any running" in launch.output
    assert "Traceback" not in launch.output


@pytest.mark.full
def test_an_error_of_ray_in_a_long_wait_is_not_the_end(ray: Site) -> None:
    offer(ray, [HEAD, NODE], 8)
    launch = start(ray)
    launch.says("waiting for 2 nodes with 8 free GPUs each: 1 nodes")
    (ray.tmp / "offers.json").write_text("{")
    launch.says("cannot ask Ray for its nodes: json.decoder.JSONDecodeError")
    offer(ray, [HEAD, NODE, NODE], 16)
    assert launch.wait() == 0, launch.output


def test_what_libraries_print_is_no_report(ray: Site) -> None:
    offer(ray, [HEAD, NODE, NODE], 16)
    module = ray.tmp / "modules/ray.py"
    module.write_text("print(1); print('{\"level\": \"warning\"}'); print('null')\n" + module.read_text())
    assert start(ray).wait() == 0


@pytest.mark.full
def test_a_retry_waits_for_the_nodes_again(ray: Site) -> None:
    offer(ray, [HEAD, NODE, NODE], 16)
    launch = start(ray, retries=1, command=["sh", "-c", f"rm {ray.tmp / 'offers.json'}; exit 3"])
    launch.says("starting the trainer again")
    assert launch.wait() == 1
    assert "cannot ask Ray" in launch.output


def test_a_stop_ends_the_waiting(ray: Site) -> None:
    offer(ray, [HEAD], 0)
    launch = start(ray)
    launch.says("waiting for 2 nodes")
    launch.signal(signal.SIGTERM)
    assert launch.wait(SOON) == 128 + signal.SIGTERM
    assert ray.record()["state"] == "released"


def test_no_workers_are_no_question(ray: Site) -> None:
    assert ray.start().wait() == 0
