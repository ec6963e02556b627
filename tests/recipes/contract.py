"""The numbers of the published set-ups, which the recipes must carry. A change here is a change of the contract.

Where a number is not the published one, the recipe's header says old → new and why.
"""

from __future__ import annotations

from dataclasses import dataclass

from grpo.values import catalogue

# The version that the recipes are written for, and the others.
DEFAULT = "v0.7.0"
VERSIONS = (DEFAULT, *(version for version in catalogue.versions("nemo-rl") if version != DEFAULT))
# From this one on, data has sections for training and validation.
NESTED = tuple(version for version in VERSIONS if version >= "v0.6.0")

# Rows of train and validation set. OpenMathInstruct-2 is split 95 to 5; DeepScaleR's count is approximate.
ROWS = {"OpenMathInstruct-2": (950_000, 50_000), "gsm8k": (7_473, 1_319), "DeepScaler": (40_300, 480)}

# Where NeMo RL's classes of these names load from; DeepScaleR is validated on AIME 2024.
REPOSITORIES = {
    "OpenMathInstruct-2": {"nvidia/OpenMathInstruct-2"},
    "gsm8k": {"openai/gsm8k"},
    "DeepScaler": {"agentica-org/DeepScaleR-Preview-Dataset", "HuggingFaceH4/aime_2024"},
}


@dataclass(frozen=True)
class Setup:
    """One row of the table: topology, batch, lengths, optimiser, parallelism, schedule, what is logged where."""

    model: str
    dataset: str
    nodes: int
    batch: tuple[int, int, int, int, int]  # prompts, generations a prompt, train_global, train_micro, logprob
    lengths: tuple[int, int, int, int]  # total, new tokens, vLLM, prompt
    learning: tuple[float, int, float]  # lr, warm-up in steps, KL penalty
    steps: int
    colocated: bool = True
    gpus: int = 8
    v2: bool = True
    parallel: tuple[int, int] = (1, 1)  # TP of the training, TP of vLLM
    utilisation: float = 0.6
    packing: bool = True
    dynamic: bool = False
    validation: tuple[int, int, int] = (10, 256, 256)  # every so many steps, samples, batch
    save: tuple[int, int] = (10, 3)  # every so many steps, best kept
    save_format: str | None = "safetensors"
    updates: int = 1  # optimiser steps a GRPO step
    head_has_gpus: bool = False
    wandb: str | None = None
    # What the header must list as changed.
    changed: tuple[str, ...] = ()


_LLAMA = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "batch": (64, 32, 512, 1, 2),
    "lengths": (4096, 4096, 4096, 4096),
    "learning": (3e-7, 13, 0.01),
    "updates": 4,
}
_GSM8K = ("data", "validation", "checkpoints", "framework", "script", "tokens")

SETUPS = {
    "gemma3-27b-gsm8k": Setup(
        model="google/gemma-3-27b-it",
        dataset="gsm8k",
        nodes=2,
        colocated=False,
        batch=(16, 64, 512, 1, 1),
        lengths=(4096, 4096, 4096, 4096),
        learning=(3e-7, 50, 0.01),
        v2=False,
        parallel=(8, 8),
        utilisation=0.9,
        packing=False,
        steps=10,
        save_format=None,
        updates=2,
        changed=(
            "generations a prompt",
            "framework",
            "script",
            "data",
            "validation",
            "logprob_batch_size",
            "sequence length",
            "base configuration",
            "HF_HOME",
            "W&B",
            "steps",
        ),
    ),
    "gemma3-1b-openmath": Setup(
        model="google/gemma-3-1b-it",
        dataset="OpenMathInstruct-2",
        nodes=1,
        batch=(32, 16, 512, 4, 4),
        lengths=(2048, 1024, 2048, 1024),
        learning=(5e-6, 50, 0.01),
        packing=False,
        dynamic=True,
        steps=50,
        save_format="torch_save",
        changed=(
            "framework",
            "script",
            "steps",
            "val_period",
            "model_save_format",
            "save_optimizer",
            "checkpoints",
            "enable_thinking",
            "block_size",
            "NCCL variables",
        ),
    ),
    "qwen2.5-1.5b-math": Setup(
        model="Qwen/Qwen2.5-1.5B",
        dataset="OpenMathInstruct-2",
        nodes=1,
        batch=(32, 16, 512, 4, 4),
        lengths=(512, 512, 512, 512),
        learning=(5e-6, 50, 0.01),
        steps=100,
        wandb="qwen2.5-1.5b-grpo-1node",
        changed=("steps", "checkpoints", "framework", "script", "tokens"),
    ),
    "llama3.1-8b-math": Setup(
        **_LLAMA,
        dataset="OpenMathInstruct-2",
        nodes=4,
        steps=100,
        wandb="llama3.1-8b-grpo-4nodes",
        changed=("steps", "checkpoints", "framework", "script", "tokens"),
    ),
    "llama3.1-8b-math-2n": Setup(
        **_LLAMA,
        dataset="OpenMathInstruct-2",
        nodes=2,
        steps=100,
        wandb="llama3.1-8b-grpo-2nodes",
        changed=("checkpoints", "framework", "script", "tokens"),
    ),
    "llama3.1-8b-math-gsm8k": Setup(
        **_LLAMA, dataset="gsm8k", nodes=2, steps=10, wandb="llama3.1-8b-grpo-gsm8k", changed=_GSM8K
    ),
    "llama3.1-8b-math-gsm8k-noncolocated": Setup(
        **{**_LLAMA, "batch": (64, 32, 512, 1, 1)},
        dataset="gsm8k",
        nodes=2,
        colocated=False,
        parallel=(8, 8),
        utilisation=0.9,
        steps=10,
        wandb="llama3.1-8b-grpo-gsm8k-noncolocated",
        changed=(*_GSM8K, "logprob_batch_size"),
    ),
    "llama3.1-8b-math-deepscaler": Setup(
        **_LLAMA,
        dataset="DeepScaler",
        nodes=2,
        steps=10,
        validation=(10, 480, 32),
        wandb="llama3.1-8b-grpo-deepscaler",
        changed=("max_val_samples", "val_batch_size", "checkpoints", "framework", "script", "tokens"),
    ),
    "qwen3-1.7b-deepscaler": Setup(
        model="Qwen/Qwen3-1.7B-Base",
        dataset="DeepScaler",
        nodes=2,
        head_has_gpus=True,
        batch=(128, 8, 512, 4, 4),
        lengths=(4096, 4096, 4096, 4096),
        learning=(2e-6, 50, 0.0),
        packing=False,
        steps=100,
        validation=(10, 480, 32),
        save=(10, 10),
        updates=2,
        changed=("Ray", "save_consolidated", "val_batch_size", "framework", "script", "launcher"),
    ),
    "smoke": Setup(
        model="Qwen/Qwen2.5-0.5B-Instruct",
        dataset="gsm8k",
        nodes=1,
        batch=(2, 4, 8, 4, 4),
        lengths=(512, 512, 512, 512),
        learning=(5e-6, 50, 0.01),
        utilisation=0.5,
        steps=4,
        validation=(2, 8, 8),
        save=(2, 1),
    ),
}
