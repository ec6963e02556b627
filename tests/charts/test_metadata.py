"""What Chart.yaml says: `helm list`, `helm show chart` and Artifact Hub show it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Rendered
from postrender import __version__
from tests.conftest import LAYERS, ROOT

# https://artifacthub.io/docs/topics/annotations/helm and its list of categories.
CATEGORIES = {"ai-machine-learning", "database", "integration-delivery", "monitoring-logging", "networking", "security"}
CATEGORIES |= {"skip-prediction", "storage", "streaming-messaging"}


def metadata(chart: str) -> dict[str, Any]:
    """Read a Chart.yaml."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "charts" / chart / "Chart.yaml").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_a_chart_has_a_description_and_a_maintainer(layer: str) -> None:
    found = metadata(layer)
    assert (found["name"], found["type"], found["apiVersion"]) == (layer, "application", "v2")
    assert 20 < len(found["description"]) <= 140
    assert [each for each in found["maintainers"] if each["name"]]
    assert found["keywords"]
    assert found["sources"]
    assert all(re.fullmatch(r"https://github\.com/[\w-]+/[\w-]+", each) for each in found["sources"])
    notes = found["annotations"]
    assert notes["artifacthub.io/category"] in CATEGORIES
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").split()[:2] == ["Apache", "License"]
    assert notes["artifacthub.io/license"] == "Apache-2.0"


def test_the_charts_have_the_same_version() -> None:
    """The library has no version of an application: it is no release of its own."""
    versions = {(found["version"], found["appVersion"]) for found in map(metadata, LAYERS)}
    assert versions == {(__version__, __version__)}
    assert metadata("common")["version"] == __version__
    assert len({str(metadata(layer)["maintainers"]) for layer in LAYERS}) == 1


@pytest.mark.parametrize("layer", LAYERS)
def test_no_chart_requires_a_kubernetes_version(layer: str) -> None:
    """`helm template` judges it by a version that Helm was built with, and not by the cluster.

    That is 1.20 in Helm 4.0.0 (helm/helm#31502) and in a Helm 3 that `go install` built, as ours. The objects need
    more: a PodDisruptionBudget of policy/v1 needs 1.21, device claims 1.34, and those are refused (test_operator.py).
    """
    assert "kubeVersion" not in metadata(layer)


@pytest.mark.parametrize("layer", LAYERS)
def test_the_notes_say_how_to_use_a_chart_from_a_registry(layer: str, render_text: Callable[..., Rendered]) -> None:
    """Their commands name folders; the end says what to write instead."""
    notes = render_text(layer).notes or ""
    assert re.search(r"\bcharts/(grpo-job|raycluster|storage)\b", notes)
    assert notes.endswith(f"for charts/NAME:\n  oci://REGISTRY/charts/NAME --version {__version__}\n")
