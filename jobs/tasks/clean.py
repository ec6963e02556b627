"""Delete a run's checkpoints and copies (usage: python3 clean.py task.json).

task.json: "runDirectory", "run", "stageDirectory" and "what", a list of checkpoints (<run>/checkpoints), converted
(<run>/hf) and staged (<stageDirectory>/grpo-staged/<run> on the disk of each node of the Ray cluster); by default
checkpoints and staged. Logs, configurations, owner records and evaluations are kept.
The task takes ownership of the run, and of the tasks that read its checkpoints, while it renames the folders, so a
trainer that starts meanwhile sees either a complete checkpoint or none. It then deletes the renamed folders; if
interrupted, the next clean finishes the job. It does not follow links.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from files import gib
from owner import LAPSE_SECONDS, Owner, read_record
from runtime import JobError, Record, say
from task import run_task

FOLDERS = {"checkpoints": "checkpoints", "converted": "hf"}
READERS = ("tasks/convert", "tasks/evaluate")
TRASH = ".deleted"
NODE_SECONDS = 300
# Without them a step of verl or NeMo RL, or a converted one, is no step for anybody.
MARKS = ("data.pt", "training_info.json", "config.json")


def tree_size(path: str) -> int:
    """Return the total size in bytes of the files under a path; each file counts once, and links are skipped."""
    sizes = {}
    for folder, _, names in os.walk(path):
        for name in names:
            found = os.lstat(os.path.join(folder, name))
            if stat.S_ISREG(found.st_mode):
                sizes[found.st_dev, found.st_ino] = found.st_size
    return sum(sizes.values())


def run_directory(task: Record) -> str:
    path, name = task["runDirectory"], task["run"]
    if not os.path.isabs(path) or os.path.normpath(path) != path or os.path.basename(path) != name:
        raise JobError(f"{path} is not the directory of run {name}")
    if os.path.islink(path) or not os.path.isdir(path):
        raise JobError(f"{path} is not a directory: there is no run {name} on this volume")
    return str(path)


def refuse_links(path: str) -> None:
    if os.path.islink(path):
        raise JobError(f"{path} is a link to {os.readlink(path)}: clean follows no links; delete its target yourself")


@contextlib.contextmanager
def owned(directory: str, name: str) -> Iterator[list[Owner]]:
    """Take ownership of the run and its tasks that read the deleted folders; refuse while one of them is running."""
    with contextlib.ExitStack() as stack:
        owners = []
        for part in (".", *READERS):
            folder = Path(directory, part)
            if part != "." and not folder.is_dir():
                continue
            (folder / "owners").mkdir(exist_ok=True)
            patience = 1.5 * max(LAPSE_SECONDS, read_record(folder / "owner.json").get("lapse", 0))
            owner = Owner({"run": name, "attempt": 0}, folder, patience)
            owner.about["task"] = "clean"
            stack.callback(owner.release)
            try:
                owner.acquire()
            except JobError as error:
                raise JobError(f"nothing was deleted, because {folder} is in use: {error}") from None
            owner.heart.start()
            owners.append(owner)
        yield owners


def check(owners: list[Owner]) -> None:
    for owner in owners:
        if trouble := owner.trouble():
            raise JobError(f"stopped deleting: {trouble}")
        owner.check()


def remove(path: str) -> None:
    """Delete a file, a link or a folder, but never a link's target."""
    if os.path.islink(path) or not os.path.isdir(path):
        os.unlink(path)
        return
    for name in MARKS:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(path, name))
    shutil.rmtree(path)


