"""Find which rank stopped first, from the dumps of NCCL's flight recorder in a folder of evidence.

A dump is a pickle, and unpickling may run any program. Therefore only containers, texts and numbers are built here,
and PyTorch writes nothing else (torch/csrc/distributed/c10d/FlightRecorder.hpp, pickle_str). Each rank has one
dump.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from pathlib import Path
from typing import Any, NamedTuple

RANK = re.compile(r"(?<!\d)(\d+)$")
SHOWN = 8


class PlainUnpickler(pickle.Unpickler):
    """Read a pickle that names no class and no function."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, but only containers, strings and numbers are allowed")


class RankPosition(NamedTuple):
    """A rank's position in a group of ranks: the last collective that it began, and the first that it waits in."""

    rank: int
    last: tuple[int, str]
    waits: tuple[int, str] | None


def read(data: bytes) -> dict[str, Any]:
    """Return a dump; raise ValueError if the data is not a dump."""
    try:
        # Safe for untrusted data: this class builds only containers, strings and numbers.
        found = PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # Whatever the bytes make of the reader: an IndexError, a KeyError, a MemoryError.
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("entries"), list):
        raise ValueError("it has no entries")
    return found


def places(dump: dict[str, Any], rank: int) -> dict[str, RankPosition]:
    """Return a rank's positions by group, ignoring point-to-point transfers, which have no order in a group."""
    begun: dict[str, list[tuple[int, str]]] = {}
    open_: dict[str, list[tuple[int, str]]] = {}
    for entry in dump["entries"]:
        if not isinstance(entry, dict) or entry.get("is_p2p"):
            continue
        number, group = entry.get("collective_seq_id", entry.get("seq_id")), entry.get("process_group", "?")
        if isinstance(number, int):
            name = " ".join(map(str, group)) if isinstance(group, list | tuple) else str(group)
            what = (number, str(entry.get("profiling_name", "a collective")).partition(":")[2] or "a collective")
            begun.setdefault(name, []).append(what)
            if not entry.get("retired") and entry.get("state") != "completed":
                open_.setdefault(name, []).append(what)
    return {name: RankPosition(rank, max(all_), min(open_.get(name, ()), default=None)) for name, all_ in begun.items()}


def members(dump: dict[str, Any], group: str) -> set[int]:
    """Return a group's ranks, if the dump names them."""
    for about in (dump.get("pg_config") or {}).values():
        if isinstance(about, dict) and str(about.get("name")) == group.partition(" ")[0]:
            try:
                return {int(rank) for rank in json.loads(str(about.get("ranks")))}
            except (TypeError, ValueError):
                return set()
    return set()


def some(ranks: set[int]) -> str:
    listed = sorted(ranks)
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return f"{'rank' if len(listed) == 1 else 'ranks'} {', '.join(map(str, listed[:SHOWN]))}{more}"


def verdict(group: str, at: list[RankPosition], every: set[int]) -> str:
    """Describe which ranks of a group are behind the others, and where the others wait; empty if no rank is waiting."""
    waiting = [each for each in at if each.waits]
    if not waiting:
        return ""
    silent = every - {each.rank for each in at}
    number, name = min(each.waits for each in waiting if each.waits)
    least = min(at, key=lambda each: each.last)
    first = {each.rank for each in at if each.last == least.last}
    others = some({each.rank for each in waiting} - first)
    done = {each.rank for each in at} - {each.rank for each in waiting}
    if least.last[0] < number:
        said = f"{some(first)} stopped first, after {least.last[1]} {least.last[0]}; {others} waited in {name} {number}"
    else:
        said = f"{some({each.rank for each in waiting})} waited in {name} {number}"
        said += f", which {some(done)} had completed" if done else ""
    return f"group {group}: {said}" + (f"; no dump of {some(silent)}" if silent else "")


def by_world(found: list[tuple[str, RankPosition]]) -> dict[str, list[RankPosition]]:
    """Return a group's ranks by world: if a rank occurs twice, there are several programs, each in its own pod."""
    ranks = [at.rank for _, at in found]
    apart = len(set(ranks)) < len(ranks)
    worlds: dict[str, list[RankPosition]] = {}
    for pod, at in found:
        worlds.setdefault(f" of {pod}" if apart else "", []).append(at)
    return worlds


def summary(folder: Path) -> str:
    """Return a line for each group of ranks that is waiting, and one for each dump that could not be read."""
    groups: dict[tuple[str, frozenset[int]], list[tuple[str, RankPosition]]] = {}
    lines, unread = [], []
    for path in sorted(folder.glob("*/nccl/*")):
        pod = path.parent.parent.name
        try:
            rank = RANK.search(path.name)
            if rank is None:
                raise ValueError("its name ends with no rank")
            dump = read(path.read_bytes())
        except (OSError, ValueError) as error:
            unread.append(f"{pod}/{path.name} was not read: {error}")
            continue
        for group, at in places(dump, int(rank[1])).items():
            # Programs of different sizes are different worlds: the policy and each engine that generates.
            groups.setdefault((group, frozenset(members(dump, group))), []).append((pod, at))
    for (group, every), found in groups.items():
        lines += [verdict(f"{group}{world}", at, set(every)) for world, at in by_world(found).items()]
    return "".join(f"flight recorder: {line}\n" for line in (*filter(None, lines), *unread))
