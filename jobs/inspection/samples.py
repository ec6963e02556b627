"""Print trajectories of a training step: prompt, generation and reward, and the rewards' mean and spread.

usage: samples.py RUN_DIRECTORY [--step N] [--count 5] [--worst | --best] [--json]

NeMo RL writes logs/exp_NNN/train_data_step<N>.jsonl, one sample per line, each value in a one-item list. content
has the conversation's texts without their roles: rendered prompt, generation, the environment's answer (sources:
NeMo RL v0.4.0 to v0.7.0, nemo_rl/experience/rollouts.py). v0.4.0 counts steps from 0; this program counts from 1.
verl writes <trainer.rollout_data_dir>/<step>.jsonl (verl/trainer/ppo/ray_trainer.py); the chart sets logs/rollouts.
Exit codes: 0 printed, 1 no such step or sample, 2 wrong usage, 3 a file cannot be read.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]
NEMO_RL = re.compile(r"train_data_step([0-9]+)\.jsonl")
VERL = re.compile(r"([0-9]+)\.jsonl")
# Where to look for rollouts if no configuration of the run names their folder.
FOLDERS = ("rollouts", "rollout_data", "logs/rollouts")


class SampleError(Exception):
    """There is nothing to print; the message says why."""


def numbered(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    names = os.listdir(folder) if folder.is_dir() else []
    return {int(match[1]): folder / name for name in names if (match := pattern.fullmatch(name))}


def experiments(directory: Path) -> list[Path]:
    """Return NeMo RL's log folders, newest first; each start of the trainer creates one."""
    found: list[tuple[int, Path]] = []
    for parent in (directory, directory / "logs"):
        for name in os.listdir(parent) if parent.is_dir() else []:
            if match := re.fullmatch("exp_([0-9]+)", name):
                found.append((int(match[1]), parent / name))
    return [path for _, path in sorted(found, reverse=True)] + [directory]


def nemo_rl_steps(directory: Path) -> dict[int, Path]:
    """Return each step's file, counted from 1; if several starts have written a step, the newest file is used."""
    folders = [numbered(folder, NEMO_RL) for folder in experiments(directory)]
    shift = 1 if any(0 in folder for folder in folders) else 0
    # The newest start comes first, and its steps are the last in the dictionary.
    return {step + shift: path for folder in reversed(folders) for step, path in sorted(folder.items())}


def rollout_folders(directory: Path) -> Iterator[Path]:
    attempts = directory / "attempts"
    names = [name for name in os.listdir(attempts) if name.isdecimal()] if attempts.is_dir() else []
    for name in sorted(names, key=int, reverse=True):
        config = attempts / name / "config.yaml"
        text = config.read_text(encoding="utf-8", errors="replace") if config.is_file() else ""
        if match := re.search(r"""rollout_data_dir["']?:\s*["']?(/[^"'\s,}]+)""", text):
            yield Path(match[1])
    yield from (directory / name for name in FOLDERS)
    yield directory


def steps_of(directory: Path) -> dict[int, Path]:
    """Return the files of all steps that have one."""
    if found := nemo_rl_steps(directory):
        return found
    for folder in rollout_folders(directory):
        if steps := numbered(folder, VERL):
            return dict(sorted(steps.items()))
    raise SampleError(
        f"{directory} has no trajectories: no logs/exp_NNN/train_data_step<N>.jsonl of NeMo RL, "
        "and no <N>.jsonl of verl in trainer.rollout_data_dir"
    )


def choose(steps: dict[int, Path], wanted: int | None) -> tuple[int, Path]:
    """Return a step and its file: the requested one, or the last one written."""
    if wanted is None:
        newest = max((path.parent for path in steps.values()), key=lambda folder: order(folder.name))
        return max((step, path) for step, path in steps.items() if path.parent == newest)
    if wanted not in steps:
        raise SampleError(f"step {wanted} has no trajectories, steps {min(steps)} to {max(steps)} have")
    return wanted, steps[wanted]


def order(name: str) -> int:
    return int(name[len(name.rstrip("0123456789")) :] or 0)


