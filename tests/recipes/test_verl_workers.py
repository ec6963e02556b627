"""What verl's workers refuse when they are built, our rules find, and they find nothing else of the kind.

validate_config is not all: a worker builds its own section later, and asserts what it needs.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grpo.problems import registry
from grpo.problems.judge_run import judge_run
from grpo.values.config import RunConfig
from postrender.types import Json
from postrender.values import merge
from tests.conftest import SITE
from tests.recipes.test_verl import DEFAULT, OTHERS, TRAINED, stack
from tests.recipes.test_verl_real import sources

WORKERS = Path(__file__).with_name("verl_workers.py")
RULES = [rule for rule in registry.rules("values") if rule.id.startswith("verl/")]
ACTOR, REF, ROLLOUT = (f"actor_rollout_ref.{role}" for role in ("actor", "ref", "rollout"))
# None: the key is as verl has it. All sizes divide the batches, so nothing but their presence is wrong.
UNSET = "unset"
CASES = 30
SETTINGS: dict[str, tuple[Json, ...]] = {
    f"{ACTOR}.use_kl_loss": (True, False),
    f"{ACTOR}.use_dynamic_bsz": (True, False),
    f"{ACTOR}.ppo_micro_batch_size_per_gpu": (16, None),
    f"{ROLLOUT}.log_prob_use_dynamic_bsz": (UNSET, True, False),
    f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu": (16, None),
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu": (UNSET, None),
    f"{REF}.log_prob_use_dynamic_bsz": (UNSET, True, False),
    f"{REF}.log_prob_micro_batch_size_per_gpu": (16, None),
    f"{REF}.log_prob_micro_batch_size": (None, 256),
}
# Beside batches: what the classes of the sections refuse, with what they take.
OTHER_SETTINGS: tuple[dict[str, Json], ...] = (
    {},
    {f"{ACTOR}.loss_agg_mode": "token"},
    {f"{ACTOR}.router_replay.mode": "R4"},
    {f"{ACTOR}.router_replay.mode": "R2"},
    {f"{ROLLOUT}.moe_tensor_parallel_size": 2},
    {f"{ROLLOUT}.moe_tensor_parallel_size": 1},
    {f"{ROLLOUT}.pipeline_model_parallel_size": 2},
    {f"{ROLLOUT}.expert_parallel_size": 2},
    {f"{ROLLOUT}.disaggregation.enabled": True},
    {f"{ROLLOUT}.disaggregation.enabled": True, f"{ROLLOUT}.disaggregation.transfer_backend": "tcp"},
    {f"{ROLLOUT}.disaggregation.transfer_backend": "tcp"},
    {f"{ROLLOUT}.disaggregation.enabled": True, f"{ROLLOUT}.disaggregation.prefill_replicas": 0},
    {f"{ROLLOUT}.disaggregation.enabled": True, f"{ROLLOUT}.disaggregation.bootstrap_port": 70000},
    {f"{ROLLOUT}.trace.max_samples_per_step_per_worker": -1},
    *(
        {"algorithm.adv_estimator": "gae", "critic.model.path": "x/y", **more}
        for more in (
            {},
            {"critic.ppo_micro_batch_size_per_gpu": 16},
            {"critic.ppo_micro_batch_size": 256},
            {"critic.ppo_micro_batch_size": 256, "critic.ppo_micro_batch_size_per_gpu": 16},
            {"critic.use_dynamic_bsz": True},
            {"critic.ppo_micro_batch_size_per_gpu": 16, "critic.ppo_mini_batch_size": 512},
            {"critic.ppo_micro_batch_size": 48},
            {f"{ACTOR}.use_dynamic_bsz": True},
            {f"{ACTOR}.use_dynamic_bsz": True, "critic.use_dynamic_bsz": False},
        )
    ),
)


def grid(version: str) -> list[dict[str, Json]]:
    """Return a part of all combinations of two settings over each of four usual ones: the same for a version."""
    usual: dict[str, Json] = {path: values[0] for path, values in SETTINGS.items()}
    bases = [
        {**usual, f"{ACTOR}.use_dynamic_bsz": dynamic, f"{ACTOR}.use_kl_loss": reference}
        for dynamic in (True, False)
        for reference in (True, False)
    ]
    found = [
        {**base, one: value, two: other}
        for base in bases
        for one, two in itertools.combinations(SETTINGS, 2)
        for value in SETTINGS[one]
        for other in SETTINGS[two]
    ]
    different = list({json.dumps(each): each for each in found}.values())
    return random.Random(version).sample(different, CASES)  # noqa: S311 - chooses cases


def tree(settings: dict[str, Json]) -> dict[str, Any]:
    edits: dict[str, Any] = {}
    for path, value in settings.items():
        if value != UNSET:
            edits = merge.overlay(edits, merge.nested(path.split("."), value))
    return edits


def known_to(version: str, settings: dict[str, Json]) -> bool:
    """Say whether a version has all keys."""
    section = RunConfig({"job": {"framework": "verl", "version": version}})
    return all(section.has(path) for path in settings)


def asked(version: str, configurations: list[dict[str, Any]], folder: Path) -> list[str | None]:
    (folder / "edits.json").write_text(json.dumps(configurations), "utf-8")
    command = [sys.executable, str(WORKERS), str(sources(version)), str(folder / "edits.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answers: list[str | None] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.full
@pytest.mark.parametrize("version", [DEFAULT, *OTHERS])
@pytest.mark.parametrize("kind", ["batches", "others"])
def test_settings_that_the_workers_reject_are_found(kind: str, version: str, tmp_path: Path) -> None:
    merged = merge.load([*map(str, stack(TRAINED, version)), str(SITE)])
    values = merge.overlay(merge.defaults(), merged.as_helm_merges())
    base = RunConfig(values)
    cases = grid(version) if kind == "batches" else [each for each in OTHER_SETTINGS if known_to(version, each)]
    # The oracle gets what the recipe gives, without references to variables and paths that only a job has.
    given = {**base.given, "data": {**base.given["data"], "train_files": "a", "val_files": "b"}}
    given["trainer"] = {**given["trainer"], "nnodes": base.nodes, "n_gpus_per_node": base.gpus}
    answers = asked(version, [merge.overlay(given, tree(each)) for each in cases], tmp_path)
    assert None in answers
    assert any(answers)
    wrong = []
    for settings, answer in zip(cases, answers, strict=True):
        run = RunConfig(merge.overlay(values, {"job": {"config": tree(settings), "configFor": None}}))
        found = [f"{rule.id}: {each.what}" for rule, each in judge_run(run, RULES) if rule.severity == "error"]
        # The older workers look at some sizes in the first step only.
        surplus = bool(found) and not answer and run.since("0.8.0")
        if (answer and not found) or surplus:
            wrong.append({"settings": settings, "verl": answer, "found": found})
    assert not wrong, "\n".join(map(str, [len(wrong), *wrong[:40]]))
