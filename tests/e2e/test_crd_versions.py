"""KubeRay 1.5 and 1.6: what their definitions accept of what the charts render.

The newer definitions are those of the control plane that all tests share. The older ones have an API server of their
own: exchanging definitions under a running operator would disturb all later tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postrender.helm.engines import Embedded
from tests import options

from conftest import NewStack
from harness.apiserver import ApiServer, Ports, Tools
from harness.helm import Helm, HelmError
from harness.kube import Kube, KubectlError, Manifest
from harness.processes import Programs
from harness.stack import merge
from test_pods import render

MANUAL: dict[str, Any] = {"ray": {"upgrade": "manual"}}
EPHEMERAL: dict[str, Any] = {"job": {"cluster": {"mode": "ephemeral"}}}
RAY = ("RayCluster", "RayJob")

# 1.5 was built with Kubernetes 1.34, whose pods have not these two; `podSpec` of head and workers is a way to them.
NEW_IN_PODS = {"workloadRef", "volumes[].projected.sources[].podCertificate.userAnnotations"}
# The charts write one of these themselves, upgradeStrategy. numOfHosts, scaleStrategy and backoffLimit are older.
NEW_IN_CLUSTERS = {
    "upgradeStrategy",
    "authOptions.secretName",
    "authOptions.enableK8sTokenAuth",
    *(f"{group}.template.spec.{name}" for group in ("headGroupSpec", "workerGroupSpecs[]") for name in NEW_IN_PODS),
}
NEW_IN_JOBS = {
    "preRunningDeadlineSeconds",
    "deletionStrategy.deletionRules[].condition.jobDeploymentStatus",
    *(f"submitterPodTemplate.spec.{name}" for name in NEW_IN_PODS),
    *(f"rayClusterSpec.{name}" for name in NEW_IN_CLUSTERS),
}


@pytest.fixture(scope="module")
def namespace(new_stack: NewStack) -> str:
    """A namespace on both API servers."""
    return new_stack().namespace


@pytest.fixture(scope="module")
def old(work: Path, tools: Tools, namespace: str) -> Iterator[ApiServer]:
    """An API server, without any controller, that knows KubeRay 1.5."""
    programs = Programs(work / "logs/kuberay-1.5")
    server = ApiServer(work / "kuberay-1.5", tools, programs, Ports(api=16443, etcd=12379, peer=12380))
    try:
        server.start()
        server.apply_crds(*(f"kuberay-1.5-crds/ray.io_{plural}.yaml" for plural in ("rayclusters", "rayjobs")))
        server.kube.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        yield server
    finally:
        server.kube.close()
        programs.stop()


def fields(schema: Manifest, path: str = "") -> Iterator[str]:
    """List the fields of a definition, `[]` for what is inside a list, each before what is inside it."""
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")
    for name, inner in schema.get("properties", {}).items():
        below = f"{path}.{name}" if path else name
        yield below
        yield from fields(inner, below)


def spec_fields(kube: Kube, plural: str) -> list[str]:
    """List the fields of a kind's spec as an API server knows them."""
    crd = json.loads(kube.run("get", "crd", f"{plural}.ray.io", "-o", "json"))
    version = next(entry for entry in crd["spec"]["versions"] if entry["name"] == "v1")
    return list(fields(version["schema"]["openAPIV3Schema"]["properties"]["spec"]))


@pytest.mark.parametrize(("plural", "expected"), [("rayclusters", NEW_IN_CLUSTERS), ("rayjobs", NEW_IN_JOBS)])
def test_what_1_5_lacks_is_known(old: ApiServer, kube: Kube, plural: str, expected: set[str]) -> None:
    """Only the outermost of the new fields are compared; 1.6 has dropped none."""
    before, after = spec_fields(old.kube, plural), spec_fields(kube, plural)
    assert set(before) <= set(after)
    new = set(after) - set(before)
    assert {name for name in new if not any(name.startswith((f"{outer}.", f"{outer}[")) for outer in new)} == expected


def test_1_5_accepts_every_pair_of_options_that_is_upgraded_by_hand(
    old: ApiServer, engine: Embedded, new_stack: NewStack, namespace: str
) -> None:
    """All in one request; the same rows are given to 1.6 with everything else (test_pods)."""
    manifests = []
    for row in options.rows():
        stack = new_stack(row["accelerator"], namespace=namespace)
        layers = [layer for layer in options.layers(row) if layer in ("raycluster", "grpo-job")]
        by_hand = {**row, "upgrade": "manual"}
        manifests += [item for layer in layers for item in render(engine, stack, layer, by_hand) if item["kind"] in RAY]
    assert len(manifests) > len(options.rows())
    old.kube.create(manifests, dry_run=True)


@pytest.mark.parametrize(
    ("layer", "values", "field"),
    [
        ("raycluster", {"ray": {"upgrade": "recreate"}}, "spec.upgradeStrategy"),
        (
            "grpo-job",
            merge(EPHEMERAL, {"ray": {"workers": {"podSpec": {"workloadRef": {"name": "a", "podGroup": "b"}}}}}),
            "spec.rayClusterSpec.workerGroupSpecs[0].template.spec.workloadRef",
        ),
    ],
)
def test_1_5_refuses_what_it_does_not_know(
    old: ApiServer, kube: Kube, new_stack: NewStack, namespace: str, layer: str, values: dict[str, Any], field: str
) -> None:
    """Otherwise the test above would prove nothing."""
    manifests = [item for item in new_stack(namespace=namespace, **values).render(layer) if item["kind"] in RAY]
    kube.create(manifests, namespace, dry_run=True)
    with pytest.raises(KubectlError) as refusal:
        old.kube.create(manifests, namespace, dry_run=True)
    assert f'unknown field "{field}"' in str(refusal.value)


def test_a_job_with_its_own_cluster_needs_no_setting_for_1_5(
    old: ApiServer, new_stack: NewStack, namespace: str
) -> None:
    old.kube.create(new_stack(namespace=namespace, **EPHEMERAL).render("grpo-job"), namespace, dry_run=True)


def on(server: ApiServer, helm: Helm) -> Helm:
    """Return a Helm that talks to another API server."""
    return Helm(helm.program, server.kubeconfig, helm.home)


def test_an_install_on_1_5_without_the_setting(old: ApiServer, helm: Helm, new_stack: NewStack, namespace: str) -> None:
    """The chart says it before anything is installed, in the same words under both Helms."""
    name = f"{helm.program.name}-recreate"
    stack = new_stack("b200", helm.program.name, namespace, stack={"name": name}).with_helm(on(old, helm))
    with pytest.raises(HelmError, match=r"ray\.upgrade is whenIdle, which needs KubeRay 1\.6 or newer, .* manual: "):
        stack.install("raycluster")
    assert stack.cluster not in old.kube.run("get", "rayclusters", "-n", namespace, "-o", "name")


def test_an_install_on_1_5_with_the_setting(old: ApiServer, helm: Helm, new_stack: NewStack, namespace: str) -> None:
    values = merge(MANUAL, {"stack": {"name": f"{helm.program.name}-manual"}})
    stack = new_stack("b200", helm.program.name, namespace, **values).with_helm(on(old, helm))
    stack.install("storage", "raycluster")
    assert stack.helm.status(stack.release("raycluster"), namespace) == "deployed"
