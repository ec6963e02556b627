"""The example that learns on a CPU: what differs between the frameworks, and how a run is judged."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from grpo.cli import main as cli
from tests.conftest import ROOT
from tests.jobs.torch_python import torch_python

EXAMPLE = ROOT / "examples/learn-on-cpu"
IN_PODS = "examples/learn-on-cpu/values-pods.yaml"
STEP = {
    "nemo-rl": "========================= Step {0}/60 =========================\n"
    "📊 Training Results:\n  • Loss: 0.1\n  • Generation KL Error: {1}\n  • Avg Reward: 0.5\n"
    "⏱️  Timing:\n  • Total step time: 1.50s\n",
    "verl": "(TaskRunnerV1 pid=7) step:{0} - critic/score/mean:0.5 - rollout_corr/kl:{1} - timing_s/step:1.5\n",
}


@pytest.fixture(scope="module", autouse=True)
def _paths() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for folder in (ROOT / "tests/e2e", EXAMPLE):
            patch.syspath_prepend(str(folder))
        yield


@pytest.fixture(params=["nemo-rl", "verl"])
def framework(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module("frameworks").FRAMEWORKS[request.param]


@pytest.fixture
def story() -> ModuleType:
    return importlib.import_module("story")


def options(files: list[str]) -> list[str]:
    return [word for name in files for word in ("-f", str(ROOT / name))]


def test_lint_finds_nothing_in_the_values(framework: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "--fail-on", "warning", *options(framework.files)]) == 0, capsys.readouterr().out


def test_lint_finds_nothing_in_pods(capsys: pytest.CaptureFixture[str]) -> None:
    files = [*importlib.import_module("frameworks").FRAMEWORKS["nemo-rl"].files, IN_PODS]
    assert f'VALUES = "{IN_PODS}"\n' in (EXAMPLE / "pods.py").read_text(encoding="utf-8")
    assert cli.main(["lint", "--fail-on", "warning", *options(files)]) == 0, capsys.readouterr().out


def test_the_environment_is_created_at_the_path_the_script_uses(framework: Any) -> None:
    made = f"venv=$folder/{framework.folders[framework.venv]} place={framework.venv} "
    assert made in (ROOT / "tools/learn.sh").read_text(encoding="utf-8")


def test_the_wheels_have_the_versions_in_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    files = importlib.import_module("frameworks").FRAMEWORKS["verl"].files
    assert cli.main(["render", "grpo-job", *options(files), "--set", "job.task=fetch"]) == 0
    packages = re.search(r'"packages": (\{.*?\})', capsys.readouterr().out, re.DOTALL)
    assert packages
    lines = (EXAMPLE / "requirements-verl-code.txt").read_text(encoding="utf-8").splitlines()
    pinned = {f"{name}=={version}" for name, version in json.loads(packages[1]).items()}
    assert {line for line in lines if line[0] != "#"} == pinned


def attempt(folder: Path, framework: Any, *steps: tuple[int, str]) -> Any:
    """Return a run whose second attempt has printed steps."""
    text = "".join(STEP[framework.name].format(number, kl) for number, kl in steps)
    (folder / "attempts/2").mkdir(parents=True)
    (folder / "attempts/2/output.log").write_text(text, encoding="utf-8")
    return importlib.import_module("records").Run(folder)


def test_the_mismatch_is_the_largest_absolute_difference(framework: Any, story: ModuleType, tmp_path: Path) -> None:
    run = attempt(tmp_path, framework, (21, "0.0001"), (22, "-0.003"), (23, "0.002"))
    assert story.mismatch(run) == pytest.approx(0.003)


@pytest.mark.parametrize("kl", ["nan", "nothing"])
def test_a_step_without_a_logged_difference_does_not_count_as_agreement(
    kl: str, framework: Any, story: ModuleType, tmp_path: Path
) -> None:
    run = attempt(tmp_path, framework, (21, "0.0"), (22, kl))
    assert story.mismatch(run) == math.inf
    with pytest.raises(story.StoryError, match="generation and training differ by inf nats"):
        story.judge({"mismatch": story.mismatch(run), "rewards": [0.1] * 30 + [0.9] * 30, "scores": {"a": 1, "b": 1}})


@pytest.mark.parametrize(("first", "said"), [(21, ""), (1, "went on with step 1, expected 21"), (11, "step 11")])
def test_the_second_attempt_must_start_after_the_last_checkpoint(
    first: int, said: str, framework: Any, story: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = attempt(tmp_path, framework, *((step, "0.0") for step in range(first, 61)))
    monkeypatch.setattr(type(run), "steps", lambda _run: dict.fromkeys(range(1, 61)))
    cluster = SimpleNamespace(run=lambda *_settings, seconds: seconds)
    if not said:
        assert story.resume(cluster, run, [], 60, 23) == 20
        return
    with pytest.raises(story.StoryError, match=said):
        story.resume(cluster, run, [], 60, 23)


@pytest.mark.parametrize("where", [["--device", "cuda"], ["--in-pods"], ["--stall"]])
def test_verl_runs_without_a_gpu_and_without_pods(
    where: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["learn.py", "--framework", "verl", *where])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module("learn").arguments()
    assert ended.value.code == 2
    assert "--framework verl runs without --in-pods, --stall and --device cuda only" in capsys.readouterr().err


@pytest.mark.full
def test_answers_are_sampled_up_to_the_end_token_with_their_probabilities() -> None:
    """The model of this test continues token n with n + 1 in most cases, and 4 is the end."""
    program = """
import torch
from types import SimpleNamespace
from cpu_sampling import sample
class Model:
    def __call__(self, input_ids, attention_mask):
        assert (input_ids * (1 - attention_mask)).sum() == 0, "padding is 0 and masked"
        return SimpleNamespace(logits=5.0 * torch.nn.functional.one_hot((input_ids + 1).clamp(max=5), 6))
prompts, lengths = torch.tensor([[1, 99], [7, 2], [0, 0]]), torch.tensor([1, 2, 2])
prompts[1, 0] = 1
found = sample(Model(), prompts, lengths, 3, 0.0, [4])
print(found.tokens.tolist(), found.end.tolist(), found.running.tolist())
first = torch.log_softmax(torch.tensor([0.0, 0, 5, 0, 0, 0]), 0)[2]
print(bool((found.logprobs[0, 1:4] - first).abs().max() < 1e-6), float(found.logprobs[0, 0]))
torch.manual_seed(1)
warm = sample(Model(), torch.ones(4000, 1, dtype=torch.long), torch.ones(4000, dtype=torch.long), 1, 2.0, [4])
share = (warm.tokens[:, 1] == 2).float().mean()
print(abs(float(share - torch.softmax(torch.tensor([0.0, 0, 2.5, 0, 0, 0]), 0)[2])) < 0.03)
"""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLE / "image/standins"), "LEARN_ON": "verl"}
    words = [str(torch_python()), "-W", "ignore", "-c", program]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines() == [
        "[[1, 2, 3, 4, 0], [1, 2, 3, 4, 0], [0, 0, 1, 2, 3]] [4, 4, 5] [False, False, True]",
        "True 0.0",
        "True",
    ]
