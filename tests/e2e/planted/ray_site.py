"""A Ray cluster of processes at the paths of the training image, and what the tests do to it from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from harness import leftovers, sandbox, suite
from harness.local_ray import LocalRay
from harness.processes import Programs
from harness.realnode.disk import Disk, run
from harness.stack import Values
from harness.waiting import until

HERE = Path(__file__).parent
RESULTS, IN_PODS = suite.REPOSITORY / "build/planted", suite.REPOSITORY / "build/planted-pods"
VENV, CODE, DATA, STATE = (Path(name) for name in ("/opt/nemo_rl_venv", "/opt/nemo-rl", "/data", "/opt/planted"))
BASE = ("values/accelerators/h200.yaml", "values/examples/one-gpu.yaml")
MIDDLE = {"nemo-rl": "values/recipes/smoke.yaml", "verl": "tests/e2e/planted/values-verl.yaml"}
SITE = "tests/e2e/planted/values.yaml"
GPUS, CPUS = 2, 6
# The owner of a run is dead after LAPSE seconds of silence, and stops its own trainer after two thirds of them.
BEAT, LAPSE = 1, 30
PAUSE = 15.0
DAY = 86400
# Ask Ray itself what is free.
FREE = """
import json, ray
ray.init(address="auto", log_to_driver=False, logging_level="ERROR")
total, free = ray.cluster_resources(), ray.available_resources()
print(json.dumps({name: [free.get(name, 0), total.get(name, 0)] for name in ("CPU", "GPU")}))
"""


def render(layer: str, framework: str, values: Path | None = None) -> list[dict[str, Any]]:
    """Render a chart; the schema would refuse deadlines as short as these."""
    files = [*BASE, MIDDLE[framework], SITE, *([values] if values else [])]
    words = [suite.TOOLS / "bin/helm4", "template", "planted", f"charts/{layer}", "--skip-schema-validation"]
    options = [word for file in files for word in ("--values", file)]
    done = subprocess.run(
        [*map(str, words), *map(str, options)], cwd=suite.REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


class Site:
    """One cluster for all plants of a session, one after the other."""

    def __init__(self, work: Path) -> None:
        self.work, self.data, self.state = work, DATA, STATE
        self.programs = Programs(work / "logs")
        cluster = next(one for one in render("raycluster", "nemo-rl") if one["kind"] == "RayCluster")
        (container, *_) = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]
        own = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
        self.ray = LocalRay(self.programs, VENV / "bin/ray", {**self._variables(), **own})
        self.worker = 0

    def _variables(self) -> dict[str, str]:
        return {
            "PATH": f"{VENV}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(CODE),
            "PYTHONDONTWRITEBYTECODE": "",
            "HOME": str(self.work / "home"),
            "RAY_TMPDIR": str(self.work / "ray"),
            "RAY_USAGE_STATS_ENABLED": "0",
            # For the sake of a small machine: no pool of idle workers, no metrics, and time to start.
            "RAY_prestart_worker_first_driver": "0",
            "RAY_ENABLE_METRICS_COLLECTION": "0",
            "RAY_worker_register_timeout_seconds": "300",
            "GRPO_OWNER_BEAT_SECONDS": str(BEAT),
            "GRPO_OWNER_LAPSE_SECONDS": str(LAPSE),
        }

    def start(self) -> None:
        """Start head and worker."""
        for name in ("home", "ray"):
            (self.work / name).mkdir()
        self.ray.start()
        self.start_worker()

    def start_worker(self) -> None:
        self.worker = self.ray.start_worker(CPUS, GPUS).process.pid

    def free(self) -> dict[str, list[float]]:
        """Return how much of each resource is free, and how much there is."""
        words = [str(VENV / "bin/python3"), "-c", FREE]
        done = subprocess.run(words, env=self.ray.environment, capture_output=True, text=True, timeout=60, check=True)
        found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
        return found

    def all_is_free(self) -> bool:
        """Return whether nobody uses a GPU or a processor of the cluster."""
        found = self.free()
        return all(free == there for free, there in found.values())

    def submit(self, framework: str, name: str, values: Values, variables: dict[str, str]) -> None:
        """Submit the rendered RayJob to Ray's Jobs API under a name."""
        file = self.work / f"{name}.yaml"
        file.write_text(yaml.safe_dump(values))
        job = next(one for one in render("grpo-job", framework, file) if one["kind"] == "RayJob")

        def taken() -> bool:
            self.ray.submit(job, name, variables)
            return True

        until(lambda: quietly(taken), f"that the head takes job {name}", 60, every=1)

    def plan(self, framework: str) -> dict[str, Any]:
        """Return the plan of the run of a framework."""
        job = next(one for one in render("grpo-job", framework) if one["kind"] == "RayJob")
        text = job["spec"]["entrypoint"].partition("GRPO_PLAN'\n")[2].partition("\nGRPO_PLAN\n")[0]
        return dict(json.loads(text))

    def preload(self, run: str) -> dict[str, str]:
        """Return the variables that let the clock of a run be moved."""
        library = self.work / "clock.so"
        if not library.exists():
            words = ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(HERE / "clock.c"), "-ldl"]
            subprocess.run(words, check=True)
        self.set_clock(run, 0)
        return {"LD_PRELOAD": str(library), "CLOCK_FILE": str(STATE / f"{run}.clock")}

    def set_clock(self, run: str, seconds: int) -> None:
        """Let the clock of the day of a run's processes be so far from the true one."""
        with (STATE / f"{run}.clock").open("r+b" if seconds else "wb") as file:
            file.write(struct.pack("q", seconds))

    def processes(self, name: str) -> dict[int, str]:
        """Return the launcher, the trainer and what they have started, by id: Ray gives them the name of the job."""
        found, word = {}, f'"{name}"'.encode()
        for folder in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if folder.name.isdigit() and word in (folder / "environ").read_bytes():
                    found[int(folder.name)] = leftovers.command_line(int(folder.name))
        return found

    def alive(self, events: list[dict[str, Any]]) -> list[str]:
        """Return the processes that have noted an event and still run; one that has ended is collected later."""
        pids = {one["pid"] for one in events}
        return [f"process {pid} of the training" for pid in pids if runs(pid)]

    def kill_raylet(self) -> None:
        """Kill the raylet of the GPU node, and start the node again as its kubelet does."""
        below = leftovers.descendants(self.worker)
        raylet = next(pid for pid in below if "raylet/raylet" in leftovers.command_line(pid))
        os.kill(raylet, signal.SIGKILL)
        time.sleep(5)
        (program,) = [one for one in self.programs.running if one.process.pid == self.worker]
        self.programs.end(program)
        self.start_worker()


