"""A container must ask for the same devices in requests and limits, and for no more than its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem
from postrender.values.quantity import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.types import Json

_PAGES: Final = "hugepages-"


def check(manifests: Manifests) -> Iterator[Finding]:
    """Compare requests with limits in every container, also in pods that are not wired."""
    for item, path, container in manifests.containers():
        for name, what in _of_container(container):
            found = f"container {container.get('name', '')} requests {what}"
            yield item.finding((*path, "resources", "requests", name), found)


def _of_container(container: dict[str, Any]) -> Iterator[tuple[str, str]]:
    resources = mapping(container.get("resources"))
    limits = mapping(resources.get("limits"))
    for name, amount in mapping(resources.get("requests")).items():
        is_whole = ("/" in name and "kubernetes.io/" not in name) or name.startswith(_PAGES)
        most, least = _amount(limits.get(name, "")), _amount(amount)
        if is_whole and name not in limits:
            yield name, f"{name}: {amount}, and limits do not have it"
        elif most is None or least is None:
            continue
        # A limit is rounded up to whole millicores: -(-x // 1) does that without loading `math` for it.
        elif least > (-(-most * 1000 // 1) / 1000 if name == "cpu" else most) or (is_whole and least < most):
            asked, limit = ("null" if each is None else each for each in (amount, limits[name]))
            yield name, f"{name}: {asked}, and its limit is {limit}"


def _amount(value: Json) -> float | None:
    # What is null is there, and none.
    return 0.0 if value is None else quantity(value)


RULE = Problem(
    "pods/requests-above-limits",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_ADMISSION,
    title="requests of a container exceed its limits, or differ from them for devices or huge pages",
    why="the API server refuses the object; of a Ray cluster, its pods, when the nodes are there",
    fix="write the same devices and huge pages in limits and requests, or only in limits",
    source="kubernetes/pkg/apis/core/validation/validation.go at v1.36.3",
    check=check,
)
