"""Copy a model from a volume to a local disk of every node of the Ray cluster: python3 model_staging.py SOURCE TARGET.

Engines map weights into memory, which is slow or impossible on an object-store mount. A copy gets its final name only
when it is complete, and an existing copy is reused. Nodes without a GPU get everything except the weights, because they
read only the tokenizer and the model's configuration.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from typing import Any

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
# GKE's driver mounts a bucket as plain fuse.
OBJECT_STORES = {"fuse", "gcsfuse", "fuse.gcsfuse"}
Files = dict[str, int]


def mount_type(path: str, mounts: str = "/proc/mounts") -> str:
    """Return the type of the file system that contains a path, an empty text if it is unknown."""
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


def files_of(source: str) -> Files:
    """Return path and size of each file of a model; follow links, because the Hub's cache consists of them."""
    found = {}
    for folder, _folders, names in os.walk(source, followlinks=True):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, source)] = os.path.getsize(path)
    return found


def target_of(source: str, root: str, name: str) -> str:
    """Return the path of a model's copy: it contains a digest of the files, and ends with the model's name."""
    real = os.path.realpath(source)
    parts = [
        f"{path}:{size}:{os.stat(os.path.join(source, path)).st_mtime_ns}" for path, size in files_of(source).items()
    ]
    digest = hashlib.sha256("\n".join([real, *sorted(parts)]).encode()).hexdigest()[:12]
    return os.path.join(root, digest, name)


def copy(source: str, target: str, files: Files) -> str:
    """Copy some files of source to target; return what was done. It runs on each node, so it imports what it needs."""
    import os
    import shutil

    def whole(folder: str) -> bool:
        paths = [(os.path.join(folder, path), size) for path, size in files.items()]
        return all(os.path.isfile(path) and os.path.getsize(path) == size for path, size in paths)

    if whole(target):
        return "exists already"
    draft = f"{target}.part"
    shutil.rmtree(draft, ignore_errors=True)
    os.makedirs(draft)
    free, size = shutil.disk_usage(draft).free, sum(files.values())
    if free < size:
        raise OSError(f"{draft} needs {size >> 30} GiB and {free >> 30} GiB are free; set job.evaluate.stageDirectory")
    for path in files:
        os.makedirs(os.path.dirname(os.path.join(draft, path)), exist_ok=True)
        shutil.copyfile(os.path.join(source, path), os.path.join(draft, path))
    if not whole(draft):
        raise OSError(f"the copy {draft} differs in size from {source}: is the model still being written?")
    shutil.rmtree(target, ignore_errors=True)
    os.rename(draft, target)
    return f"copied, {size >> 20} MiB"


def share(files: Files, node: dict[str, Any], everywhere: bool) -> Files:
    """Return the files that a node needs."""
    all_of_them = everywhere or node["Resources"].get("GPU", 0) > 0
    return files if all_of_them else {path: size for path, size in files.items() if not path.endswith(WEIGHTS)}


def stage(source: str, target: str) -> list[str]:
    """Copy a model on every node at once; return a sentence for each that failed."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address="auto", logging_level="warning")
    nodes = [node for node in ray.nodes() if node["Alive"]]
    files, everywhere = files_of(source), not any(node["Resources"].get("GPU", 0) for node in nodes)
    tasks = {}
    for node in nodes:
        here = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        # No CPU is requested: the head of a cluster offers none.
        remote = ray.remote(copy).options(num_cpus=0, max_retries=0, scheduling_strategy=here)
        tasks[node["NodeManagerHostname"]] = remote.remote(source, target, share(files, node, everywhere))
    failed = []
    for host, task in tasks.items():
        try:
            print(f"grpo: {target} on {host} {ray.get(task)}", flush=True)
        except Exception as error:
            failed.append(f"{host}: {(str(error).strip().splitlines() or [type(error).__name__])[-1]}")
    ray.shutdown()
    return failed


def main(source: str, target: str) -> int:
    try:
        failed = stage(source, target)
    except ImportError:
        failed = ["ray cannot be imported, so the nodes cannot be reached: is this image a training image?"]
    except ConnectionError:
        failed = ["no Ray cluster is running here, so the model cannot be copied to its nodes"]
    for text in failed:
        print(f"grpo: cannot copy {source}: {text}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
