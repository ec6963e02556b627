"""Stand-in for the trainer of the image: records its call and behaves as control.json in its state folder says.

It is NeMo RL's script and verl's module at once: what it needs of the configuration is where checkpoints go.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

# A pod has it on its volume: files inside of the image are gone with the container.
STATE = Path(os.environ.get("STANDIN_STATE", "/opt/nemo-rl/e2e"))
# A model with one number, in one file as `save_consolidated` writes it: task convert needs no PyTorch for that.
HEADER = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
WEIGHTS = len(HEADER).to_bytes(8, "little") + HEADER + bytes(4)


def append(name: str, record: object) -> None:
    """Add a line in one write, so that two trainers cannot mix theirs."""
    with (STATE / name).open("a") as stream:
        stream.write(json.dumps(record) + "\n")


def config_text(arguments: list[str]) -> str:
    """Return the content of the file that --config names, or --config-dir and --config-name together."""
    # The overrides come last.
    words = [word for word in arguments if "=" not in word]
    options = dict(zip(words[::2], words[1::2], strict=True))
    if "--config-dir" in options:
        return Path(options["--config-dir"], options["--config-name"] + ".yaml").read_text()
    return Path(options["--config"]).read_text()


def stand_still() -> None:
    """Wait for ever for a worker of Ray that has the GPUs of a node."""
    import ray

    ray.init(address="auto", log_to_driver=False)

    @ray.remote(num_gpus=8)
    def collective() -> None:
        time.sleep(3600)

    ray.get(collective.remote())


def train(config: str, steps: int, die_at: int, stall_at: int) -> None:
    """Save and print each step as NeMo RL does, from the one after the newest.

    Die without a word after step `die_at`, stand still in step `stall_at`; both once.
    """
    checkpoints = Path(json.loads(config)["checkpointing"]["checkpoint_dir"])
    done = [int(path.name.removeprefix("step_")) for path in checkpoints.glob("step_*")]
    append("starts.jsonl", {"from": max(done, default=0)})
    first = (STATE / "starts.jsonl").read_text().count("\n") == 1
    print("\n▶ Setting up compute cluster...", flush=True)
    for step in range(max(done, default=0) + 1, steps + 1):
        print(f"\n{'=' * 25} Step {step}/{steps} {'=' * 25}", flush=True)
        if first and step == stall_at:
            stand_still()
        print(f"Saving checkpoint for step {step}...", flush=True)
        draft = checkpoints / f"tmp_step_{step}"
        weights = draft / "policy/weights/model/consolidated/model.safetensors"
        weights.parent.mkdir(parents=True)
        # The launcher looks whether a step is whole before a retry resumes from it.
        weights.write_bytes(WEIGHTS)
        (draft / "config.yaml").write_text("checkpointing: {}\n")
        (draft / "training_info.json").write_text(json.dumps({"current_step": step}))
        draft.rename(checkpoints / f"step_{step}")
        print("\n📊 Training Results:\n  • Loss: 0.1234\n  • Avg Reward: 0.5000", flush=True)
        print("  • Total step time: 0.10s\n  • checkpointing: 0.01s (10.0%)", flush=True)
        print("  - Generation Worker Group (Tokens/sec): 100.00", flush=True)
        if step == die_at and not done:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Write a sign of life every 50 ms until the time is over, the test lets go, or a save after SIGTERM has ended."""
    control = json.loads((STATE / "control.json").read_text())
    calls = STATE / "calls.jsonl"
    earlier = len(calls.read_text().splitlines()) if calls.exists() else 0
    call = {"argv": sys.argv, "environ": dict(os.environ), "cwd": os.getcwd(), "pid": os.getpid()}
    config = config_text(sys.argv[1:])
    append("calls.jsonl", {**call, "config": config})
    if "steps" in control:
        train(config, control["steps"], control.get("die_at", 0), control.get("stall_at", 0))
    end = time.time() + control.get("seconds", 0)
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: asked.append(number))
    saving = False
    while True:
        append("beats.jsonl", {"pid": os.getpid(), "time": time.time()})
        if asked and not saving:
            saving, end = True, time.time() + control.get("save_seconds", 0)
            print("trainer: SIGTERM, saving", flush=True)
        held = control.get("hold") and not asked and not (STATE / "finish").exists()
        if time.time() >= end and not held:
            break
        time.sleep(0.05)
    codes = control.get("exit", 0)
    return int(codes[min(earlier, len(codes) - 1)] if isinstance(codes, list) else codes)


if __name__ == "__main__":
    sys.exit(main())
