"""A stand-in trainer that prints and saves as NeMo RL does, and that hangs where it is told to."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

WEIGHTS = "policy/weights/model/shard-00001-model-00001-of-00001.safetensors"


class Run:
    """One start: it goes on after the newest step in the folder of checkpoints."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.folder = options, Path(options.checkpoints)
        self.first = not Path(options.log).exists()
        self.log = os.open(options.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.note("start")

    def note(self, word: str) -> None:
        os.write(self.log, f"1 {os.getpid()} {word} {time.monotonic()}\n".encode())

    def spend(self, phase: str, step: int) -> None:
        """Take the time of a phase, or hang in it."""
        self.note("alive")
        where, _, at = self.options.stall.partition("@")
        if where == phase and (self.first or self.options.always) and step == int(at or 0):
            self.note("stalls")
            if self.options.stop:
                os.kill(os.getpid(), signal.SIGSTOP)
            # Left alone, it goes on after that time.
            time.sleep(self.options.hang)
        if self.first and self.options.crash.startswith(f"{phase}@{step}="):
            crash(self.options.crash.partition("=")[2])
        times = dict(pair.split("=") for pair in self.options.time)
        time.sleep(float(times.get(f"{phase}@{step}", times.get(phase, 0.02))))

    def save(self, step: int) -> None:
        draft = self.folder / f"tmp_step_{step}"
        (draft / WEIGHTS).parent.mkdir(parents=True)
        (draft / WEIGHTS).write_bytes((2).to_bytes(8, "little") + b"{}")
        (draft / "config.yaml").write_text("checkpointing: {}\n")
        (draft / "training_info.json").write_text(json.dumps({"current_step": step}))
        draft.rename(self.folder / f"step_{step}")

    def train(self) -> None:
        options = self.options
        done = max((int(path.name[5:]) for path in self.folder.glob("step_*")), default=0)
        tell("\n▶ Setting up compute cluster...")
        self.spend("loading", 0)
        for step in range(done + 1, options.steps + 1):
            tell(f"\n{'=' * 25} Step {step}/{options.steps} {'=' * 25}")
            tell("▶ Generating responses for batch of size 8...")
            self.spend("step", step)
            tell(f"▶ Starting validation at step {step}...")
            self.spend("validation", step)
            tell("\n📊 Validation Results:\n    • Accuracy: 0.5000\n    • Total validation time: 0.02s")
            saves = step % options.every == 0
            if saves:
                tell(f"Saving checkpoint for step {step}...")
                self.spend("checkpoint", step)
                self.save(step)
            loss = options.loss if step >= options.bad_from else "0.1234"
            reward = options.reward if step >= options.bad_from else "0.5000"
            tell(f"\n📊 Training Results:\n  • Loss: {loss}\n  • Generation KL Error: 0.0003")
            tell(f"  • Avg Reward: {reward}\n  • Mean Generation Length: 229.0537")
            tell("\n⏱️  Timing:\n  • Total step time: 0.05s\n  • policy_training: 0.02s (40.0%)")
            if saves:
                tell("  • checkpointing: 0.02s (40.0%)")
            tell("  - Generation Worker Group (Tokens/sec): 100.00")
            if options.twice:
                for _ in range(2):
                    tell(f"step:{step} - critic/score/mean:{reward} - actor/pg_loss:{loss} - perf/throughput:100.0")
            self.note(f"step-{step}")
        tell("Max number of steps has been reached, stopping training early")
        self.spend("ended", 0)
        self.note("end")


def tell(text: str) -> None:
    print(text, flush=True)


def crash(how: str) -> None:
    """End in the middle: by an exit code, a signal, an error of Python, or with more memory than there is."""
    if how == "memory":
        tell("Loading")
        tell(f"{len(bytearray(1 << 30))} bytes")
    if how == "error":
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    if how.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[how])
    os._exit(int(how))


def chatter(seconds: float) -> None:
    """Print what no reader knows: a trainer of one's own."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        count += 1
        tell(f"iteration {count} done, all is well")
        time.sleep(0.05)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("checkpoints")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--every", type=int, default=1, help="steps between two checkpoints")
    parser.add_argument("--time", action="append", default=[], help="PHASE=SECONDS or PHASE@STEP=SECONDS")
    parser.add_argument("--stall", default="", help="PHASE@STEP")
    parser.add_argument("--crash", default="", help="PHASE@STEP=HOW, in the first start")
    parser.add_argument("--always", action="store_true", help="stall in each start")
    parser.add_argument("--stop", action="store_true", help="stall by SIGSTOP")
    parser.add_argument("--hang", type=float, default=60.0)
    parser.add_argument("--deaf", action="store_true", help="ignore SIGTERM")
    parser.add_argument("--child", action="store_true", help="have a process that ignores SIGTERM")
    parser.add_argument(
        "--twice", action="store_true", help="print verl's line of each step too, twice, as with Ray's log monitor"
    )
    parser.add_argument("--chatter", type=float, default=0.0)
    parser.add_argument("--loss", default="0.1234")
    parser.add_argument("--reward", default="0.5000")
    parser.add_argument("--bad-from", type=int, default=1)
    options = parser.parse_args(sys.argv[1:])
    run = Run(options)
    if options.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.child:
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 120"])
    if options.chatter:
        chatter(options.chatter)
    else:
        run.train()
    return 0


if __name__ == "__main__":
    sys.exit(main())
