"""What shells do to a RayJob's entrypoint: the submitter's shell in two modes, then Ray's own.

In K8sJobMode and SidecarMode the operator pastes `ray job submit … -- ENTRYPOINT` unescaped into a bash command.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import Job, each_job
from postrender.finding import ERROR, WARNING
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.ray.rayspec import Found

_COMMAND: Final = "kuberay/ray-operator/controllers/ray/common/job.go at v1.6.2"
_SPLITS: Final = {"\n": "line break", ";": ";", "&": "&", "|": "|", "(": "(", ")": ")"}
_EXPANDS: Final = {"$": "$", "`": "backtick", **dict(zip("<>*?~", "<>*?~", strict=True))}
_EXPANDED: Final = re.compile(r"[$`]")
_BRACES: Final = re.compile(r"\{(?=[^\s{}]*?(?:,|\.\.))\S*\}")
_PIPEFAIL: Final = re.compile(r"(?:^|[;&\n])[ \t]*set[ \t]+(?:-\w+[ \t]+)*[-+]\w*o[ \t]+pipefail\b")


def _open(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the characters outside single quotes: position, character, and whether it is in double quotes."""
    quote = ""
    escaped = False
    for at, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            if char == quote:
                quote = ""
            elif quote == '"':
                yield at, char, True
        elif char in "'\"":
            quote = char
        else:
            yield at, char, False
    if quote or escaped:
        yield len(text), "", False


def _taken_apart(text: str) -> str:
    """Describe the first character at which a shell ends the command or cannot parse it."""
    for at, char, in_quotes in _open(text):
        if not char:
            return "an open quote or backslash at its end"
        if char in _SPLITS and not in_quotes:
            return f"an unquoted {_SPLITS[char]}{_line(text, at)}"
        if char == "#" and not in_quotes and (not at or text[at - 1] in " \t"):
            return f"an unquoted #{_line(text, at)}"
    return ""


def _replaced(text: str) -> str:
    """Describe the first expansion that a shell performs; some are performed even in double quotes."""
    for at, char, in_quotes in _open(text):
        if char in ("$", "`") or (char in _EXPANDS and not in_quotes):
            return f"{_EXPANDS[char]}{_line(text, at)}"
        if char == "{" and not in_quotes and _BRACES.match(text, at):
            return f"braces{_line(text, at)}"
    return ""


def _line(text: str, at: int) -> str:
    return f" in line {text.count(chr(10), 0, at) + 1}"


def _entrypoint(job: Job) -> str:
    return str(job.spec.get("entrypoint") or "").strip()


def _split(job: Job) -> Found:
    found = _taken_apart(_entrypoint(job)) if job.pasted else ""
    if found:
        yield ("spec", "entrypoint"), f"the entrypoint has {found}, and submissionMode is {job.mode}"


def _expanded(job: Job) -> Found:
    found = _replaced(_entrypoint(job)) if job.pasted else ""
    if found:
        what = f"the submitter's shell interprets {found} of the entrypoint, and submissionMode is {job.mode}"
        yield ("spec", "entrypoint"), what


def _environment(job: Job) -> Found:
    text = job.spec.get("runtimeEnvYAML")
    if job.pasted and isinstance(text, str):
        found = _EXPANDED.search(text)
        if found:
            what = (
                f"the submitter's shell interprets {_EXPANDS[found[0]]}{_line(text, found.start())} of runtimeEnvYAML"
            )
            yield ("spec", "runtimeEnvYAML"), what


def _for_bash(job: Job) -> Found:
    text = _entrypoint(job)
    outside = {at for at, _, in_quotes in _open(text) if not in_quotes}
    if any(found.end() - 1 in outside for found in _PIPEFAIL.finditer(text)):
        yield ("spec", "entrypoint"), "the entrypoint sets pipefail"


RULES = (
    Problem(
        "ray/entrypoint-split",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.SILENT,
        title="the submitter's shell does not pass on the entrypoint as one command",
        why="only the first command becomes the job and may succeed; the rest runs in the submitter, without GPUs",
        fix="write submissionMode: HTTPMode, or put all of it into bash -c '…'",
        source=_COMMAND,
        check=each_job(_split),
    ),
    Problem(
        "ray/entrypoint-expanded",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="the submitter's shell expands a part of the entrypoint",
        why="variables, commands and files are those of the submitter's container, not those of the head",
        fix="write submissionMode: HTTPMode, or put it into single quotes",
        source=_COMMAND,
        check=each_job(_expanded),
    ),
    Problem(
        "ray/runtime-env-expanded",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="the submitter's shell expands a part of the runtime environment",
        why="the operator pastes it in double quotes, so variables and commands are those of the submitter",
        fix="write submissionMode: HTTPMode, or remove $ and backticks",
        source=_COMMAND,
        check=each_job(_environment),
    ),
    Problem(
        "ray/entrypoint-for-bash",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.AT_START,
        title="the entrypoint needs bash, but Ray runs it with /bin/sh",
        why="if /bin/sh is dash, as in Debian's and Ubuntu's images, the job fails at this line",
        fix="put the whole entrypoint into exec bash -c '…'",
        source="https://docs.ray.io/en/latest/cluster/running-applications/job-submission/quickstart.html",
        check=each_job(_for_bash),
    ),
)
