"""The example for a team: its quota holds one stack, and every pod of the charts states the requests that it needs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Engine
from postrender.manifests.pods import Pod, pods
from postrender.values.quantity import quantity
from tests.conftest import ROOT

EXAMPLES = ROOT / "examples/team"
FILES = [
    *("values/accelerators/b200.yaml", "values/recipes/gemma3-27b-gsm8k.yaml"),
    "values/examples/site.yaml",
]
SIDECAR = "gke-gcsfuse/{}-limit"
# What the default values leave out.
MORE = {
    "ray": {"logs": {"fluentBit": {"enabled": True}}},
    "tracking": {"tensorboard": {"enabled": True, "server": {"enabled": True}}},
}
EPHEMERAL = {"job": {"cluster": {"mode": "ephemeral"}}}


def rendered(helm: Engine, layer: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of a layer with the example site file."""
    files = [ROOT / name for name in FILES]
    return list(helm.render(str(ROOT / "charts" / layer), files, values=values, namespace="rl").documents)


def amount(value: Any) -> float:
    """Return a quantity as a number."""
    number = quantity(value)
    assert number is not None, value
    return number


def requested(pod: Pod, name: str) -> float:
    """Return what a pod requests of a resource, with the sidecar that GKE injects: its requests follow its limits."""
    annotations = pod.template["metadata"].get("annotations", {})
    own = sum(amount(one["resources"]["requests"].get(name, 0)) for one in pod.containers())
    return own + amount(annotations.get(SIDECAR.format(name), 0))


def test_the_quota_fits_one_stack_from_the_readme_and_one_hook_pod(helm: Engine) -> None:
    quota, _ = yaml.safe_load_all((EXAMPLES / "quota.yaml").read_text(encoding="utf-8"))
    documents = rendered(helm, "raycluster", {})
    ray = [pod for each in documents if each["kind"] == "RayCluster" for pod in pods(each)]
    hooks = [pod for each in documents if each["kind"] == "Pod" for pod in pods(each)]
    assert (len(ray), len(hooks)) == (2, 5)
    for resource, limit in quota["spec"]["hard"].items():
        name = resource.removeprefix("requests.")
        stack = sum((pod.count or 1) * requested(pod, name) for pod in ray)
        wanted = stack + max(requested(pod, name) for pod in hooks)
        unit = amount("1Gi") if str(limit).endswith("Gi") else 1
        assert amount(limit) == math.ceil(wanted / unit) * unit, resource


@pytest.mark.parametrize(("layer", "values"), [("raycluster", MORE), ("grpo-job", {**MORE, **EPHEMERAL})])
def test_every_pod_states_the_requests_a_quota_requires(layer: str, values: dict[str, Any], helm: Engine) -> None:
    found = [pod for each in rendered(helm, layer, values) for pod in pods(each)]
    assert found
    for pod in found:
        for container in [*pod.containers(), *pod.spec.get("initContainers", [])]:
            stated = container["resources"]
            assert {"cpu", "memory", "ephemeral-storage"} <= stated["requests"].keys(), container["name"]
            assert stated["requests"] == stated["limits"], container["name"]
