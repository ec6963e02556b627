"""Stand-in for the trainer: a Ray driver with two Ray workers that prints, saves and resumes as NeMo RL or verl does.

The orders of a run, RUN.json in the folder PLANTED_STATE, say which failures are planted and where. What happens goes
into RUN.jsonl beside it, with seconds of the monotonic clock, which no failure changes and all pods of a machine share.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

STATE = Path(os.environ.get("PLANTED_STATE", "/opt/planted"))
Record = dict[str, Any]
# What a phase takes when nothing is planted.
USUAL = 0.2
# Of a processor, for each process: a pod may have one for all.
CPUS = 0.25
WEIGHTS = "policy/weights/model/shard-00001-model-00001-of-00001.safetensors"
VERL_FILES = ("model", "optim", "extra_state")


class Plan:
    """The orders of a run, and its record."""

    def __init__(self, run: str, driver: int) -> None:
        self.run, self.driver = run, driver
        self.orders: Record = json.loads((STATE / f"{run}.json").read_text())

    def note(self, event: str, **about: Any) -> None:
        """Add an event in one write: driver and workers write into the same file."""
        line = json.dumps(
            {"at": time.monotonic(), "host": socket.gethostname(), "pid": os.getpid(), "event": event, **about}
        )
        with (STATE / f"{self.run}.jsonl").open("a") as stream:
            stream.write(f"{line}\n")

    def fired(self, index: int) -> int:
        """Return how often a failure has happened in this run."""
        lines = (STATE / f"{self.run}.jsonl").read_text().splitlines()
        return sum(1 for line in lines if (one := json.loads(line))["event"] == "fault" and one["index"] == index)

    def spend(self, phase: str, step: int, where: str) -> None:
        """Take the time of a phase, and fail in it where the orders say so."""
        for index, fault in enumerate(self.orders["faults"]):
            here = (fault["phase"], fault["step"], fault["where"]) == (phase, step, where)
            if here and self.fired(index) < fault.get("times", 1):
                self.note("fault", index=index, phase=phase, step=step)
                fail(fault["act"], fault.get("seconds", 0.0), self)
                self.note("survived", index=index)
        time.sleep(USUAL)


def fail(act: str, seconds: float, plan: Plan) -> None:
    """Do what is planted; `-driver` is done to the process that the launcher has started."""
    if act == "stand-still":
        stand_still()
    elif act == "wait":
        until = time.monotonic() + seconds
        while not (STATE / f"{plan.run}.go").exists() and time.monotonic() < until:
            time.sleep(0.05)
    elif act == "slow":
        time.sleep(seconds)
    else:
        what, _, whom = act.partition("-")
        os.kill(plan.driver if whom else os.getpid(), signal.SIGSTOP if what == "stop" else signal.SIGKILL)
        # The signal to another process is not waited for.
        time.sleep(3600 if whom else 0)


def stand_still() -> None:
    """Wait for ever, as a collective without its last rank does."""
    while True:
        time.sleep(3600)


class Worker:
    """A rank that has a GPU."""

    def __init__(self, run: str, driver: int, role: str) -> None:
        self.plan = Plan(run, driver)
        self.plan.note("worker", role=role)

    def work(self, phase: str, step: int) -> int:
        """Take part in a phase."""
        self.plan.spend(phase, step, "worker")
        return step


class Training:
    """One start of the trainer; it goes on after the newest checkpoint."""

    def __init__(self, plan: Plan, checkpoints: Path, ranks: int) -> None:
        self.plan, self.orders, self.checkpoints, self.ranks = plan, plan.orders, checkpoints, ranks
        self.is_verl = self.orders["framework"] == "verl"

    def run(self) -> None:
        """Train to the last step."""
        import ray

        done = self.newest()
        self.plan.note("start", done=done)
        tell("Total training steps: 8" if self.is_verl else "\n▶ Setting up compute cluster...")
        self.plan.spend("loading", 0, "driver")
        # Workers outlive no driver: they are not detached.
        rank = ray.remote(num_gpus=1, num_cpus=CPUS)(Worker)
        self.workers = [rank.remote(self.plan.run, self.plan.driver, role) for role in ("generation", "policy")]
        self.both("loading", 0)
        if self.is_verl:
            # trainer.val_before_train; then verl says nothing until its first step is complete.
            tell("test_gen_batch meta info: {'validate': True}")
            tell(f"step:{done} - val-core/gsm8k/reward/mean@1:0.5")
        for step in range(done + 1, self.orders["steps"] + 1):
            self.step(step)
        if self.is_verl:
            tell("Final validation metrics: {'val-core/gsm8k/reward/mean@1': 0.5}")
        else:
            tell("Max number of steps has been reached, stopping training early")
        self.plan.spend("ended", 0, "driver")
        self.plan.note("end")

    def both(self, phase: str, step: int) -> None:
        """Let all workers take part in a phase, and wait for them as a driver does."""
        import ray

        ray.get([worker.work.remote(phase, step) for worker in self.workers[:1]])
        ray.get([worker.work.remote(f"{phase} of the policy", step) for worker in self.workers[1:]])

    def step(self, step: int) -> None:
        """Generate, train, validate, save, and print the results."""
        began = time.monotonic()
        self.plan.note("begins", step=step)
        if not self.is_verl:
            tell(f"\n{'=' * 25} Step {step}/{self.orders['steps']} {'=' * 25}")
            tell("▶ Generating responses for batch of size 8...")
        self.both("step", step)
        self.plan.spend("step", step, "driver")
        validates = step % self.orders["validates"] == 0
        if validates:
            tell("test_gen_batch meta info: {}" if self.is_verl else f"▶ Starting validation at step {step}...")
            self.both("validation", step)
            if not self.is_verl:
                tell("\n📊 Validation Results:\n    • Accuracy: 0.5000\n    • Total validation time: 0.20s")
        saves = step % self.orders["saves"] == 0
        if saves:
            place = self.checkpoints / f"global_step_{step}"
            tell(f"local_global_step_folder: {place}" if self.is_verl else f"Saving checkpoint for step {step}...")
            saving = time.monotonic()
            self.plan.spend("checkpoint", step, "driver")
            (self.save_verl if self.is_verl else self.save_nemo_rl)(step)
            # What is in it is older than the moment at which it is complete.
            self.plan.note("saved", step=step, began=saving)
        self.results(step, time.monotonic() - began, saves, validates)
        self.plan.note("ended", step=step)

    def measures(self, step: int) -> Record:
        """Return what a step shows, with what the orders say from a step on."""
        usual = {"loss": 0.1 + step / 100, "reward": 0.4 + step / 50, "length": 200.5 + 3 * step, "kl": 0.001 * step}
        planted = self.orders.get("measures", {})
        return {**usual, **(planted["values"] if planted and step >= planted["from"] else {})}

    def results(self, step: int, seconds: float, saves: bool, validates: bool) -> None:
        """Print the results of a step as the framework does."""
        shown = self.measures(step)
        if self.is_verl:
            row = {"actor/pg_loss": shown["loss"], "actor/grad_norm": 0.1, "critic/score/mean": shown["reward"]}
            row |= {"critic/score/max": max(1.0, shown["reward"]) if shown["reward"] else 0.0, "critic/score/min": 0.0}
            row |= {"response_length/mean": shown["length"], "actor/kl_loss": shown["kl"], "actor/kl_coef": 0.001}
            row |= {"timing_s/gen": seconds / 2, "timing_s/step": seconds}
            row |= {"timing_s/save_checkpoint": 0.2} if saves else {}
            row |= {"timing_s/testing": 0.2, "val-core/gsm8k/reward/mean@1": 0.5} if validates else {}
            tell(" - ".join([f"step:{step}", *(f"{key}:{value}" for key, value in row.items())]))
            return
        tell(f"\n📊 Training Results:\n  • Loss: {shown['loss']:.4f}\n  • Generation KL Error: 0.0003")
        tell(f"  • Avg Reward: {shown['reward']:.4f}\n  • Mean Generation Length: {shown['length']:.4f}")
        tell(f"\n⏱️  Timing:\n  • Total step time: {seconds:.2f}s\n  • generation: {seconds / 2:.2f}s (50.0%)")
        if saves:
            tell("  • checkpointing: 0.20s (20.0%)")
        tell("  - Generation Worker Group (Tokens/sec): 100.00")

    def newest(self) -> int:
        """Return the step to resume from, as the framework finds it."""
        if self.is_verl:
            tracker = self.checkpoints / "latest_checkpointed_iteration.txt"
            return int(tracker.read_text()) if tracker.exists() else 0
        return max((int(path.name.removeprefix("step_")) for path in self.checkpoints.glob("step_*")), default=0)

    def save_nemo_rl(self, step: int) -> None:
        """Write a checkpoint whose weights hold no tensor, and give it its name when it is complete."""
        draft = self.checkpoints / f"tmp_step_{step}"
        (draft / WEIGHTS).parent.mkdir(parents=True, exist_ok=True)
        write(draft / WEIGHTS, (2).to_bytes(8, "little") + b"{}")
        write(draft / "config.yaml", b"checkpointing: {}\n")
        write(draft / "training_info.json", json.dumps({"current_step": step}).encode())
        draft.rename(self.checkpoints / f"step_{step}")

    def save_verl(self, step: int) -> None:
        """Write the checkpoint of every rank, then the file that names it."""
        place = self.checkpoints / f"global_step_{step}"
        (place / "actor/huggingface").mkdir(parents=True, exist_ok=True)
        write(place / "actor/huggingface/config.json", b"{}")
        write(place / "actor/fsdp_config.json", json.dumps({"FSDP_version": 2, "world_size": self.ranks}).encode())
        for name, rank in itertools.product(VERL_FILES, range(self.ranks)):
            with zipfile.ZipFile(place / f"actor/{name}_world_size_{self.ranks}_rank_{rank}.pt", "w") as file:
                file.writestr("archive/data.pkl", "pickle")
        write(place / "data.pt", b"state")
        write(self.checkpoints / "latest_checkpointed_iteration.txt", str(step).encode())


def write(path: Path, data: bytes) -> None:
    """Write a file to the disk, so that a volume that is full or hangs shows it here."""
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def tell(text: str) -> None:
    """Print, also from a worker whose output goes to a file."""
    print(text, flush=True)


def train(run: str, driver: int, checkpoints: str, ranks: int) -> None:
    """Train, in the driver (NeMo RL) or in a Ray worker of its own (verl's TaskRunner)."""
    Training(Plan(run, driver), Path(checkpoints), ranks).run()


def configuration(words: list[str]) -> Record:
    """Read the file that --config names, or --config-dir and --config-name together; the launcher writes JSON."""
    options = dict(zip(words[::2], words[1::2], strict=True))
    path = Path(options.get("--config") or f"{options['--config-dir']}/{options['--config-name']}.yaml")
    found: Record = json.loads(path.read_text())
    return found


def main() -> int:
    """Train as the orders of this run say."""
    found = configuration([word for word in sys.argv[1:] if "=" not in word])
    checkpoints = found["checkpointing"]["checkpoint_dir"] if "checkpointing" in found else ""
    checkpoints = checkpoints or found["trainer"]["default_local_dir"]
    plan = Plan(Path(checkpoints).parent.name, os.getpid())
    Path(checkpoints).mkdir(parents=True, exist_ok=True)
    plan.note("driver")
    if (seconds := plan.orders.get("chatter", 0)) > 0:
        return chatter(plan, seconds)
    import ray

    ray.init(address="auto")
    if plan.orders["framework"] == "verl":
        ranks = found["trainer"]["nnodes"] * found["trainer"]["n_gpus_per_node"]
        ray.get(ray.remote(num_cpus=CPUS, max_retries=0)(train).remote(plan.run, plan.driver, checkpoints, ranks))
    else:
        train(plan.run, plan.driver, checkpoints, 1)
    return 0


def chatter(plan: Plan, seconds: float) -> int:
    """Print what no reader knows: a trainer of somebody's own."""
    tell("\n▶ Setting up compute cluster...")
    plan.note("fault", index=0, phase="step", step=0)
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        # Each line is new: one that is repeated is that of a program that waits.
        number += 1
        tell(f"iteration {number} done, all is well")
        time.sleep(0.5)
    plan.note("end")
    return 0
