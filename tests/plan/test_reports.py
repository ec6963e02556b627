"""Public reports come out on their side: what ran is not refused, and what ran out of memory is not called fitting."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.plan import planner
from grpo.plan.phase import DOES_NOT_FIT, FITS, NOT_MODELLED, VERDICTS
from grpo.values.config import RunConfig
from postrender.values.merge import overlay

REPORTS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("reports.yaml").read_text("utf-8"))
COMPARABLE = [each for each in REPORTS if not each.get("informative")]
MODEL = {"nemo-rl": ("policy", "model_name"), "verl": ("actor_rollout_ref", "model", "path")}
# A profile's number is the one on the box; programs can use 99 % of it.
BOX = 0.99


def run(report: Mapping[str, Any]) -> RunConfig:
    """Return the run of a report."""
    config = report["config"]
    if like := report.get("geometryOf"):
        for key in reversed(MODEL[report["framework"]]):
            like = {key: like}
        config = overlay(config, like)
    return RunConfig(
        {
            "accelerator": {
                "name": "reported",
                "gpusPerNode": report["gpus"],
                "gpuMemoryGigabytes": report["gpuMemoryGiB"] / BOX,
            },
            "ray": {"workers": {"replicas": report["nodes"]}},
            "job": {"name": "reported", **{key: report[key] for key in ("framework", "version")}, "config": config},
        }
    )


def verdict(report: Mapping[str, Any]) -> str:
    """Return the verdict of the phases that a report is about."""
    plan = planner.plan(run(report))
    if plan.setup is None:
        return NOT_MODELLED
    start = "train" if report.get("phases") else ""
    return max((each.verdict for each in plan.phases if each.phase.name.startswith(start)), key=VERDICTS.index)


def test_enough_reports_are_modelled() -> None:
    modelled = [each["outcome"] for each in COMPARABLE if verdict(each) != NOT_MODELLED]
    assert modelled.count("oom") >= 20
    assert modelled.count("runs") >= 30


@pytest.mark.parametrize("report", COMPARABLE, ids=lambda report: str(report["name"]))
def test_a_public_reports_outcome_is_predicted_unless_marked_as_missed(report: Mapping[str, Any]) -> None:
    """What is missed is named in the file, so that nobody counts it as right."""
    refuted = {"oom": FITS, "runs": DOES_NOT_FIT}[report["outcome"]]
    assert (verdict(report) == refuted) is ("missed" in report)
