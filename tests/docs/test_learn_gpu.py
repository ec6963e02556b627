"""The example on a GPU, as far as it goes without one: phases, the comparison with the plan, and what is refused."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import subprocess
import sys
import time
import tomllib
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grpo.cli import main as cli
from tests.catalogues.sources import tree
from tests.conftest import ROOT, thin

EXAMPLE = ROOT / "examples/learn-on-cpu"
FILES = [
    "values/accelerators/h200.yaml",
    "values/examples/one-gpu.yaml",
    "values/recipes/smoke.yaml",
    *(f"examples/learn-on-cpu/{name}.yaml" for name in ("values", "values-nemo-rl", "values-cuda", "values-memory")),
]
# Two steps of a training with NeMo RL v0.7.0, with a validation and a checkpoint between them, recorded on a CPU: there
# the stand-in for vLLM announced its phases.
RECORDED = Path(__file__).with_name("learn_phases.log").read_text(encoding="utf-8")
MODELS = json.loads((EXAMPLE / "image/models.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def _paths() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for folder in (ROOT / "tests/e2e", EXAMPLE / "image/standins", EXAMPLE):
            patch.syspath_prepend(str(folder))
        yield


@pytest.fixture
def memory() -> ModuleType:
    return importlib.import_module("memory")


@pytest.fixture
def gpu() -> ModuleType:
    return importlib.import_module("gpu")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what `grpo plan` says for the model that is measured, on an H100."""
    config = tmp_path_factory.mktemp("model") / "config.json"
    sizes = {**MODELS["memory"], "model_type": "qwen2", "tie_word_embeddings": True, "max_position_embeddings": 512}
    config.write_text(json.dumps({**sizes, "architectures": ["Qwen2ForCausalLM"]}))
    words = [word for name in FILES for word in ("-f", str(ROOT / name))]
    options = ["--set", "accelerator.gpuMemoryGigabytes=80", "--model-config", str(config), "--format", "json"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert cli.main(["plan", *words, *options]) == 0
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


def program(folder: Path, text: str) -> dict[str, str]:
    """Write an nvidia-smi and return an environment in which it is the only program."""
    file = folder / "nvidia-smi"
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}"}


def learn(environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(EXAMPLE / "learn.py"), "--device", "cuda"]
    return subprocess.run(words, check=False, capture_output=True, text=True, env=dict(environment))


