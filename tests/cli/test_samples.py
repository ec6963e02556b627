"""grpo samples: of a directory here, and of a run whose head pod is asked by a stand-in for kubectl."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from tests.conftest import stack_files

STACK = [word for path in stack_files() for word in ("-f", str(path))]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*words: object) -> tuple[int, str, str]:
        code = cli.main(["samples", *map(str, words)])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    folder = tmp_path / "logs/exp_001"
    folder.mkdir(parents=True)
    rows = [
        {"content": [[f"question {index}", f"answer {index}", "said"]], "rewards": [index / 10], "idx": index}
        for index in range(8)
    ]
    for step in (1, 2):
        (folder / f"train_data_step{step}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_samples_are_read_from_a_local_directory(grpo: Run, run_directory: Path) -> None:
    code, out, err = grpo(run_directory, "--best", "--count", 2, "--step", 1)
    assert (code, err) == (0, "")
    assert out.startswith("=== sample 7, reward 0.7\n--- prompt\nquestion 7\n--- generation\nanswer 7\n")
    assert "=== step 1, 8 samples: reward 0.3500 +- 0.2291 (0 to 0.7)\n" in out
    assert "sample 5" not in out


def test_samples_are_printed_as_json(grpo: Run, run_directory: Path) -> None:
    code, out, _ = grpo(run_directory, "--format", "json", "--worst", "--count", "1")
    found = json.loads(out)
    assert (code, found["step"], [one["index"] for one in found["shown"]]) == (0, 2, [0])


def test_missing_samples_are_reported(grpo: Run, run_directory: Path) -> None:
    assert grpo(run_directory, "--step", 9) == (1, "", "grpo: step 9 has no trajectories, steps 1 to 2 have\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "grpo samples: one run is needed\n  fix: grpo samples -f FILE …"),
        (["a", "b"], "grpo samples: one run is needed"),
        (["gemma"], "grpo samples: 'gemma' is not a directory here\n  fix: give the values files of the run with -f"),
        (["a", "--step", "0"], "grpo samples: invalid value for '--step': 0 is not in the range x>=1"),
        (
            ["a", "--step", "9" * 5000],
            f"grpo samples: invalid value for '--step': '{'9' * 5000}' is not a valid integer range",
        ),
        (["a", "--count", "few"], "grpo samples: invalid value for '--count': 'few' is not a valid integer range"),
        (["a", "--worst", "--best"], "grpo samples: --worst and --best exclude each other"),
        (["a", "--format", "yaml"], "grpo samples: --format is 'yaml', expected one of text, json"),
    ],
)
def test_a_wrong_command_line_says_what_to_write(grpo: Run, words: list[str], message: str) -> None:
    code, out, err = grpo(*words)
    assert (code, out) == (2, "")
    assert err.startswith(message)


KUBECTL = """#!/bin/sh
if [ "$1" = get ]; then echo "$@" >> {calls}; echo pod/ray-head; exit; fi
echo "$@" >> {calls}
while [ "$1" != -- ]; do shift; done
shift 3
exec {python} - {run} ${{3:+"$3"}} $4 $5
"""


def test_samples_of_a_run_in_the_cluster_are_read_in_the_pod(
    grpo: Run, run_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, tools = tmp_path / "calls", tmp_path / "tools"
    tools.mkdir()
    (tools / "kubectl").write_text(KUBECTL.format(calls=calls, python=sys.executable, run=run_directory))
    (tools / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    code, out, err = grpo("gemma", *STACK, "--namespace", "rl", "--count", "1")
    assert (code, err) == (0, "")
    assert "question 0" in out
    assert "question 1" not in out
    get, execute = calls.read_text().splitlines()
    assert get.startswith("get pods --namespace rl --selector ray.io/cluster=")
    assert execute.endswith("-- python3 -I - /data/runs/gemma --count 1")


def test_show_commands_prints_the_command(grpo: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = grpo("gemma", *STACK, "--show-commands", "--cluster", "other", "--worst")
    assert (code, err) == (0, "")
    assert out.startswith("kubectl exec --stdin ")
    assert "ray.io/cluster=other" in out
    assert out.rstrip().endswith("samples.py")
    assert "python3 -I - /data/runs/gemma --worst" in out
