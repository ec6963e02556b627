"""A finding of a schema says what stands there, unless it may be a secret, and what KubeRay does with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grpo.check.objects import check
from grpo.manifests import crds
from grpo.manifests.loader import read
from grpo.problems.ray.rayspec import EVENT_ONLY
from postrender.finding import Finding
from postrender.manifests.schemas import Kinds
from tests.conftest import KINDS

SCHEMA = ("kubernetes/value-refused", "kubernetes/unknown-field")
LONG = "a" * 41
RANDOM = "q8Zk3Xv1Lw9Tb5Rn2"


def findings(item: Any, kinds: Kinds = KINDS) -> list[Finding]:
    found = check(read({"a.yaml": json.dumps(item).encode()}), None, kinds)
    return [each for each in found if each.rule in SCHEMA]


def pod(**spec: Any) -> Any:
    containers = [{"name": "a", "image": "x:1", **spec.pop("container", {})}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": containers, **spec}}


def env(name: str, value: Any) -> Any:
    return pod(container={"env": [{"name": name, "value": value}]})


@pytest.mark.parametrize(
    ("item", "what"),
    [
        (pod(hostNetwork="true"), "spec.hostNetwork is 'true', expected true or false; remove the quotes"),
        (pod(hostNetwork="sure"), "spec.hostNetwork is 'sure', expected true or false"),
        (pod(priority="1"), "spec.priority is '1', expected an integer; remove the quotes"),
        (pod(priority=1.5), "spec.priority is 1.5, expected an integer"),
        (pod(nodeSelector=["a"]), "spec.nodeSelector is a list, expected a map"),
        (pod(nodeSelector="API_KEY=hunter2hunter2"), "spec.nodeSelector is a string, expected a map"),
        (pod(nodeSelector={"a": True}), "spec.nodeSelector.a is true, expected a string; write it in quotes"),
        (pod(restartPolicy="never"), "spec.restartPolicy is 'never', expected one of"),
        (pod(restartPolicy=LONG), "spec.restartPolicy: expected one of"),
        (pod(restartPolicy=RANDOM), "spec.restartPolicy: expected one of"),
        (pod(restartPolicy="hf_" + "abcdEFGH" * 4), "spec.restartPolicy: expected one of"),
        (pod(dnsConfig={"token": 1}), "spec.dnsConfig.token is not a field of Pod"),
        (env("A", 7), "env[0].value is 7, expected a string; write it in quotes"),
        (env("API_KEY", 7), "env[0].value is an integer, expected a string; write it in quotes"),
        (pod(nodeSelector={"password": 7}), "spec.nodeSelector.password is an integer, expected a string"),
        (pod(hostNetwrok=True), "spec.hostNetwrok is not a field of Pod; did you mean hostNetwork?"),
        (pod(hostNetwork=True, hostNetwrok=True), "spec.hostNetwrok is not a field of Pod"),
        (pod(zzz=True), "spec.zzz is not a field of Pod"),
    ],
)
def test_a_message_says_what_stands_there_but_no_secret(item: Any, what: str) -> None:
    (found,) = (each.what for each in findings(item))
    assert what in found
    assert found.endswith("?") == what.endswith("?") or "expected one of" in what
    for secret in (LONG, RANDOM, "hunter2", "abcdEFGH"):
        assert secret not in found


def job(**spec: Any) -> Any:
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "a"}, "spec": spec}


CONTAINERS = {"spec": {"containers": [{"name": "a", "image": "x:1"}]}}


def cluster(name: str = "a", template: Any = CONTAINERS, **group: Any) -> Any:
    workers = [{"groupName": "a", "template": template, **group}]
    spec = {"headGroupSpec": {"template": CONTAINERS}, "workerGroupSpecs": workers}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}


# What the operator refuses and its definitions accept.
ACCEPTED: list[tuple[Any, str]] = [
    (cluster("a" * 54), "metadata.name has 54 characters, expected 53 characters or fewer"),
    (cluster("3-nodes"), "metadata.name is '3-nodes', expected lower-case letters"),
    (cluster(minReplicas=-1), "minReplicas is -1, expected 0 or more"),
    (cluster(idleTimeoutSeconds=-1), "idleTimeoutSeconds is -1, expected 0 or more"),
    (cluster(template={"spec": {"containers": []}}), "containers is empty, expected 1 entry or more"),
    (cluster(template={}), "template.spec is missing"),
    (job(clusterSelector={"a": "b"}, backoffLimit=-1), "spec.backoffLimit is -1, expected 0 or more"),
]
REFUSED: list[tuple[Any, str]] = [
    (cluster("Ray"), "metadata.name is 'Ray', expected lower-case letters"),
    (cluster(rayStartParams={"num-gpus": 8}), "num-gpus is 8, expected a string; write it in quotes"),
    (cluster(template=None), "template is null, expected a value"),
]


@pytest.mark.parametrize(
    ("item", "what", "said"), [(*each, True) for each in ACCEPTED] + [(*each, False) for each in REFUSED]
)
def test_a_finding_says_what_kuberay_does(item: Any, what: str, said: bool) -> None:
    (found,) = findings(item)
    assert what in found.what
    assert (found.why == EVENT_ONLY) == said
    assert said or "the API server refuses the object" in found.why


@pytest.mark.parametrize(("item", "what"), [*ACCEPTED, *REFUSED])
def test_a_definition_of_kuberay_that_is_given_hides_none_of_it(item: Any, what: str, tmp_path: Path) -> None:
    """Its own definitions say less than its operator refuses."""
    open_spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": open_spec}}
    kind = item["kind"]
    spec = {
        "group": "ray.io",
        "names": {"kind": kind},
        "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}],
    }
    definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    kinds = Kinds()
    for _ in range(2):
        crds.add_from(kinds, read({"crd.yaml": json.dumps(definition).encode()}))
    item["spec"]["newField"] = True
    found = [each.what for each in findings(item, kinds)]
    assert any(what in each for each in found)
    assert not any("newField" in each for each in found)
