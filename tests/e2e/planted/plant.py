"""One planted failure: submit the run, let it fail, wait for its end, and collect what it has left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kinds
from harness.local_ray import ENDED
from harness.realnode.disk import Disk
from harness.stack import merge
from harness.waiting import until
from kinds import Kind, Record
from ray_site import BEAT, DAY, PAUSE, Site, frozen, pause, volume

PATIENCE = 300.0
VOLUME = ("freeze-briefly", "freeze", "fill")
# Less and more than two thirds of LAPSE, after which the owner of a run stops its trainer.
BRIEFLY, LONG = 14.0, 32.0


@dataclass
class Result:
    """What a plant has left."""

    kind: Kind
    seed: int
    framework: str
    run: str
    orders: Record
    events: list[Record]
    # Ray's word on each submitted job, and what its entrypoint has printed.
    jobs: list[Record]
    logs: list[str]
    # Seconds of the monotonic clock at which the test saw a job end.
    ends: list[float]
    status: Record
    output: str
    # Of each folder of evidence the texts by name.
    evidence: list[dict[str, str]]
    left: list[str] = field(default_factory=list)

    def all(self, event: str) -> list[Record]:
        """Return the events of a name, oldest first."""
        return [one for one in self.events if one["event"] == event]


class Plant:
    """A kind and a seed, on a site."""

    def __init__(self, site: Site, kind: Kind, seed: int) -> None:
        self.site, self.kind, self.seed = site, kind, seed
        self.framework, self.orders = kinds.planned(kind, seed)
        self.run = f"{kind.name}-{seed}"
        self.values = merge({"job": {"name": self.run}}, kind.settings)
        self.folder = self.site.data / "runs" / self.run

    def grow(self) -> Result:
        """Run it to its end and return what it has left."""
        (self.site.state / f"{self.run}.json").write_text(json.dumps(self.orders))
        with contextlib.ExitStack() as stack:
            disk = stack.enter_context(volume(self.site.work)) if self.kind.act in VOLUME else None
            names, ends = [self.run], [self.first(disk)]
            if self.kind.again:
                names.append(f"{self.run}-again")
                ends.append(self.submit_and_wait(names[-1]))
            left = self.left(names)
            return self.result(names, ends, left)

    def first(self, disk: Disk | None) -> float:
        variables = self.site.preload(self.run) if self.kind.act == "jump" else {}
        self.site.submit(self.framework, self.run, self.values, variables)
        if self.kind.act:
            until(self.faults, "the place of the failure", PATIENCE, seen=lambda: self.site.ray.log(self.run))
            self.act(disk)
        end = self.end_of(self.run)
        if self.kind.act == "fill":
            (self.site.data / "filler").unlink()
        return end

    def submit_and_wait(self, name: str) -> float:
        self.site.submit(self.framework, name, self.values, {})
        return self.end_of(name)

    def end_of(self, name: str) -> float:
        """Wait for the end of a job and return its moment."""
        log = self.site.ray.log
        until(
            lambda: self.site.ray.job(name)["status"] in ENDED, f"the end of {name}", PATIENCE, seen=lambda: log(name)
        )
        return time.monotonic()

    def events(self) -> list[Record]:
        file = self.site.state / f"{self.run}.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def faults(self) -> list[Record]:
        return [one for one in self.events() if one["event"] == "fault"]

    def act(self, disk: Disk | None) -> None:
        """Do what the kind says from outside; then the trainer goes on."""
        act = self.kind.act
        if act == "jump":
            self.site.set_clock(self.run, DAY)
            time.sleep(3)
            self.site.set_clock(self.run, -DAY)
        elif act == "pause":
            ours = {*self.site.processes(self.run), *(one["pid"] for one in self.events())}
            pause([self.launcher()] if self.seed % 3 == 0 else sorted(ours), PAUSE)
        elif act == "kill-raylet":
            self.site.kill_raylet()
        elif act == "kill-launcher":
            # Its last heartbeat says by then whether it saves, also where a write was held up.
            time.sleep(5 * BEAT)
            os.kill(self.launcher(), signal.SIGKILL)
        elif act == "fill":
            fill(self.site.data / "filler")
        elif act in ("freeze", "freeze-briefly"):
            assert disk
            # A save begins small; the heartbeat at its start asks for more time.
            time.sleep(5 * BEAT)
            with frozen(disk.place):
                (self.site.state / f"{self.run}.go").touch()
                time.sleep(LONG if act == "freeze" else BRIEFLY)
        (self.site.state / f"{self.run}.go").touch()

    def launcher(self) -> int:
        """Return the process that owns the run."""
        return int(json.loads((self.folder / "owner.json").read_text())["pid"])

    def left(self, names: list[str]) -> list[str]:
        """Return what is still there half a minute after the end."""

        def remains() -> list[str]:
            found = [f"process {line}" for name in names for line in self.site.processes(name).values()]
            return (
                found
                + self.site.alive(self.events())
                + [f"actor {one['class_name']}" for one in self.site.ray.actors()]
            )

        with contextlib.suppress(AssertionError):
            until(lambda: not remains() and self.site.all_is_free(), "nothing left", 30, every=1)
            return []
        return [*remains(), f"resources {self.site.free()}"]

    def result(self, names: list[str], ends: list[float], left: list[str]) -> Result:
        attempt = self.folder / "attempts/1"
        folders = sorted((attempt / "evidence").glob("*"))
        return Result(
            self.kind,
            self.seed,
            self.framework,
            self.run,
            self.orders,
            self.events(),
            [self.site.ray.job(name) for name in names],
            [self.site.ray.log(name) for name in names],
            ends,
            read_json(self.folder / "status.json"),
            (attempt / "output.log").read_text(),
            [texts(folder) for folder in folders],
            left,
        )


def read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def texts(folder: Path) -> dict[str, str]:
    """Read all files of a folder, which must be text."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def fill(file: Path) -> None:
    """Leave no room in a file system."""
    with file.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(1 << 20))
    with file.open("ab", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(512))
