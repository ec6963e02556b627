"""Fetch pinned code into its own directory: packages at exact versions, or a repository at a full commit."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import uuid
from importlib.util import find_spec
from typing import Any

from code_digest import RECORD, read_record, tree_digest, verify_code
from files import write_atomically
from runtime import JobError, Record, say

COMMIT = re.compile("[0-9a-f]{40}")


def call(words: list[str], what: str) -> str:
    """Run a program; after a failure, raise JobError with the most useful line of its output."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if re.match("error|fatal", line, re.IGNORECASE)] or lines[-1:]
        # The part of a URL before the @ may be a password.
        reason = re.sub(r"://[^/@\s]*@", "://", errors[-1] if errors else "no output")
        raise JobError(f"{what}: {os.path.basename(words[0])} ended with {done.returncode}: {reason[:400]}")
    return done.stdout.strip()


def install_packages(packages: dict[str, str], folder: str) -> None:
    """Install wheels without their dependencies, which the image contains."""
    pinned = [f"{name}=={version}" for name, version in sorted(packages.items())]
    if find_spec("pip"):
        installer = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    elif uv := shutil.which("uv"):
        installer = [uv, "pip", "install", "--quiet", "--python", sys.executable]
    else:
        raise JobError("this image has neither pip nor uv: set job.code.repository and revision instead of packages")
    # Wheels only: a source distribution would be built with unpinned tools.
    options = ["--no-deps", "--only-binary", ":all:", "--target", folder]
    call([*installer, *options, *pinned], f"cannot install {' '.join(pinned)} (job.code.packages)")


def clone(repository: str, revision: str, folder: str) -> None:
    what = f"cannot get {revision[:12]} of {repository} (job.code)"
    git = ["git", "-c", "advice.detachedHead=false", "-C", folder]
    call(["git", "init", "--quiet", folder], what)
    call([*git, "fetch", "--quiet", "--depth", "1", repository, revision], what)
    call([*git, "checkout", "--quiet", "FETCH_HEAD"], what)
    if call([*git, "rev-parse", "HEAD"], what) != revision:
        raise JobError(f"{what}: {repository} gave another commit")
    shutil.rmtree(os.path.join(folder, ".git"))


def unpack(archive: tarfile.TarFile, revision: str, folder: str) -> None:
    """Unpack a code host's archive of a commit, which has one folder, and the commit in its header."""
    if archive.pax_headers.get("comment", revision) != revision:
        raise JobError(f"the archive has commit {archive.pax_headers['comment'][:12]}, expected {revision[:12]}")
    options: Any = {"filter": "data"}
    archive.extractall(folder, **options)  # noqa: S202
    tops = os.listdir(folder)
    if len(tops) != 1:
        raise JobError(f"the archive of {revision[:12]} has {len(tops)} entries, expected one folder")
    top = os.path.join(folder, f".{uuid.uuid4().hex[:8]}")
    os.rename(os.path.join(folder, tops[0]), top)
    for name in os.listdir(top):
        os.rename(os.path.join(top, name), os.path.join(folder, name))
    os.rmdir(top)


def download(repository: str, revision: str, folder: str) -> None:
    base = repository.removesuffix("/").removesuffix(".git")
    part = "-/archive" if "gitlab" in base.split("/")[2] else "archive"
    url = f"{base}/{part}/{revision}.tar.gz"
    if not hasattr(tarfile, "data_filter"):
        raise JobError("this image has no git, and its Python cannot unpack archives safely: use an image with git")
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, tarfile.open(fileobj=answer, mode="r|gz") as archive:  # noqa: S310
            unpack(archive, revision, folder)
    except urllib.error.HTTPError as error:
        raise JobError(f"{url}: {error.code} {error.reason}: check job.code.repository and revision") from None
    except (urllib.error.URLError, TimeoutError, EOFError, tarfile.TarError) as error:
        raise JobError(
            f"{url}: {getattr(error, 'reason', error)}: this image has no git; can the pod reach this URL?"
        ) from None


def get_repository(repository: str, revision: str, folder: str) -> None:
    if not COMMIT.fullmatch(revision):
        raise JobError(f"job.code.revision is {revision!r}, expected a full commit of 40 hexadecimal digits")
    (clone if shutil.which("git") else download)(repository, revision, folder)


def source_of(code: Record) -> Record:
    """Return the keys that are set in job.code."""
    found = {key: code[key] for key in ("packages", "repository", "revision") if code.get(key)}
    if not found:
        raise JobError("job.code names neither packages nor a repository")
    return found


def make(source: Record, folder: str) -> str:
    """Fill an empty folder, record its content, and return its digest."""
    if "repository" in source:
        get_repository(source["repository"], source.get("revision", ""), folder)
    if "packages" in source:
        install_packages(source["packages"], folder)
    digest = tree_digest(folder)
    write_atomically(os.path.join(folder, RECORD), json.dumps({"source": source, "digest": digest}, indent=2) + "\n")
    return digest


def reuse(directory: str, source: Record) -> str:
    recorded = read_record(directory).get("source")
    if recorded is not None and recorded != source:
        other = json.dumps(recorded, sort_keys=True)
        raise JobError(f"{directory} contains other code ({other}): delete it, or change job.code to that code")
    digest = verify_code(directory)
    say(f"code: {directory} contains the requested code (digest {digest[:12]})")
    return digest


def fetch_code(code: Record) -> str:
    """Create the directory unless it exists; verify it and return its digest."""
    directory, source = os.path.abspath(code["directory"]), source_of(code)
    if os.path.lexists(directory):
        return reuse(directory, source)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    draft = f"{directory}.part-{uuid.uuid4().hex[:8]}"
    os.mkdir(draft)
    try:
        made = make(source, draft)
        # If another task was faster, its directory stays and is verified below.
        with contextlib.suppress(OSError):
            os.rename(draft, directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    if not os.path.lexists(directory):
        raise JobError(f"cannot rename {draft} to {directory}: a bucket needs the mount option rename-dir-limit")
    digest = reuse(directory, source)
    if digest != made:
        raise JobError(f"another task created {directory} at the same time with other content: run this task again")
    return digest
