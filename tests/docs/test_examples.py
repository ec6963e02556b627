"""The examples for Argo CD, Flux and helmfile: the four releases, in order, with what `grpo render` renders."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Engine
from grpo.helm.stack import Stack
from grpo.manifests import export
from grpo.start import vendor
from tests.conftest import LAYERS, ROOT, SITE, by_kind, require_tool, stack_files

EXAMPLES = ROOT / "examples"
NAMESPACE = "rl"
# What the README installs: the names that the charts' notes say too.
RELEASES = {
    layer: name for name, layer in re.findall(r"\$ helm install (\S+) +charts/(\S+)", (ROOT / "README.md").read_text())
}
VERSIONS = {
    layer: yaml.safe_load((ROOT / f"charts/{layer}/Chart.yaml").read_text(encoding="utf-8"))["version"]
    for layer in LAYERS
}
PROFILE_AND_RECIPE = ["values/accelerators/b200.yaml", "values/recipes/gemma3-27b-gsm8k.yaml"]


def documents(name: str) -> list[dict[str, Any]]:
    """Return the documents of one example."""
    return list(yaml.safe_load_all((EXAMPLES / name).read_text(encoding="utf-8")))


ARGO = documents("argocd/applicationset.yaml")[0]["spec"]
FLUX = {release["spec"]["chart"]["spec"]["chart"]: release for release in documents("flux/releases.yaml")}
HELMFILE = {release["chart"].rpartition("/")[2]: release for release in documents("helmfile.yaml")[0]["releases"]}


@pytest.fixture(scope="module")
def wanted(helm: Engine) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return what grpo render makes of each layer."""
    stack = Stack.load([str(file) for file in stack_files()])
    return {
        layer: stack.render(helm, layer, release=RELEASES[layer], namespace=NAMESPACE).documents for layer in LAYERS
    }


def test_argo_installs_the_four_releases_in_order(helm: Engine) -> None:
    elements = ARGO["generators"][0]["list"]["elements"]
    assert [tuple(element.values()) for element in elements] == [
        (layer, RELEASES[layer], VERSIONS[layer]) for layer in LAYERS
    ]
    steps = [step["matchExpressions"][0] for step in ARGO["strategy"]["rollingSync"]["steps"]]
    assert [step["values"] for step in steps] == [[layer] for layer in LAYERS]
    label = {step["key"] for step in steps}
    assert label == {*ARGO["template"]["metadata"]["labels"]}
    notes = "".join(helm.render(str(ROOT / "charts" / layer), stack_files()).notes or "" for layer in LAYERS)
    assert {f"helm install {RELEASES[layer]} charts/{layer} " in notes for layer in ("storage", "raycluster")} == {True}


def test_argo_paths_match_vendored_charts_and_rendered_manifests(
    tmp_path: Path, wanted: Mapping[str, Any], helm: Engine
) -> None:
    """As grpo init --vendor and grpo render --output-dir write them; a folder has no hooks of Helm."""
    copies = vendor.compare(str(tmp_path / "third_party"), [str(ROOT / name) for name in PROFILE_AND_RECIPE])
    copies.write()
    shutil.copy(SITE, tmp_path / "site.yaml")
    stack = Stack.load([str(file) for file in stack_files()])
    layers = {layer: stack.render(helm, layer, namespace=NAMESPACE) for layer in LAYERS}
    export.write(str(tmp_path / "deploy"), layers)
    charts, folder = documents("argocd/from-git.yaml")
    for each in (charts, folder):
        assert each["spec"]["destination"]["namespace"] == NAMESPACE
        assert each["spec"]["syncPolicy"]["automated"] == {"prune": True}
        assert {*each["spec"]["syncPolicy"]["syncOptions"]} <= {*ARGO["template"]["spec"]["syncPolicy"]["syncOptions"]}
    source = charts["spec"]["source"]
    chart, release = tmp_path / source["path"], source["helm"]["releaseName"]
    files = [(chart / name).resolve() for name in source["helm"]["valueFiles"]]
    rendered = helm.render(str(chart), files, release=release, namespace=NAMESPACE)
    assert rendered.documents == wanted["grpo-job"]
    place = tmp_path / folder["spec"]["source"]["path"]
    names = yaml.safe_load((place / export.INDEX).read_text(encoding="utf-8"))["resources"]
    objects = [yaml.safe_load((place / name).read_text(encoding="utf-8")) for name in names]
    assert objects == [item for item in wanted["grpo-job"] if not export.is_hook(item)]


def test_argo_gives_each_release_in_a_repository_its_name() -> None:
    text = " ".join((EXAMPLES / "argocd/from-git.yaml").read_text(encoding="utf-8").replace("#", " ").split())
    assert RELEASES["grpo-job"] == documents("argocd/from-git.yaml")[0]["spec"]["source"]["helm"]["releaseName"]
    assert [layer for layer in LAYERS[:-1] if f"{layer} ({RELEASES[layer]}" not in text] == []


