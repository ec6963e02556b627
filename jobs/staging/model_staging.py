"""Copy a model from a volume to a local disk on every node of the Ray cluster.

The arguments are SOURCE, TARGET and ROOM.

Engines map weights into memory, which is slow or impossible on an object-store mount. A copy gets its final name
only once it is complete, and an existing copy is reused. Nodes without a GPU get everything except the weights,
because they read only the tokenizer and the model's configuration.

ROOM is a JSON object: directory (for all such copies), advice (what to do if they do not fit), and, if that
directory's volume has a limit unknown to the file system, its mount point (volume) and its size in bytes.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from files import fail
from runtime import say

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
# GKE's driver mounts a bucket as plain fuse.
OBJECT_STORES = {"fuse", "gcsfuse", "fuse.gcsfuse"}
# An object store is fast only for several readers.
READERS = 8
PROGRESS_SECONDS = 60.0
Files = dict[str, int]
Room = dict[str, Any]


def mount_type(path: str, mounts: str = "/proc/mounts") -> str:
    """Return the type of the file system that contains a path; an empty text if it is unknown."""
    path, best, kind = os.path.realpath(path), "", ""
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split() for line in file]
    except OSError:
        return ""
    for _device, written, found, *_ in rows:
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), written)
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # Of two mounts at one point, the last one hides the other.
        if inside and len(point) >= len(best):
            best, kind = point, found
    return kind


def needed(path: str, mounts: str = "/proc/mounts") -> bool:
    return mount_type(path, mounts) in OBJECT_STORES


def local_folder(model: str) -> str:
    """Return a model's folder: itself, or its copy in the Hub's cache; an empty text if there is none."""
    if os.path.isdir(model):
        return model
    try:
        from huggingface_hub import snapshot_download

        return str(snapshot_download(model, local_files_only=True))
    except Exception as error:
        say(f"{model} is not in the cache ({type(error).__name__})")
        return ""


def files_of(source: str) -> Files:
    """Return the path and size of each of a model's files; follow links, because the Hub's cache consists of them."""
    found = {}
    for folder, _folders, names in os.walk(source, onerror=fail, followlinks=True):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, source)] = os.path.getsize(path)
    return found


def target_of(source: str, root: str, name: str) -> str:
    """Return the path of a model's copy, which contains a digest of the files and ends with the model's name."""
    real = os.path.realpath(source)
    parts = [
        f"{path}:{size}:{os.stat(os.path.join(source, path)).st_mtime_ns}" for path, size in files_of(source).items()
    ]
    digest = hashlib.sha256("\n".join([real, *sorted(parts)]).encode()).hexdigest()[:12]
    return os.path.join(root, digest, name)


# Ray sends these functions by value to other nodes, so they use nothing but Python's own modules.
def whole(folder: str, files: Files) -> bool:
    paths = [(os.path.join(folder, path), size) for path, size in files.items()]
    return all(os.path.isfile(path) and os.path.getsize(path) == size for path, size in paths)


def used(folder: str) -> int:
    """Return the disk usage in bytes of all files in a folder, some of which may disappear in the meantime."""
    found = 0
    for parent, _folders, names in os.walk(folder):
        for name in names:
            try:
                found += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return found


def check_room(size: int, room: Room) -> None:
    """Raise OSError if a copy does not fit: a pod that writes more than its volume's limit is evicted."""
    free, limit = shutil.disk_usage(room["directory"]).free, room.get("bytes")
    where = room["directory"]
    if limit:
        free = min(free, max(0, limit - used(room["volume"])))
        where = f"{room['volume']}, whose limit is {limit / 2**30:.1f} GiB"
    if free < size:
        raise OSError(
            f"the copy needs {size / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free in {where}; {room['advice']}"
        )


def copy(source: str, target: str, files: Files, room: Room) -> str:
    """Copy some files from source to target; return what was done."""
    os.makedirs(room["directory"], exist_ok=True)
    with open(os.path.join(room["directory"], ".lock"), "w", encoding="ascii") as lock:
        # One copy at a time on a node, so that two runs count the same space once. The lock ends with its process.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if whole(target, files):
            return "has its copy already"
        for left in glob.glob(os.path.join(glob.escape(room["directory"]), "*", "*.part")):
            shutil.rmtree(left)
        shutil.rmtree(target, ignore_errors=True)
        size, started, draft = sum(files.values()), time.monotonic(), f"{target}.part"
        check_room(size, room)
        for folder in {os.path.dirname(os.path.join(draft, path)) for path in files}:
            os.makedirs(folder, exist_ok=True)
        with ThreadPoolExecutor(READERS) as pool:
            list(pool.map(lambda path: shutil.copyfile(os.path.join(source, path), os.path.join(draft, path)), files))
        if not whole(draft, files):
            raise OSError(f"the copy {draft} differs in size from {source}: is the model still being written?")
        os.rename(draft, target)
        took = max(time.monotonic() - started, 0.001)
        return f"has a copy of {size / 2**30:.1f} GiB after {took:.0f} s, {size / took / 2**20:.0f} MiB/s"


def share(files: Files, node: dict[str, Any], everywhere: bool) -> Files:
    """Return the files that a node needs."""
    all_of_them = everywhere or node["Resources"].get("GPU", 0) > 0
    return files if all_of_them else {path: size for path, size in files.items() if not path.endswith(WEIGHTS)}


def stage(source: str, target: str, room: Room) -> list[str]:
    """Copy a model to all nodes at the same time; return a sentence for each node that failed."""
    # Not a second driver of the submitted job: Ray would create that job's runtime environment again.
    os.environ.pop("RAY_JOB_CONFIG_JSON_ENV_VAR", None)
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address="auto", logging_level="warning")
    nodes = [node for node in ray.nodes() if node["Alive"]]
    files, everywhere = files_of(source), not any(node["Resources"].get("GPU", 0) for node in nodes)
    say(f"copying {source} to {target} on each node: {sum(files.values()) / 2**30:.1f} GiB, without GPUs no weights")
    hosts = {}
    for node in nodes:
        here = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        # No CPU is requested: the head of a cluster offers none.
        remote = ray.remote(copy).options(num_cpus=0, max_retries=0, scheduling_strategy=here)
        task = remote.remote(source, target, share(files, node, everywhere), room)
        hosts[task] = node["NodeManagerHostname"]
    failed = list(collect(ray, hosts))
    ray.shutdown()
    return failed


def collect(ray: Any, hosts: dict[Any, str]) -> Iterator[str]:
    """Wait for the tasks and report each as it ends; yield a sentence for each task that failed."""
    while hosts:
        ended = ray.wait(list(hosts), timeout=PROGRESS_SECONDS)[0]
        if not ended:
            say(f"{len(hosts)} nodes are still copying")
        for task in ended:
            host = hosts.pop(task)
            try:
                say(f"{host} {ray.get(task)}")
            except Exception as error:
                yield f"{host}: {(str(error).strip().splitlines() or [type(error).__name__])[-1]}"


def main(source: str, target: str, room: str) -> int:
    try:
        failed = stage(source, target, json.loads(room))
    except ImportError:
        failed = ["ray cannot be imported, so the nodes cannot be reached: is this image a training image?"]
    except ConnectionError:
        failed = ["no Ray cluster is running here, so the model cannot be copied to its nodes"]
    for text in failed:
        say(f"cannot copy {source}: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
