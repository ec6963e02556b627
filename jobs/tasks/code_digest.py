"""Compute and verify the digest of fetched code, so that a job runs exactly what was fetched.

The record is inside the directory, so that one rename moves both. The digest ignores byte code, because Python
writes it next to the sources at the first import.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from files import fail, read_json
from runtime import JobError, Record

RECORD = "grpo.json"


def entries(directory: str) -> Iterator[tuple[str, str]]:
    """Yield (path relative to the directory, full path) of every file and link, in a fixed order."""
    for folder, folders, files in os.walk(directory, onerror=fail):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(name for name in folders if name != "__pycache__" and name not in links)
        for name in sorted([*files, *links]):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, directory)
            if relative != RECORD and not name.endswith(".pyc"):
                yield relative, path


def tree_digest(directory: str) -> str:
    """Return the SHA-256 of every file's name and content; for links, of the target path, not the target's content."""
    total = hashlib.sha256()
    for relative, path in entries(directory):
        content = hashlib.sha256()
        if os.path.islink(path):
            kind = "link"
            content.update(os.fsencode(os.readlink(path)))
        else:
            kind = "file"
            with open(path, "rb") as file:
                while chunk := file.read(1 << 20):
                    content.update(chunk)
        total.update(f"{kind} {content.hexdigest()} ".encode() + os.fsencode(relative) + b"\0")
    return total.hexdigest()


def read_record(directory: str) -> Record:
    return read_json(os.path.join(directory, RECORD))


def verify_code(directory: str) -> str:
    """Return a code directory's digest; raise JobError if it differs from the recorded one."""
    if not os.path.isdir(directory):
        raise JobError(
            f"{directory} does not exist: install the release with job.task fetch first, which puts job.code there"
        )
    recorded = read_record(directory).get("digest")
    if not recorded:
        raise JobError(f"{directory} was not made by the fetch task (no {RECORD}): move it away, and run that task")
    found = tree_digest(directory)
    if found != recorded:
        raise JobError(
            f"{directory} is not what was fetched: its digest is {found[:12]}, its record says {str(recorded)[:12]}; "
            "its files have changed: delete the directory, and run the fetch task again"
        )
    return found
