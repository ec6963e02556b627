"""Evaluation with stand-ins for the frameworks: what they are asked, how they are read, what is kept."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grpo.values import catalogue
from tests.conftest import thin
from tests.programs import flat_folder

from .tasks import Done, run_here, task_file

HERE = Path(__file__).parent
VERSIONS = catalogue.versions("nemo-rl")
MATH = {"temperature": 0.0, "topP": 1.0, "maxNewTokens": 8192, "samples": 1, "seed": 42}


@dataclass
class Evaluation:
    """A run directory with a converted step 30, a framework's stand-in, and the task file."""

    tmp: Path
    framework: str
    version: str

    @property
    def run(self) -> Path:
        return self.tmp / "data/runs/gemma"

    @property
    def code(self) -> Path:
        return self.tmp / "code"

    def behave(self, **behaviour: Any) -> None:
        (self.code / "behaviour.json").write_text(json.dumps({"version": self.version, **behaviour}))

    def prepare(self) -> Evaluation:
        prefix = "global_step" if self.framework == "verl" else "step"
        converted = self.run / f"hf/{prefix}_30"
        converted.mkdir(parents=True)
        (converted / "config.json").write_text("{}")
        gsm8k = self.tmp / "data/datasets/gsm8k"
        gsm8k.mkdir(parents=True)
        (gsm8k / "test.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
        (gsm8k / "test.parquet").touch()
        examples, package = self.code / "examples", self.code / "verl/trainer"
        examples.mkdir(parents=True)
        package.mkdir(parents=True)
        shutil.copy(HERE / "run_eval.py", examples)
        shutil.copy(HERE / "main_ppo.py", package)
        self.behave()
        return self

    def task(self, **changes: Any) -> dict[str, Any]:
        return {
            "task": "evaluate",
            "run": "gemma",
            "runDirectory": str(self.run),
            "framework": self.framework,
            "version": self.version,
            "workingDirectory": str(self.code),
            "model": "google/gemma-3-1b-it",
            "nodes": 1,
            "gpusPerNode": 8,
            "step": "30",
            "benchmarks": {"math500" if self.framework == "nemo-rl" else "gsm8k": MATH},
            "models": ["base", "checkpoint"],
            "stageDirectory": "",
            "tensorParallelSize": 1,
            "vllmKwargs": {},
            **changes,
        }

    def words(self, **changes: Any) -> list[str]:
        return [str(flat_folder() / "evaluate.py"), str(task_file(self.task(**changes), self.tmp))]

    @property
    def environment(self) -> dict[str, str]:
        return {"GRPO_DATASETS": str(self.tmp / "data/datasets"), "HF_HOME": str(self.tmp / "hub")}

    def start(self, *options: str, **changes: Any) -> Done:
        """Run the program in this process; the framework runs in one of its own."""
        return run_here("evaluate", *self.words(**changes)[1:], *options, **self.environment)

    def process(self, **changes: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *self.words(**changes)],
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **self.environment},
        )

    def succeed(self, **changes: Any) -> str:
        done = self.start(**changes)
        assert done.code == 0, done.output + done.errors
        return done.output

    def refused(self, *texts: str, **changes: Any) -> None:
        done = self.start(**changes)
        assert done.code == 1, done.output + done.errors
        last = done.output.splitlines()[-1]
        assert "grpo: failed: " in last  # a progress bar on stderr may stand before it
        for text in texts:
            assert text in last

    def started(self) -> list[list[str]]:
        path = self.code / "argv.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def result(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run / f"evaluations/{name}.json").read_text())
        return found


@pytest.fixture(params=thin(VERSIONS[::-1], 4))
def each(request: pytest.FixtureRequest, tmp_path: Path) -> Evaluation:
    return Evaluation(tmp_path, "nemo-rl", request.param).prepare()


@pytest.fixture
def nemo(tmp_path: Path) -> Evaluation:
    return Evaluation(tmp_path, "nemo-rl", "v0.5.0").prepare()


