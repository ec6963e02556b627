"""Names and values that NCCL does not know, and values that switch off what makes it fast."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from grpo.problems.network.nccl_names import NAMES
from grpo.problems.pods.podspec import Container, PodView, each_container, each_pod
from postrender.finding import ERROR, WARNING
from postrender.manifests.nccl import is_on
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.pods.podspec import Found
    from postrender.manifests.pods import Path

_PREFIX: Final = "NCCL_"
# A slip leaves more alike than this; a plugin has variables of its own.
_SLIP: Final = 0.9
# Lists that NCCL refuses for one word that it does not know, in any case (src/graph/tuning.cc, parseList).
_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "NCCL_ALGO": ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"),
    "NCCL_PROTO": ("LL", "LL128", "Simple"),
}
# Words of which it ignores others (src/graph/paths.cc, ncclGetLevel; src/debug.cc).
_LEVELS: Final = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "NCCL_P2P_LEVEL": _LEVELS,
    "NCCL_NET_GDR_LEVEL": _LEVELS,
    "NCCL_DEBUG": ("VERSION", "WARN", "INFO", "ABORT", "TRACE"),
}
_OFF: Final[Mapping[str, str]] = {
    "NCCL_P2P_DISABLE": "the GPUs of a node use no NVLink",
    "NCCL_P2P_LEVEL": "the GPUs of a node use no NVLink",
    "NCCL_NET_GDR_LEVEL": "what goes to other nodes is copied by way of the CPU's memory",
}


def _unknown(pod: PodView, container: Container) -> Found:
    for path, name, *_ in container.variables():
        if name.startswith(_PREFIX) and name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=_SLIP)
            if near and _digits(near[0]) == _digits(name):
                yield path, f"container {container.name} sets {name}, did you mean {near[0]}?"


def _digits(name: str) -> str:
    return "".join(filter(str.isdecimal, name))


def _refused(pod: PodView, container: Container) -> Found:
    for path, name, value in _given(container):
        known = _LISTS.get(name, ())
        for word in _words(value) if known else ():
            if word.lower() not in map(str.lower, known):
                yield path, f"{name} of container {container.name} is {value}, and {word} is none of {', '.join(known)}"


def _words(value: str) -> list[str]:
    """Return the words of `ring,tree;allreduce:^ring`."""
    lists = [each.rpartition(":")[2].removeprefix("^") for each in value.split(";")]
    return [word for each in lists for word in each.split(",") if word]


def _ignored(pod: PodView, container: Container) -> Found:
    for path, name, value in _given(container):
        known = _WORDS.get(name, ())
        # Older levels are numbers; the words of levels are read in capitals.
        given = value.upper() if name == "NCCL_DEBUG" else value
        if known and given not in known and not value[0].isdecimal() and given != "NONE":
            yield path, f"{name} of container {container.name} is {value}, and NCCL knows {', '.join(known)}"


def _switched_off(pod: PodView) -> Found:
    main, wiring = pod.main(), pod.manifests.wiring if pod.wired else None
    machines = pod.machines()
    # Machines with RDMA have NVLink, too.
    has_both = wiring.mode != "none" if wiring else bool(machines) and all(each.modes for each in machines)
    for path, name, value in _given(main) if main and has_both else ():
        if name in _OFF and (is_on(value) if name.endswith("_DISABLE") else value in ("LOC", "0")):
            yield path, f"{name} of container {main.name if main else ''} is {value}: {_OFF[name]}"


def _given(container: Container) -> Iterator[tuple[Path, str, str]]:
    """Yield path, name and value of the variables whose values are known."""
    for path, name, value, _ in container.variables():
        if name.startswith(_PREFIX) and value:
            yield path, name, value


RULES = (
    Problem(
        "nccl/unknown-variable",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a variable is called nearly as one of NCCL",
        why="NCCL reads no variable of this name, and says nothing about it",
        fix="write the name that NCCL reads, or remove the variable",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        check=each_container(_unknown),
    ),
    Problem(
        "nccl/impossible-value",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.AT_LOADING,
        title="a list for NCCL has a word that NCCL does not know",
        why="NCCL ends at its start with: Unrecognized element token; older versions ignore the list",
        fix="write words that it knows, as in Ring,Tree or ^LL128, or remove the variable",
        source="NVIDIA/nccl/src/graph/tuning.cc at 5067397c",
        check=each_container(_refused),
    ),
    Problem(
        "nccl/ignored-value",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="a variable has a value that NCCL does not know",
        why="NCCL goes on as if the variable were not set",
        fix="write a word that it knows, or remove the variable",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        check=each_container(_ignored),
    ),
    Problem(
        "nccl/fast-path-off",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.COSTS,
        title="a variable switches off NVLink or GPUDirect RDMA on a machine that has them",
        why="collectives take several times as long; NVIDIA documents these variables for debugging",
        fix="remove the variable, once the fault that it was for is found",
        source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
        check=each_pod(_switched_off),
    ),
)
