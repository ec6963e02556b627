"""KubeRay 1.5, 1.6 and 1.7: what their definitions accept of what the charts render.

Those of 1.6 are on the control plane that all tests share. The others have an API server each: exchanging definitions
under a running operator would disturb all later tests. Those of 1.7 are those of 1.6 with the differences that
tests/catalogues/kuberay-1.7.yaml lists.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from grpo.helm.engines import Embedded
from tests import options
from tests.catalogues import kuberay

from conftest import NewStack
from harness.apiserver import ApiServer, Ports, Tools
from harness.helm import Helm, HelmError
from harness.kube import Kube, KubectlError, Manifest
from harness.processes import Programs
from harness.stack import ONE_VOLUME, merge
from test_pods import render

MANUAL: dict[str, Any] = {"ray": {"upgrade": "manual"}}
EPHEMERAL: dict[str, Any] = {"job": {"cluster": {"mode": "ephemeral", "timeoutSeconds": 0}}}
RAY = ("RayCluster", "RayJob")

# 1.5 was built with Kubernetes 1.34, whose pods have not these two; `podSpec` of head and workers is a way to them.
NEW_IN_PODS = {"workloadRef", "volumes[].projected.sources[].podCertificate.userAnnotations"}
# The charts write one of these themselves, upgradeStrategy, and of a job preRunningDeadlineSeconds. numOfHosts,
# scaleStrategy and backoffLimit are older.
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


@contextlib.contextmanager
def knowing(definitions: Path, work: Path, tools: Tools, ports: Ports, namespace: str) -> Iterator[ApiServer]:
    """Run an API server, without any controller, that knows the definitions of Ray in a folder."""
    programs = Programs(work / "logs")
    server = ApiServer(work, tools, programs, ports)
    try:
        server.start()
        server.apply_crds(*(str(definitions / f"ray.io_{plural}.yaml") for plural in kinds(definitions)))
        server.kube.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        yield server
    finally:
        server.kube.close()
        programs.stop()


def kinds(definitions: Path) -> list[str]:
    """List what the charts use, and what tells them the version apart."""
    known = ("rayclusters", "rayjobs", "raycronjobs")
    return [plural for plural in known if (definitions / f"ray.io_{plural}.yaml").is_file()]


@pytest.fixture(scope="module")
def old(work: Path, tools: Tools, namespace: str) -> Iterator[ApiServer]:
    """An API server that knows KubeRay 1.5."""
    ports = Ports(api=16443, etcd=12379, peer=12380)
    with knowing(tools.share / "kuberay-1.5-crds", work / "kuberay-1.5", tools, ports, namespace) as server:
        yield server


@pytest.fixture(scope="module")
def newer(work: Path, tools: Tools, namespace: str) -> Iterator[ApiServer]:
    """An API server that knows KubeRay 1.7."""
    definitions = kuberay.build(tools.share / "kuberay-crds", work / "kuberay-1.7-crds")
    ports = Ports(api=26443, etcd=22379, peer=22380)
    with knowing(definitions, work / "kuberay-1.7", tools, ports, namespace) as server:
        yield server


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
def test_the_fields_missing_from_1_5_are_recorded(old: ApiServer, kube: Kube, plural: str, expected: set[str]) -> None:
    """Only the outermost of the new fields are compared; 1.6 has dropped none."""
    before, after = spec_fields(old.kube, plural), spec_fields(kube, plural)
    assert set(before) <= set(after)
    assert outermost(set(after) - set(before)) == expected


def outermost(names: set[str]) -> set[str]:
    """Return the fields that are inside no other one of them."""
    return {name for name in names if not any(name.startswith((f"{outer}.", f"{outer}[")) for outer in names)}


def test_1_5_accepts_every_pair_of_options_with_manual_upgrades(
    old: ApiServer, engine: Embedded, new_stack: NewStack, namespace: str
) -> None:
    # In a queue Kueue replaces the pods, and manual is refused.
    rows = [row for each in options.rows() if options.possible(row := {**each, "upgrade": "manual"})]
    old.kube.create(rendered(rows, engine, new_stack, namespace), dry_run=True)


def test_1_7_accepts_every_pair_of_options(
    newer: ApiServer, engine: Embedded, new_stack: NewStack, namespace: str
) -> None:
    newer.kube.create(rendered(options.rows(), engine, new_stack, namespace), dry_run=True)


def rendered(rows: Sequence[options.Row], engine: Embedded, new_stack: NewStack, namespace: str) -> list[Manifest]:
    """Return Ray's objects of all rows for one request; 1.6 gets the same with everything else (test_pods)."""
    manifests = []
    for row in rows:
        stack = new_stack(row["accelerator"], namespace=namespace, **ONE_VOLUME)
        layers = [layer for layer in options.layers(row) if layer in ("raycluster", "grpo-job")]
        manifests += [item for layer in layers for item in render(engine, stack, layer, row) if item["kind"] in RAY]
    assert len(manifests) > len(rows)
    return manifests


