"""A container must start with bash in order to read the NCCL plugin's script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import WARNING, Finding
from postrender.gate import environment
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import gpus, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.gate.manifests import Item
    from postrender.manifests.pods import Pod

_VARIABLE: Final = "BASH_ENV"
_SCRIPT: Final = "set_nccl_env.sh"
# Programs that are no bash, and start none by themselves. No shell that is called sh reads BASH_ENV, bash neither.
_OTHERS: Final = frozenset(
    {"sh", "dash", "ash", "python", "python3", "torchrun", "accelerate", "deepspeed", "vllm", "uv", "mpirun"}
)
# A text with one of these may lead to bash: a script says itself who reads it.
_MAY_BE_BASH: Final = ("bash", ".sh")


def check(manifests: Manifests) -> Iterator[Finding]:
    """Find GPU containers whose command is known but does not read the script; KubeRay starts Ray with bash."""
    for item, pod in manifests.pods():
        if not pod.ray:
            for path, what in _unread(manifests, item, pod):
                yield item.finding((*pod.path, "spec", "containers", *path), what)


def _unread(manifests: Manifests, item: Item, pod: Pod) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for position, container in enumerate(pod.containers()):
        words = [str(word) for key in ("command", "args") for word in sequence(container.get(key))]
        found = environment.effective(manifests, item, container, _VARIABLE).get(_VARIABLE)
        file = found.value or "" if found else ""
        if not (gpus(container) and sequence(container.get("command")) and file.endswith(_SCRIPT)):
            continue
        program = words[0].rpartition("/")[2]
        if program in _OTHERS and not any(mark in word for word in words for mark in _MAY_BE_BASH):
            what = f"container {container.get('name')} starts {program}, which does not read {file} ({_VARIABLE})"
            yield (position, "command"), what


RULE = Problem(
    "nccl/script-not-read",
    target=OBJECTS,
    severity=WARNING,
    fails=Fails.COSTS,
    title="the program of a container does not read the NCCL plugin's script",
    why="only bash reads BASH_ENV: without the script NCCL has its net, but not the settings that the plugin needs",
    fix='start it with bash: command: [bash, -c], args: ["exec torchrun …"]; no other change is needed',
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/nccl/test-vms",
    check=check,
)
