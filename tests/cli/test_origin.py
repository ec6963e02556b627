"""A finding about a rendered object stands at the line of the values that it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from grpo.check.trace import Origins
from grpo.cli import main as cli
from grpo.helm.engines import Engine
from grpo.helm.stack import Stack
from tests.conftest import ROOT, SITE

STACK = [ROOT / "values/accelerators/b200.yaml", ROOT / "values/recipes/gemma3-27b-gsm8k.yaml", SITE]
CLUSTER = ("RayCluster", "gemma-ray")
WORKER = ("spec", "workerGroupSpecs", 0)


def check(file: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the findings of `grpo lint` for the stack and one more file."""
    words = [word for each in [*STACK, file] for word in ("-f", str(each))]
    assert cli.main(["lint", *words, "--format", "json"]) in (0, 1)
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return found


@pytest.mark.full
@pytest.mark.parametrize(
    ("more", "rule", "line"),
    [
        ("ray:\n  head:\n    memory: 4Gi\n", "ray/small-head", 3),
        (
            "ray:\n  workers:\n    initContainers:\n      warm:\n        image: a:1\n        env:\n"
            "          - name: A\n          - name: A\n",
            "pods/duplicate-merge-key",
            8,
        ),
    ],
)
def test_a_finding_is_placed_at_the_values_that_cause_it(
    more: str, rule: str, line: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "more.yaml"
    file.write_text(more)
    (finding,) = [each for each in check(file, capsys) if each["rule"] == rule]
    assert (finding["file"], finding["line"]) == (str(file), line)


# A place that nothing moves is looked for with every value.
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.full
def test_each_rendered_field_is_traced_to_the_value_that_changes_it(count: int, helm: Engine, tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("ray:\n  workers:\n    replicas: 3\n  head:\n    cpu: '48'\n")
    stack = Stack.load([str(each) for each in [*STACK, file]])
    places = [
        (CLUSTER, (*WORKER, "replicas")),
        (CLUSTER, ("spec", "headGroupSpec", "template", "spec", "containers", 0, "resources", "limits", "cpu")),
        (CLUSTER, ("kind",)),
        (("Pod", "none"), ("spec",)),
    ]
    told: list[tuple[int, int]] = []

    def render(change: Mapping[str, Any]) -> str:
        return stack.render(helm, "raycluster", change=change).manifest

    found = Origins(stack.values, render).of(places[:count], lambda *now: told.append(now))
    assert {place: (at.file, at.line, path) for place, (at, path) in found.items()} == {
        places[0]: (str(file), 3, "ray.workers.replicas"),
        places[1]: (str(file), 5, "ray.head.cpu"),
    }
    assert told[-1][0] == told[-1][1] > 100
