"""Commands with which a Ray pod starts Ray itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.ray.rayspec import Group, each_group
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from grpo.problems.ray.rayspec import Found

_POD: Final = "kuberay/ray-operator/controllers/ray/common/pod.go at v1.6.2"
_OVERWRITE: Final = "ray.io/overwrite-container-cmd"
_BLANK: Final = re.compile(r"\s")
_LIMIT: Final = re.compile(r"\bulimit\s+-\w*n")
_STARTS: Final = re.compile(r"KUBERAY_GEN_RAY_START_CMD|\bray start\b")


def _overwrites(group: Group) -> bool:
    of_template = mapping(mapping(group.template.get("metadata")).get("annotations"))
    return any(str(each.get(_OVERWRITE, "")).lower() == "true" for each in (of_template, group.cluster.annotations))


def _one_word(group: Group) -> Found:
    command = sequence(group.ray.get("command"))
    if _overwrites(group) and command and _BLANK.search(str(command[0])):
        yield (*group.ray_path, "command"), f"{group.title} has a command with blanks in its first word"


def _files(group: Group) -> Found:
    words = [str(word) for key in ("command", "args") for word in sequence(group.ray.get(key))]
    text = " ".join(words)
    if _overwrites(group) and _STARTS.search(text) and not _LIMIT.search(text):
        key = "args" if group.ray.get("args") else "command"
        yield (*group.ray_path, key), f"{group.title} starts Ray without ulimit -n"


RULES = (
    Problem(
        "ray/command-is-no-program",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_START,
        title="the first word of a command is a shell line, not a program",
        why="with ray.io/overwrite-container-cmd no shell reads it, and there is no program of this name",
        fix="write command: [/bin/bash, -c] and the line into args",
        source=_POD,
        check=each_group(_one_word),
    ),
    Problem(
        "ray/few-open-files",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.LATER,
        title="a command starts Ray, but does not raise the limit of open files",
        why="the operator's start command raises it to 65536; with a lower limit Ray's processes lose connections",
        fix="begin the command with: ulimit -n 65536",
        source=_POD,
        check=each_group(_files),
    ),
)
