"""What the pods name: Secrets and ConfigMaps with their keys, service accounts, priority classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from postrender.live.doctor.check import Result, check, failed, passed, skipped
from postrender.live.evidence import Evidence
from postrender.live.objects import name_of
from postrender.manifests.pods import mapping, sequence

# The values behind variables that the charts set; every other one stands under ray.env.
_VARIABLES: Final = {"HF_TOKEN": "huggingface", "WANDB_API_KEY": "tracking.wandb"}
_PULL_KEY: Final = ".dockerconfigjson"

# Names and keys (empty for the whole object) with the value behind each.
Named = dict[tuple[str, str], str]


def _specs(evidence: Evidence) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the spec of each pod with the section of its values."""
    for role, pod in evidence.expected.roles():
        yield "ray.head" if role == "head" else "ray.workers", pod.spec


def _named(evidence: Evidence, kind: str) -> Named:
    """Return the Secrets or the ConfigMaps (`kind`: secret, configMap) without which a pod does not start."""
    found: Named = {}
    for section, spec in _specs(evidence):
        for container in map(mapping, (*sequence(spec.get("containers")), *sequence(spec.get("initContainers")))):
            for each in map(mapping, sequence(container.get("env"))):
                value = _of_variable(str(each.get("name")), section, evidence)
                _add(found, mapping(each.get("valueFrom")).get(f"{kind}KeyRef"), value)
            for each in map(mapping, sequence(container.get("envFrom"))):
                _add(found, each.get(f"{kind}Ref"), section)
        for volume in map(mapping, sequence(spec.get("volumes"))):
            value = f"{section}.volumes.{volume.get('name')}"
            sources = [mapping(each) for each in sequence(mapping(volume.get("projected")).get("sources"))]
            for source in (volume, *sources):
                _add(found, source.get(kind), value)
    return found


def _of_variable(name: str, section: str, evidence: Evidence) -> str:
    own = f"{section}.env.{name}.secret"
    usual = f"{_VARIABLES[name]}.secret" if name in _VARIABLES else f"ray.env.{name}.secret"
    return own if own in evidence.expected.places else usual


def _add(found: Named, reference: object, value: str) -> None:
    about = reference if isinstance(reference, dict) else {}
    name = about.get("name") or about.get("secretName")
    if not name or about.get("optional"):
        return
    keys = [about.get("key"), *(mapping(each).get("key") for each in sequence(about.get("items")))]
    for key in [str(each) for each in keys if each] or [""]:
        found.setdefault((str(name), key), value)


@check("secrets", "the Secrets that the pods read have their keys", "secrets")
def secrets(evidence: Evidence) -> Iterator[Result]:
    """Judge names and keys only: the values are never read."""
    for (name, key), value in sorted(_named(evidence, "secret").items()):
        yield _has_key("Secret", "secrets", name, key, value, evidence)


@check("config-maps", "the ConfigMaps that the pods read have their keys", "configmaps")
def config_maps(evidence: Evidence) -> Iterator[Result]:
    """Judge what no chart makes."""
    made = {name_of(each) for each in evidence.expected.of_kind("ConfigMap")}
    for (name, key), value in sorted(_named(evidence, "configMap").items()):
        if name not in made:
            yield _has_key("ConfigMap", "configmaps", name, key, value, evidence)


def _has_key(kind: str, plural: str, name: str, key: str, value: str, evidence: Evidence) -> Result:
    """Judge one object and one of its keys.

    The API server notes in the metadata which keys an object was given; an old one may have no such note.
    """
    namespace = evidence.expected.namespace
    by_hand = f"kubectl describe {kind.lower()} {name} -n {namespace}"
    wanted = f" with the key {key}" if key else ""
    found = evidence.find(plural, name)
    keys = (found or {}).get("keys")
    if found is None:
        create = "secret generic" if kind == "Secret" else "configmap"
        fix = f"kubectl create {create} {name} -n {namespace} --from-file={key or 'KEY'}=FILE"
        return failed(f"there is no {kind} {name}{wanted}", _leaf(value, "name"), fix, by_hand)
    if key and keys is None:
        return skipped(f"{kind} {name} is there; which keys it has is not noted", command=by_hand)
    if key and key not in sequence(keys):
        listed = ", ".join(map(str, sequence(keys)))
        text = f"{kind} {name} has no key {key}" + (f", only {listed}" if listed else ": it has no keys")
        fix = "name the key that it has, or add the key" if listed else "add the key"
        return failed(text, _leaf(value, "key"), fix, by_hand)
    return passed(f"{kind} {name} is there{wanted}", command=by_hand)


def _leaf(value: str, name: str) -> str:
    """Return the value that has the name or the key, where a section of the values has both."""
    return f"{value}.{name}" if value.endswith(".secret") else value


@check("accounts", "the service accounts and image pull secrets are there", "serviceaccounts", "secrets")
def accounts(evidence: Evidence) -> Iterator[Result]:
    """Judge what the pods name and no chart makes."""
    made = {name_of(each) for each in evidence.expected.of_kind("ServiceAccount")}
    there = made | {name_of(each) for each in evidence.of("serviceaccounts")}
    namespace = evidence.expected.namespace
    for name in sorted({str(spec.get("serviceAccountName") or "default") for _, spec in _specs(evidence)}):
        text, by_hand = f"service account {name}", f"kubectl get serviceaccount {name} -n {namespace}"
        if name in there:
            yield passed(f"{text} is there, or made by a chart", command=by_hand)
        else:
            fix = f"kubectl create serviceaccount {name} -n {namespace}, or leave the name out"
            yield failed(f"there is no {text}", "stack.names.serviceAccount", fix, by_hand)
    yield from _pull_secrets(evidence)


def _pull_secrets(evidence: Evidence) -> Iterator[Result]:
    namespace = evidence.expected.namespace
    named = {
        str(mapping(each).get("name")): f"{section}.podSpec.imagePullSecrets"
        for section, spec in _specs(evidence)
        for each in sequence(spec.get("imagePullSecrets"))
    }
    for name, value in sorted(named.items()):
        by_hand = f"kubectl describe secret {name} -n {namespace}"
        found = evidence.find("secrets", name)
        keys = (found or {}).get("keys")
        fix = f"kubectl create secret docker-registry {name} -n {namespace} --docker-server=…"
        if found is None:
            yield failed(f"there is no image pull secret {name}", value, fix, by_hand)
        elif keys is not None and _PULL_KEY not in keys:
            yield failed(f"Secret {name} has no key {_PULL_KEY}: it pulls no image", value, fix, by_hand)
        else:
            yield passed(f"image pull secret {name} is there", value, by_hand)


@check("priority", "the priority class is there", "priorityclasses")
def priority(evidence: Evidence) -> Iterator[Result]:
    """Judge the priority classes that the pods name."""
    named = {str(spec["priorityClassName"]): each for each, spec in _specs(evidence) if spec.get("priorityClassName")}
    for name, section in sorted(named.items()):
        value, by_hand = f"{section}.podSpec.priorityClassName", "kubectl get priorityclass"
        fix = f"use one that `{by_hand}` lists, or create it"
        if evidence.find("priorityclasses", name):
            yield passed(f"priority class {name} is there", value, by_hand)
        else:
            yield failed(f"there is no priority class {name}", value, fix, by_hand)
