"""The same story on one GPU, with CUDA and vLLM, and then three steps of a larger model to measure the memory.

NeMo RL and its environments are those of its image, where this runs in it; else what tools/learn.sh brings.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import memory
import story
from cluster import HERE, Cluster
from frameworks import CODE, DATA, FRAMEWORKS, IMAGE, ROOT, TOOLS, VENV
from processes import ProcessCluster
from records import Run

# As the machine may have several GPUs, Ray, CUDA and nvidia-smi must count them in the same way.
CHOSEN = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
VERSION = "0.7.0"
# values/recipes/smoke.yaml: CUDA 13. The larger model needs a GPU of 32 GB, whose drivers leave a little less.
DRIVER, LEAST_MIB = 580, 30_000


class Gpu(NamedTuple):
    """What nvidia-smi says of a GPU; sizes in MiB."""

    name: str
    driver: int
    total: int
    used: int


def look() -> Gpu | None:
    """Return the GPU that is used, or None if there is none."""
    words = ["nvidia-smi", f"--id={CHOSEN}", "--query-gpu=name,driver_version,memory.total,memory.used"]
    try:
        done = subprocess.run([*words, "--format=csv,noheader,nounits"], check=True, capture_output=True, text=True)
        name, driver, total, used = done.stdout.strip().split(", ")
        return Gpu(name, int(driver.partition(".")[0]), int(total), int(used))
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None


def paths(work: Path) -> dict[Path, Path]:
    """Return the paths of the image and of the volume that are not there yet, and the folders that they show."""
    brought = {VENV: TOOLS / "venv-cuda", CODE: TOOLS / "source"}
    wanted = {path: folder for path, folder in brought.items() if not path.exists()}
    return {**wanted, IMAGE: HERE / "image", DATA: work / "data"}


def missing() -> list[str]:
    """List what this machine lacks, each entry with what to do about it; without a GPU only that."""
    if (gpu := look()) is None:
        return [f"an NVIDIA GPU: nvidia-smi finds no GPU {CHOSEN} here"]
    lacking = []
    if gpu.driver < DRIVER:
        lacking.append(f"the NVIDIA driver {DRIVER} or newer (CUDA 13): here it is {gpu.driver}")
    if gpu.total < LEAST_MIB:
        lacking.append(f"a GPU of 32 GB or more: here it has {gpu.total} MiB")
    if os.geteuid() != 0:
        lacking.append(f"root, to make {CODE.parent} and {DATA}: run in a container")
    for path, folder in paths(Path()).items():
        if os.path.lexists(path):
            lacking.append(f"{path} free, where a link is made: run in a container")
        elif folder.is_relative_to(TOOLS) and not folder.exists():
            lacking.append(f"{path} or {folder.relative_to(ROOT)}: run `DEVICE=cuda tools/learn.sh`")
    info = CODE / "nemo_rl/package_info.py"
    if info.is_file() and (found := version(info.read_text(encoding="utf-8"))) != VERSION:
        lacking.append(f"NeMo RL {VERSION}: {CODE} has {found}")
    return lacking


def version(text: str) -> str:
    """Return the version that NeMo RL's package_info.py gives."""
    return ".".join(re.findall(r"^(?:MAJOR|MINOR|PATCH) *= *(\d+)", text, re.MULTILINE))


@contextlib.contextmanager
def linked(links: Mapping[Path, Path]) -> Iterator[None]:
    """Make links, and remove them at the end."""
    with contextlib.ExitStack() as made:
        for path, folder in links.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(folder.resolve())
            made.callback(path.unlink)
        yield


def environment(links: Mapping[Path, Path]) -> dict[str, str]:
    """Return the variables that differ from those on the CPU; the image's own PATH has the CUDA compiler."""
    return {
        "PATH": f"{VENV}/bin:{os.environ['PATH']}",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "LEARN_ON": "cuda-environment" if VENV in links else "cuda-image",
    }


class GpuCluster(ProcessCluster):
    """Ray as processes of a machine with a GPU, without the stand-ins of the CPU."""

    name = "cuda"


def tell(work: Path, seed: int, steps: int) -> None:
    """Run the story, then measure; raise StoryError if it does not end as it should."""
    (work / "data").mkdir()
    links = paths(work)
    framework = FRAMEWORKS["nemo-rl"]._replace(model="cuda")
    with linked(links):
        story.tell(GpuCluster(work, framework, memory.VALUES[0], **environment(links)), seed, steps, learn)


def learn(cluster: Cluster, run: Run, result: dict[str, Any]) -> None:
    """Go through the story, and write the memory of each phase beside the plan into `result`; print it too."""
    story.learn(cluster, run, result)
    story.say(cluster.make("make_model.py", "memory-model", result["seed"], "memory"))
    # What is in use now, without a job, is not the run's.
    if (gpu := look()) is None:
        raise story.StoryError(f"nvidia-smi does not find GPU {CHOSEN} any more")
    plan = memory.planned(cluster, gpu.total, cluster.data / "memory-model/config.json")
    try:
        samples, phases = memory.measure(cluster, CHOSEN)
        rows = memory.compare(memory.peaks(samples, phases), gpu.used, plan)
    except memory.MeasureError as error:
        raise story.StoryError(str(error)) from None
    story.say(f"memory of {gpu.name}, {gpu.used} MiB of it in use before:\n{memory.table(rows)}")
    result["memory"] = {"gpu": gpu.name, "usedBeforeMiB": gpu.used, "totalMiB": gpu.total, "phases": rows}