@pytest.mark.parametrize(
    ("layer", "values", "field"),
    [
        ("raycluster", {"ray": {"upgrade": "recreate"}}, "spec.upgradeStrategy"),
        ("grpo-job", {}, "spec.preRunningDeadlineSeconds"),
        (
            "grpo-job",
            merge(EPHEMERAL, {"ray": {"workers": {"podSpec": {"workloadRef": {"name": "a", "podGroup": "b"}}}}}),
            "spec.rayClusterSpec.workerGroupSpecs[0].template.spec.workloadRef",
        ),
    ],
)
def test_1_5_refuses_unknown_fields(
    old: ApiServer, kube: Kube, new_stack: NewStack, namespace: str, layer: str, values: dict[str, Any], field: str
) -> None:
    """Otherwise the test above would prove nothing."""
    manifests = [item for item in new_stack(namespace=namespace, **values).render(layer) if item["kind"] in RAY]
    kube.create(manifests, namespace, dry_run=True)
    with pytest.raises(KubectlError) as refusal:
        old.kube.create(manifests, namespace, dry_run=True)
    assert f'unknown field "{field}"' in str(refusal.value)


def test_1_7_refuses_unknown_fields(newer: ApiServer, kube: Kube, new_stack: NewStack, namespace: str) -> None:
    """Otherwise its acceptance above would prove nothing."""
    values = {"ray": {"workers": {"podSpec": {"workloadRef": {"name": "a", "podGroup": "b"}}}}}
    manifests = [item for item in new_stack(namespace=namespace, **values).render("raycluster") if item["kind"] in RAY]
    kube.create(manifests, namespace, dry_run=True)
    with pytest.raises(KubectlError, match=r'unknown field "spec\.workerGroupSpecs\[0\]\.template\.spec\.workloadRef"'):
        newer.kube.create(manifests, namespace, dry_run=True)


def test_a_job_with_its_own_cluster_needs_one_setting_for_1_5(
    old: ApiServer, new_stack: NewStack, namespace: str
) -> None:
    old.kube.create(new_stack(namespace=namespace, **EPHEMERAL).render("grpo-job"), namespace, dry_run=True)


def on(server: ApiServer, helm: Helm) -> Helm:
    """Return a Helm that talks to another API server."""
    return Helm(helm.program, server.kubeconfig, helm.home)


def test_an_install_on_1_5_without_the_setting_is_refused(
    old: ApiServer, helm: Helm, new_stack: NewStack, namespace: str
) -> None:
    """The chart says it before anything is installed, in the same words under both Helms."""
    name = f"{helm.program.name}-recreate"
    stack = new_stack("b200", helm.program.name, namespace, stack={"name": name}).with_helm(on(old, helm))
    with pytest.raises(HelmError, match=r"ray\.upgrade is whenIdle, which needs KubeRay 1\.6 or newer, .* manual: "):
        stack.install("raycluster")
    assert stack.cluster not in old.kube.run("get", "rayclusters", "-n", namespace, "-o", "name")


def test_an_install_on_1_5_with_the_setting_succeeds(
    old: ApiServer, helm: Helm, new_stack: NewStack, namespace: str
) -> None:
    values = merge(MANUAL, {"stack": {"name": f"{helm.program.name}-manual"}})
    stack = new_stack("b200", helm.program.name, namespace, **values).with_helm(on(old, helm))
    stack.install("storage", "raycluster")
    assert stack.helm.status(stack.release("raycluster"), namespace) == "deployed"


def test_an_install_on_1_7_needs_no_setting(newer: ApiServer, helm: Helm, new_stack: NewStack, namespace: str) -> None:
    """Nothing needs a setting, and nothing is lost."""
    name = f"{helm.program.name}-newer"
    stack = new_stack("b200", helm.program.name, namespace, stack={"name": name}).with_helm(on(newer, helm))
    stack.install("raycluster")
    stored = json.loads(newer.kube.run("get", "raycluster", stack.cluster, "-n", namespace, "-o", "json"))
    assert stored["spec"]["upgradeStrategy"] == {"type": "Recreate"}