@pytest.fixture(params=thin(catalogue.versions("verl")[::-1], 4))
def verl(request: pytest.FixtureRequest, tmp_path: Path) -> Evaluation:
    found = Evaluation(tmp_path, "verl", request.param).prepare()
    for attempt, length in ((2, 1000), (10, 512)):
        folder = found.run / f"attempts/{attempt}"
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(json.dumps({"data": {"max_prompt_length": length}}))
    (found.run / "attempts/11").mkdir()
    return found


def test_the_base_model_and_the_checkpoint_are_compared(each: Evaluation) -> None:
    """What is asked of NeMo RL, and what its answers become."""
    with each.process(vllmKwargs={"block_size": 32}, tensorParallelSize=2) as process:
        output, _ = process.communicate()
    assert process.returncode == 0, output
    base, trained = each.result("math500-base"), each.result("math500-step_30")
    assert (base["correct"], base["total"], base["metric"]) == (201, 500, "pass@1")
    assert (base["score"], trained["score"]) == (0.402, 0.464)
    assert base["standardError"] == pytest.approx(0.02193, abs=1e-5)
    assert base["versions"]["nemo-rl"] == each.version
    assert base["seconds"] >= 0
    settings = {key: value for key, value in base["settings"].items() if key != "model"}
    assert settings == {key: value for key, value in trained["settings"].items() if key != "model"}
    assert (base["settings"]["model"], settings["maxNewTokens"]) == ("google/gemma-3-1b-it", 8192)
    table = "grpo: math500    base 40.20 +- 2.19 | step_30 46.40 +- 2.23 | change +6.20 +- 3.13, 2.0 standard errors"
    assert output.splitlines()[-1] == table
    first, second = each.started()
    assert first == [
        "--config=examples/configs/evals/math_eval.yaml",
        "generation.model_name=google/gemma-3-1b-it",
        "generation.vllm_cfg.max_model_len=8192",
        "generation.vllm_cfg.tensor_parallel_size=2",
        "generation.temperature=0.0",
        "generation.top_p=1.0",
        "eval.num_tests_per_prompt=1",
        "eval.seed=42",
        "cluster.num_nodes=1",
        "cluster.gpus_per_node=8",
        'data.dataset_name="math500"',
        'generation.vllm_kwargs={"block_size": 32}',
    ]
    assert second == [first[0], f"generation.model_name={each.run}/hf/step_30", *first[2:]]


def test_gsm8k_is_read_from_a_local_file(nemo: Evaluation) -> None:
    nemo.succeed(benchmarks={"gsm8k": MATH}, models=["checkpoint"])
    (words,) = nemo.started()
    assert words[0] == "--config=examples/configs/evals/local_eval.yaml"
    assert words[-5:] == [
        f"data.dataset_name={nemo.tmp}/data/datasets/gsm8k/test.jsonl",
        'data.problem_key="question"',
        'data.solution_key="answer"',
        'data.file_format="json"',
        'data.split="train"',
    ]
    assert nemo.result("gsm8k-step_30")["score"] == 0.464


def test_several_samples_give_fractional_counts(nemo: Evaluation) -> None:
    nemo.behave(right=447.4375)
    settings = {**MATH, "temperature": 0.6, "samples": 16, "maxNewTokens": 32768}
    output = nemo.succeed(benchmarks={"math500": settings}, models=["base"])
    found = nemo.result("math500-base")
    assert (found["correct"], found["score"]) == (447.4375, 0.894875)
    assert output.splitlines()[-1] == "grpo: math500    base 89.49 +- 1.37"


def test_a_result_with_the_same_settings_is_reused(nemo: Evaluation) -> None:
    nemo.succeed(models=["base"])
    assert "is reused" in nemo.succeed(models=["base"])
    assert len(nemo.started()) == 1
    output = nemo.succeed(models=["base"], benchmarks={"math500": {**MATH, "seed": 43}})
    assert "has other settings (seed) and is replaced" in output
    assert len(nemo.started()) == 2
    assert nemo.result("math500-base")["settings"]["seed"] == 43


@pytest.mark.parametrize("text", thin(['{"settings": []}', "", "{", "[]"], 4))
def test_a_damaged_result_is_recomputed(nemo: Evaluation, text: str) -> None:
    path = nemo.run / "evaluations/math500-base.json"
    path.parent.mkdir()
    path.write_text(text)
    assert f"{path} does not contain a result and is replaced" in nemo.succeed(models=["base"])
    assert nemo.result("math500-base")["score"] == 0.402


