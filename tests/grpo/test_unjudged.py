"""What cannot be judged is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from grpo.lint import linter, unjudged
from grpo.values import models
from postrender.errors import InputError, UnreadableError
from postrender.values import merge
from tests.conftest import stack_files

UNKNOWN = "model ours/gemma (its sizes are not known; give its config.json with --model-config)"
MEMORY = "the memory of a real GPU (computed: fits; see grpo plan)"
NO_PLAN = "whether it fits into the GPUs' memory"
CONFIG = {"architectures": ["Qwen2ForCausalLM"], "num_attention_heads": 6, "num_key_value_heads": 2}


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    models._added.clear()


def files(folder: Path, text: str, recipe: str = "gemma3-27b-gsm8k") -> list[str]:
    (folder / "more.yaml").write_text(text)
    return [*map(str, stack_files(recipe=recipe)), str(folder / "more.yaml")]


@pytest.mark.parametrize(
    ("recipe", "text"),
    [
        ("gemma3-27b-gsm8k", "job: {config: {policy: {model_name: ours/gemma}}}"),
        ("qwen2.5-32b-gsm8k-verl", "job: {config: {actor_rollout_ref: {model: {path: ours/gemma}}}}"),
    ],
)
def test_a_model_with_unknown_sizes_is_named(recipe: str, text: str, tmp_path: Path) -> None:
    assert [*unjudged.of(merge.load(files(tmp_path, "", recipe)))] == [MEMORY]
    assert [*unjudged.of(merge.load(files(tmp_path, text, recipe)))] == [UNKNOWN, NO_PLAN]


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ('ray: {workers: {replicas: "2"}}', "the number of nodes"),
        ("ray:", "the number of nodes"),
        ("job: {nodes: -1}", "the number of nodes"),
        ("accelerator: {gpusPerNode: x}", "the number of a node's GPUs"),
        ("accelerator: {gpuMemoryGigabytes: x}", "the memory of a GPU"),
    ],
)
def test_the_reason_names_the_value_that_is_unknown(tmp_path: Path, text: str, unknown: str) -> None:
    assert [*unjudged.of(merge.load(files(tmp_path, text)))][-1] == f"{NO_PLAN} ({unknown} is not known)"


def test_an_external_cluster_is_named(tmp_path: Path) -> None:
    found = [*unjudged.of(merge.load(files(tmp_path, "stack: {names: {cluster: theirs}}")))]
    assert found == ["cluster theirs (made by somebody else; grpo check compares its manifest)", MEMORY]
    text = "{stack: {names: {cluster: theirs}}, job: {cluster: {mode: ephemeral}}}"
    assert [*unjudged.of(merge.load(files(tmp_path, text)))] == [MEMORY]


def test_file_rewards_are_named(tmp_path: Path) -> None:
    text = 'job: {rewards: {mine: {weight: 1, file: "def reward(truth, text): return judged(truth, text)"}}}'
    found = [*unjudged.of(merge.load(files(tmp_path, text)))]
    assert found == ["what the files of job.rewards return (rewards are not executed: grpo try-reward)", MEMORY]
    text = "job: {rewards: {mine: {weight: 1, builtin: exact_answer}}}"
    assert [*unjudged.of(merge.load(files(tmp_path, text)))] == [MEMORY]


@pytest.mark.parametrize("terms", [250, 900, 3000])
def test_a_reward_nested_too_deeply_is_named(tmp_path: Path, terms: int) -> None:
    body = f"x = 1{' + 1' * terms}"
    text = f'job: {{rewards: {{mine: {{weight: 1, file: "def reward(truth, text): {body}; return x"}}}}}}'
    given = merge.load(files(tmp_path, text))
    deep = "the code of reward mine (it is nested too deeply: split its longest expression)"
    assert deep in [*unjudged.of(given)]
    assert [each for each in linter.judge_values(given) if each.rule == "checks/could-not-run"] == []


def test_a_models_config_lets_rules_judge_it(tmp_path: Path) -> None:
    text = "job: {config: {policy: {model_name: ours/gemma, generation: {vllm_cfg: {tensor_parallel_size: 8}}}}}"
    given = files(tmp_path, text)
    assert "nemo-rl/generation-heads-not-divisible" not in {each.rule for each in linter.lint(given)}
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    models.add(unjudged.model_name(merge.load(given)), str(tmp_path / "config.json"))
    assert "nemo-rl/generation-heads-not-divisible" in {each.rule for each in linter.lint(given)}
    assert [*unjudged.of(merge.load(given))] == [f"{NO_PLAN} (hidden_size is not known)"]


def test_a_file_that_is_not_a_model_config_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with pytest.raises(UnreadableError):
        models.add("a", str(file))
    for text in ("{", "[]", "{}"):
        file.write_text(text)
        with pytest.raises(InputError, match=r"not JSON|architectures"):
            models.add("a", str(file))


def test_values_that_name_no_model_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("stack: {name: a}\n")
    values = merge.load([str(tmp_path / "a.yaml")])
    assert [*unjudged.of(values)] == ["the model (the values do not name it)", NO_PLAN]
    with pytest.raises(InputError, match="name no model"):
        unjudged.model_name(values)


@pytest.mark.parametrize(
    ("recipe", "text", "named"),
    [
        ("gemma3-27b-gsm8k", "", []),
        (
            "gemma3-27b-gsm8k",
            "job: {config: {data: {train: {dataset_name: ResponseDataset, data_path: /data/own/train.jsonl}}}}",
            ["/data/own/train.jsonl"],
        ),
        ("qwen2.5-32b-gsm8k-verl", "", []),
        (
            "qwen2.5-32b-gsm8k-verl",
            "job: {config: {data: {train_files: /data/own/a.parquet, val_files: /data/own/b.parquet}}}",
            ["/data/own/a.parquet", "/data/own/b.parquet"],
        ),
    ],
)
def test_rows_that_nobody_has_read_are_named(recipe: str, text: str, named: list[str], tmp_path: Path) -> None:
    found = [*unjudged.rows(merge.load(files(tmp_path, text, recipe)))]
    shown = f"the rows of {', '.join(named)} (grpo lint --data train=FILE reads a copy)"
    assert found == ([shown] if named else [])
