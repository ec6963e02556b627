"""The start commands that the operator has generated, executed with stand-ins for `ray` and `nvidia-smi`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from conftest import NewStack
from harness import containers
from harness.image import VENV, Image
from harness.kube import Kube, Manifest
from harness.nodes import Profile
from harness.stack import Stack

# A bash script would source BASH_ENV itself and hide whether the pod's shell did.
RECORDER = """#!/bin/sh
printf '%s\\n' "$0" "$@" >/opt/nemo-rl/e2e/ray.argv
env >/opt/nemo-rl/e2e/ray.env
"""
SCRIPT = "export NCCL_IB_TC=52\n"


@pytest.fixture(scope="module", params=["b200", "h200"])
def stack(request: pytest.FixtureRequest, new_stack: NewStack) -> Iterator[Stack]:
    """A cluster whose pods the operator has made."""
    stack = new_stack(request.param)
    stack.install("storage", "raycluster")
    stack.until_ready()
    yield stack
    stack.uninstall("raycluster", "storage")


@pytest.fixture
def machine(stack: Stack, profiles: dict[str, Profile], work: Path, image: Image) -> Iterator[Path]:
    """The driver folders of a GPU node, as the installers leave them; returns the folder of gIB."""
    values = profiles[stack.accelerator].values
    for entry in values["hostPaths"].values():
        (work / "host" / entry["hostPath"].lstrip("/")).mkdir(parents=True)
    gib = work / "host" / values["hostPaths"]["gib"]["hostPath"].lstrip("/")
    inside = Path(values["hostPaths"]["gib"]["mountPath"])
    for file, text in ((values["nccl"]["environmentScript"], SCRIPT), (values["nccl"]["tunerConfig"], "")):
        place = gib / Path(file).relative_to(inside)
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
    yield gib
    shutil.rmtree(work / "host")


@pytest.fixture
def programs(work: Path) -> Iterator[dict[str, Path]]:
    """Stand-ins where the image has the real programs."""
    folder = work / "standins"
    folder.mkdir()
    for name in ("ray", "nvidia-smi"):
        (folder / name).write_text(RECORDER)
        (folder / name).chmod(0o755)
    yield {f"{VENV}/bin": folder}
    shutil.rmtree(folder)


@pytest.fixture
def worker(stack: Stack) -> Manifest:
    """One of the workers."""
    return stack.pods()[-1]


@dataclass(frozen=True)
class Outcome:
    """How a container ended, and what `ray` was called with in it, if it was."""

    code: int
    output: str
    argv: list[str]
    environment: dict[str, str]


Execute = Callable[[Manifest, Manifest], Outcome]


@pytest.fixture
def execute(kube: Kube, work: Path, image: Image, programs: dict[str, Path]) -> Execute:
    """Execute a container of a pod with the stand-ins."""

    def run(pod: Manifest, container: Manifest) -> Outcome:
        files = [image.state / name for name in ("ray.argv", "ray.env")]
        for file in files:
            file.unlink(missing_ok=True)
        done = containers.run(containers.prepare(kube, pod, container, work, shown=programs))
        argv, environment = (file.read_text().splitlines() if file.exists() else [] for file in files)
        pairs = dict(line.partition("=")[::2] for line in environment)
        return Outcome(done.returncode, done.stdout + done.stderr, argv, pairs)

    return run


def ray_container(pod: Manifest) -> Manifest:
    """Return the Ray container, which is the first."""
    return dict(pod["spec"]["containers"][0])


def init_container(pod: Manifest, name: str) -> Manifest:
    """Return an init container by name."""
    return next(entry for entry in pod["spec"]["initContainers"] if entry["name"] == name)


def environment_script(machine: Path) -> Path:
    """Return the script that BASH_ENV names, as it lies on the machine."""
    return machine / "scripts/set_nccl_env.sh"


def test_a_worker_starts_ray_with_the_settings_of_nccl(
    worker: Manifest, machine: Path, execute: Execute, stack: Stack
) -> None:
    outcome = execute(worker, ray_container(worker))
    assert outcome.code == 0, outcome.output
    assert outcome.argv[:2] == [f"{VENV}/bin/ray", "start"]
    assert f"--address={stack.cluster}-head-svc.{stack.namespace}.svc.cluster.local:6379" in outcome.argv
    assert "--num-gpus=8" in outcome.argv
    assert outcome.environment["NCCL_IB_TC"] == "52", "the script that BASH_ENV names was not read"
    assert outcome.environment["NCCL_NET"] == "gIB"


def test_a_worker_without_the_script_fails_closed(worker: Manifest, machine: Path, execute: Execute) -> None:
    """Bash itself says nothing and goes on; NCCL_NET still names the plugin, so that NCCL refuses TCP."""
    environment_script(machine).unlink()
    outcome = execute(worker, ray_container(worker))
    assert outcome.argv[1:2] == ["start"]
    assert "NCCL_IB_TC" not in outcome.environment
    assert outcome.environment["NCCL_NET"] == "gIB"


def test_the_head_starts_ray_without_gpus(stack: Stack, machine: Path, execute: Execute) -> None:
    head = stack.pods()[0]
    outcome = execute(head, ray_container(head))
    assert outcome.code == 0, outcome.output
    assert {"--head", "--num-gpus=0", "--num-cpus=0", "--dashboard-host=0.0.0.0"} <= set(outcome.argv)


def test_the_worker_waits_for_the_head(worker: Manifest, machine: Path, execute: Execute) -> None:
    outcome = execute(worker, init_container(worker, "wait-gcs-ready"))
    assert outcome.code == 0, outcome.output
    assert "health-check" in outcome.argv


def test_the_node_check_passes_on_a_complete_machine(worker: Manifest, machine: Path, execute: Execute) -> None:
    outcome = execute(worker, init_container(worker, "check-node"))
    assert outcome.code == 0, outcome.output


@pytest.mark.parametrize("file", ["environmentScript", "tunerConfig"])
def test_the_node_check_names_the_missing_file(
    worker: Manifest, machine: Path, execute: Execute, stack: Stack, profiles: dict[str, Profile], file: str
) -> None:
    path = Path(profiles[stack.accelerator].values["nccl"][file])
    (machine / path.parent.name / path.name).unlink()
    outcome = execute(worker, init_container(worker, "check-node"))
    assert outcome.code != 0
    assert str(path) in outcome.output


def test_the_node_check_refuses_half_a_script(worker: Manifest, machine: Path, execute: Execute) -> None:
    environment_script(machine).write_text("if true; then\n")
    outcome = execute(worker, init_container(worker, "check-node"))
    assert outcome.code != 0
    assert "set_nccl_env.sh" in outcome.output


def test_a_machine_without_the_driver_folder_starts_nothing(worker: Manifest, machine: Path, execute: Execute) -> None:
    """Without the type, a kubelet would make an empty folder that hides the driver."""
    shutil.rmtree(machine)
    with pytest.raises(AssertionError, match="hostPath type check failed"):
        execute(worker, ray_container(worker))
