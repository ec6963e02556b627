"""Rules over what a job asks of its cluster, whatever its framework: the charts refuse the same, without the line."""

from __future__ import annotations

from postrender.interpolation import UnknownError
from postrender.rules.values import Book, Said, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from postrender.effective import Effective

_book = Book("job", "", "charts/grpo-job/templates/")
RULES = _book.rules
_PAID = "the chart refuses to render it: an install fails, and a review pipeline too"


@_book.rule(
    "more-nodes-than-cluster",
    "C11 K1",
    "=job.nodes =ray.workers.replicas",
    title="the job uses no more nodes than the cluster has",
    why=_PAID,
    fix="lower job.nodes, or raise ray.workers.replicas",
    source="_run.tpl at 1.0.0",
)
def _nodes(run: Effective) -> str | None:
    return f"job.nodes is {run.nodes}, and the cluster has {run.have} GPU nodes" if run.nodes > run.have else None


@_book.rule(
    "no-gpu-node",
    "R27",
    "=ray.workers.replicas",
    title="the cluster has a GPU node",
    why=_PAID,
    fix="set ray.workers.replicas to 1 or more, or ray.head.gpus.enabled to true",
    source="_head.tpl at 1.0.0",
)
def _gpus(run: Effective) -> str | None:
    return "the cluster has no GPU node" if run.have < 1 else None


@_book.rule(
    "derived-key-differs",
    "R27",
    "",
    title="what the chart derives is not written differently",
    why=_PAID,
    fix="remove the key, and change the value that it follows from",
    source="_config.tpl at 1.0.0",
)
def _derived(run: Effective) -> Iterator[Said]:
    for path, value in _leaves(run.derived):
        try:
            given = run.given_at(path)
        except (KeyError, UnknownError):
            continue
        if given != value:
            yield Said(f"{path} is {shown(given)}, and the chart derives {shown(value)}", keys=[path])


def _leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, dict) and value:
            yield from _leaves(value, here)
        else:
            yield here, value