def runs(pid: int) -> bool:
    """Return whether a process lives; one that has ended is collected at the end of the session."""
    fields = leftovers.stat_fields(Path(f"/proc/{pid}"))
    return fields is not None and fields[0] != "Z"


def quietly(probe: Callable[[], bool]) -> bool:
    """Pass network errors over."""
    with contextlib.suppress(OSError):
        return probe()
    return False


def pause(pids: list[int], seconds: float) -> None:
    """Stop processes for some seconds."""
    leftovers.kill_all(pids, signal.SIGSTOP)
    time.sleep(seconds)
    leftovers.kill_all(pids, signal.SIGCONT)


@contextlib.contextmanager
def volume(work: Path) -> Iterator[Disk]:
    """Show a small disk of its own at /data while the block lasts."""
    image = work / "disk"
    disk = Disk(image, DATA, [])
    try:
        disk.mount()
        yield disk
    finally:
        disk.remove()
        image.unlink()


@contextlib.contextmanager
def frozen(place: Path) -> Iterator[None]:
    """Let a file system answer no write."""
    run("fsfreeze", "--freeze", place)
    try:
        yield
    finally:
        run("fsfreeze", "--unfreeze", place)


def enter(work: Path) -> None:
    """Change into a private root that has the paths of the training image and of the volume."""
    sandbox.enter(work)
    shown = {VENV: suite.TOOLS / "ray", CODE: HERE / "image", DATA: work / "data", STATE: work / "state"}
    for path, folder in shown.items():
        folder.mkdir(exist_ok=True)
        path.mkdir(exist_ok=True)
        sandbox.mount("--bind", folder.resolve(), path)