def test_without_a_gpu_one_line_is_printed(tmp_path: Path) -> None:
    done = learn({**os.environ, "PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "learn: SKIPPED: needs an NVIDIA GPU: nvidia-smi finds no GPU 0 here\n"


def test_an_unsuitable_gpu_or_driver_is_reported_with_its_numbers(tmp_path: Path) -> None:
    done = learn(program(tmp_path, "echo 'NVIDIA L4, 550.90.07, 23034, 4'\n"))
    assert (done.returncode, done.stdout) == (3, "")
    assert "learn: SKIPPED: needs the NVIDIA driver 580 or newer (CUDA 13): here it is 550\n" in done.stderr
    assert "learn: SKIPPED: needs a GPU of 32 GB or more: here it has 23034 MiB\n" in done.stderr


def test_nothing_is_installed_without_a_gpu(tmp_path: Path) -> None:
    for name in ("bash", "dirname", "mkdir"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    environment = {"PATH": str(tmp_path), "DEVICE": "cuda"}
    script = ROOT / "tools/learn.sh"
    done = subprocess.run(["/bin/bash", script], check=False, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "learn: SKIPPED: needs an NVIDIA GPU: nvidia-smi finds none here\n"


def test_nvidia_smi_lines_are_parsed_into_times_and_sizes(memory: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    lines = "2026/11/25 16:00:00.100, 512\n2026/11/25 16:00:00.203, 71234\n2026/11/25 16:00:0"
    try:
        assert memory.series(lines) == [(1795615200.1, 512), (1795615200.203, 71234)]
    finally:
        monkeypatch.undo()
        time.tzset()
    with pytest.raises(memory.MeasureError, match=r"nvidia-smi printed '2026/11/25 16:00:00.100, \[N/A\]'"):
        memory.series("2026/11/25 16:00:00.100, [N/A]\n")


def test_a_sample_is_assigned_to_the_phase_it_was_taken_in(memory: ModuleType) -> None:
    """One sample before each beginning of the recorded output, one at it, and one after it."""
    phases = memory.beginnings(RECORDED)
    first = ["refit", "generation", "log-probabilities", "training", "refit", "generation", "training", "checkpoint"]
    assert [phase for _, phase in phases] == [*first, "generation", "log-probabilities", "training"]
    samples = []
    for number, (moment, _) in enumerate(phases):
        samples += [(moment - 0.001, 10000 * number), (moment, 10000 * number + 5000), (moment + 0.001, 1)]
    wanted: dict[str, int] = {}
    for number, (_, phase) in enumerate(phases):
        # What was taken just before the next beginning is this phase's, and the most; the last has none after it.
        wanted[phase] = 10000 * (number + 1) if number + 1 < len(phases) else max(wanted[phase], 10000 * number + 5000)
    assert memory.peaks(samples, phases) == wanted


def test_the_plan_has_every_compared_phase(memory: ModuleType, planned: dict[str, Any]) -> None:
    names = [name for names in memory.PLANNED.values() for name in names]
    assert sorted(names) == sorted(one["name"] for one in planned["phases"])
    assert planned["model"]["parameters"] == 494032768, "those of Qwen2.5 0.5B"
    assert planned["verdict"] == "fits"
    assert {one["name"]: one["tokens"] for one in planned["phases"]}["train: loss"] == 8 * 512


def test_the_error_is_relative_to_the_measured_size(memory: ModuleType, planned: dict[str, Any]) -> None:
    sizes = {one["name"]: one["peakGiB"] for one in planned["phases"]}
    largest = max(sizes[name] for name in memory.PLANNED["training"])
    assert largest == sizes["train: loss"] > sizes["optimizer step"]
    before = 600
    measured = dict.fromkeys(memory.PLANNED, before + 20 * 1024)
    rows = {row["phase"]: row for row in memory.compare(measured, before, planned)}
    assert rows["training"] == {
        "phase": "training",
        "measuredGiB": 20.0,
        "planGiB": largest,
        "error": round(largest / 20 - 1, 3),
    }
    assert rows["checkpoint"] == {"phase": "checkpoint", "measuredGiB": 20.0, "planGiB": None, "error": None}
    del measured["refit"]
    with pytest.raises(memory.MeasureError, match="no sample of the phases refit; measured: generation"):
        memory.compare(measured, before, planned)


def test_the_table_shows_the_error_of_the_plan(memory: ModuleType) -> None:
    rows = [
        {"phase": "generation", "measuredGiB": 40.0, "planGiB": 42.6, "error": 0.065},
        {"phase": "checkpoint", "measuredGiB": 9.5, "planGiB": None, "error": None},
    ]
    assert memory.table(rows).splitlines() == [
        "phase                measured       plan  the plan is off by",
        "generation          40.00 GiB  42.60 GiB  +6.5 %",
        "checkpoint           9.50 GiB          -  -",
    ]


class Trained:
    """A cluster on which a training announces two phases, 0.6 s each."""

    def __init__(self, folder: Path) -> None:
        from harness.processes import Programs

        self.programs = Programs(folder / "logs")
        self.data = folder
        self.output = folder / "runs/memory/attempts/1/output.log"

    def run(self, *_settings: str, seconds: float) -> None:
        assert seconds
        self.output.parent.mkdir(parents=True)
        for phase in ("refit", "training"):
            time.sleep(0.6)
            with self.output.open("a") as file:
                file.write(f"learn: phase {phase} begins at {time.time():.3f}\n")
        time.sleep(0.6)


def test_gpu_memory_is_sampled_during_a_run(
    memory: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvidia-smi and the trainer are played; the clock, the process and its end are real."""
    counting = 'n=0; while :; do n=$((n + 1)); /bin/date +"%Y/%m/%d %H:%M:%S.%3N, $n"; /bin/sleep 0.05; done\n'
    monkeypatch.setenv("PATH", program(tmp_path, counting)["PATH"])
    cluster = Trained(tmp_path)
    samples, phases = memory.measure(cluster, "0")
    assert not cluster.programs.running
    assert [phase for _, phase in phases] == ["refit", "training"]
    found = memory.peaks(samples, phases)
    # About 12 samples before the first phase, and as many in each.
    assert 5 < found["refit"] < found["training"] - 3
    assert found["training"] == samples[-1][1]


def test_links_are_created_and_removed_on_interrupt(gpu: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "brought").mkdir()
    link = tmp_path / "opt/nemo-rl"

    def broken() -> None:
        with gpu.linked({link: tmp_path / "brought"}):
            assert link.resolve() == tmp_path / "brought"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert not os.path.lexists(link)
    assert (tmp_path / "brought").is_dir()


def test_the_stand_in_announces_phases(capsys: pytest.CaptureFixture[str]) -> None:
    standin = importlib.import_module("cuda_phases")

    class VllmGeneration:
        def prepare_for_generation(self, **kwargs: Any) -> Any:
            return kwargs

    class Policy:
        def prepare_for_training(self) -> str:
            return "ready"

        prepare_for_lp_inference = save_checkpoint = prepare_for_training

    for kind in (VllmGeneration, Policy):
        module = types.ModuleType("upstream")
        setattr(module, kind.__name__, kind)
        standin.change(module)
    before = time.time()
    woken = [
        VllmGeneration().prepare_for_generation(**words)
        for words in ({"tags": ["weights"]}, {"tags": ["kv_cache"]}, {})
    ]
    assert woken == [{"tags": ["weights"]}, {"tags": ["kv_cache"]}, {}]
    policy = Policy()
    assert [policy.prepare_for_lp_inference(), policy.prepare_for_training(), policy.save_checkpoint()] == ["ready"] * 3
    printed = importlib.import_module("memory").beginnings(capsys.readouterr().out)
    names = ["refit", "generation", "generation", "log-probabilities", "training", "checkpoint"]
    assert [phase for _, phase in printed] == names
    assert all(before - 0.001 <= moment <= time.time() + 0.001 for moment, _ in printed)


def test_nemo_rl_has_the_methods_that_announce_phases() -> None:
    source = tree("nemo-rl", "v0.7.0")
    standin = importlib.import_module("cuda_phases")
    files = ("models/policy/lm_policy.py", "models/generation/vllm/vllm_generation.py")
    for (name, methods), file in zip(standin.BEGINNINGS.items(), files, strict=True):
        text = (source / "nemo_rl" / file).read_text(encoding="utf-8")
        assert re.search(rf"^class {name}\b", text, re.MULTILINE)
        for method in methods:
            assert f"    def {method}(" in text
    loop = (source / "nemo_rl/algorithms/grpo.py").read_text(encoding="utf-8")
    assert f"prepare_for_generation(tags={json.dumps(standin.WAKES_FOR_WEIGHTS)})" in loop


def test_the_versions_are_those_locked_by_nemo_rl() -> None:
    lock = tomllib.loads((tree("nemo-rl", "v0.7.0") / "uv.lock").read_text(encoding="utf-8"))
    locked: dict[str, set[str]] = {}
    for package in lock["package"]:
        locked.setdefault(package["name"], set()).add(package.get("version", "").partition("+")[0])
    for name, version in requirements("requirements-cuda.txt").items():
        assert version in locked[name], name


def requirements(name: str) -> dict[str, str]:
    lines = (EXAMPLE / name).read_text(encoding="utf-8").splitlines()
    return {line.partition("==")[0].partition("[")[0]: line.partition("==")[2] for line in lines if line[0] != "#"}


def test_gpu_requirements_are_the_cpu_requirements_plus_vllm() -> None:
    assert requirements("requirements-cuda.txt").keys() - requirements("requirements.txt").keys() == {"vllm"}
    assert not requirements("requirements.txt").keys() - requirements("requirements-cuda.txt").keys()


def test_the_head_size_is_one_vllm_attention_supports() -> None:
    for name in ("cuda", "memory"):
        assert MODELS[name]["hidden_size"] // MODELS[name]["num_attention_heads"] == 64, name


@pytest.mark.parametrize("count", thin([len(FILES), len(FILES) - 1], 2))
def test_lint_finds_nothing_in_the_values(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for name in FILES[:count] for word in ("-f", str(ROOT / name))]
    assert cli.main(["lint", "--fail-on", "warning", *words]) == 0, capsys.readouterr().out