def test_the_base_model_is_skipped_only_when_it_is_not_listed(nemo: Evaluation) -> None:
    nemo.succeed(models=["checkpoint"])
    assert [path.name for path in (nemo.run / "evaluations").iterdir()] == ["math500-step_30.json"]
    assert len(nemo.started()) == 1


def test_an_ignored_override_is_detected_before_the_end(each: Evaluation) -> None:
    each.behave(ignores=["generation.temperature", "cluster.gpus_per_node"])
    # In a process of its own, which ends here: it has not read the framework's output to the end.
    with each.process(benchmarks={"math500": {**MATH, "temperature": 0.6}}) as process:
        output, _ = process.communicate()
    assert process.returncode == 1
    last = output.splitlines()[-1]
    assert "generation.temperature is 0.0, expected 0.6" in last
    assert "cluster.gpus_per_node is 1, expected 8" in last
    assert not (each.run / "evaluations").exists()


@pytest.mark.parametrize(
    ("behaviour", "texts"),
    [
        ({"exit": 3}, ["run_eval.py ended with exit code 3 on math500"]),
        ({"silent": ["result"]}, ["printed no result on math500"]),
        ({"silent": ["config"]}, ["printed no readable configuration"]),
        ({"samples": 4}, ["the result has 4 samples per prompt, expected 1"]),
    ],
    ids=["crash", "no-result", "no-configuration", "other-samples"],
)
def test_output_that_is_not_a_valid_result_is_not_kept(
    nemo: Evaluation, behaviour: dict[str, Any], texts: list[str]
) -> None:
    nemo.behave(**behaviour)
    nemo.refused(*texts, models=["base"])
    assert not (nemo.run / "evaluations").exists()


@pytest.mark.full
def test_a_base_result_survives_a_crash_after_it(nemo: Evaluation) -> None:
    nemo.succeed(models=["base"])
    nemo.behave(exit=1)
    nemo.refused("ended with exit code 1")
    nemo.behave()
    nemo.succeed()
    assert len(nemo.started()) == 3


@pytest.mark.parametrize(
    ("changes", "texts"),
    thin(
        [
            ({"step": "31"}, ["hf/step_31 is missing: run task convert first", "step_30"]),
            ({"models": ["vanilla"]}, ["job.evaluate.models has vanilla", "base and checkpoint"]),
            ({"models": []}, ["job.evaluate.models is empty"]),
            ({"benchmarks": {}}, ["job.evaluate.benchmarks is empty"]),
            ({"benchmarks": {"mmlu": MATH}}, ["NeMo RL v0.5.0 has no benchmark mmlu", "aime2025, gsm8k"]),
            ({"benchmarks": {"aime2026": MATH}}, ["NeMo RL v0.5.0 has no benchmark aime2026"]),
            (
                {"benchmarks": {"math500": {**MATH, "samples": 4}}},
                ["at temperature 0 the 4 samples of a prompt are equal"],
            ),
            ({"tensorParallelSize": 3}, ["8 GPUs are not a multiple of job.evaluate.tensorParallelSize 3"]),
            ({"workingDirectory": "/nowhere"}, ["cannot start", "/nowhere"]),
        ],
        3,
    ),
    ids=["convert", "models", "no-models", "no-benchmarks", "benchmark", "later", "samples", "parallel", "folder"],
)
def test_contradictory_settings_are_rejected_before_the_framework_starts(
    nemo: Evaluation, changes: dict[str, Any], texts: list[str]
) -> None:
    nemo.refused(*texts, **changes)
    assert nemo.started() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "run task prepare-data first"),
        ('{"question": "1?", "answer": "so #### 1"}\n', "whole solutions as answers instead of numbers"),
        ('{"problem": "1?"}\n', "prepare it again"),
        ("", "prepare it again"),
    ],
    ids=["missing", "raw", "keys", "empty"],
)
def test_gsm8k_must_be_prepared(nemo: Evaluation, text: str | None, said: str) -> None:
    path = nemo.tmp / "data/datasets/gsm8k/test.jsonl"
    path.unlink()
    if text is not None:
        path.write_text(text)
    nemo.refused(str(path), said, benchmarks={"gsm8k": MATH})


