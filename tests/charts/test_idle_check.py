"""The hook that asks for running jobs before an upgrade or a rollback replaces pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import ROOT, Object, Render, thin

NAME = "gemma-ray-idle-check"


def named(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Return objects by kind and name."""
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def test_the_idle_check_pod_and_its_files_are_hooks(render: Render) -> None:
    objects = named(render("raycluster"))
    pod, files = objects["Pod", NAME], objects["ConfigMap", NAME]
    for item in (files, pod):
        annotations = item["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "pre-upgrade,pre-rollback"
        assert annotations["helm.sh/hook-delete-policy"] == "before-hook-creation,hook-succeeded"
    weights = [int(item["metadata"]["annotations"]["helm.sh/hook-weight"]) for item in (files, pod)]
    assert weights == [-1, 0]
    assert files["data"]["check_idle.py"] == (ROOT / "jobs/checks/check_idle.py").read_text(encoding="utf-8")
    assert pod["metadata"]["annotations"]["helm.sh/hook-output-log-policy"] == "hook-failed"
    (container,) = pod["spec"]["containers"]
    assert json.loads(container["args"][0]) == {
        "address": "gemma-ray-head-svc:8265",
        "cluster": "gemma-ray",
        "queue": "",
        "replaces": True,
    }
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_in_a_queue_the_check_also_reports_what_kueue_will_do(render: Render) -> None:
    pod = named(render("raycluster", {"ray": {"kueue": {"queue": "gpus"}}}))["Pod", NAME]
    assert pod["metadata"]["annotations"]["helm.sh/hook-output-log-policy"] == "hook-succeeded,hook-failed"
    assert json.loads(pod["spec"]["containers"][0]["args"][0])["queue"] == "gpus"


@pytest.mark.parametrize("asked", [True, False])
def test_the_pod_starts_whether_or_not_the_token_secret_exists(asked: bool, render: Render) -> None:
    """The upgrade may be the one that brings the token: a Secret that must exist would keep the pod from starting."""
    ray = {"tokenAuth": {"enabled": asked}, "networkPolicy": {"enabled": False}}
    (container,) = named(render("raycluster", {"ray": ray}))["Pod", NAME]["spec"]["containers"]
    secret = {"name": "gemma-ray", "key": "auth_token", "optional": True}
    assert container["env"] == [{"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": secret}}]


@pytest.mark.parametrize(("upgrade", "asks"), [("whenIdle", True), ("recreate", False), ("manual", True)])
def test_the_hook_is_rendered_only_for_upgrade_modes_that_require_idleness(
    upgrade: str, asks: bool, render: Render
) -> None:
    objects = named(render("raycluster", {"ray": {"upgrade": upgrade}}))
    assert (("Pod", NAME) in objects, ("ConfigMap", NAME) in objects) == (asks, asks)
    if asks:
        (container,) = objects["Pod", NAME]["spec"]["containers"]
        assert json.loads(container["args"][0])["replaces"] is (upgrade != "manual")
    cluster = objects["RayCluster", "gemma-ray"]["spec"]
    assert cluster.get("upgradeStrategy") == (None if upgrade == "manual" else {"type": "Recreate"})


def release(render: Render, values: dict[str, Any]) -> tuple[dict[str, str], str]:
    """Return what the release says of its pods."""
    objects = named(render("raycluster", values))
    data = objects["ConfigMap", "raycluster-release"]["data"]
    assert data["cluster"] == "gemma-ray"
    files = objects["ConfigMap", NAME]["data"]
    assert (files["pods.json"], files["workers"]) == (data["pods.json"], data["workers"])
    return json.loads(data["pods.json"]), data["workers"]


@pytest.mark.parametrize(
    ("values", "changed"),
    thin(
        [
            (
                {"images": {"training": {"tag": "v0.7.1"}}},
                {"image of the head", "image of the workers", "pod of the workers"},
            ),
            ({"ray": {"head": {"env": {"A": {"value": "b"}}}}}, {"environment of the head"}),
            ({"ray": {"workers": {"labels": {"a": "b"}}}}, {"pod of the workers"}),
            ({"ray": {"kueue": {"queue": "gpus"}}}, {"the queue of Kueue"}),
            ({"ray": {"tokenAuth": {"enabled": False}, "networkPolicy": {"enabled": False}}}, {"the authentication"}),
            ({"ray": {"workers": {"replicas": 5}}}, set()),
            ({"stack": {"wiring": {"enabled": False}}}, set()),
            ({"stack": {"labels": {"cost-centre": "17"}}}, set()),
        ],
        4,
    ),
)
def test_the_release_records_what_an_upgrade_would_change(
    values: dict[str, Any], changed: set[str], render: Render
) -> None:
    """The wiring counts also where the post-renderer brings it; the facts on the head hold the image."""
    before, _ = release(render, {})
    after, _ = release(render, values)
    found = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert found - {"environment of the head"} == changed - {"environment of the head"}
    assert not changed or found


def test_the_release_records_the_number_of_workers(render: Render) -> None:
    assert [release(render, {"ray": {"workers": {"replicas": count}}})[1] for count in (2, 5)] == ["2", "5"]
