"""Clusters that are not GKE: nothing of Google's is rendered, and what needs it is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests.charts import shapes
from tests.conftest import LAYERS, Render, by_kind

PROFILE = "infiniband-b200"
ELSEWHERE: dict[str, Any] = {
    "storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "nfs"}}},
    "job": {"cluster": {"mode": "ephemeral"}},
}


@pytest.mark.parametrize("layer", LAYERS)
def test_nothing_specific_to_google_is_rendered(
    layer: str, render: Render, render_text: Callable[..., Rendered]
) -> None:
    """No label, annotation, folder or object that only GKE knows; nor a command of gcloud."""
    text = json.dumps([{**item, "data": {}} for item in render(layer, ELSEWHERE, accelerator=PROFILE)])
    text = text.replace("google/gemma-3-27b-it", "")
    # The packed programs are random letters.
    text = re.sub(r"<<'GRPO_PROGRAMS'.*GRPO_PROGRAMS", "", text)
    assert not [word for word in ("google", "gke", "/home/kubernetes", "/gib") if word in text.lower()]
    assert "gcloud" not in (render_text(layer, ELSEWHERE, accelerator=PROFILE).notes or "")


def test_the_driver_comes_from_the_container_toolkit(render: Render) -> None:
    """No folder of the node is mounted, and the image's own library path stays."""
    spec = by_kind(render("raycluster", ELSEWHERE, accelerator=PROFILE), "RayCluster")["spec"]
    worker = spec["workerGroupSpecs"][0]["template"]["spec"]
    assert not [volume for volume in worker["volumes"] if "hostPath" in volume]
    assert "LD_LIBRARY_PATH" not in [entry["name"] for entry in worker["containers"][0]["env"]]
    assert worker["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-B200"}
    assert worker["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {
                "network": {"mode": "multiNetwork"},
                "accelerator": {"interfaces": {"eth1": {"network": "rdma-0", "deviceMode": "RDMA"}}},
            },
            r"network\.mode multiNetwork makes networks of GKE, but platform\.kind is kubernetes",
        ),
        (
            {"network": {"mode": "dranet"}},
            r"network\.mode dranet does not work on b200, because it names no DeviceClass",
        ),
        ({"platform": {"kind": "gke-standard"}}, r"it is a machine of another cloud"),
        (
            {"storage": {"data": {"gcsfuse": {"bucket": "abc"}, "existingClaim": None}}},
            r"storage\.data\.gcsfuse needs a GKE driver",
        ),
    ],
)
@pytest.mark.parametrize("layer", LAYERS)
def test_gke_only_settings_are_refused(
    layer: str, values: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """In every chart, with what to choose instead."""
    with pytest.raises(RenderError, match=message):
        render_text(layer, shapes.merge(ELSEWHERE, values), accelerator=PROFILE)
