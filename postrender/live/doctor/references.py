"""What the pods name: Secrets and their keys, claims, accounts, priority classes, networks, device classes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from postrender.live.doctor.check import Result, check, failed, passed, skipped
from postrender.live.evidence import Evidence, conditions, name_of
from postrender.manifests.pods import mapping, sequence

_INTERFACES: Final = "networking.gke.io/interfaces"


def _specs(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for _, pod in evidence.expected.roles():
        yield pod.spec


def _secret_keys(evidence: Evidence) -> set[tuple[str, str]]:
    """Return the Secrets and the keys that variables of the pods come from."""
    found = set()
    for spec in _specs(evidence):
        for container in (*sequence(spec.get("containers")), *sequence(spec.get("initContainers"))):
            for variable in sequence(mapping(container).get("env")):
                reference = mapping(mapping(mapping(variable).get("valueFrom")).get("secretKeyRef"))
                if reference.get("name") and not reference.get("optional"):
                    found.add((str(reference["name"]), str(reference.get("key"))))
    return found


@check("secrets", "the Secrets that the pods read have their keys", "secrets")
def secrets(evidence: Evidence) -> Iterator[Result]:
    """Judge names and keys only: the values are never read.

    The API server notes in the metadata which keys a Secret was given; an old Secret may have no such note.
    """
    there = {name_of(each): each for each in evidence.of("secrets")}
    namespace = evidence.expected.namespace
    for name, key in sorted(_secret_keys(evidence)):
        by_hand = f"kubectl describe secret {name} -n {namespace}"
        if name not in there:
            fix = f"kubectl create secret generic {name} -n {namespace} --from-file={key}=FILE"
            yield failed(f"there is no Secret {name} with the key {key}", _secret_value(name, evidence), fix, by_hand)
        elif (keys := there[name].get("keys")) is None:
            yield skipped(f"Secret {name} is there; which keys it has is not noted", command=by_hand)
        elif key not in keys:
            yield failed(
                f"Secret {name} has no key {key}, only {', '.join(keys) or 'none'}",
                _secret_value(name, evidence),
                "name the key that it has, or add the key",
                by_hand,
            )
        else:
            yield passed(f"Secret {name} has the key {key}", command=by_hand)


def _secret_value(name: str, evidence: Evidence) -> str:
    """Return the value that names a Secret."""
    for path, (value, _) in evidence.expected.places.items():
        if path.endswith("secret.name") and value == name:
            return path
    return "huggingface.secret.name"


@check("claims", "the volumes of the pods are bound", "persistentvolumeclaims", "storageclasses")
def claims(evidence: Evidence) -> Iterator[Result]:
    """Judge the claims that pods mount; one that the storage layer will make needs its storage class."""
    made = {name_of(each): each for each in evidence.expected.of_kind("PersistentVolumeClaim")}
    there = {name_of(each): each for each in evidence.of("persistentvolumeclaims")}
    classes = {name_of(each) for each in evidence.of("storageclasses")}
    for name in sorted(_claims(evidence)):
        by_hand = f"kubectl describe pvc {name} -n {evidence.expected.namespace}"
        phase = mapping(there.get(name, {}).get("status")).get("phase")
        wanted = mapping(made.get(name, {}).get("spec")).get("storageClassName")
        if phase == "Bound":
            yield passed(f"claim {name} is bound", "storage", by_hand)
        elif phase:
            yield failed(f"claim {name} is {phase}", "storage", "its events say why", by_hand)
        elif name not in made:
            yield failed(f"there is no claim {name}", "storage", "install the storage layer, or make it", by_hand)
        elif wanted and wanted not in classes:
            text = f"claim {name} will want the storage class {wanted}, but there are only {', '.join(sorted(classes))}"
            yield failed(text, "storage", "name one of these, or make the class", "kubectl get storageclass")
        else:
            yield passed(f"claim {name} is not there yet; the storage layer makes it", "storage", by_hand)


def _claims(evidence: Evidence) -> set[str]:
    volumes = [mapping(each) for spec in _specs(evidence) for each in sequence(spec.get("volumes"))]
    names = (mapping(each.get("persistentVolumeClaim")).get("claimName") for each in volumes)
    return {str(name) for name in names if name}


@check("networks", "the networks of the machines are ready", "networks")
def networks(evidence: Evidence) -> Iterator[Result]:
    """Judge GKE's Network objects that the annotation of the pods names."""
    there = {name_of(each): each for each in evidence.of("networks")}
    made = {name_of(each) for each in evidence.expected.of_kind("Network")}
    for name in sorted(_networks(evidence)):
        by_hand = f"kubectl describe network.networking.gke.io {name}"
        if name not in there and name in made:
            yield passed(f"Network {name} is not there yet; the network layer makes it", "network", by_hand)
            continue
        if name not in there:
            yield failed(
                f"there is no Network {name}", "network.prefixes", "make it, or name one that is there", by_hand
            )
            continue
        ready = conditions(there[name]).get("Ready", {})
        if ready.get("status") == "True":
            yield passed(f"Network {name} is ready", "network", by_hand)
        else:
            said = ready.get("message") or ready.get("reason") or "it has no condition Ready yet"
            yield failed(f"Network {name} is not ready: {said}", "network", "compare its VPC and subnet", by_hand)


