"""Odd values at every key that a rule reads break no rule down, and lint ends in findings or an error of ours.

GRPO_FUZZ=20000 says how many files are made up, by hand.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grpo.lint.linter import lint
from grpo.problems import registry
from grpo.problems.judge_run import judge_run
from grpo.problems.topic import whole
from grpo.values import catalogue
from grpo.values.config import RunConfig
from postrender.errors import GrpoError
from postrender.types import Json
from postrender.values import merge
from tests.conftest import SITE, examples
from tests.recipes.rendered import stack

pytestmark = pytest.mark.full

RULES = registry.rules("values")
EXAMPLES = int(os.environ.get("GRPO_FUZZ", "0")) or examples(60)
VERSIONS = catalogue.versions("nemo-rl")
# Packing with DTensor, dynamic batching, generation apart: most branches are taken by one of them.
STACKS = ("llama3.1-8b-math-2n", "gemma3-1b-openmath", "gemma3-27b-gsm8k")
ODD: tuple[Any, ...] = (
    *(None, "", "x", "???", [], [[]], [None], [{}], {}, {"x": {}}, {"_override_": True}, {"_override_": "x"}),
    *(-1, 0, 3, True, False, 1e30, -0.5, "1", "${no.such}", "${oc.env:X}", "${grpo}", "${", "${mul:${policy},2}"),
    # Python reads no number of more than 4300 digits.
    "9" * 5000,
)
# Beside the framework's keys: what else of the values a rule, or the reading of the values, looks at.
OTHERS = (
    *(
        "accelerator",
        "accelerator.name",
        "accelerator.gpusPerNode",
        "accelerator.worker.cpu",
        "checks.ignore",
        "job.task",
    ),
    *(
        "job.config",
        "job.configFor",
        "job.configFor.b200",
        "job.env",
        "job.framework",
        "job.nodes",
        "job.rewards",
        "job",
    ),
    *("job.version", "ray", "ray.env", "ray.head.gpus.enabled", "ray.workers.replicas", "tracking.wandb.enabled"),
    *("accelerator.nvlinkDomainNodes", "job.env.PYTORCH_CUDA_ALLOC_CONF", "job.env.NRL_IGNORE_TP_ACCURACY_CHECK"),
)
# Without them some branches are never reached.
SWITCHES: tuple[dict[str, Json], ...] = (
    {},
    {"policy.dtensor_cfg.enabled": False, "policy.megatron_cfg.enabled": True},
    {"grpo.async_grpo.enabled": True, "grpo.use_dynamic_sampling": True, "loss_fn.force_on_policy_ratio": True},
    {"data.default.env_name": "reward_model", "env.reward_model.enabled": True, "grpo.reward_shaping.enabled": True},
    {"loss_fn.truncated_importance_sampling_type": "icepop", "loss_fn.truncated_importance_sampling_ratio": 2},
)


class Traced(RunConfig):
    """Note which keys of the configuration are asked for."""

    seen: set[str] = set()  # noqa: RUF012 (one for all runs is what is meant)

    def at(self, path: str, default: Json = None) -> Json:
        self.seen.add(path)
        return super().at(path, default)


def nested(path: str, value: Json) -> dict[str, Any]:
    """Return a tree that holds one value."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return dict(value)


def tree_of(recipe: str, version: str) -> dict[str, Any]:
    merged = merge.load([*map(str, stack(recipe, version)), str(SITE)])
    return merge.overlay(merge.defaults(), merged.as_helm_merges())


TREES = {(recipe, version): tree_of(recipe, version) for recipe in STACKS for version in VERSIONS}


def with_switches(tree: dict[str, Any], switches: dict[str, Json]) -> dict[str, Any]:
    for path, value in switches.items():
        tree = merge.overlay(tree, nested(f"job.config.{path}", value))
    return tree


@functools.cache
def keys_of_rules() -> list[str]:
    """Return every key that a rule asks for in some run, and the sections above."""
    for tree in TREES.values():
        for switches in SWITCHES:
            judge_run(Traced(with_switches(tree, switches)), RULES)
    asked = Traced.seen | {whole(key).removeprefix("job.config.") for rule in RULES for key in rule.keys}
    return sorted({path.rsplit(".", cut)[0] for path in asked for cut in range(path.count(".") + 1)})


def broken(tree: dict[str, Any]) -> list[str]:
    return [f"{rule.id}: {said.what}" for rule, said in judge_run(RunConfig(tree), RULES) if "crashed" in said.what]


def test_the_rules_read_many_keys() -> None:
    assert len(keys_of_rules()) > 150
    assert {"policy", "policy.generation.vllm_cfg.tensor_parallel_size", "data.default.env_name"} <= {*keys_of_rules()}


@pytest.mark.parametrize("version", VERSIONS)
def test_an_odd_value_at_any_key_crashes_no_rule(version: str) -> None:
    found = {}
    for number, path in enumerate(keys_of_rules()):
        # A key meets every third value (all with GRPO_FUZZ=1000); which version, stack and switches goes round.
        for turn, value in enumerate(ODD):
            if EXAMPLES < 1000 and (number + turn) % (len(VERSIONS) * 3) != VERSIONS.index(version):
                continue
            recipe, switches = STACKS[(number + turn) % len(STACKS)], SWITCHES[(number * 2 + turn) % len(SWITCHES)]
            tree = with_switches(TREES[recipe, version], {**switches, path: value})
            found.update(dict.fromkeys(broken(tree), (path, value)))
    assert found == {}


PATHS = st.deferred(lambda: st.sampled_from([*OTHERS, *(f"job.config.{key}" for key in keys_of_rules())]))


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    recipe=st.sampled_from(STACKS),
    version=st.sampled_from(VERSIONS),
    odd=st.lists(st.tuples(PATHS, st.sampled_from(ODD)), min_size=1, max_size=4),
)
def test_a_file_of_odd_values_gives_findings_or_one_of_our_errors(
    tmp_path: Path, recipe: str, version: str, odd: list[tuple[str, Json]]
) -> None:
    more: dict[str, Any] = {}
    for path, value in odd:
        more = merge.overlay(more, nested(path, value))
    last = tmp_path / "odd.yaml"
    last.write_text(yaml.safe_dump(more), encoding="utf-8")
    try:
        found = lint([*map(str, stack(recipe, version)), str(SITE), str(last)])
    except GrpoError:
        return
    assert [each.what for each in found if "crashed" in each.what] == [], odd
