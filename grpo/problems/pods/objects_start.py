"""Unpinned downloads when a pod starts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.pods.podspec import Container, PodView, each_container, objects
from postrender.finding import ERROR, WARNING, Finding
from postrender.gate.manifests import Manifests, joined
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found

# What precedes a command: the start of the text, or an operator after which a shell begins another command.
_BEGIN: Final = r"(?:^|[;&|(\n]|\bsudo|\bthen|\bdo)[ \t]*"
_FETCHES: Final = (
    (re.compile(_BEGIN + r"git[ \t]+(?:-C[ \t]+\S+[ \t]+)?pull\b"), "git pull"),
    (
        re.compile(_BEGIN + r"git[ \t]+(?:-C[ \t]+\S+[ \t]+)?(?:checkout|switch)[ \t]+(?:main|master)\b"),
        "the checkout of a branch",
    ),
    (re.compile(_BEGIN + r"(?:apt-get|apt)[ \t]+(?:-\S+[ \t]+){0,20}(?:update|install)\b"), "apt-get"),
    (re.compile(r"/refs/heads/"), "a file of a branch (refs/heads)"),
)
_PIP: Final = re.compile(_BEGIN + r"(?:uv[ \t]+)?(?:python\d?[ \t]+-m[ \t]+)?pip\d?[ \t]+install\b((?:[^\n;&|]|\\\n)*)")
# Options of pip that take a value.
_WITH_VALUE: Final = ("-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url")
_PLACES: Final = ("-t", "--target", "--prefix", "--root", "-e", "--editable", "--find-links", "-f", "--python")
_PACKAGE: Final = re.compile(r"[A-Za-z0-9]")
_PINNED: Final = re.compile(r"===?\s*[0-9a-z]|@")
_ELSEWHERE: Final = re.compile(r"(?:^|\s)(?:-t|--target|--prefix|--root)[= \t]|PYTHONUSERBASE")


def unpinned(requirement: str) -> bool:
    """Return whether a pip requirement is not pinned; requirement files and URLs are not checked."""
    text = requirement.strip("'\"")
    if not _PACKAGE.match(text) or "/" in text or text.endswith((".whl", ".txt", ".tar.gz")):
        return False
    return not _PINNED.search(text) and "$" not in text


def _packages(options: str) -> Iterator[str]:
    words = iter(options.replace("\\\n", " ").split())
    for word in words:
        if word in (*_WITH_VALUE, *_PLACES):
            next(words, None)
        elif not word.startswith("-"):
            yield word


def fetched(script: str) -> str:
    """Describe a script's first unpinned download."""
    for fetching, reason in _FETCHES:
        if fetching.search(script):
            return reason
    for match in _PIP.finditer(script):
        names = [word.strip("'\"") for word in _packages(match[1]) if unpinned(word)]
        if names:
            return f"pip install of {', '.join(names)} without a version"
    return ""


def _started(pod: PodView, container: Container) -> Found:
    for path, script in container.scripts():
        reason = fetched(script)
        if reason:
            yield path, f"container {container.name} starts with {reason}"


def _submitted(manifests: Manifests) -> Iterator[Finding]:
    for item, spec in objects(manifests, "RayJob", "RayCronJob"):
        below = ("jobTemplate",) if item.object["kind"] == "RayCronJob" else ()
        entrypoint = (mapping(spec.get("jobTemplate")) if below else spec).get("entrypoint")
        reason = fetched(entrypoint) if isinstance(entrypoint, str) else ""
        if reason:
            yield item.finding(("spec", *below, "entrypoint"), f"the job starts with {reason}")


def _lost(pod: PodView, container: Container) -> Found:
    if not container.init:
        return
    shared = [folder for folder in container.mounts() if folder]
    for path, script in container.scripts():
        match = _PIP.search(script)
        if match and not _ELSEWHERE.search(script) and not any("site-packages" in folder for folder in shared):
            yield path, f"init container {container.name} installs packages into its own file system"
            return


RULES = (
    Problem(
        "pods/installs-at-start",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_START,
        title="a training pod or its job downloads something unpinned when it starts",
        why="every node and every resumed run may get another version, and without egress no pod starts",
        fix="build it into the image, or pin a version or a revision",
        source="https://kubernetes.io/docs/concepts/containers/images/",
        check=joined(each_container(_started, trains=True), _submitted),
    ),
    Problem(
        "pods/install-in-init-container",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_START,
        title="an init container installs packages, but no other container sees them",
        why="each container has its own file system: the packages are gone when the training starts",
        fix="install with --target into a volume that both containers mount, or build the packages into the image",
        source="https://kubernetes.io/docs/concepts/workloads/pods/init-containers/",
        check=each_container(_lost, trains=True),
    ),
)
