"""The command `grpo plan`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from postrender.cli import main
from tests.conftest import stack_files

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line, and return its exit code and what it wrote."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main.main([*words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_the_command(grpo: Run) -> None:
    files = [word for file in stack_files("h200") for word in ("-f", str(file))]
    code, out, err = grpo("plan", *files, "--price", "5.5")
    assert (code, err) == (0, "")
    assert "training     8 GPUs, DTensor v1: data 1 × tensor 8" in out
    assert "88.00 $ an hour" in out
    assert "Ray objects  up to 250.0 GiB of a node, in /dev/shm" in out
    assert out.endswith("fits (computed, not measured)\n")
    code, out, _ = grpo("plan", *files, "--format", "json", "--price", "5.5")
    tree = json.loads(out)
    assert {"verdict", "usableGiB", "phases", "host", "generation", "checkpoint", "cost", "assumptions"} <= tree.keys()
    for phase in tree["phases"]:
        assert sum(phase["items"].values()) == pytest.approx(phase["peakGiB"], abs=0.1)
    code, out, _ = grpo("plan", *files, "--format", "markdown", "--explain")
    assert "| phase | verdict |" in out
    assert "weights: 4 B a parameter / 8 GPUs" in out


def test_the_command_exits_with_1_for_a_run_that_does_not_fit(grpo: Run) -> None:
    files = [word for file in stack_files("h200") for word in ("-f", str(file))]
    code, out, _ = grpo("plan", *files, "--set", "job.config.policy.model_name=meta-llama/Llama-3.1-405B-Instruct")
    assert code == 1
    assert out.endswith("does not fit (computed, not measured)\n")


def test_a_misspelt_key_is_named(grpo: Run) -> None:
    files = [word for file in stack_files("h200") for word in ("-f", str(file))]
    code, _, err = grpo("plan", *files, "--set", "job.config.policy.model_nam=x")
    assert (code, err) == (
        0,
        "the values have errors, so the run may be another one: nemo-rl/unknown-key (see grpo lint)\n",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "grpo plan: no values file is given"),
        ("-f values/recipes/gemma3-27b-gsm8k.yaml", "the values describe no run on a machine"),
        ("-f values/recipes/gemma3-27b-gsm8k.yaml --price -1", "grpo plan: --price is -1"),
        ("-f missing.yaml", "missing.yaml"),
    ],
)
def test_a_wrong_command_line(grpo: Run, words: str, message: str) -> None:
    code, out, err = grpo("plan", *words.split())
    assert code > 1
    assert out == ""
    assert message in err
