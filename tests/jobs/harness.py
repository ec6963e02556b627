"""Real launches: the entrypoint as the chart writes it, in a real shell, with short times and a stand-in trainer."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpo.generate import programs as packed
from tests.programs import PROGRAMS

ROOT = Path(__file__).parents[2]
MODULES = (
    "runtime",
    "files",
    "configuration",
    "cluster_facts",
    "exit_cause",
    "owner",
    "trainer",
    "watchdog",
    "workers",
    "ray_nodes",
)
VERSION = "grpo-job 0.0.0, sha256 00"
TRAINER = Path(__file__).with_name("trainer.py")
# The times of a simulated machine; on a real one a lapse is longer than anything that holds up a process.
BEAT, LAPSE, WAIT, LONG_LAPSE = 0.1, 6.0, 600.0, 120.0
# Seconds until a condition is given up: only what never happens takes so long.
LIMIT = 240.0


def entrypoint(plan: dict[str, Any], version: str = VERSION, body: str = "") -> str:
    """Return the entrypoint that the grpo-job chart renders for this plan; the body writes the user's files."""
    text = json.dumps(plan, indent=2, ensure_ascii=False)
    return (
        f"set -eu\nexec 3<<'GRPO_PLAN'\n{text}\nGRPO_PLAN\nprograms=$(mktemp -d)\n{body}"
        f"base64 -d <<'GRPO_PROGRAMS' | tar -xjoC \"$programs\"\n{archive()}GRPO_PROGRAMS\n"
        f"exec python3 -I \"$programs\" '{version}'"
    )


@functools.cache
def archive() -> str:
    """Pack the programs of a training as they are now."""
    return packed.pack(packed.files(ROOT, "train"))


def load_program(name: str) -> Any:
    """Return a program as a module of its own, for what one process can show."""
    spec = importlib.util.spec_from_file_location(name, PROGRAMS[name])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def until(condition: Callable[[], object], what: str, limit: float = LIMIT) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"waited {limit} s in vain: {what}"
        time.sleep(0.02)


@dataclass
class Launch:
    """One launch and what it printed."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")

    @property
    def last(self) -> str:
        """Return the last line; the disk of a busy machine may be slow after it, which the launcher says."""
        slow = ("waiting for the volume", "the volume answers again", "the volume has not answered")
        return [line for line in self.output.splitlines() if not any(text in line for text in slow)][-1]

    def says(self, text: str, limit: float = LIMIT) -> None:
        def condition() -> bool:
            return text in self.output

        until(condition, f"output {text!r} in:\n{self.output}", limit)

    def wait(self, limit: float = LIMIT) -> int:
        return self.process.wait(limit)

    def ended(self) -> bool:
        return self.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@dataclass
class Site:
    """A volume, a cluster's facts and everything that was launched in a test."""

    tmp: Path
    shell: str = "sh"
    lapse: float = LONG_LAPSE
    facts: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.tmp / "data").mkdir()
        (self.tmp / "code").mkdir()
        (self.tmp / "bin").mkdir()
        (self.tmp / "bin" / "python3").symlink_to(sys.executable)
        self.facts = {
            "accelerator": "h200",
            "gpusPerNode": 8,
            "image": "example/nemo-rl:v0.6.0",
            "rayVersion": "2.54.0",
            "mounts": {str(self.tmp / "data"): "gemma-data"},
        }
        self.environment = {
            "PATH": f"{self.tmp / 'bin'}:{os.environ['PATH']}",
            "GRPO_CLUSTER_FACTS": json.dumps(self.facts),
            "GRPO_OWNER_BEAT_SECONDS": str(BEAT),
            "GRPO_OWNER_LAPSE_SECONDS": str(self.lapse),
        }

    @property
    def directory(self) -> Path:
        return self.tmp / "data" / "runs" / "gemma3-gsm8k"

    @property
    def stamps(self) -> Path:
        return self.tmp / "stamps"

    def trainer(self, *options: object) -> list[str]:
        return ["python3", str(TRAINER), str(self.stamps), *map(str, options)]

    def plan(self, attempt: int = 1, **changes: Any) -> dict[str, Any]:
        return {
            "run": "gemma3-gsm8k",
            "attempt": attempt,
            "digest": f"{attempt:064x}",
            "runDirectory": str(self.directory),
            "facts": self.facts,
            "workingDirectory": str(self.tmp / "code"),
            "command": self.trainer("--name", attempt),
            "retries": 0,
            "takeoverSeconds": WAIT,
            "folders": ["checkpoints", "logs"],
            "config": {"grpo": {"num_prompts_per_step": 8}},
            **changes,
        }

    def start(self, *options: object, attempt: int = 1, **changes: Any) -> Launch:
        command = self.trainer("--name", attempt, *options)
        return self.start_plan(self.plan(attempt, **{"command": command, **changes}))

    def start_plan(self, plan: dict[str, Any], version: str = VERSION, body: str = "", **environment: str) -> Launch:
        log = self.tmp / f"output-{len(self.launches)}"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [self.shell, "-c", entrypoint(plan, version, body)],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**self.environment, **environment},
                start_new_session=True,
            )
        self.launches.append(Launch(process, log))
        return self.launches[-1]

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.directory / "owner.json").read_text(encoding="utf-8"))
        return record

    def lines(self) -> Iterator[tuple[str, int, str, float]]:
        """Yield what the trainers wrote: name, process, word, time on this machine's one monotonic clock."""
        for line in self.stamps.read_text(encoding="utf-8").splitlines() if self.stamps.exists() else []:
            name, pid, word, moment = line.split()
            yield name, int(pid), word, float(moment)

    def until(self, condition: Callable[[], object], what: str) -> None:
        until(condition, what)

    def trains(self, name: object) -> None:
        self.until(lambda: any(line[0] == str(name) for line in self.lines()), f"trainer {name} starts")

    def trainer_pid(self, name: object) -> int:
        return next(pid for other, pid, _, _ in self.lines() if other == str(name))

    def count(self, word: str) -> int:
        return sum(1 for line in self.lines() if line[2] == word)

    def intervals(self) -> list[tuple[float, float, str]]:
        """Return when each trainer process lived, first start first."""
        spans: dict[int, tuple[float, float, str]] = {}
        for name, pid, _, moment in self.lines():
            spans[pid] = (spans.get(pid, (moment,))[0], moment, name)
        return sorted(spans.values())

    def never_two(self) -> None:
        intervals = self.intervals()
        for (_, end, first), (start, _, second) in itertools.pairwise(intervals):
            assert end < start, f"{first} and {second} ran at the same time: {intervals}"

    def close(self) -> None:
        for launch in self.launches:
            if not launch.ended():
                launch.process.kill()
            launch.wait()
