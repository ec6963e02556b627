"""Fetch models, data sets and code onto the shared volume (usage: python3 fetch.py task.json).

task.json: "models" and "datasets" are maps from ID to {"revision": branch or commit}; "code" is null or
{"directory", "packages": map from name to version, "repository", "revision"}: either packages, or repository and
revision.
HF_HOME is the cache. A branch is resolved once and its commit recorded, so a second run needs no network. refs/main
then names the fetched commit, so that an offline load without a revision finds it. Files are fetched one by one,
because snapshot_download (from 2.0 on) records the list of all files, and then treats a snapshot without some of
them as broken.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from fnmatch import fnmatch
from typing import Any, NamedTuple

import fetch_tables
from fetch_code import COMMIT, fetch_code
from files import gib, read_json, write_atomically, write_json
from hub_cache import KINDS, cache, folder, record_path, snapshot
from runtime import JobError, Record, say
from task import run_task

# The same weights for other libraries: skipped if there are weights that the trainers read.
COPIES = ["original/*", "onnx/*", "openvino/*", "coreml/*", "*.gguf", "*.onnx", "*.h5", "*.msgpack", "*.ot", "*.tflite"]
# Unpickling may run any program. Libraries load weights in this form with care (weights_only), nothing else is needed.
WEIGHTS = "pytorch_model*.bin"
PICKLES = ["*.bin", "*.pth", "*.pt", "*.ckpt", "*.pkl", "*.pickle"]
TRIES, STREAMS = 3, 8
PAUSE = float(os.environ.get("GRPO_FETCH_PAUSE_SECONDS", "10"))
MARGIN = 2**28  # records, locks, and what else a file system needs


class Wanted(NamedTuple):
    """A repository at a revision, as requested in the values."""

    kind: str
    repository: str
    revision: str

    @property
    def where(self) -> str:
        return f"job.fetch.{KINDS[self.kind]}.{self.repository}"


def matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def chosen(names: list[str]) -> list[str]:
    """Return a model's files without additional copies of its weights, and without pickles that are not weights."""
    safe = [name for name in names if fnmatch(name, "*.safetensors") and not matches(name, COPIES)]
    if safe:
        more = [] if all("consolidated" in name for name in safe) else ["*consolidated*.safetensors"]
        return [name for name in names if not matches(name, [*COPIES, *PICKLES, *more])]
    if any(fnmatch(name, WEIGHTS) for name in names):
        return [name for name in names if fnmatch(name, WEIGHTS) or not matches(name, [*COPIES, *PICKLES])]
    return names


def warn_of_code(wanted: Wanted, names: Iterable[str]) -> None:
    """Name a model's files that are code, or can contain code."""
    for patterns, what in (
        (["*.py"], "it has code, which may run in the pods"),
        (PICKLES, "its weights are pickles, a format that can carry code; prefer safetensors"),
    ):
        if found := sorted(name for name in names if matches(name, patterns)):
            more = f" and {len(found) - 1} more" if found[1:] else ""
            say(f"warning: {wanted.repository}: {what}: {found[0]}{more}")