def test_the_best_step_without_a_converted_checkpoint_is_rejected(nemo: Evaluation) -> None:
    nemo.refused(
        "no checkpoint", "set job.step to the number of a converted checkpoint", step="best", models=["checkpoint"]
    )


def test_a_stop_signal_ends_the_framework(nemo: Evaluation) -> None:
    program = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nprint('ready', flush=True)\ntime.sleep(600)\n"
    (nemo.code / "examples/run_eval.py").write_text(program)
    with nemo.process() as process:
        assert process.stdout is not None
        assert any(line == "ready\n" for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int((nemo.code / "pid").read_text()), 0)


def reader(jobs: Any, version: str) -> Any:
    module = jobs("nemo_rl_evaluation")
    task = {"version": version, "tensorParallelSize": 1, "nodes": 1, "gpusPerNode": 8}
    return module.Reader(module.overrides(task, "math500", MATH, "/hf/step_30"))


BLOCK = """============================================================
model_name='step_30' dataset_name='math500'
max_new_tokens=8192 temperature=0.0 top_p=1.0 top_k=-1 seed=42

metric=pass@1 num_tests_per_prompt=1

score=0.4640 (232.0/500)
============================================================
"""


@pytest.mark.parametrize(
    ("text", "correct"),
    [
        (BLOCK, 232.0),
        (BLOCK.replace("score", "\x1b[36m(Worker pid=7, ip=10.0.0.1)\x1b[0m bye score"), 232.0),
        (BLOCK.replace("\n\n", "\n(Worker pid=7) score=0.1 of nothing\n"), 232.0),
        (BLOCK.replace("\n", "\r\n"), 232.0),
        (BLOCK + BLOCK.replace("232.0", "199.9375"), 199.9375),
        (BLOCK.replace("232.0", "1e-05"), 1e-05),
        (BLOCK.replace("232.0", "0.0"), 0.0),
        ("(Worker pid=7) score=0.9 (450.0/500)\n" + BLOCK, 232.0),
        (BLOCK + "(Worker pid=7) score=0.9 (450.0/500)\n", 232.0),
    ],
    ids=["plain", "prefix", "between", "windows", "two", "tiny", "zero", "before", "after"],
)
def test_the_result_block_is_found_among_other_output(jobs: Any, text: str, correct: float) -> None:
    read = reader(jobs, "v0.5.0")
    # Chunks end anywhere, in the middle of a line or of a character.
    lines, data = jobs("child_process").Lines(), text.encode()
    for start in range(0, len(data), 7):
        for line in lines.feed(data[start : start + 7]):
            read.read_result(line)
    assert read.result == {
        "model": "step_30",
        "dataset": "math500",
        "metric": "pass@1",
        "samples": "1",
        "correct": correct,
        "total": 500,
    }


@pytest.mark.parametrize("lost", ["model_name", "metric", "score="])
def test_an_incomplete_result_block_is_not_a_result(jobs: Any, lost: str) -> None:
    read = reader(jobs, "v0.5.0")
    for line in BLOCK.splitlines():
        if not line.startswith(lost):
            read.read_result(line)
    assert read.result == {}


def test_newer_benchmarks_need_a_version_that_has_them(jobs: Any) -> None:
    nemo_eval = jobs("nemo_rl_evaluation")
    assert nemo_eval.data_of("aime2026", "v0.7.0") == ("math_eval", {"data.dataset_name": "aime2026"})
    assert nemo_eval.data_of("aime2024", "v0.8.0") == ("math_eval", {"data.dataset_name": "AIME2024"})
    with pytest.raises(jobs("runtime").JobError, match="has no benchmark aime"):
        nemo_eval.data_of("aime2026", "v0.6.0")


@pytest.mark.parametrize(
    ("value", "word"),
    [("a/b", "k=a/b"), ("/x/1", "k=/x/1"), ("1e5", 'k="1e5"'), ("null", 'k="null"'), ("a/b c", 'k="a/b c"')],
)
def test_an_override_string_is_quoted_when_it_would_be_misread(jobs: Any, value: str, word: str) -> None:
    assert jobs("nemo_rl_evaluation").override("k", value) == word


