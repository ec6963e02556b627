"""A configuration without our charts is read as its framework reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.plan import planner
from grpo.values.config import RunConfig
from grpo.values.frameworks import configuration
from postrender.errors import GrpoError, InputError, UsageError

H200 = {"name": "h200", "gpusPerNode": 8, "gpuMemoryGigabytes": 141}
GB200 = {"name": "gb200", "gpusPerNode": 4, "gpuMemoryGigabytes": 186}


def nemo_rl(file: Path | None, *overrides: str, nodes: int | None = None) -> RunConfig:
    return configuration.run_of("nemo-rl", "v0.7.0", str(file) if file else None, overrides, H200, nodes)


def test_defaults_are_resolved_relative_to_the_file_and_merged_below_it(tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "base.yaml").write_text("defaults: grpo_math_1B.yaml\ngrpo: {num_prompts_per_step: 8}\n")
    child = tmp_path / "recipes/child.yaml"
    child.write_text("defaults: ../base.yaml\ncluster: {num_nodes: 2, gpus_per_node: 8}\n")
    run = nemo_rl(child)
    assert (run.at("grpo.num_prompts_per_step"), run.nodes, run.gpus) == (8, 2, 8)
    # From NeMo RL's own file, which is not beside it.
    assert run.at("policy.train_global_batch_size") == 512


def test_a_full_config_file_gets_no_defaults(tmp_path: Path) -> None:
    file = tmp_path / "whole.yaml"
    file.write_text("policy: {model_name: Qwen/Qwen3-8B}\n")
    assert not nemo_rl(file).has("policy.train_global_batch_size")


def test_overrides_are_parsed_like_hydra(tmp_path: Path) -> None:
    words = ["policy.model_name=Qwen/Qwen3-8B", "++policy.x=1e-6", "+policy.y=[1,'a']", "~policy.optimizer", "grpo.z="]
    run = nemo_rl(None, *words)
    assert run.at("policy.model_name") == "Qwen/Qwen3-8B"
    assert run.at("policy.x") == 1e-6
    assert run.at("policy.y") == [1, "a"]
    assert run.at("grpo.z") == ""


def test_an_override_can_remove_a_key(tmp_path: Path) -> None:
    file = tmp_path / "whole.yaml"
    file.write_text("policy: {a: 1, b: {c: 2, d: 3}}\n")
    run = nemo_rl(file, "~policy.b.c", "~policy.a")
    assert run.config["policy"] == {"b": {"d": 3}}


GRPO = ("actor_rollout_ref.model.path=Qwen/Qwen3-8B", "algorithm.adv_estimator=grpo")


def test_a_verl_teacher_makes_the_run_unmodelled() -> None:
    words = ["trainer.nnodes=2", "trainer.n_gpus_per_node=8", "distillation.enabled=true", *GRPO]
    run = configuration.run_of("verl", "0.9.1", None, words, H200)
    assert planner.plan(run).reason == "a teacher (distillation.enabled), which has GPUs of its own"


def test_verl_settings_are_merged_over_verls_default_configuration() -> None:
    run = configuration.run_of("verl", "0.9.1", None, ["trainer.nnodes=2", "trainer.n_gpus_per_node=8"], H200)
    assert (run.nodes, run.gpus) == (2, 8)
    assert run.at("actor_rollout_ref.actor.strategy") == "fsdp"


@pytest.mark.parametrize(
    ("machine", "overrides", "nodes", "found"),
    [
        (H200, ["cluster.num_nodes=2", "cluster.gpus_per_node=8"], None, (2, 8)),
        (GB200, ["cluster.num_nodes=2", "cluster.gpus_per_node=8"], None, (4, 4)),
        (H200, ["cluster.gpus_per_node=2"], None, (1, 2)),
        (H200, [], 4, (4, 8)),
        (GB200, ["cluster.gpus_per_node=8"], 3, (3, 4)),
    ],
)
def test_the_run_has_the_gpus_set_in_the_configuration(
    machine: dict[str, object], overrides: list[str], nodes: int | None, found: tuple[int, int]
) -> None:
    run = configuration.run_of("nemo-rl", "v0.7.0", None, overrides, machine, nodes)
    assert (run.nodes, run.gpus) == found


@pytest.mark.parametrize("value", ["0", "-8", "2.5", "eight", "true", "[8]"])
@pytest.mark.parametrize("key", ["cluster.gpus_per_node", "cluster.num_nodes"])
def test_an_invalid_number_of_gpus_or_nodes_is_rejected(key: str, value: str) -> None:
    with pytest.raises(InputError, match=f"^{key} is .*, expected a number from 1") as refused:
        nemo_rl(None, f"{key}={value}")
    assert refused.value.exit_code == 2


def test_the_option_overrides_the_configured_number_of_nodes() -> None:
    assert nemo_rl(None, "cluster.num_nodes=0", nodes=3).nodes == 3


@pytest.mark.parametrize("value", ["null", "???", "${oc.env:GPUS}"])
def test_an_unknown_number_of_gpus_is_taken_from_the_machine(value: str) -> None:
    assert nemo_rl(None, f"cluster.gpus_per_node={value}").gpus == 8


@pytest.mark.parametrize(
    ("text", "overrides", "error", "message"),
    [
        ("defaults: missing.yaml\n", [], InputError, "its defaults name missing.yaml, and there is no"),
        ("defaults: own.yaml\n", [], InputError, "its defaults lead back to"),
        ("a: [\n", [], InputError, "this is not YAML"),
        ("a: 1\n", ["policy"], UsageError, "'policy' is no override"),
        ("a: 1\n", ["policy..x=1"], UsageError, "is no override"),
        ("a: 1\n", ["policy={a:1}"], UsageError, "a map cannot be read here"),
    ],
)
def test_an_unreadable_configuration_is_an_error(
    tmp_path: Path, text: str, overrides: list[str], error: type[GrpoError], message: str
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    with pytest.raises(error, match=message):
        nemo_rl(file, *overrides)