def network_error(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is a network error: the library wraps these in other errors."""
    while error:
        name = type(error).__name__
        if isinstance(error, (ConnectionError, TimeoutError)) or re.search(
            "Connect|Timeout|Network|Protocol|SSL", name
        ):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_temporary(error: BaseException) -> bool:
    """Return whether a later attempt may succeed."""
    status = getattr(getattr(error, "response", None), "status_code", 0)
    return status == 429 or status >= 500 or (not status and network_error(error))


def explain(error: BaseException, wanted: Wanted) -> str:
    """Return one sentence with problem and remedy, because the library's own message may be too long for a log."""
    token, what = bool(os.environ.get("HF_TOKEN")), f"{wanted.repository} ({wanted.where})"
    response: Any = getattr(error, "response", None)
    status = getattr(response, "status_code", 0)
    code, message = (response.headers.get(f"X-Error-{part}") or "" if status else "" for part in ("Code", "Message"))
    host = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    if code == "GatedRepo" and token:
        return f"{what} is gated, and the account of this token has no access: accept the licence on the model's page"
    if code == "GatedRepo":
        fix = "accept the licence on its page, and set huggingface.secret to a token of that account"
        return f"{what} is gated: {fix}; an offline stack gives it to this task only with job.cluster.mode ephemeral"
    if code == "RevisionNotFound":
        return f"{what} has no revision {wanted.revision}: set an existing branch or commit"
    if status == 401 and "credentials" in message:
        return f"{what}: the Hub rejects the token: put a valid one into the Secret of huggingface.secret"
    if status in (401, 404):
        reason = "this token may not see it" if token else "it is private: set huggingface.secret"
        return f"{what} was not found: check its spelling, or {reason}"
    if status == 403:
        return f"{what}: the token has no read access: allow gated and private repositories in the token's settings"
    if status == 429:
        return f"{what}: too many requests: try again later, and set huggingface.secret: a token has a higher limit"
    if status:
        return f"{what}: the Hub answered {status}: try again later"
    if network_error(error):
        return (
            f"{what}: no answer from {host}: this pod needs internet access (Cloud NAT on private nodes) or HF_ENDPOINT"
        )
    text = " / ".join(str(error).split("\n")).replace(os.environ.get("HF_TOKEN") or "\0", "***")
    return f"{what}: {type(error).__name__}: {text[:300]}"


def with_retries(wanted: Wanted, function: Any, *arguments: Any, **options: Any) -> Any:
    """Call the Hub, retrying after temporary errors."""
    for left in reversed(range(TRIES)):
        try:
            return function(*arguments, **options)
        except Exception as error:
            full = isinstance(error, OSError) and error.errno in (28, 122)  # no space, quota
            if full or not (left and is_temporary(error)):
                reason = f"no space is left in {cache()}" if full else explain(error, wanted)
                raise JobError(reason) from None
            say(f"{wanted.repository}: {type(error).__name__}; trying again in {PAUSE:.0f} s")
            time.sleep(PAUSE)
    return None


def hub() -> Any:
    """Import huggingface_hub in online mode: this task fills the cache for offline training."""
    os.environ |= {"HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    # Its chunk cache would take up to 10 GB of the volume, and no file is fetched twice.
    os.environ.setdefault("HF_XET_CHUNK_CACHE_SIZE_BYTES", "0")
    try:
        import huggingface_hub
    except ImportError:
        raise JobError("this image has no huggingface_hub: run the fetch task in the training image") from None
    return huggingface_hub


def complete(wanted: Wanted, record: Record) -> bool:
    """Return whether the recorded snapshot is the requested one and every file has the recorded size."""
    if not record or wanted.revision not in (record["requested"], record["commit"]):
        return False
    base = snapshot(wanted.kind, wanted.repository, record["commit"])
    return all(size_of(os.path.join(base, name)) == size for name, size in record["files"].items())


def size_of(path: str) -> int:
    """Return a file's size, -1 if the file does not exist; raise OSError if that is unknown, as it may be complete."""
    try:
        return os.path.getsize(path)
    except (FileNotFoundError, NotADirectoryError):
        return -1


def check_space(wanted: Wanted, needed: int) -> None:
    os.makedirs(cache(), exist_ok=True)
    free = shutil.disk_usage(cache()).free
    if needed + MARGIN > free:
        raise JobError(
            f"{wanted.repository} needs {gib(needed)} more and {cache()} has {gib(free)} free: "
            "delete files, or enlarge the volume of huggingface.cache"
        )


def discard(path: str) -> None:
    """Delete a snapshot's file and its link target: the library would take a truncated file for a complete one."""
    blob = os.path.join(os.path.dirname(path), os.readlink(path)) if os.path.islink(path) else path
    for name in (blob, path):
        with suppress(FileNotFoundError):
            os.unlink(name)


def download(wanted: Wanted, commit: str, files: dict[str, int]) -> None:
    base, done = snapshot(wanted.kind, wanted.repository, commit), 0
    missing = {name: size for name, size in files.items() if size_of(os.path.join(base, name)) != size}
    check_space(wanted, sum(missing.values()))
    get = hub().hf_hub_download
    for name in missing:
        discard(os.path.join(base, name))
    options = {"repo_type": wanted.kind, "revision": commit, "cache_dir": cache()}
    pool = ThreadPoolExecutor(STREAMS)
    try:
        calls = {pool.submit(with_retries, wanted, get, wanted.repository, name, **options): name for name in missing}
        for call in as_completed(calls):
            call.result()
            done += missing[calls[call]]
            if missing[calls[call]] > 2**27:
                say(f"{wanted.repository}: {gib(done)} of {gib(sum(missing.values()))}")
    finally:
        pool.shutdown(cancel_futures=True)
    if wrong := [name for name, size in files.items() if size_of(os.path.join(base, name)) != size]:
        raise JobError(f"{wanted.repository}: the size of {wrong[0]} differs from the Hub's: run this task again")


def look_up(wanted: Wanted) -> tuple[str, dict[str, int]]:
    """Query the Hub for a revision's commit, and for its files with their sizes."""
    options = {"repo_type": wanted.kind, "revision": wanted.revision, "files_metadata": True}
    info = with_retries(wanted, hub().HfApi().repo_info, wanted.repository, **options)
    sizes = {item.rfilename: int(item.size or 0) for item in info.siblings or []}
    names = chosen(list(sizes)) if wanted.kind == "model" else list(sizes)
    if left := len(sizes) - len(names):
        spared = sum(sizes.values()) - sum(sizes[name] for name in names)
        say(f"{wanted.repository}: skipped {left} files: copies of the weights, other pickles ({gib(spared)})")
    return info.sha, {name: sizes[name] for name in names}


def point_refs(wanted: Wanted, commit: str) -> None:
    """Point main and the requested branch at this commit."""
    for name in {"main", wanted.revision} - {commit}:
        path = os.path.join(folder(wanted.kind, wanted.repository), "refs", *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomically(path, commit)


def fetch_files(wanted: Wanted, record: Record) -> Record:
    """Download the missing files; return the snapshot's record."""
    if complete(wanted, record):
        say(f"{wanted.repository}: commit {record['commit']} is in the cache already")
        return record
    # A resolved branch keeps its commit, even if files have been deleted since.
    again = wanted._replace(revision=record["commit"]) if record.get("requested") == wanted.revision else wanted
    commit, files = look_up(again)
    download(wanted, commit, files)
    say(f"{wanted.repository}: {len(files)} files, {gib(sum(files.values()))}, commit {commit}")
    return {"requested": wanted.revision, "commit": commit, "files": files}


def build_tables(wanted: Wanted, commit: str) -> list[str]:
    """Build the tables for offline loading by name; return [] for a data set that the library cannot read."""
    hub()
    try:
        return fetch_tables.build(wanted.repository, commit)
    except Exception as error:
        if is_temporary(error):
            raise JobError(explain(error, wanted)) from None
        say(f"warning: {explain(error, wanted)}: it cannot be loaded by name offline")
        return []


def fetch(wanted: Wanted) -> None:
    path = record_path(wanted.kind, wanted.repository)
    before = read_json(path)
    record = fetch_files(wanted, before)
    choice = wanted.repository, record["commit"]
    if wanted.kind == "dataset" and not fetch_tables.choose(*choice, record.get("tables") or []):
        record = {**record, "tables": build_tables(wanted, record["commit"])}
        fetch_tables.choose(*choice, record["tables"])
    if record != before:
        write_json(path, record)
    if wanted.kind == "model":
        warn_of_code(wanted, chosen(list(record["files"])))
    point_refs(wanted, record["commit"])
    if not COMMIT.fullmatch(wanted.revision):
        say(f"to pin it, set {wanted.where}.revision to {record['commit']} ({wanted.revision} may move),")
        say("and then huggingface.offline.enabled to true: online, the trainers load main")


def main(task: Record) -> None:
    for kind, section in KINDS.items():
        for repository, entry in (task.get(section) or {}).items():
            wanted = Wanted(kind, repository, (entry or {}).get("revision") or "main")
            if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repository) or ".." in f"{repository}/{wanted.revision}":
                raise JobError(
                    f"{wanted.where}: expected a repository such as google/gemma-3-27b-it and one of its revisions"
                )
            fetch(wanted)
    if task.get("code"):
        fetch_code(task["code"])
    say("fetched everything")


if __name__ == "__main__":
    sys.exit(run_task(main))
