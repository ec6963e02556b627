"""Commands with which a pod of Ray starts Ray itself."""

from __future__ import annotations

from postrender.patterns import Pattern
from postrender.pods import mapping, sequence
from postrender.rules import ERROR, WARNING, Rule
from postrender.rules.rayspec import Group, each_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from postrender.rules.rayspec import Found

_POD: Final = "kuberay/ray-operator/controllers/ray/common/pod.go at v1.6.2"
_OVERWRITE: Final = "ray.io/overwrite-container-cmd"
_BLANK: Final = Pattern(r"\s")
_LIMIT: Final = Pattern(r"\bulimit\s+-\w*n")
_STARTS: Final = Pattern(r"KUBERAY_GEN_RAY_START_CMD|\bray start\b")


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
    Rule(
        "ray/command-is-no-program",
        severity=ERROR,
        title="a command of one word is a whole line for a shell",
        why="with ray.io/overwrite-container-cmd no shell reads it: there is no program of this name",
        fix="write command: [/bin/bash, -c] and the line into args",
        source=_POD,
        check=each_group(_one_word),
    ),
    Rule(
        "ray/few-open-files",
        severity=WARNING,
        title="a pod starts Ray with the node's limit of open files",
        why="the operator's own start raises it to 65536; with fewer Ray's processes lose their connections",
        fix="begin the command with: ulimit -n 65536",
        source=_POD,
        check=each_group(_files),
    ),
)
