"""Paths in the Hugging Face cache, in the layout that every version of huggingface_hub reads."""

from __future__ import annotations

import os

from runtime import JobError

KINDS = {"model": "models", "dataset": "datasets"}


def cache() -> str:
    """Return the cache directory, which must be on a persistent volume."""
    home = os.environ.get("HF_HOME")
    if path := os.environ.get("HF_HUB_CACHE") or (home and os.path.join(home, "hub")):
        return path
    raise JobError("HF_HOME is not set: set huggingface.cache.volume, so that fetched files persist")


def folder(kind: str, repository: str) -> str:
    return os.path.join(cache(), "--".join([KINDS[kind], *repository.split("/")]))


def snapshot(kind: str, repository: str, commit: str) -> str:
    return os.path.join(folder(kind, repository), "snapshots", commit)


def record_path(kind: str, repository: str) -> str:
    """Return the path of the fetch task's record, next to the cache, whose tools expect no other files in it."""
    name = os.path.basename(folder(kind, repository))
    return os.path.join(os.path.dirname(cache()), "grpo-fetched", f"{name}.json")


def fetched(kind: str, repository: str) -> tuple[str, str]:
    """Return the (directory, commit) of the snapshot that an offline load without a revision finds.

    Raises JobError if there is no such snapshot.
    """
    try:
        with open(os.path.join(folder(kind, repository), "refs", "main"), encoding="ascii") as file:
            commit = file.read().strip()
    except FileNotFoundError:
        commit = ""
    path = snapshot(kind, repository, commit)
    if commit and os.path.isdir(path):
        return path, commit
    advice = f"add it to job.fetch.{KINDS[kind]} and install a release with job.task fetch"
    raise JobError(f"{repository} is not in the Hugging Face cache {cache()}: {advice}")
