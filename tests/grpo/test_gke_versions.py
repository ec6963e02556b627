"""Which version of GKE values ask for, and which versions are new enough."""

from __future__ import annotations

from typing import Any

import pytest

from grpo.values import gke_versions
from postrender import paths
from postrender.values import merge


@pytest.mark.parametrize(
    ("version", "versions", "enough"),
    [
        ("v1.34.1-gke.1829001", ("1.34.1-gke.1829001",), True),
        ("v1.34.1-gke.1829000", ("1.34.1-gke.1829001",), False),
        ("v1.34.0-gke.2011000", ("1.34.1-gke.1829001",), False),
        ("v1.35.0-gke.1", ("1.34.1-gke.1829001",), True),
        ("v1.33.9-gke.9999999", ("1.34.1-gke.1829001",), False),
        # A fix in two minor releases: the first versions of the newer one lack it.
        ("v1.32.8-gke.1108000", ("1.32.8-gke.1108000", "1.33.4-gke.1036000"), True),
        ("v1.33.2-gke.1377000", ("1.32.8-gke.1108000", "1.33.4-gke.1036000"), False),
        ("v1.33.4-gke.1036000", ("1.32.8-gke.1108000", "1.33.4-gke.1036000"), True),
        ("v1.34.0-gke.1", ("1.32.8-gke.1108000", "1.33.4-gke.1036000"), True),
        ("v1.31.9-gke.1", ("1.32.8-gke.1108000", "1.33.4-gke.1036000"), False),
        ("v2.0.0-gke.1", ("1.34.1-gke.1829001",), True),
    ],
)
def test_a_gke_version_is_compared_with_the_minimum_of_its_release_line(
    version: str, versions: tuple[str, ...], enough: bool
) -> None:
    found = gke_versions.read(version)
    assert found
    assert gke_versions.has(found, versions) == enough


@pytest.mark.parametrize("text", ["v1.37.2", "v1.34.1-eks-113cf36", "", "gke"])
def test_a_non_gke_kubernetes_version_is_not_read(text: str) -> None:
    assert gke_versions.read(text) is None


def needs(machine: str, **more: Any) -> dict[str, tuple[str, ...]]:
    tree = merge.over_defaults(merge.load([paths.accelerator(machine), "values/examples/site.yaml"]))
    for path, value in more.items():
        *above, last = path.split("__")
        inner = tree
        for key in above:
            inner = inner[key]
        inner[last] = value
    return {each.value: each.versions for each in gke_versions.needs(tree)}


def test_the_values_determine_the_gke_versions_required() -> None:
    found = needs("b200")
    assert found["network.mode"] == gke_versions.RDMA["a4-highgpu-8g"]
    assert found["storage.weights.gcsfuse.purpose"] == ("1.34.0-gke.2011000",)
    assert "platform.capacity.kind" not in found
    found = needs("b200", platform__capacity__kind="flex-start", network__mode="dranet")
    assert (found["network.mode"], found["platform.capacity.kind"]) == (
        ("1.34.1-gke.1829001",),
        ("1.32.2-gke.1652000",),
    )
    assert needs("h200", platform__kind="gke-autopilot", network__mode="dranet")["network.mode"] == (
        "1.35.2-gke.1842000",
    )
    assert needs("gb200")["network.mode"] == ("1.32.8-gke.1108000", "1.33.4-gke.1036000")
    assert needs("gb300")["network.mode"] == ("1.34.3-gke.1318000", "1.35.0-gke.2745000")
    lustre = needs("b200", storage__weights={"lustre": {}}, network__mode="none")
    assert lustre["storage.weights.lustre"] == ("1.33.2-gke.1072000",)
    assert "network.mode" not in lustre


def test_other_platforms_need_no_gke_version() -> None:
    assert needs("b200", platform__kind="kubernetes") == {}