def test_verl_validates_both_models(verl: Evaluation) -> None:
    output = verl.succeed()
    base, trained = verl.result("gsm8k-base"), verl.result("gsm8k-step_30")
    assert (base["correct"], base["total"], base["metric"]) == (20, 40, "reward/mean@1")
    assert trained["score"] == 0.75
    assert trained["standardError"] == pytest.approx((0.75 * 0.25 / 40) ** 0.5)
    assert "change +25.00 +- 10.46, 2.4 standard errors" in output.splitlines()[-1]
    assert not list((verl.run / "evaluations").glob(".*"))
    words = verl.started()[1]
    assert words[:4] == ["--config-dir", f"{verl.run}/attempts/10", "--config-name", "config"]
    assert f'actor_rollout_ref.model.path="{verl.run}/hf/global_step_30"' in words
    assert "actor_rollout_ref.rollout.max_model_len=8704" in words
    assert {"trainer.val_only=true", 'trainer.resume_mode="disable"', "data.max_response_length=8192"} <= set(words)


@pytest.mark.full
def test_scores_from_other_rewards_are_not_compared_with_verls(verl: Evaluation) -> None:
    """The rewards of the run judge the answers; a later attempt may bring others, or newer programs."""
    code = verl.run / "attempts/10/code"
    (code / "rewards").mkdir(parents=True)
    (code / "rewards.json").write_text("{}")
    (code / "rewards/mine.py").write_text("# 1")
    (code / "__pycache__").mkdir()
    verl.succeed()
    (code / "__pycache__/mine.pyc").write_text("compiled")
    assert verl.succeed().count("has the same settings and is reused") == 2
    (code / "rewards/mine.py").write_text("# 2")
    assert verl.succeed().count("has other settings (rewards) and is replaced") == 2
    shutil.rmtree(code)
    assert verl.succeed().count("has other settings (rewards) and is replaced") == 2


def test_verl_averages_over_several_samples(verl: Evaluation) -> None:
    verl.succeed(benchmarks={"gsm8k": {**MATH, "temperature": 0.6, "samples": 4}})
    found = verl.result("gsm8k-step_30")
    assert (found["correct"], found["total"], found["metric"]) == (30, 40, "reward/mean@4")
    assert "actor_rollout_ref.rollout.val_kwargs.do_sample=true" in verl.started()[0]


@pytest.mark.parametrize(
    ("behaviour", "changes", "texts"),
    thin(
        [
            ({}, {"benchmarks": {"math500": MATH}}, ["math500 cannot be evaluated with verl", "use gsm8k"]),
            ({}, {"tensorParallelSize": 2}, ["use the run's own actor_rollout_ref.rollout: remove"]),
            ({"exit": 2}, {}, ["verl.trainer.main_ppo ended with exit code 2"]),
            ({"silent": True}, {}, ["found no val-core line"]),
            ({"rows": 39}, {}, ["does not agree"]),
            ({"rows": 0}, {}, ["does not agree"]),
        ],
        3,
    ),
    ids=["math", "parallel", "crash", "no-line", "rows", "no-rows"],
)
def test_settings_unsupported_by_verl_are_reported(
    verl: Evaluation, behaviour: dict[str, Any], changes: dict[str, Any], texts: list[str]
) -> None:
    verl.behave(**behaviour)
    verl.refused(*texts, **changes)
    assert not list((verl.run / "evaluations").glob("*.json"))


def test_verl_needs_the_runs_configuration(verl: Evaluation) -> None:
    shutil.rmtree(verl.run / "attempts")
    verl.refused("has no configuration of this run", "train first")


def test_check_mode_evaluates_nothing(nemo: Evaluation) -> None:
    """The launcher runs it before a GPU is waited for."""
    done = nemo.start("--check", benchmarks={"math500": MATH})
    assert done.code == 0, done.output
    assert nemo.started() == []
    shutil.rmtree(nemo.run / "hf")
    done = nemo.start("--check", benchmarks={"math500": MATH})
    assert (done.code, "run task convert first" in done.output) == (1, True)
