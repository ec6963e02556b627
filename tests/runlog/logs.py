"""Write logs in the shape of the frameworks' print statements, with numbers of our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grpo.values import catalogue

SETUP = "\n▶ Setting up compute cluster...\n\n▶ Setting up model and training...\n"
ENDED = "Max number of steps has been reached, stopping training early\n"
BARS = (
    "Processed prompts:   0%|          | 0/64 [00:00<?, ?it/s, est. speed input: 0.00 toks/s, output: 0.00 toks/s]\r"
    "Processed prompts: 100%|██████████| 64/64 [00:02<00:00, 30.10it/s, est. speed input: 9.00 toks/s]"
)
VERSIONS = catalogue.versions("nemo-rl")


def since(version: str, first: str) -> bool:
    return VERSIONS.index(version) >= VERSIONS.index(first)


def header(step: int, of: int) -> str:
    return f"\n{'=' * 25} Step {step}/{of} {'=' * 25}\n"


def epoch(number: int, of: int) -> str:
    return f"\n{'=' * 25} Epoch {number}/{of} {'=' * 25}\n"


def validation(step: int, accuracy: float = 0.5, seconds: float = 12.25) -> str:
    return (
        f"▶ Starting validation at step {step}...\n\n📊 Validation Results:\n    • Accuracy: {accuracy:.4f}\n"
        "    • Average response length: 201.5 tokens\n    • Samples processed: 64\n\n"
        f"  ⏱️  Validation Timing:\n    • Total validation time: {seconds:.2f}s\n"
    )


def work(*, asynchronous: bool = False) -> str:
    """Return what a step prints before its results."""
    if asynchronous:
        return "📦 Sampling from replay buffer...\nGot trajectory batch (size: 64)\n▶ Processing rewards...\n"
    return (
        f"▶ Preparing batch...\n▶ Generating responses for batch of size 64...\n{BARS}\n"
        "▶ Processing rewards...,\n(VllmGenerationWorker pid=77, ip=10.0.0.2) INFO 01-01 [block_pool.py:1] reset\n"
        "▶ Computing logprobs...\n▶ Training policy...\n"
    )


def results(
    version: str = "v0.7.0",
    *,
    reward: float = 0.25,
    loss: float = 0.0125,
    length: float = 200.5,
    seconds: float = 50.0,
    asynchronous: bool = False,
    sampling: bool = False,
) -> str:
    """Return the results of a step, with its timers and throughput."""
    lines = ["", "📊 Training Results:", f"  • Loss: {loss:.4f}"]
    lines += ["  • Generation KL Error: 0.0007"] if since(version, "v0.5.0") else []
    if sampling:
        lines += [f"  • Avg Filtered Reward: {reward + 0.1:.4f}", f"  • Avg Total Reward: {reward:.4f}"]
    else:
        lines += [f"  • Avg Reward: {reward:.4f}"]
    if asynchronous:
        lines += ["  • Buffer Size: 4", "  • Avg Trajectory Age: 1.00 steps"]
    else:
        lines += [f"  • Mean Generation Length: {length:.4f}"]
    generation = "exposed_generation" if asynchronous else "generation"
    refit = "weight_sync" if asynchronous else "prepare_for_generation/total"
    timers = {generation: 20.0, "policy_training": 15.0, "policy_and_reference_logprobs": 10.0, refit: 2.0}
    timers |= {"reward_calculation": 0.5, "some_new_timer": 0.25}
    lines += ["", "⏱️  Timing:", f"  • Total step time: {seconds:.2f}s"]
    lines += [f"  • {name}: {value:.2f}s ({value / seconds * 100:.1f}%)" for name, value in timers.items()]
    lines += ["", "🔍 Performance Metrics:", "  • Throughputs (per GPU):", "    - E2E (Samples/sec/gpu): 0.16"]
    lines += ["    - E2E (Tokens/sec/gpu): 640.50", "    - Generation Worker Group (Tokens/sec/gpu): 1125.04"]
    lines += ["  • Throughputs (per Group):", "    - E2E (Tokens/sec): 5124.00"]
    lines += ["    - Generation Worker Group (Tokens/sec): 9000.29"]
    lines += ["  • Training FLOPS: 12.00 TFLOPS (1.50 TFLOPS per rank)"]
    return "\n".join(lines) + "\n"


def nemo_rl(version: str = "v0.7.0", steps: int = 3, *, start: int = 1, **measures: Any) -> str:
    """Return the log of a run from its start to its end."""
    asynchronous = bool(measures.get("asynchronous"))
    text = SETUP if start == 1 else SETUP + "resumes\n"
    text += "" if asynchronous else epoch(1, 1)
    for step in range(start, start + steps):
        given = {
            name: value[step - start] if isinstance(value, Sequence) else value for name, value in measures.items()
        }
        text += header(step, start + steps - 1) + work(asynchronous=asynchronous) + results(version, **given)
    return text + ENDED


def controlled(step: int, of: int, *, seconds: float = 50.0, reward: float = 0.25, loss: float | str = 0.0125) -> str:
    """Return what the Single Controller prints after a step, as Ray repeats it."""
    timers = {"exposed_generation": 20.0, "policy_training": 15.0, "weight_sync": 2.0}
    rates = {"valid_tokens_per_sec_per_gpu": 702.5}
    lines = ["", "⏱️  Timing:", f"  • Total step time: {seconds:.2f}s"]
    lines += [f"  • {name}: {value:.2f}s ({value / seconds * 100:.1f}%)" for name, value in (rates | timers).items()]
    lines += [
        f"step_metrics={{'loss': {loss}, 'grad_norm': 0.5, 'lr': 1e-06, 'gen_kl_error': 0.0007, 'reward': {reward}}}"
    ]
    lines += [f"train step {step}/{of}  trainer_v={step}  lag=1  "]
    return "".join(f"(SingleControllerActor pid=77, ip=10.0.0.2) {line}\n" for line in lines)


def verl(step: int, measures: Mapping[str, object]) -> str:
    """Return the line of a step as verl's console logger prints it."""
    return " - ".join([f"step:{step}", *(f"{key}:{value}" for key, value in measures.items())]) + "\n"


