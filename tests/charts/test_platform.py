"""Clusters that are not GKE: nothing of Google's is rendered, and what needs it is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from postrender.errors import RenderError
from postrender.helm.engines import Rendered
from tests.charts import shapes
from tests.conftest import LAYERS, Render, by_kind

ELSEWHERE: dict[str, Any] = {
    "platform": {"kind": "kubernetes"},
    "network": {"mode": "none"},
    "storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "nfs"}}},
    "job": {"cluster": {"mode": "ephemeral"}},
}


@pytest.mark.parametrize("layer", LAYERS)
def test_nothing_of_googles_is_rendered(layer: str, render: Render, render_text: Callable[..., Rendered]) -> None:
    """No label, annotation, folder or object that only GKE knows; nor a command of gcloud."""
    text = json.dumps([{**item, "data": {}} for item in render(layer, ELSEWHERE)])
    text = text.replace("google/gemma-3-27b-it", "")
    # The packed programs are random letters.
    text = re.sub(r"<<'GRPO_PROGRAMS'.*GRPO_PROGRAMS", "", text)
    assert not [word for word in ("google", "gke", "/home/kubernetes", "/gib") if word in text.lower()]
    assert "gcloud" not in (render_text(layer, ELSEWHERE).notes or "")


def test_the_driver_comes_from_the_container_toolkit(render: Render) -> None:
    """No folder of the node is mounted, and the image's own library path stays."""
    spec = by_kind(render("raycluster", ELSEWHERE), "RayCluster")["spec"]
    worker = spec["workerGroupSpecs"][0]["template"]["spec"]
    assert not [volume for volume in worker["volumes"] if "hostPath" in volume]
    assert "LD_LIBRARY_PATH" not in [entry["name"] for entry in worker["containers"][0]["env"]]
    assert "nodeSelector" not in worker
    assert worker["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"network": {"mode": "multiNetwork"}}, r"network\.mode multiNetwork works only on GKE"),
        ({"network": {"mode": "dranet"}}, r"network\.mode dranet works only on GKE"),
        (
            {"storage": {"data": {"gcsfuse": {"bucket": "abc"}, "existingClaim": None}}},
            r"storage\.data\.gcsfuse needs a GKE driver",
        ),
    ],
)
@pytest.mark.parametrize("layer", LAYERS)
def test_what_only_gke_has_is_refused(
    layer: str, values: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """In every chart, with what to choose instead."""
    with pytest.raises(RenderError, match=message):
        render_text(layer, shapes.merge(ELSEWHERE, values))