def _networks(evidence: Evidence) -> set[str]:
    found = set()
    for _, pod in evidence.expected.roles():
        text = mapping(mapping(pod.template.get("metadata")).get("annotations")).get(_INTERFACES)
        for each in json.loads(str(text)) if text else ():
            if each.get("network") != "default":
                found.add(str(each.get("network")))
    return found


@check("device-classes", "the device classes of the claims are there", "deviceclasses")
def device_classes(evidence: Evidence) -> Iterator[Result]:
    """Judge the DeviceClasses that the rendered ResourceClaimTemplates name."""
    there = {name_of(each) for each in evidence.of("deviceclasses")}
    for template in evidence.expected.of_kind("ResourceClaimTemplate"):
        devices = mapping(mapping(mapping(template.get("spec")).get("spec")).get("devices"))
        for request in map(mapping, sequence(devices.get("requests"))):
            name = str(mapping(request.get("exactly")).get("deviceClassName") or request.get("deviceClassName"))
            if name in there:
                yield passed(f"DeviceClass {name} is there", "network.mode", "kubectl get deviceclass")
            else:
                fix = "install the driver that brings it, or choose another network.mode"
                yield failed(f"there is no DeviceClass {name}", "network.mode", fix, "kubectl get deviceclass")


@check("accounts", "the service accounts and image pull secrets are there", "serviceaccounts", "secrets")
def accounts(evidence: Evidence) -> Iterator[Result]:
    """Judge what the pods name and no chart makes."""
    made = {name_of(each) for each in evidence.expected.of_kind("ServiceAccount")}
    there = made | {name_of(each) for each in evidence.of("serviceaccounts")}
    secret_names = {name_of(each) for each in evidence.of("secrets")}
    for name in sorted({str(spec.get("serviceAccountName") or "default") for spec in _specs(evidence)}):
        text = f"service account {name}"
        yield (
            passed(f"{text} is there, or made by a chart")
            if name in there
            else failed(f"there is no {text}", "stack.names.serviceAccount", "install the storage layer, or make it")
        )
    pulls = {
        str(mapping(each).get("name")) for spec in _specs(evidence) for each in sequence(spec.get("imagePullSecrets"))
    }
    for name in sorted(pulls):
        yield (
            passed(f"image pull secret {name} is there")
            if name in secret_names
            else failed(
                f"there is no image pull secret {name}", "images.pullSecrets", "kubectl create secret docker-registry"
            )
        )


@check("priority", "the priority class is there", "priorityclasses")
def priority(evidence: Evidence) -> Iterator[Result]:
    """Judge the priority classes that the pods name."""
    there = {name_of(each) for each in evidence.of("priorityclasses")}
    for name in sorted({str(each["priorityClassName"]) for each in _specs(evidence) if each.get("priorityClassName")}):
        yield (
            passed(f"priority class {name} is there")
            if name in there
            else failed(f"there is no priority class {name}", "ray", "name one of kubectl get priorityclass")
        )