def test_argo_prunes_and_never_replaces() -> None:
    """A claim is data: what leaves the values of the storage layer is not removed by a commit."""
    policy = ARGO["template"]["spec"]["syncPolicy"]
    assert policy["automated"]["prune"] is True
    assert ARGO["templatePatch"].split() == [
        *("spec:", "syncPolicy:", "automated:", "prune:"),
        *("{{", "ne", ".layer", '"storage"', "}}"),
    ]
    refused = {"Replace", "Force", "PruneLast", "ServerSideApply"}
    assert not refused & {option.partition("=")[0] for option in policy["syncOptions"]}
    assert "ignoreDifferences" not in ARGO["template"]["spec"]


def test_argo_renders_what_grpo_renders(packages: Path, wanted: Mapping[str, Any], helm: Engine) -> None:
    chart, values = ARGO["template"]["spec"]["sources"]
    assert (chart["chart"], chart["targetRevision"], values["ref"]) == ("{{ .layer }}", "{{ .version }}", "values")
    assert chart["helm"]["valueFiles"][:2] == PROFILE_AND_RECIPE
    assert chart["helm"]["valueFiles"][2].startswith("$values/")
    for layer in LAYERS:
        files = [*(packages / layer / name for name in PROFILE_AND_RECIPE), SITE]
        rendered = helm.render(str(packages / layer), files, release=RELEASES[layer], namespace=NAMESPACE)
        assert rendered.documents == wanted[layer], layer


def test_flux_installs_the_four_releases_in_order() -> None:
    assert [*FLUX] == [*LAYERS]
    before: list[str] = []
    for layer, release in FLUX.items():
        spec = release["spec"]
        assert release["metadata"] == {"name": RELEASES[layer], "namespace": NAMESPACE}
        assert (spec["releaseName"], spec["chart"]["spec"]["version"]) == (RELEASES[layer], VERSIONS[layer])
        assert [each["name"] for each in spec.get("dependsOn", [])] == before
        assert spec["chart"]["spec"]["sourceRef"]["name"] == documents("flux/source.yaml")[0]["metadata"]["name"]
        assert not any(spec[action].get("force") for action in ("install", "upgrade"))
        before = [RELEASES[layer]]
    checks = FLUX["raycluster"]["spec"]["healthCheckExprs"]
    assert [(check["apiVersion"], check["kind"]) for check in checks] == [("ray.io/v1", "RayCluster")]


def test_flux_rolls_back_a_refused_run_and_does_not_wait_for_training() -> None:
    run = FLUX["grpo-job"]["spec"]
    assert run["upgrade"]["remediation"] == {"retries": 0, "remediateLastFailure": True, "strategy": "rollback"}
    assert {run[action]["disableWait"] for action in ("install", "upgrade", "rollback")} == {True}
    assert "driftDetection" not in run


def test_flux_picks_up_a_changed_chart_in_git_without_a_version_bump() -> None:
    """Only the source of the chart differs from the published one."""
    source, release = documents("flux/from-git.yaml")
    chart = release["spec"].pop("chart")["spec"]
    published = {key: value for key, value in FLUX["grpo-job"]["spec"].items() if key != "chart"}
    assert (release["metadata"], release["spec"]) == (FLUX["grpo-job"]["metadata"], published)
    assert chart == {
        "chart": "./third_party/charts/grpo-job",
        "reconcileStrategy": "Revision",
        "sourceRef": {"kind": source["kind"], "name": source["metadata"]["name"]},
    }
    assert source["metadata"]["namespace"] == release["metadata"]["namespace"]


def folder_of_flux(folder: Path) -> Path:
    """Return the example's folder as a user has it, with the three values files beside it."""
    shutil.copytree(EXAMPLES / "flux", folder)
    for file in stack_files():
        shutil.copy(file, folder)
    return folder


def test_flux_renders_what_grpo_renders(tmp_path: Path, wanted: Mapping[str, Any], helm: Engine) -> None:
    """The ConfigMap's keys are values files, taken in the order of valuesFrom; the package keeps its own defaults."""
    folder = folder_of_flux(tmp_path / "flux")
    (generated,) = documents("flux/kustomization.yaml")[0]["configMapGenerator"]
    files = {key: folder / name for key, _, name in (each.partition("=") for each in generated["files"])}
    for layer, release in FLUX.items():
        assert "valuesFiles" not in release["spec"]["chart"]["spec"]
        sources = release["spec"]["valuesFrom"]
        assert {(each["kind"], each["name"]) for each in sources} == {("ConfigMap", generated["name"])}
        values = [files[each["valuesKey"]] for each in sources]
        assert [path.name for path in values] == [path.name for path in stack_files()]
        chart = str(ROOT / "charts" / layer)
        rendered = helm.render(chart, values, release=RELEASES[layer], namespace=NAMESPACE)
        assert rendered.documents == wanted[layer], layer


