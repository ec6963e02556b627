"""What a job expects of its RayCluster: the facts that the charts write on the head and into the job."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.check.objects import check
from grpo.helm.engines import Rendered
from grpo.manifests.loader import read
from grpo.values import job_cluster as cluster
from postrender.finding import Finding
from postrender.values import merge
from tests.conftest import RECIPES, stack_files, thin

RenderText = Callable[..., Rendered]
VARIANTS: dict[str, dict[str, Any]] = {
    "head with GPUs": {"ray": {"head": {"gpus": {"enabled": True}}}},
    "variables": {
        "ray": {"env": {"A": {"value": "1"}, "B": {"secret": {"name": "s", "key": "k"}}}, "head": {"env": {"A": None}}},
        "tracking": {"wandb": {"enabled": True}},
    },
    "volumes": {"storage": {"scratch": {"mountPath": "/scratch", "ephemeral": {"size": "100Gi"}}}},
    "claim": {"storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "theirs"}}}},
    "digest": {"images": {"training": {"digest": f"sha256:{'a' * 64}"}}},
    "offline": {"huggingface": {"offline": {"enabled": True}}},
    "elsewhere": {
        "platform": {"kind": "kubernetes"},
        "accelerator": {"refuses": {"kubernetes": None}},
        "network": {"mode": "none"},
        "storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "theirs"}}},
    },
}


def expected(values: dict[str, Any], folder: Path, recipe: str = "gemma3-27b-gsm8k") -> cluster.Cluster | None:
    (folder / "more.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    files = [*map(str, stack_files(recipe=recipe)), str(folder / "more.yaml")]
    return cluster.wiring_of(merge.load(files)).cluster


def written(rendered: Rendered) -> Any:
    """Return the facts that the chart writes on the head."""
    (item,) = [each for each in rendered.documents if each["kind"] == "RayCluster"]
    (head,) = item["spec"]["headGroupSpec"]["template"]["spec"]["containers"][:1]
    (text,) = [each["value"] for each in head["env"] if each["name"] == cluster.VARIABLE]
    return json.loads(text)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_computed_facts_equal_those_the_chart_renders(name: str, render_text: RenderText, tmp_path: Path) -> None:
    values = VARIANTS[name]
    found = expected(values, tmp_path)
    assert found
    assert found.facts == written(render_text("raycluster", values, recipe="gemma3-27b-gsm8k"))


@pytest.mark.parametrize("recipe", thin(RECIPES, 4))
def test_the_computed_facts_of_every_recipe_equal_those_the_chart_renders(
    recipe: str, render_text: RenderText, tmp_path: Path
) -> None:
    found = expected({}, tmp_path, recipe)
    if found:
        assert found.facts == written(render_text("raycluster", {}, recipe=recipe))


def test_a_job_with_its_own_cluster_expects_no_facts(tmp_path: Path) -> None:
    assert expected({"job": {"cluster": {"mode": "ephemeral"}}}, tmp_path) is None


def test_a_cluster_rendered_from_different_values_is_found(render_text: RenderText, tmp_path: Path) -> None:
    """As the entrypoint would find it at the start, by the facts alone."""
    old = {"ray": {"workers": {"replicas": 5}, "env": {"A": {"value": "a-value"}}}}
    text = render_text("raycluster", old, recipe="gemma3-27b-gsm8k").manifest
    expected({}, tmp_path)
    files = [*map(str, stack_files(recipe="gemma3-27b-gsm8k")), str(tmp_path / "more.yaml")]

    def judge(more: dict[str, Any]) -> list[Finding]:
        (tmp_path / "more.yaml").write_text(yaml.safe_dump(more), encoding="utf-8")
        found = check(read({"old.yaml": text.encode()}), cluster.wiring_of(merge.load(files)))
        return [each for each in found if each.rule.startswith("cluster/")]

    assert judge(old) == []
    found = judge({"ray": {"env": {"A": {"value": "b-value"}}}})
    assert [each.rule for each in found] == ["cluster/facts-differ"]
    told = " ".join(each.what for each in found)
    assert "environment.A (ray.env.A): the cluster has another value" in told
    assert "-value" not in told
