"""No recipe that NeMo RL's own CI runs is refused; GRPO_NEMO_RL_SOURCES names a folder with the source trees."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from grpo.plan import planner
from grpo.plan.phase import FITS, NOT_MODELLED, TIGHT
from grpo.values.config import RunConfig
from tests.recall import shipped
from tests.recall.mutations import VERSIONS
from tests.recipes.test_sources import sources

# The number on the box of the GPUs that the lists are for, by the GPUs of a node.
MEMORY = {8: 80, 4: 186}
# What comes out, so that a change of a formula is seen.
FOUND = {
    "v0.4.0": {FITS: 18, TIGHT: 1, NOT_MODELLED: 3},
    "v0.5.0": {FITS: 33, TIGHT: 1, NOT_MODELLED: 11},
    "v0.6.0": {FITS: 39, TIGHT: 1, NOT_MODELLED: 22},
    "v0.7.0": {FITS: 61, TIGHT: 1, NOT_MODELLED: 35},
}


def names(tree: Path) -> set[str]:
    """Return the recipes in the lists of the CI."""
    lists = [file for file in (tree / "tests/test_suites").glob("*.txt") if "disabled" not in file.name]
    lines = [line.strip() for file in lists for line in file.read_text("utf-8").splitlines()]
    return {Path(line).stem for line in lines if line and not line.startswith("#")}


def run(config: dict[str, Any], version: str) -> RunConfig:
    """Return the run of a recipe, on the machines that it names."""
    nodes, gpus = config["cluster"]["num_nodes"], config["cluster"]["gpus_per_node"]
    machine = {"name": "ci", "gpusPerNode": gpus, "gpuMemoryGigabytes": MEMORY.get(gpus, MEMORY[8])}
    job = {"name": "ci", "framework": "nemo-rl", "version": version, "config": dict(shipped._ours(config))}
    return RunConfig({"accelerator": machine, "ray": {"workers": {"replicas": nodes}}, "job": job})


@pytest.mark.recall
@pytest.mark.parametrize("version", VERSIONS["nemo-rl"])
def test_no_recipe_in_the_ci_is_rejected(version: str) -> None:
    tree = sources(version)
    listed = names(tree)
    found = Counter(
        planner.plan(run(config, version)).verdict
        for name, config in shipped.configurations(tree).items()
        if name in listed
    )
    assert dict(found) == FOUND[version]
