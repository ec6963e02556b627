"""The recipes as they render: every number of the contract, and rules that are plain arithmetic."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Engine
from tests.conftest import ACCELERATORS, SITE, Render, thin
from tests.recipes.arithmetic import Facts, violations
from tests.recipes.contract import DEFAULT, NESTED, SETUPS, VERSIONS
from tests.recipes.rendered import (
    Config,
    Configurations,
    nemo_rl_recipes,
    recipe_file,
    render_plan,
    stack,
)


def test_every_recipe_has_a_contract() -> None:
    """A recipe without numbers to hold it to, or numbers without a recipe, is a gap."""
    assert nemo_rl_recipes() == sorted(SETUPS)


def numbers(recipe: str) -> dict[str, Any]:
    """Return what the rendered configuration must say, by dotted path."""
    setup, run = SETUPS[recipe], yaml.safe_load(recipe_file(recipe).read_text("utf-8"))["job"]["name"]
    (prompts, generations, gbs, micro, logprob), (lr, _, kl) = setup.batch, setup.learning
    (period, samples, batch), (save, keep) = setup.validation, setup.save
    return {
        "policy.model_name": setup.model,
        "cluster.num_nodes": setup.nodes,
        "cluster.gpus_per_node": setup.gpus,
        "grpo.num_prompts_per_step": prompts,
        "grpo.num_generations_per_prompt": generations,
        "grpo.max_num_steps": setup.steps,
        "grpo.val_period": period,
        "grpo.max_val_samples": samples,
        "grpo.val_batch_size": batch,
        "grpo.seed": 42,
        "policy.train_global_batch_size": gbs,
        "policy.train_micro_batch_size": micro,
        "policy.logprob_batch_size": logprob,
        "policy.max_total_sequence_length": setup.lengths[0],
        "policy.precision": "bfloat16",
        "policy.max_grad_norm": 1.0,
        "policy.optimizer.kwargs": {"lr": lr, "weight_decay": 0.01, "betas": [0.9, 0.999], "eps": 1e-8},
        "policy.dtensor_cfg._v2": setup.v2,
        "policy.dtensor_cfg.tensor_parallel_size": setup.parallel[0],
        "policy.dtensor_cfg.context_parallel_size": 1,
        "policy.sequence_packing.enabled": setup.packing,
        "policy.dynamic_batching.enabled": setup.dynamic,
        "policy.generation.temperature": 1.0,
        "policy.generation.top_p": 1.0,
        "policy.generation.top_k": None,
        "policy.generation.colocated.enabled": setup.colocated,
        "policy.generation.vllm_cfg.tensor_parallel_size": setup.parallel[1],
        "policy.generation.vllm_cfg.gpu_memory_utilization": setup.utilisation,
        "loss_fn.reference_policy_kl_penalty": kl,
        "loss_fn.ratio_clip_min": 0.2,
        "loss_fn.ratio_clip_max": 0.2,
        "checkpointing.metric_name": "val:accuracy",
        "checkpointing.higher_is_better": True,
        "checkpointing.save_period": save,
        "checkpointing.keep_top_k": keep,
        "checkpointing.model_save_format": setup.save_format,
        "checkpointing.save_consolidated": False,
        "checkpointing.checkpoint_dir": f"/data/runs/{run}/checkpoints",
        "logger.log_dir": f"/data/runs/{run}/logs",
        "logger.wandb_enabled": setup.wandb is not None,
        "logger.tensorboard_enabled": setup.wandb is None,
    }


def at(config: Config, path: str) -> Any:
    """Return the value at a dotted path, which must exist."""
    node: Any = config
    for part in path.split("."):
        node = node[part]
    return node


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("accelerator", thin(ACCELERATORS, 2))
@pytest.mark.parametrize("recipe", thin(sorted(SETUPS), 10))
def test_the_rendered_numbers_match_the_contract(
    recipe: str, accelerator: str, version: str, configurations: Configurations
) -> None:
    """They are the same on both machines and with every version."""
    setup, config = SETUPS[recipe], configurations[recipe, version, accelerator]
    wanted = numbers(recipe)
    assert {path: at(config, path) for path in wanted} == wanted
    it = Facts(config, version)
    assert (it.total, it.new, it.model, it.prompt) == setup.lengths
    assert it.dataset() == setup.dataset
    assert it.rows // it.gbs == setup.updates
    assert config["policy"]["scheduler"][0]["kwargs"] == {
        "start_factor": 0.1,
        "end_factor": 1.0,
        "total_iters": setup.learning[1],
    }
    assert config["policy"]["scheduler"][2] == {"milestones": [setup.learning[1]]}


@pytest.mark.parametrize("recipe", thin(sorted(SETUPS), 3))
def test_the_topology_matches_the_contract(recipe: str, render: Render, helm: Engine) -> None:
    """Workers, GPU head and the name in W&B are those of the set-up."""
    setup = SETUPS[recipe]
    (cluster,) = (item for item in render("raycluster", files=[*stack(recipe), SITE]) if item["kind"] == "RayCluster")
    replicas = cluster["spec"]["workerGroupSpecs"][0]["replicas"]
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert (replicas + setup.head_has_gpus, "nvidia.com/gpu" in head) == (setup.nodes, setup.head_has_gpus)
    logger = render_plan(helm, stack(recipe))["config"]["logger"]
    assert logger.get("wandb", {}).get("name") == setup.wandb


@pytest.mark.parametrize("version", thin(VERSIONS, 8))
def test_no_recipe_breaks_a_rule(version: str, configurations: Configurations) -> None:
    """Batches divide, GPUs divide, lengths agree, checkpoints and validation happen; smoke on one GPU too."""
    broken = {key: violations(config, version) for key, config in configurations.of(version).items()}
    assert len(broken) == 2 * (len(SETUPS) + 1)
    assert {key: found for key, found in broken.items() if found} == {}


def changed(path: str, value: Any) -> Callable[[Config], None]:
    """Return a change of one leaf."""

    def change(config: Config) -> None:
        *above, last = path.split(".")
        at(config, ".".join(above))[last] = value

    return change


@pytest.mark.parametrize(
    ("rule", "recipe", "path", "value"),
    [
        ("B1", "smoke", "policy.train_global_batch_size", 3),
        ("B2", "llama3.1-8b-math", "policy.train_global_batch_size", 16),
        ("B3", "qwen3-1.7b-deepscaler", "policy.train_micro_batch_size", 5),
        ("M1", "smoke", "policy.dynamic_batching.enabled", True),
        ("M3", "gemma3-1b-openmath", "policy.dynamic_batching.train_mb_tokens", 2047),
        ("M4", "smoke", "policy.sequence_packing.logprob_mb_tokens", 256),
        ("M7", "smoke", "grpo.num_prompts_per_step", 1),
        ("K9", "smoke", "policy.dtensor_cfg.tensor_parallel_size", 3),
        ("K10", "gemma3-27b-gsm8k", "policy.logprob_batch_size", 2),
        ("K13", "smoke", "policy.dtensor_cfg.context_parallel_size", 2),
        ("C7", "gemma3-27b-gsm8k", "policy.generation.colocated.resources.gpus_per_node", 4),
        ("C8", "gemma3-27b-gsm8k", "policy.generation.colocated.resources.num_nodes", 2),
        ("C8", "gemma3-27b-gsm8k", "policy.generation.colocated.resources.num_nodes", None),
        ("V1", "smoke", "policy.generation.vllm_cfg.tensor_parallel_size", 3),
        ("V5", "llama3.1-8b-math", "policy.generation.vllm_cfg.tensor_parallel_size", 6),
        ("V6", "smoke", "policy.generation.top_k", 50),
        ("V7", "smoke", "policy.generation.top_p", 0.9),
        ("W10", "smoke", "policy.generation.vllm_cfg.max_model_len", 256),
        ("S3", "smoke", "checkpointing.metric_name", "val_reward"),
        ("S4", "gemma3-27b-gsm8k", "checkpointing.model_save_format", "safetensors"),
        ("S4", "smoke", "checkpointing.model_save_format", "pytorch"),
        ("W15", "smoke", "checkpointing.save_period", 3),
        ("W1", "smoke", "grpo.val_batch_size", 9),
        ("W2", "smoke", "grpo.num_prompts_per_step", 8000),
        ("W3", "llama3.1-8b-math-gsm8k", "grpo.max_num_steps", 117),
        ("G1", "llama3.1-8b-math-deepscaler", "data.validation", None),
    ],
)
def test_a_broken_rule_is_detected(
    rule: str, recipe: str, path: str, value: Any, configurations: Configurations
) -> None:
    """Each rule can fail."""
    config = copy.deepcopy(configurations[recipe, DEFAULT, "b200"])
    assert rule not in dict(violations(config, DEFAULT))
    changed(path, value)(config)
    assert rule in dict(violations(config, DEFAULT))


def test_a_missing_validation_set_of_an_older_version_is_detected(configurations: Configurations) -> None:
    """There the file of the test split is what stands for it."""
    config = copy.deepcopy(configurations["smoke", "v0.5.0", "b200"])
    del config["data"]["val_data_path"]
    assert "G1" in dict(violations(config, "v0.5.0"))


@pytest.mark.parametrize("version", thin(VERSIONS, len(VERSIONS)))
def test_the_data_section_has_the_layout_of_its_version(version: str, configurations: Configurations) -> None:
    """Nested from v0.6.0, flat before; the marker only where it is read; gsm8k before v0.6.0 from prepared files."""
    for (name, _, _), config in configurations.of(version).items():
        data = config["data"]
        if version in NESTED:
            assert data["_override_"] is True
            assert data["train"]["dataset_name"]
            assert data["default"]["prompt_file"] == "examples/prompts/cot.txt"
        else:
            assert set(data) & {"_override_", "train", "validation", "default", "use_multiple_dataloader"} == set()
        if data.get("dataset_name") == "ResponseDataset":
            assert data["train_data_path"] == "${oc.env:GRPO_DATASETS}/gsm8k/train.jsonl", name
            assert data["val_data_path"] == "${oc.env:GRPO_DATASETS}/gsm8k/test.jsonl", name
        assert ("reference_policy_kl_type" in config["loss_fn"]) is (
            version != "v0.4.0" and config["loss_fn"]["reference_policy_kl_penalty"] > 0
        )


@pytest.mark.full
def test_the_vllm_block_size_is_set_where_its_kernel_needs_it(configurations: Configurations) -> None:
    """Heads of 256 on Blackwell, vLLM of v0.5.0 and v0.6.0; never under vllm_cfg, which does not know the key."""
    for (recipe, version, _), config in configurations.items():
        generation = config["policy"]["generation"]
        wanted = recipe == "gemma3-1b-openmath" and version in ("v0.5.0", "v0.6.0")
        assert generation.get("vllm_kwargs", {}) == ({"block_size": 32} if wanted else {})
        assert "block_size" not in generation["vllm_cfg"]