def single(value: Any) -> Any:
    """Return the item of a one-item list, else the value itself: NeMo RL writes each sample as a batch of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def sample(line: str, index: int) -> Record:
    """Return a line's prompt, generation, environment and reward; raise ValueError if the line is not a sample."""
    try:
        row = json.loads(line)
    except RecursionError:
        raise ValueError("not a sample") from None
    if not isinstance(row, dict):
        raise ValueError("not a sample")
    if "output" in row:
        texts, reward = [str(row.get("input", "")), str(row["output"])], row.get("score")
    else:
        content = single(row.get("content"))
        texts = [str(text) for text in (content if isinstance(content, list) else [content])]
        # With dynamic sampling, rewards has a value for every generation, filtered_rewards one for each row.
        reward = single(row.get("filtered_rewards", row.get("rewards")))
    number = float(reward)  # type: ignore[arg-type]
    *prompt, generation, environment = (
        texts if len(texts) > 2 else [*texts, ""] if len(texts) == 2 else ["", *texts, ""]
    )
    return {
        "index": row.get("idx", index),
        "prompt": "\n".join(prompt),
        "generation": generation,
        "environment": environment,
        "reward": number,
    }


class Rewards:
    """Compute the mean and spread of a step's rewards incrementally, because the file may not fit into memory."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0
        self.low, self.high, self.damaged = math.inf, -math.inf, 0

    def add(self, reward: float) -> None:
        self.count += 1
        change = reward - self.mean
        self.mean += change / self.count
        self.squares += change * (reward - self.mean)
        self.low, self.high = min(self.low, reward), max(self.high, reward)

    def record(self) -> Record:
        deviation = math.sqrt(self.squares / self.count)
        found = {"samples": self.count, "mean": self.mean, "standardDeviation": deviation}
        return {**found, "min": self.low, "max": self.high, "damaged": self.damaged}


def samples(path: Path, rewards: Rewards) -> Iterator[Record]:
    """Yield each sample in a file and add its reward; count damaged lines, such as an incomplete last one."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for index, line in enumerate(line for line in file if line.strip()):
            try:
                found = sample(line, index)
            except (ValueError, TypeError):
                rewards.damaged += 1
                continue
            rewards.add(found["reward"])
            yield found


def pick(found: Iterator[Record], count: int, order: str) -> list[Record]:
    """Return the first, worst or best samples; read the file to its end, so that all rewards are counted."""
    if order:
        take = heapq.nsmallest if order == "worst" else heapq.nlargest
        return take(count, found, key=lambda one: one["reward"])
    return [one for index, one in enumerate(found) if index < count]


def show(directory: Path, step: int | None, count: int, order: str) -> Record:
    number, path = choose(steps_of(directory), step)
    rewards = Rewards()
    shown = pick(samples(path, rewards), count, order)
    if not rewards.count:
        raise SampleError(f"{path} contains no sample ({rewards.damaged} damaged lines)")
    return {"file": str(path), "step": number, **rewards.record(), "shown": shown}


def visible(text: str) -> str:
    """Escape control characters: a model wrote the text, so it could move the cursor or colour the screen."""
    return re.sub(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]", lambda match: f"\\x{ord(match[0]):02x}", text)


def as_text(found: Record) -> str:
    rows = []
    for one in found["shown"]:
        rows.append(f"=== sample {one['index']}, reward {one['reward']:g}")
        for part in ("prompt", "generation", "environment"):
            if one[part]:
                rows.append(f"--- {part}\n{visible(one[part])}")
    spread = f"{found['mean']:.4f} +- {found['standardDeviation']:.4f} ({found['min']:g} to {found['max']:g})"
    damaged = f", {found['damaged']} lines cannot be read" if found["damaged"] else ""
    rows.append(f"=== step {found['step']}, {found['samples']} samples: reward {spread}{damaged}\n{found['file']}")
    return "\n".join(rows)


def natural(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main(arguments: list[str]) -> int:
    """Print samples from a run directory."""
    parser = argparse.ArgumentParser("samples.py", description="Show trajectories of a training step.")
    parser.add_argument("directory", type=Path, help="run directory, or a folder of such files")
    parser.add_argument("--step", type=natural, help="step, counted from 1; the last one if left out")
    parser.add_argument("--count", type=natural, default=5)
    parser.add_argument("--worst", dest="order", action="store_const", const="worst", default="")
    parser.add_argument("--best", dest="order", action="store_const", const="best")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    # Prompts may be in any language, and a pod often has no locale.
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    if not given.directory.is_dir():
        print(
            f"grpo: {given.directory} is no directory: name the run directory, <mountPath>/runs/<job.name>",
            file=sys.stderr,
        )
        return 2
    try:
        found = show(given.directory, given.step, given.count, given.order)
    except SampleError as error:
        print(f"grpo: {error}", file=sys.stderr)
    except OSError as error:
        print(f"grpo: {error.filename} cannot be read: {error.strerror}", file=sys.stderr)
        return 3
    else:
        print(json.dumps(found, indent=2, ensure_ascii=False) if given.json else as_text(found))
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
