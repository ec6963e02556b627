"""The adapters, started as a job starts them.

Where GRPO_NEMO_RL_SOURCES and GRPO_VERL_SOURCES name folders of source trees (nrl-v0.5.0 …, verl-v0.7.1 …), the
frameworks' own code registers, creates and asks the rewards; only what a test machine lacks is replaced
(stubs/sitecustomize.py). Without them a small tree stands in for NeMo RL, for what is independent of it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grpo.values import catalogue
from tests import programs

from .patience import LIMIT, write_limits

STUBS = Path(__file__).with_name("stubs")
PROGRAMS = (
    *("rewards", "reward_builtins", "reward_answers", "reward_limits", "reward_numbers"),
    *("nemo_rl_rewards", "nemo_rl_environment", "verl_reward"),
)
RESPONSES = [
    "<think>6 times 12</think><answer>72</answer>",
    "<answer>72</answer>",
    "<think>6 times 12</think><answer>71</answer>",
    "",
    "\ud800\0 \U0001f600",
]
SCORES = [1.0, 0.95, 0.2, 0.0, 0.0]
# The oldest has no registry of environments: see the test that it is refused.
OLDEST, *NEMO_RL = catalogue.versions("nemo-rl")
VERL = catalogue.versions("verl")


def source(variable: str, name: str) -> Path:
    folder = os.environ.get(variable)
    if not folder or not (Path(folder) / name).is_dir():
        pytest.skip(f"{variable} does not name a folder with {name}: not tried with the framework's own code")
    return Path(folder) / name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with what a job's launcher writes: the programs, the rewards and a prompt."""
    made = tmp_path / "attempt"
    made.mkdir()
    for name in PROGRAMS:
        shutil.copy(programs.PROGRAMS[name], made)
    write_limits(made)
    entries = {"format": {"weight": 0.2, "builtin": "format"}, "answer": {"weight": 0.8, "builtin": "exact_answer"}}
    (made / "rewards.json").write_text(json.dumps(entries))
    (made / "tags.txt").write_text("Answer in <answer></answer>, {{}} are braces: {}")
    return made


def run(words: list[Any], *sources: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, [STUBS, *sources]))}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT)


def small_nemo_rl(folder: Path, environments: str = "") -> Path:
    """Return a tree with the three modules that the wrapper asks for."""
    for name, text in {
        "distributed/ray_actor_environment_registry": "ACTOR_ENVIRONMENT_REGISTRY = {}",
        "distributed/virtual_cluster": "class PY_EXECUTABLES:\n    SYSTEM = 'system'",
        "environments/utils": environments,
    }.items():
        path = folder / "small/nemo_rl" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "small"


REGISTRY = "ENVIRONMENTS = {}\ndef register_env(name, actor): ENVIRONMENTS[name] = actor"


@pytest.mark.parametrize("version", NEMO_RL)
def test_nemo_rl_creates_our_environment_and_uses_its_scores(version: str, folder: Path) -> None:
    tree = source("GRPO_NEMO_RL_SOURCES", f"nrl-{version}")
    script = STUBS / "run_grpo.py"
    ended = run([folder / "nemo_rl_rewards.py", script, "--prompt", folder / "tags.txt", json.dumps(RESPONSES)], tree)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    *said, last = ended.stdout.splitlines()
    seen = json.loads(last)
    assert seen["arguments"][:2] == [str(script), "--prompt"]
    assert (seen["folder"], seen["pythonpath"]) == (str(STUBS), str(folder))
    assert seen["registered"]
    assert seen["interpreter"]
    assert seen["inherits"]
    assert seen["kind"]
    assert seen["missing"] == []
    assert seen["parameters"].keys() == {"step", "global_post_process_and_metrics"}
    assert all(theirs == ours for theirs, ours in seen["parameters"].values())
    assert seen["workers"] == 2
    assert seen["prompt"] == "Answer in <answer></answer>, {} are braces: 6 times 12?"
    assert seen["rewards"] == pytest.approx(SCORES)
    assert seen["done"] == [1.0] * len(RESPONSES)
    assert all(message["content"] for message in seen["observations"])
    assert "grpo: score of a response: 0 to 1, the weighted sum of 2 rewards" in said
    means = "score 0.4300, correct 0.4000, reward format 0.5500, reward answer 0.4000"
    assert f"grpo: rewards: 5 responses: {means}" in said


