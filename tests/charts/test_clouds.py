"""The worker pods of other clouds beside those that the clouds publish: equal, or different with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests import options
from tests.conftest import ROOT, Object, Render, by_kind

CASES = [
    each for file in sorted((ROOT / "tests/charts/clouds").glob("*.yaml")) for each in yaml.safe_load(file.read_text())
]
# What every pod of ours asks for, on any machine.
SIZES = ("cpu", "memory", "ephemeral-storage")
RIGHTS = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"}
NETWORK = ("NCCL_", "FI_", "UCX_", "LD_LIBRARY_PATH")


def described(pod: Object, templates: dict[str, Object]) -> dict[str, Any]:
    """Return what a worker pod has for the GPUs and their network."""
    spec, ray = pod["spec"], pod["spec"]["containers"][0]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = [(volumes[mount["name"]], mount["mountPath"]) for mount in ray["volumeMounts"]]
    context = ray["securityContext"]
    return {
        "limits": {name: amount for name, amount in ray["resources"]["limits"].items() if name not in SIZES},
        "claims": {
            each["name"]: templates[each["resourceClaimTemplateName"]] for each in spec.get("resourceClaims", [])
        },
        "nodeSelector": spec.get("nodeSelector", {}),
        "tolerations": {each["key"]: each["effect"] for each in spec.get("tolerations", [])},
        "annotations": {key: text for key, text in pod["metadata"].get("annotations", {}).items() if "cni" in key},
        "capabilities": {name: True for name in context["capabilities"]["add"] if name not in RIGHTS},
        "env": {each["name"]: each.get("value") for each in ray["env"] if each["name"].startswith(NETWORK)},
        "hostPaths": {volume["hostPath"]["path"]: path for volume, path in mounts if "hostPath" in volume},
        "files": {volume["configMap"]["name"]: path for volume, path in mounts if volume["name"].startswith("file-")},
        **{key: True for key in ("hostNetwork",) if spec.get(key)},
        **{key: True for key in ("privileged",) if context.get(key)},
    }


def claimed(objects: list[Object]) -> dict[str, Object]:
    """Return what each claim template gives: the class and the number of devices, or a ComputeDomain."""
    found = {item["metadata"]["name"]: "ComputeDomain" for item in objects if item["kind"] == "ComputeDomain"}
    for item in objects:
        if item["kind"] == "ResourceClaimTemplate":
            (request,) = item["spec"]["spec"]["devices"]["requests"]
            found[item["metadata"]["name"]] = "{deviceClassName} {count}".format(**request["exactly"])
    return found


def flat(tree: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each field with its dotted name."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{name}", each) for name, each in value.items())
        else:
            yield key, value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_worker_is_what_the_cloud_publishes(case: dict[str, Any], render: Render) -> None:
    """Every field of either pod: equal, or named with the reason."""
    profile = case["profile"]
    objects = render("raycluster", options.alone(profile, case.get("mode", "")), accelerator=profile)
    worker = by_kind(objects, "RayCluster")["spec"]["workerGroupSpecs"][0]["template"]
    ours, theirs = dict(flat(described(worker, claimed(objects)))), dict(flat(case["pod"]))
    different = {field for field in {**ours, **theirs} if ours.get(field) != theirs.get(field)}
    assert different == set(case["differs"])


def test_every_cloud_has_a_case() -> None:
    clouds = {name.partition("-")[0] for name, machine in options.machines().items() if machine["name"] != name}
    assert clouds - {"infiniband"} == {case["profile"].partition("-")[0] for case in CASES} - {"gb300"}
