"""The worker pods of other clouds beside those that the clouds publish: every field equal, or different with a reason.

A case in tests/charts/clouds is made from one published manifest at one commit. Read the manifest, and write what its
worker pod sets with Kubernetes' names, in this form:

- Labels, annotations, the fields of the pod and those of its one container stand side by side. `securityContext` is
  both contexts together. `limits` and `requests` stand without `resources`; a request equal to its limit is left out.
- An entry of a list stands under its name: `env: {NAME: value}`, `tolerations: {KEY: {effect: NoSchedule}}`.
- A volume stands under the path of its mount: `mounts: {/dev/shm: {emptyDir: {medium: Memory}}}`. Claimed devices stand
  under their class: `resourceClaims: {CLASS: {count: 8}}`, or `{ComputeDomain: {numNodes: 2}}`.
- A node affinity for one value is a `nodeSelector`. Any other affinity is `affinity: {KIND: {TOPOLOGY KEY: required}}`.
- What mpirun gives the workers with `-x` is `env` too.
- Left out are the image, the command, ports, hooks, names, and labels that are not the cloud's.

Then run the test: it names each field that differs. Give each a reason under `differs`. A line there names one field,
or a part of the pod of which no field is equal. What a case does not name, the vendor does not set.
"""

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
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
Fields = dict[str, str]
ADDED = " ".join(
    f"securityContext.capabilities.add.{name}"
    for name in ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
)
# What every worker of ours has, on any cloud. It needs no line in a case, unless the vendor's pod has the same field.
OURS = {
    "the program is ours": "name image imagePullPolicy lifecycle initContainers terminationGracePeriodSeconds",
    "our objects find the pod by them": "labels",
    "the account and the volumes of the stack": "serviceAccountName env.HF_TOKEN env.HF_HOME mounts./data",
    "a worker takes a whole node, which test_profiles.py compares": "limits.cpu limits.memory limits.ephemeral-storage",
    "NCCL and vLLM share memory on any machine": "mounts./dev/shm",
    "a Service named vllm would set a variable that vLLM reads": "enableServiceLinks",
    "nothing in it calls the Kubernetes API": "automountServiceAccountToken",
    "no autoscaler takes a node away from a training": "annotations.cluster-autoscaler.kubernetes.io/safe-to-evict",
    "the API server adds it to a pod with GPUs, where that admission plugin is on": "tolerations.nvidia.com/gpu",
    "without its fast network NCCL fails, and does not use TCP": "env.NCCL_NET",
    "the interface of the pod network": "env.NCCL_SOCKET_IFNAME env.GLOO_SOCKET_IFNAME",
    "no more rights than the program needs": (
        f"securityContext.allowPrivilegeEscalation securityContext.capabilities.drop {ADDED}"
    ),
}
USUAL = " ".join(OURS.values()).split()
# The fields that tell the entries of a list apart.
KEYS = ("name", "key", "mountPath")


def flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield each field of a tree with its dotted name; the entry of a list has its key in the name, not its place."""
    if isinstance(value, list) and value:
        entries = [entry(each, place) for place, each in enumerate(value)]
        value = dict(entries)
        assert len(value) == len(entries), f"{name} has two entries with one key"
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from flat(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, str(value)


def entry(item: Any, place: int) -> tuple[str, Any]:
    """Return the key of a list's entry, and what it says."""
    if not isinstance(item, dict):
        return str(item), True
    key = next((key for key in KEYS if key in item), None)
    if key is None:
        return str(place), item
    rest = without(item, key)
    return item[key], rest["value"] if rest.keys() == {"value"} else rest


def told(template: Object, objects: list[Object]) -> Object:
    """Return a pod template in the form of a case."""
    pod = dict(template["spec"])
    (container,) = pod.pop("containers")
    resources = container["resources"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = [{**volumes.pop(mount["name"]), **mount} for mount in container["volumeMounts"]]
    templates = {each["name"]: each["resourceClaimTemplateName"] for each in pod.get("resourceClaims", [])}
    claims = [claimed(objects)[templates[each["name"]]] for each in resources.get("claims", [])]
    return {
        **template["metadata"],
        **pod,
        **without(container, "resources", "volumeMounts"),
        "securityContext": {**pod.get("securityContext", {}), **container["securityContext"]},
        "limits": resources["limits"],
        "requests": resources["requests"],
        "mounts": [without(mount, "name") for mount in mounts],
        "volumes": volumes,
        "resourceClaims": {name: each for claim in claims for name, each in claim.items()},
    }


def without(item: Object, *names: str) -> Object:
    """Return an object without some of its fields."""
    return {name: each for name, each in item.items() if name not in names}


def claimed(objects: list[Object]) -> dict[str, Object]:
    """Return what each claim template gives: the devices of each class, or a ComputeDomain."""
    found = {}
    for item in objects:
        if item["kind"] == "ComputeDomain":
            found[item["metadata"]["name"]] = {"ComputeDomain": {"numNodes": item["spec"]["numNodes"]}}
        if item["kind"] == "ResourceClaimTemplate":
            devices = item["spec"]["spec"]["devices"]
            asked, rest = [each["exactly"] for each in devices["requests"]], without(devices, "requests")
            found[item["metadata"]["name"]] = {
                each["deviceClassName"]: {**without(each, "deviceClassName"), **rest} for each in asked
            }
    return found


def fields(pod: Object) -> Fields:
    """Return each field of a pod; a request that is equal to its limit says nothing, because it is the default."""
    limits = pod.get("limits", {})
    requests = {name: each for name, each in pod.get("requests", {}).items() if each != limits.get(name)}
    return dict(flat({key: each for key, each in {**pod, "requests": requests}.items() if each not in ({}, [])}, ""))


def part(name: str, of: Fields) -> set[str]:
    """Return the fields that a line means: the one with this name, or those below it."""
    return {field for field in of if field == name or field.startswith(f"{name}.")}


def worker(case: Object, render: Render) -> Fields:
    """Return the fields of our worker for a case; its runs lie on a claim, as they do on every cloud."""
    profile = case["profile"]
    values = {**options.alone(profile, case.get("mode", "")), **options.instead(existingClaim={"name": "runs"})}
    objects = render("raycluster", values, accelerator=profile)
    return fields(told(by_kind(objects, "RayCluster")["spec"]["workerGroupSpecs"][0]["template"], objects))


@each_case
def test_a_worker_differs_from_the_published_pod_only_where_explained(case: Object, render: Render) -> None:
    """Every field of either pod is equal, or has a reason."""
    ours, theirs = worker(case, render), fields(case["pod"])
    different = {field for field in {**ours, **theirs} if ours.get(field) != theirs.get(field)}
    lines = {name: part(name, {**ours, **theirs}) for name in case["differs"]}
    usual = {field for name in USUAL for field in part(name, ours)} - theirs.keys()
    explained = usual.union(*lines.values())
    assert not {field: (ours.get(field), theirs.get(field)) for field in different - explained}, "ours, theirs"
    stale = [name for name, named in lines.items() if not named or named - different or named <= usual]
    assert not stale, "lines of the case that explain no difference"


@each_case
def test_fields_exempt_from_explanation_are_in_every_pod(case: Object, render: Render) -> None:
    ours = worker(case, render)
    assert not [name for name in USUAL if not part(name, ours)]


def test_every_cloud_has_a_case() -> None:
    clouds = {name.partition("-")[0] for name, machine in options.machines().items() if machine["name"] != name}
    assert clouds - {"infiniband"} == {case["profile"].partition("-")[0] for case in CASES} - {"gb300"}
