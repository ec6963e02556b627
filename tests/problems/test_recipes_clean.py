"""Nothing is found in what works: our recipes on every profile and version, and what is rare but right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.lint.linter import lint
from tests import options
from tests.conftest import PROFILES, RECIPES, ROOT, SITE, thin
from tests.recipes.rendered import ONE_GPU, nemo_rl_recipes, stack

FRAMEWORKS = {
    name: sorted((ROOT / "values/frameworks").glob("nemo-rl-*" if name in nemo_rl_recipes() else "verl-*"))
    for name in RECIPES
}
# They train and generate with TP 8 on a node each: on a machine with fewer GPUs a node, rules say so.
OF_EIGHT_GPUS = {"gemma3-27b-gsm8k", "llama3.1-8b-math-gsm8k-noncolocated"}
TASKS = ("fetch", "prepare-data", "convert", "evaluate", "clean")


def rules_of(files: list[Path]) -> list[str]:
    """Return the rules that find something, with what they say."""
    return [f"{each.rule}: {each.what}" for each in lint([*map(str, files), str(SITE)])]


def with_more(files: list[Path], more: dict[str, Any], folder: Path) -> list[str]:
    """Return what is found in a stack with one more file over it."""
    last = folder / "more.yaml"
    last.write_text(yaml.safe_dump(more), encoding="utf-8")
    return rules_of([*files, last])


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("profile", thin(PROFILES, len(PROFILES)))
def test_a_recipe_is_clean_on_every_profile_and_version(profile: str, recipe: str) -> None:
    files = [ROOT / f"values/accelerators/{profile}.yaml", ROOT / f"values/recipes/{recipe}.yaml"]
    machine = options.machines()[profile]
    gpus, expected = machine["gpusPerNode"], set()
    if not gpus:
        # Machines for storage, secrets and Ray; a training on them is refused.
        expected |= {"job/profile-without-gpus"}
    if 0 < gpus < 8 and recipe in OF_EIGHT_GPUS:
        expected |= {"nemo-rl/gpus-not-divisible-by-model", "nemo-rl/generation-nodes"}
    if machine["nccl"].get("net") == "Libfabric":
        # No public image holds the plugin for EFA.
        expected |= {"clouds/image-without-efa"}
    if profile == "gb300":
        # Nor Google's gIB, which does not come from the node of A4X Max.
        expected |= {"clouds/image-without-gib"}
    for older in ([], *([file] for file in FRAMEWORKS[recipe])):
        found = rules_of([*files, *older])
        has_image = any("arm64: true" in file.read_text("utf-8") for file in older)
        of_image = {"job/image-for-arm64"} if machine.get("architecture") == "arm64" and not has_image else set()
        assert {each.partition(":")[0] for each in found} == expected | of_image, (older, found)


def test_the_one_gpu_recipe_is_clean() -> None:
    files = stack("smoke")
    assert rules_of([files[0], ONE_GPU, files[1]]) == []


@pytest.mark.parametrize("recipe", thin(RECIPES, 4))
def test_every_other_task_of_a_recipe_is_clean_on_one_node(recipe: str, tmp_path: Path) -> None:
    for task in TASKS:
        assert with_more(stack(recipe), {"job": {"task": task, "nodes": 1}}, tmp_path) == []


PACKED, APART, DYNAMIC = "llama3.1-8b-math-2n", "gemma3-27b-gsm8k", "gemma3-1b-openmath"
# A recipe's own rate is for DTensor.
RATES = {"lr": 3.0e-7, "min_lr": 3.0e-7}
MEGATRON = {
    "dtensor_cfg": {"enabled": False},
    "megatron_cfg": {"enabled": True, "optimizer": RATES, "scheduler": {"lr_warmup_init": 3.0e-8}},
}
ASYNC = {
    "grpo": {"async_grpo": {"enabled": True, "max_trajectory_age_steps": 2, "in_flight_weight_updates": True}},
    "loss_fn": {"use_importance_sampling_correction": True},
    "policy": {"generation": {"vllm_cfg": {"async_engine": True}}},
}
LEGAL: dict[str, tuple[str, dict[str, Any]]] = {
    "Megatron in parts": (
        PACKED,
        {
            "policy": {
                "dtensor_cfg": {"enabled": False},
                "megatron_cfg": {
                    **MEGATRON["megatron_cfg"],
                    "tensor_model_parallel_size": 2,
                    "pipeline_model_parallel_size": 2,
                    "context_parallel_size": 2,
                    "sequence_parallel": True,
                },
                "make_sequence_length_divisible_by": 8,
            }
        },
    ),
    "Megatron trains, vLLM generates apart": (APART, {"policy": MEGATRON}),
    "Megatron generates": (PACKED, {"policy": {**MEGATRON, "generation": {"backend": "megatron"}}}),
    "SGLang generates": (
        PACKED,
        {"policy": {"generation": {"backend": "sglang", "sglang_cfg": {"gpus_per_server": 1}}}},
    ),
    "several data sets": (
        APART,
        {
            "data": {
                "train": [{"dataset_name": "gsm8k", "split": "train"}, {"dataset_name": "OpenMathInstruct-2"}],
                "validation": [{"dataset_name": "gsm8k", "split": "test"}, {"dataset_name": "AIME2024"}],
            }
        },
    ),
    "asynchronous": (APART, ASYNC),
    "on policy": (
        PACKED,
        {"loss_fn": {"force_on_policy_ratio": True}, "policy": {"train_global_batch_size": 2048}},
    ),
    "FP8": (
        PACKED,
        {
            "policy": {**MEGATRON, "generation": {"vllm_cfg": {"precision": "fp8", "kv_cache_dtype": "fp8"}}},
            "loss_fn": {"use_importance_sampling_correction": True},
        },
    ),
    "no validation": (APART, {"grpo": {"val_period": 0}, "checkpointing": {"metric_name": None}}),
    "no checkpoints": (APART, {"checkpointing": {"enabled": False, "metric_name": "anything"}}),
    "GSPO": (DYNAMIC, {"loss_fn": {"sequence_level_importance_ratios": True, "token_level_loss": False}}),
    "dynamic sampling": (DYNAMIC, {"grpo": {"use_dynamic_sampling": True, "batch_multiplier": 2}}),
    "a node divided": (
        DYNAMIC,
        {"policy": {"generation": {"colocated": {"enabled": False, "resources": {"gpus_per_node": 4}}}}},
    ),
    "top-p": (PACKED, {"policy": {"generation": {"top_p": 0.9, "top_k": 50}}}),
}


@pytest.mark.parametrize("name", LEGAL)
def test_unusual_but_valid_settings_are_clean(name: str, tmp_path: Path) -> None:
    recipe, config = LEGAL[name]
    assert with_more(stack(recipe), {"job": {"config": config}}, tmp_path) == []


def test_a_reward_model_on_its_own_node_is_clean(tmp_path: Path) -> None:
    resources = {"gpus_per_node": 8, "num_nodes": 1}
    config = {"data": {"default": {"env_name": "reward_model"}}, "env": {"reward_model": {"resources": resources}}}
    more = {"ray": {"workers": {"replicas": 3}}, "job": {"config": config}}
    assert with_more(stack(PACKED), more, tmp_path) == []
