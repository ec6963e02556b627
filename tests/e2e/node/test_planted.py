"""Failures that a seed plants into runs in real pods, judged as those on a Ray of processes are.

Those that need the processes of the machine (a clock that jumps, a volume that hangs) are planted there only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import pytest

from conftest import READY_SECONDS, NewStack
from kinds import FROM_INSIDE, Kind
from plant import Plant
from pod_site import PODS, PlantedStack, PodSite
from ray_site import IN_PODS, Site
from verdict import judge, record

FOLDER = IN_PODS
# verl reserves three processors of each node, and our chart refuses pods that have fewer: these machines have two.
KINDS_HERE = [replace(kind, frameworks=("nemo-rl",)) for kind in FROM_INSIDE]
# It has a Ray of processes for them.
KINDS_FOR_CI: list[Kind] = []


@pytest.fixture(scope="module")
def site(new_stack: NewStack) -> Iterator[PodSite]:
    """A cluster whose pods are ready, and are the same ones in the end."""
    stack = new_stack("h200", "helm4")
    parts = {key: getattr(stack, key) for key in ("repository", "work", "kube", "helm", "namespace")}
    planted = PlantedStack(**parts, accelerator="h200", site=PODS)
    try:
        planted.install("network", "storage", "raycluster")
        planted.until_ready(READY_SECONDS)
        before = identities(planted)
        yield PodSite(planted)
        assert identities(planted) == before, "pods were replaced, or their containers started again"
    finally:
        planted.uninstall_all()


def identities(stack: PlantedStack) -> list[tuple[str, int]]:
    """Return the identity of each pod, and how often its container was started again."""
    return [(pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]) for pod in stack.pods()]


def test_a_planted_failure_loses_no_more_than_necessary(site: PodSite, kind: Kind, seed: int) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{kind.name}-{seed}.json"
    file.unlink(missing_ok=True)
    # No kind in pods needs what a site of processes has beside this one.
    plant = Plant(cast(Site, site), kind, seed)
    try:
        result = plant.grow()
    finally:
        site.remove(plant.run)
    (FOLDER / f"{kind.name}-{seed}.all").write_text(json.dumps(record(result), indent=1))
    found = judge(result)
    if kind.is_whole and kind.stack:
        # The head's pod and those of both workers.
        of_pods = {name.partition("/")[0] for name in result.evidence[0] if name.endswith("nvidia-smi.txt")}
        assert len(of_pods) == 3, of_pods
    file.write_text(json.dumps(found))
