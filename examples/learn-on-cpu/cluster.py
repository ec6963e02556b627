"""What the story asks of a cluster, and how both clusters render the charts."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from frameworks import ROOT, Framework
from harness.local_ray import ENDED
from harness.processes import Programs

Record = dict[str, Any]
Result = TypeVar("Result")
HERE = Path(__file__).resolve().parent


class ClusterError(Exception):
    """The cluster or a job does not do what was expected."""


def grpo(*words: str, settings: Iterable[str] = ()) -> str:
    """Run `grpo` with settings, which are values files and KEY=VALUE, and return its output.

    Raises ClusterError.
    """
    command = [str(Path(sys.executable).with_name("grpo")), *words, *options(settings)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"{shlex.join(command)} ended with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def options(settings: Iterable[str]) -> list[str]:
    """Return the options that give settings to Helm or `grpo`."""
    return [word for one in settings for word in ("-f" if one.endswith(".yaml") else "--set", one)]


def rendered(layer: str, kind: str, *settings: str) -> Record:
    """Return the object of a kind that a chart renders."""
    text = grpo("render", layer, "--full", settings=settings)
    found: list[Record] = [one for one in yaml.safe_load_all(text) if one and one["kind"] == kind]
    return found[0]


class Cluster(ABC):
    """A Ray cluster with one GPU and the charts' jobs on it; a context manager that ends all that it has started.

    `settings` are for every chart, over the framework's values. A job has the name of the RayJob that is rendered.
    """

    # What it runs as, and where the files of the volume /data lie for this process.
    name: str
    data: Path

    def __init__(self, work: Path, programs: Programs, framework: Framework, *settings: str) -> None:
        self.work = work
        self.programs = programs
        self.framework = framework
        self.settings = (*framework.files, *settings)

    @abstractmethod
    def __enter__(self) -> Cluster: ...

    def __exit__(self, *_: object) -> None:
        self.programs.stop()

    @abstractmethod
    def make(self, program: str, folder: str, seed: int, *names: str) -> str:
        """Run a program of the image, which writes into a folder of the volume; return what it prints."""

    @abstractmethod
    def submit(self, *settings: str) -> str:
        """Start the job that the chart renders with these settings; return its name."""

    @abstractmethod
    def status(self, name: str) -> str:
        """Return the status of a job as Ray calls it."""

    @abstractmethod
    def log(self, name: str) -> str:
        """Return what the driver of a job has printed."""

    @abstractmethod
    def kill(self, process: int) -> None:
        """Send SIGKILL to a process of the driver's machine."""

    @abstractmethod
    def on_worker(self, *words: str) -> str:
        """Run a command on the worker's machine; return what it prints."""

    @abstractmethod
    def logs(self) -> dict[str, Path]:
        """Return the folders with logs that are worth keeping, by a name."""

    def wait(self, probe: Callable[[], Result | None], expected: str, seconds: float) -> Result:
        """Call `probe` until it returns something true, and return that; its network errors are passed over.

        Raises ClusterError when that takes longer, or when a program of the cluster has ended.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                self.programs.check()
                if found := probe():
                    return found
            except RuntimeError as error:
                raise ClusterError(str(error)) from None
            except OSError:
                pass
            time.sleep(1)
        raise ClusterError(f"expected within {seconds:g} s: {expected}")

    def end_of(self, name: str, seconds: float) -> str:
        """Wait until a job has ended and return its status."""

        def ended() -> str:
            status = self.status(name)
            return status if status in ENDED else ""

        return self.wait(ended, f"the end of job {name}", seconds)

    def run(self, *settings: str, seconds: float = 600) -> None:
        """Run a job that must succeed."""
        name = self.submit(*settings)
        if (status := self.end_of(name, seconds)) != "SUCCEEDED":
            log = self.log(name).splitlines()
            raise ClusterError("\n".join([f"job {name} ended as {status}:", *log[-30:]]))
