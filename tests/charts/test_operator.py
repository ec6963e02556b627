"""The operator and the APIs of the cluster that a chart is installed into, as far as Helm sees them."""

from __future__ import annotations

import subprocess

import pytest

from tests.conftest import ROOT, require_tool, stack_files, thin

OLD = ("ray.io/v1/RayCluster", "ray.io/v1/RayJob", "ray.io/v1/RayService")
NEW = (*OLD, "ray.io/v1/RayCronJob")
REFUSAL = (
    "ray.upgrade is {}, which needs KubeRay 1.6 or newer, but the definitions in this cluster are older: they have no "
    "RayCronJob. Update the operator and its definitions, or set ray.upgrade to manual: a changed image or environment "
    "then reaches the pods only when you delete them"
)
TOKEN = "KubeRay 1.5.0 or older knows no token either, and needs ray.tokenAuth.enabled: false"


def refusal(tool: str, layer: str, served: tuple[str, ...], *arguments: str) -> str:
    """Render a layer for a cluster that serves these kinds; return what Helm says of it."""
    files = [f"--values={file}" for file in stack_files()]
    kinds = [f"--api-versions={kind}" for kind in served]
    command = [require_tool(tool), "template", layer, ROOT / "charts" / layer, *files, *kinds, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


@pytest.mark.parametrize("tool", ["helm3", "helm4"])
@pytest.mark.parametrize("upgrade", ["whenIdle", "recreate"])
def test_an_older_operator_is_named_with_the_value_to_set_for_it(upgrade: str, tool: str) -> None:
    said = refusal(tool, "raycluster", OLD, "--set", f"ray.upgrade={upgrade}")
    assert f"{REFUSAL.format(upgrade)}. {TOKEN}" in " ".join(said.split())


def test_no_token_is_mentioned_when_authentication_is_off() -> None:
    off = ("--set", "ray.tokenAuth.enabled=false,ray.networkPolicy.enabled=false")
    said = " ".join(refusal("helm4", "raycluster", OLD, *off).split())
    assert REFUSAL.format("whenIdle") in said
    assert "token" not in said


@pytest.mark.parametrize(
    ("layer", "served", "setting"),
    thin(
        [
            ("raycluster", OLD, "ray.upgrade=manual"),
            # Kueue replaces the pods there.
            ("raycluster", OLD, "ray.kueue.queue=gpus"),
            ("raycluster", NEW, "ray.upgrade=whenIdle"),
            ("raycluster", (), "ray.upgrade=whenIdle"),
            # The cluster of a job has no upgradeStrategy.
            ("grpo-job", OLD, "job.cluster.timeoutSeconds=0"),
            ("grpo-job", NEW, "job.cluster.timeoutSeconds=60"),
        ],
        3,
    ),
)
def test_only_fields_known_to_the_operator_are_rendered(layer: str, served: tuple[str, ...], setting: str) -> None:
    assert refusal("helm4", layer, served, "--set", setting, "--set", "job.cluster.mode=ephemeral") == ""


def test_a_job_names_the_deadline_an_older_operator_lacks() -> None:
    said = " ".join(refusal("helm4", "grpo-job", OLD).split())
    assert "job.cluster.timeoutSeconds is 86400, which needs KubeRay 1.6 or newer" in said
    assert "or set job.cluster.timeoutSeconds to 0: the RayJob then waits for its cluster for ever" in said


CLAIMS = "resource.k8s.io/v1/ResourceClaimTemplate"


@pytest.mark.parametrize("tool", thin(["helm4", "helm3"], 2))
@pytest.mark.parametrize("layer", thin(["raycluster", "grpo-job"], 2))
def test_device_claims_need_a_cluster_that_supports_them(layer: str, tool: str) -> None:
    claims = ("--set", "network.mode=dranet", "--set", "job.cluster.mode=ephemeral")
    older = ("resource.k8s.io/v1beta1/ResourceClaimTemplate", "resource.k8s.io/v1beta2/ResourceClaimTemplate")
    said = " ".join(refusal(tool, layer, (*NEW, *older), *claims).split())
    assert "network.mode is dranet, which needs Kubernetes 1.34 or newer, but the APIs in this cluster are" in said
    assert "Update the cluster, or choose another network.mode" in said
    assert refusal(tool, layer, (*NEW, *older), "--set", "job.cluster.mode=ephemeral") == ""
    assert refusal(tool, layer, (*NEW, *older, CLAIMS), *claims) == ""
    assert refusal(tool, layer, (), *claims) == ""