def set_aside(directory: str, name: str, owners: list[Owner]) -> int:
    """Rename a folder of the run, or delete it immediately if it cannot be renamed; return its size in bytes."""
    path = os.path.join(directory, FOLDERS[name])
    refuse_links(path)
    if not os.path.isdir(path):
        say(f"{name}: {path} does not exist")
        return 0
    size, trash = tree_size(path), os.path.join(directory, TRASH)
    refuse_links(trash)
    check(owners)
    target = os.path.join(trash, f"{FOLDERS[name]}-{uuid.uuid4().hex[:8]}")
    try:
        os.makedirs(trash, exist_ok=True)
        os.rename(path, target)
    except OSError as error:
        say(f"cannot rename {path} ({error.strerror}); deleting it while this task owns the run")
        for entry in sorted(os.listdir(path)):
            check(owners)
            remove(os.path.join(path, entry))
        os.rmdir(path)
        return size
    try:
        # A task that is held up before it renames takes the folder of the next owner.
        check(owners)
    except BaseException:
        os.rename(target, path)
        raise
    return size


def empty_trash(directory: str) -> None:
    trash = os.path.join(directory, TRASH)
    refuse_links(trash)
    if os.path.isdir(trash):
        shutil.rmtree(trash)


def remove_staged(root: str, name: str) -> int:
    """Delete a run's copies on this node; return their bytes. Ray sends this function by value to other nodes."""
    path = os.path.join(root, "grpo-staged", name)
    if os.path.islink(path) or not os.path.isdir(path):
        return 0
    size = tree_size(path)
    shutil.rmtree(path)
    return size


def on_every_node(root: str, name: str) -> list[tuple[str, int | str]]:
    """Return (host, bytes or error message) for each node; raise ImportError or ConnectionError without Ray."""
    # Not a second driver of the submitted job: Ray would create that job's runtime environment again.
    os.environ.pop("RAY_JOB_CONFIG_JSON_ENV_VAR", None)
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address="auto", logging_level=logging.ERROR, log_to_driver=False)
    calls: list[tuple[str, Any]] = []
    for node in ray.nodes():
        if node["Alive"]:
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            remote = ray.remote(remove_staged).options(num_cpus=0, max_retries=0, scheduling_strategy=place)
            calls.append((node["NodeManagerHostname"], remote.remote(root, name)))
    found: list[tuple[str, int | str]] = []
    for host, call in calls:
        try:
            found.append((host, ray.get(call, timeout=NODE_SECONDS)))
        except Exception as error:
            found.append((host, (str(error).strip().splitlines() or [type(error).__name__])[-1]))
    ray.shutdown()
    return found


def clean_nodes(task: Record) -> str:
    """Delete the run's copies on the nodes; return an error message, or an empty text."""
    root = task.get("stageDirectory") or tempfile.gettempdir()
    if not os.path.isabs(root) or not re.fullmatch(r"\w[\w.-]*", task["run"]):
        raise JobError(f"{root}/{task['run']} is not a directory for copies: stageDirectory must be an absolute path")
    try:
        found = on_every_node(root, task["run"])
    except (ImportError, ConnectionError):
        say("no Ray cluster is running here: copies on the disks of other nodes stay until their pods are deleted")
        found = [("this machine", remove_staged(root, task["run"]))]
    for host, freed in found:
        if isinstance(freed, int):
            say(f"staged: {gib(freed)} freed in {root} of {host}")
    failed = [f"{host}: {freed}" for host, freed in found if isinstance(freed, str)]
    return f"copies in {root} were not deleted on every node: {'; '.join(failed)}" if failed else ""


def main(task: Record) -> None:
    """Delete what the task specifies."""
    what = task.get("what") or ["checkpoints", "staged"]
    if unknown := set(what) - {*FOLDERS, "staged"}:
        raise JobError(f"clean does not know {', '.join(sorted(unknown))}: expected {', '.join(FOLDERS)} or staged")
    directory = run_directory(task)
    folders = [name for name in what if name in FOLDERS]
    with owned(directory, task["run"]) as owners:
        sizes = {name: set_aside(directory, name, owners) for name in folders}
        problem = clean_nodes(task) if "staged" in what else ""
    empty_trash(directory)
    for name, size in sizes.items():
        say(f"{name}: {gib(size)} freed in {os.path.join(directory, FOLDERS[name])}")
    if "checkpoints" in sizes:
        say(f"the next attempt of {task['run']} will start at step 0")
    if problem:
        raise JobError(problem)


if __name__ == "__main__":
    sys.exit(run_task(main))