def verl_run(rows: Iterable[Mapping[str, object]], prefix: str = "") -> str:
    return "".join(prefix + verl(step, row) for step, row in enumerate(rows, 1))


# A step of verl v0.6 to v0.8 as Python prints it; of v0.9, where numpy prints its own numbers; and of v0.2.
VERL = {
    "actor/entropy": 0.2113,
    "actor/kl_loss": 0.00041,
    "actor/kl_coef": 0.001,
    "actor/pg_loss": -0.0021,
    "actor/grad_norm": 0.118,
    "critic/score/mean": 0.8125,
    "critic/score/max": 1.0,
    "critic/score/min": 0.0,
    "response_length/mean": 240.5,
    "response_length/clip_ratio": 0.0039,
    "rollout_corr/kl": 0.0004,
    "rollout_corr/rollout_is_mean": 0.999,
    "timing_s/gen": 30.5,
    "timing_s/update_actor": 20.25,
    "timing_s/update_weights": 1.5,
    "timing_s/step": 61.75,
    "timing_per_token_ms/gen": 0.05,
    "perf/throughput": 702.5,
    "perf/max_memory_reserved_gb": 71.5,
}
VERL_NUMPY = {key: f"np.float64({value})" for key, value in VERL.items()}
VERL_OLD = {
    "timing/gen": 18.5,
    "timing/update_actor": 20.5,
    "critic/kl": 0.001,
    "critic/kl_coeff": 0.001,
    "actor/entropy_loss": 0.526,
    "actor/pg_loss": -0.018,
    "actor/grad_norm": 8.138,
    "critic/score/mean": 0.0125,
    "response_length/mean": 190.5,
}