def test_kustomize_builds_the_flux_folder(tmp_path: Path) -> None:
    folder = folder_of_flux(tmp_path / "flux")
    kubectl = require_tool("kubectl")
    built = subprocess.run([kubectl, "kustomize", folder], check=True, capture_output=True, text=True).stdout
    objects = list(yaml.safe_load_all(built))
    assert sorted(each["kind"] for each in objects) == ["ConfigMap", *["HelmRelease"] * 4, "HelmRepository"]
    assert {each["metadata"]["namespace"] for each in objects} == {NAMESPACE}
    (values,) = [each["data"] for each in objects if each["kind"] == "ConfigMap"]
    assert [*values.values()] == [file.read_text(encoding="utf-8") for file in stack_files()]


def test_helmfile_renders_the_four_releases_in_order(wanted: Mapping[str, Any], helm: Engine) -> None:
    assert [*HELMFILE] == [*LAYERS]
    before: list[str] = []
    for layer, release in HELMFILE.items():
        assert (release["name"], release["version"]) == (RELEASES[layer], VERSIONS[layer])
        assert release.get("needs", []) == before
        before = [f"{NAMESPACE}/{release['name']}"]
        files = [(EXAMPLES / name).resolve() for name in release["values"]]
        files = [SITE if file.name == SITE.name else file for file in files]
        chart = str(ROOT / "charts" / layer)
        rendered = helm.render(chart, files, release=release["name"], namespace=release["namespace"])
        assert rendered.documents == wanted[layer], layer
    assert HELMFILE["grpo-job"]["atomic"] is True
    assert (
        f"raycluster/{by_kind(wanted['raycluster'], 'RayCluster')['metadata']['name']}"
        in HELMFILE["grpo-job"]["hooks"][0]["args"]
    )


def gibibytes(amount: object) -> float:
    """Return a number of cores, GPUs or Gi."""
    return float(str(amount).removesuffix("Gi"))


def requests(group: dict[str, Any], count: int) -> dict[str, float]:
    """Return what the pods of a group request together."""
    (container,) = group["template"]["spec"]["containers"]
    asked = container["resources"]["requests"]
    return {"nvidia.com/gpu": 0, **{name: count * gibibytes(amount) for name, amount in asked.items()}}


def test_the_queue_quota_fits_exactly_one_stack_from_the_readme(helm: Engine) -> None:
    """One flavor has the workers, the other the head."""
    objects = {(one["kind"], one["metadata"]["name"]): one for one in documents("kueue/queue.yaml")}
    queue, local = objects["ClusterQueue", "gpus"], objects["LocalQueue", "gpus"]
    assert (local["spec"]["clusterQueue"], local["metadata"]["namespace"]) == ("gpus", NAMESPACE)
    (group,) = queue["spec"]["resourceGroups"]
    values = {"ray": {"kueue": {"queue": local["metadata"]["name"]}}}
    rendered = helm.render(str(ROOT / "charts/raycluster"), stack_files(), values=values, release="r", namespace="rl")
    (cluster,) = [one for one in rendered.documents if one["kind"] == "RayCluster"]
    (workers,) = cluster["spec"]["workerGroupSpecs"]
    asked = [requests(workers, workers["replicas"]), requests(cluster["spec"]["headGroupSpec"], 1)]
    for flavor, wanted in zip(group["flavors"], asked, strict=True):
        assert ("ResourceFlavor", flavor["name"]) in objects
        assert {one["name"]: gibibytes(one["nominalQuota"]) for one in flavor["resources"]} == wanted
        assert [one["name"] for one in flavor["resources"]] == group["coveredResources"]
    flavor = objects["ResourceFlavor", "b200"]["spec"]
    assert flavor["nodeLabels"].items() <= workers["template"]["spec"]["nodeSelector"].items()
    assert ("Topology", flavor["topologyName"]) in objects


def test_the_server_uses_the_volume_and_service_account_of_the_stack(wanted: Mapping[str, Any]) -> None:
    deployment, service = documents("serve/deployment.yaml")
    pod = deployment["spec"]["template"]
    (volume,) = [each["persistentVolumeClaim"] for each in pod["spec"]["volumes"] if "persistentVolumeClaim" in each]
    cluster = by_kind(wanted["raycluster"], "RayCluster")
    worker = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    claims = {item["metadata"]["name"] for item in wanted["storage"] if item["kind"] == "PersistentVolumeClaim"}
    assert volume["claimName"] in claims
    assert pod["spec"]["serviceAccountName"] == worker["serviceAccountName"]
    assert pod["spec"]["nodeSelector"].items() <= worker["nodeSelector"].items()
    assert service["spec"]["selector"] == pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