OF_VERL = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": float(data_source == "gsm8k"), "acc": ground_truth in solution_str, "pred": str(extra_info)}
"""


@pytest.mark.parametrize("version", NEMO_RL)
def test_verls_function_gets_the_data_set_name_under_nemo_rl(version: str, folder: Path) -> None:
    tree = source("GRPO_NEMO_RL_SOURCES", f"nrl-{version}")
    write_verl_function(folder)
    (folder / "run.yaml").write_text("data: {train: {dataset_name: gsm8k}}")
    words = ["--prompt", folder / "tags.txt", json.dumps(RESPONSES[:2]), "--config", folder / "run.yaml"]
    ended = run([folder / "nemo_rl_rewards.py", STUBS / "run_grpo.py", *words], tree)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["rewards"] == [1.0, 1.0]


@pytest.mark.parametrize("version", VERL)
def test_verl_calls_a_users_function_in_verls_own_form(version: str, folder: Path) -> None:
    tree = source("GRPO_VERL_SOURCES", f"verl-v{version}")
    write_verl_function(folder, OF_VERL.replace('"gsm8k"', '"openai/gsm8k" and extra_info["index"] == 0'))
    ended = run([STUBS / "run_verl.py", version, folder / "verl_reward.py", json.dumps(["x+72", "no"])], tree)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = json.loads(ended.stdout.splitlines()[-1])
    assert rows == [{"score": 1.0, "acc": acc, "reward_mine": 1.0} for acc in (1.0, 0.0)]


def write_verl_function(folder: Path, text: str = OF_VERL) -> None:
    (folder / "rewards").mkdir(exist_ok=True)
    (folder / "rewards/mine.py").write_text(text)
    (folder / "rewards.json").write_text(json.dumps({"mine": {"weight": 1, "file": "mine.py"}}))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("data: {train: {dataset_name: gsm8k}}", "gsm8k"),
        ("data: {train: [{dataset_name: gsm8k}, {dataset_name: squad}]}", "gsm8k"),
        ("data: {dataset_name: OpenMathInstruct-2}", "OpenMathInstruct-2"),
        ("data: null", ""),
        ("{", ""),
    ],
)
def test_the_data_set_name_comes_from_the_configuration(text: str, name: str, folder: Path) -> None:
    (folder / "run.yaml").write_text(text)
    (folder / "run_grpo.py").write_text("import os; print(os.environ.get('GRPO_DATA_SOURCE', ''))")
    words = [folder / "nemo_rl_rewards.py", folder / "run_grpo.py", "--config", folder / "run.yaml"]
    ended = run(words, small_nemo_rl(folder, REGISTRY))
    assert (ended.returncode, ended.stdout.splitlines()[-1]) == (0, name), ended.stderr


def test_nemo_rl_without_a_registry_is_rejected(folder: Path) -> None:
    tree = source("GRPO_NEMO_RL_SOURCES", f"nrl-{OLDEST}")
    ended = run([folder / "nemo_rl_rewards.py", STUBS / "run_grpo.py"], tree)
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "job.rewards needs job.version v0.5.0 or later" in ended.stdout


@pytest.mark.parametrize("version", VERL)
def test_verl_loads_our_function_and_calls_it_from_threads(version: str, folder: Path) -> None:
    tree = source("GRPO_VERL_SOURCES", f"verl-v{version}")
    responses = [text.replace("72", "72+x").replace("71", "71+x") for text in RESPONSES]
    ended = run([STUBS / "run_verl.py", version, folder / "verl_reward.py", json.dumps(responses)], tree)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = json.loads(ended.stdout.splitlines()[-1])
    assert [row["acc"] for row in rows] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert [row["score"] for row in rows] == pytest.approx(SCORES)
    assert {tuple(row) for row in rows} == {("score", "acc", "reward_format", "reward_answer")}


def test_the_wrapped_script_runs_as_if_started_directly(folder: Path) -> None:
    tree = small_nemo_rl(folder, REGISTRY)
    (folder / "examples").mkdir()
    (folder / "examples/beside.py").write_text("name = 'beside'")
    (folder / "examples/run_grpo.py").write_text(
        "import os, sys, beside, rewards\n"
        "from nemo_rl.environments.utils import ENVIRONMENTS\n"
        "from nemo_rl.distributed.ray_actor_environment_registry import ACTOR_ENVIRONMENT_REGISTRY\n"
        "first = os.path.dirname(__file__) == sys.path[0]\n"
        "print(__name__, sys.argv[1:], ENVIRONMENTS, ACTOR_ENVIRONMENT_REGISTRY, first)\n"
        "sys.exit(7)\n"
    )
    ended = run([folder / "nemo_rl_rewards.py", folder / "examples/run_grpo.py", "--config", "a b"], tree)
    actor = "nemo_rl_environment.RewardsEnvironment"
    assert ended.stdout.splitlines()[-1] == (
        f"__main__ ['--config', 'a b'] {{'rewards': '{actor}'}} {{'{actor}': 'system'}} True"
    )
    assert ended.returncode == 7


def test_nemo_rl_workers_get_no_tokens(folder: Path) -> None:
    tree = small_nemo_rl(folder, REGISTRY)
    (tree / "nemo_rl/environments/interfaces.py").write_text(
        "class EnvironmentInterface: ...\nEnvironmentReturn = dict\n"
    )
    code = "import nemo_rl_environment as e; a = e.RewardsEnvironment.remote({'num_workers': 2})\n"
    code += "print([each.options for each in a.instance.workers])"
    ended = run(["-c", code], tree, folder)
    options = {"runtime_env": {"py_executable": "system", "env_vars": {"HF_TOKEN": "", "WANDB_API_KEY": ""}}}
    assert ended.stdout.splitlines()[-1] == str([options, options]), ended.stderr


def test_a_mistake_in_a_reward_ends_the_job_before_the_script_starts(folder: Path) -> None:
    (folder / "rewards.json").write_text(json.dumps({"a": {"weight": 1, "builtin": "exact"}}))
    ended = run([folder / "nemo_rl_rewards.py", STUBS / "run_grpo.py"], small_nemo_rl(folder, REGISTRY))
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout == (
        "grpo: reward a: there is no builtin 'exact', expected one of format, exact_answer, length\n"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("examples/run_grpo_math.py", "always uses the math environment: run run_grpo.py instead"),
        ("examples/nothing.py", "expected a script and its arguments, got "),
        ("run_grpo.py", "job.rewards needs job.version v0.5.0 or later"),
    ],
)
def test_unsupported_scripts_and_versions_are_rejected(script: str, said: str, folder: Path) -> None:
    (folder / "examples").mkdir()
    for name in ("run_grpo.py", "examples/run_grpo_math.py"):
        (folder / name).write_text("raise SystemExit('not reached')")
    ended = run([folder / "nemo_rl_rewards.py", folder / script], small_nemo_rl(folder))
    assert (ended.returncode, ended.stderr) == (1, "")
    assert said in ended.stdout


def test_outside_nemo_rl_the_wrapper_says_so(folder: Path) -> None:
    ended = run([folder / "nemo_rl_rewards.py", STUBS / "run_grpo.py"])
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "cannot import NeMo RL: No module named 'nemo_rl'; job.rewards runs only in its image" in ended.stdout


def test_the_verl_function_can_be_loaded_from_its_path_alone(folder: Path) -> None:
    code = (
        "import importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('custom_module', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(module.compute_score('gsm8k', '<answer>72</answer>', '72', extra_info={}, more=1))\n"
    )
    ended = run(["-c", code, folder / "verl_reward.py"])
    assert ended.stdout == "{'score': 0.9500000000000001, 'acc': 1.0, 'reward_format': 0.75, 'reward_answer': 1.0}\n"
