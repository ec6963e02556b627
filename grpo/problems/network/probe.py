"""The GPUs' network: GKE networks, device classes, and the RDMA plugin's installer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import conditions, name_of
from grpo.manifests.needs import commands, references
from grpo.problems.probe import Result, failed, passed, skipped
from grpo.problems.problem import probe
from postrender.manifests.pods import mapping, sequence
from postrender.values.quantity import quantity

# Where the installer of the RDMA plugin leaves it on a node of GKE.
_PLUGIN: Final = "/home/kubernetes/bin/gib"
_INSTALLER: Final = "rdma-installer"
_DRIVER: Final = re.compile(r"""device\.driver\s*==\s*["']([^"']+)["']""")
# Operators by which an expression also matches another driver, or everything but this one.
_CHOICE: Final = re.compile(r"\|\||\?|!\s*\(")


@probe("networks", "a network of the machines is missing or not ready", "networks", "gkenetworkparamsets")
def networks(evidence: Evidence) -> Iterator[Result]:
    """Check the GKE Network objects that the pods' annotation names, and what they refer to."""
    made = {name_of(each) for each in evidence.expected.of_kind("Network")}
    for name in sorted({name for _, pod in evidence.expected.roles() for name in references.networks(pod)}):
        by_hand = f"kubectl describe network.networking.gke.io {name}"
        value = "network.rdma" if name.rpartition("rdma-")[1] else "network.gvnic"
        found = evidence.find("networks", name)
        if found is None and name in made:
            yield passed(f"Network {name} is not there yet; the network layer makes it", value, by_hand)
        elif found is None:
            yield failed(f"there is no Network {name}", value, "create it, or name one that is there", by_hand)
        elif said := _not_ready(found, evidence):
            yield failed(f"Network {name} is not ready: {said}", value, "compare its VPC and subnet", by_hand)
        else:
            yield passed(f"Network {name} is ready", value, by_hand)


def _not_ready(network: dict[str, Any], evidence: Evidence) -> str:
    """Return why a network is not ready; the status of its parameters shows it first."""
    name = str(mapping(mapping(network.get("spec")).get("parametersRef")).get("name") or "")
    if name:
        parameters = evidence.find("gkenetworkparamsets", name)
        if parameters is None:
            return f"there is no GKENetworkParamSet {name}"
        ready = conditions(parameters).get("Ready", {})
        if ready.get("status") == "False":
            return f"GKENetworkParamSet {name}: {ready.get('message') or ready.get('reason')}"
    ready = conditions(network).get("Ready", {})
    if ready.get("status") == "True":
        return ""
    return str(ready.get("message") or ready.get("reason") or "it has no condition Ready yet")


@probe("device-classes", "a device class of the claims is missing", "deviceclasses", "resourceslices")
def device_classes(evidence: Evidence) -> Iterator[Result]:
    """Check the DeviceClasses that the rendered ResourceClaimTemplates name, and whether nodes publish devices."""
    published = {str(mapping(each.get("spec")).get("driver")) for each in evidence.of("resourceslices")}
    for need in evidence.expected.needs("DeviceClass"):
        name = need.name
        found = evidence.find("deviceclasses", name)
        missing = _drivers(found or {}) - published
        if found is None:
            yield failed(
                f"there is no DeviceClass {name}", "network.mode", commands.hint(need), "kubectl get deviceclass"
            )
        elif missing:
            text = f"no node publishes devices of the driver {', '.join(sorted(missing))} of DeviceClass {name}"
            fix = "let the driver run on the GPU nodes (on GKE: managed networks), or choose another network.mode"
            yield failed(text, "network.mode", fix, "kubectl get resourceslices")
        else:
            driver = "nodes publish devices of its driver" if _drivers(found) else "its expression names no driver"
            text = f"DeviceClass {name} is there, and {driver} (its other conditions were not judged)"
            yield passed(text, "network.mode", "kubectl get deviceclass")


def _drivers(device_class: dict[str, Any]) -> set[str]:
    """Return the drivers that a class's expressions require, if they leave no choice."""
    found: set[str] = set()
    for selector in map(mapping, sequence(mapping(device_class.get("spec")).get("selectors"))):
        expression = str(mapping(selector.get("cel")).get("expression"))
        if not _CHOICE.search(expression):
            found |= set(_DRIVER.findall(expression))
    return found


@probe(
    "device-managers",
    "a node has both a device plugin and a driver for its devices",
    "nodes",
    "deviceclasses",
    "resourceslices",
)
def device_managers(evidence: Evidence) -> Iterator[Result]:
    """Check machines whose devices can be both requested and claimed: each way takes devices from the other."""
    expected = evidence.expected
    if not expected.devices or not expected.classes:
        return
    found = [result for name in expected.classes for result in _managers(evidence, name)]
    if not found:
        text = f"no node offers {' or '.join(expected.devices)} and devices of {' or '.join(expected.classes)}"
        found = [passed(text, "network.mode", "kubectl get resourceslices")]
    yield from found


def _managers(evidence: Evidence, name: str) -> Iterator[Result]:
    """Yield conflicts between one DeviceClass and the device plugin."""
    there = evidence.find("deviceclasses", name)
    drivers = _drivers(there or {})
    if there and not drivers:
        text = f"the expression of DeviceClass {name} does not name one driver"
        yield skipped(text, "network.mode", f"kubectl describe deviceclass {name}")
    for driver in sorted(drivers):
        specs = [mapping(each.get("spec")) for each in evidence.of("resourceslices")]
        publishing = {str(spec.get("nodeName")) for spec in specs if spec.get("driver") == driver}
        for resource in evidence.expected.devices:
            both = [node for node in _offering(evidence, resource) if node in publishing]
            if both:
                yield _shared(both, resource, driver, name)


def _offering(evidence: Evidence, resource: str) -> list[str]:
    """Return the nodes on which a device plugin offers a resource."""
    return [
        name_of(node)
        for node in evidence.of("nodes")
        if quantity(mapping(mapping(node.get("status")).get("allocatable")).get(resource))
    ]


def _shared(nodes: list[str], resource: str, driver: str, device_class: str) -> Result:
    more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return failed(
        f"node {nodes[0]}{more}: a device plugin offers {resource}, and the driver {driver} of DeviceClass "
        f"{device_class} publishes devices of the same node",
        "network.mode",
        "keep the driver off these nodes for network.mode devices, or the device plugin for dranet",
        f"kubectl get resourceslices --field-selector spec.nodeName={nodes[0]}",
    )


@probe("installer", "the RDMA plugin is not installed on the nodes", "daemonsets")
def installer(evidence: Evidence) -> Iterator[Result]:
    """Check the DaemonSets that put the plugin where GKE's pods mount it; other clusters may install it differently."""
    folders = {
        str(mapping(mapping(volume).get("hostPath")).get("path"))
        for _, pod in evidence.expected.roles()
        for volume in sequence(pod.spec.get("volumes"))
    }
    if _PLUGIN not in folders:
        return
    value, by_hand = "network.rdmaInstaller.enabled", "kubectl get daemonsets -n kube-system"
    found = [each for each in evidence.of("daemonsets") if _INSTALLER in name_of(each)]
    for each in found:
        status = mapping(each.get("status"))
        wanted, ready = int(status.get("desiredNumberScheduled") or 0), int(status.get("numberReady") or 0)
        text = f"DaemonSet {name_of(each)} in kube-system is ready on {ready} of {wanted} nodes"
        if ready < wanted or not wanted:
            yield failed(text, value, "look at its pods and their log; without it no worker starts", by_hand)
        else:
            yield passed(text, value, by_hand)
    if not found and any(_INSTALLER in name_of(each) for each in evidence.expected.of_kind("DaemonSet")):
        yield passed("the installer is not there yet; the network layer makes it", value, by_hand)
    elif not found:
        text = f"no DaemonSet in kube-system has {_INSTALLER} in its name: nothing fills {_PLUGIN} on the nodes"
        fix = f"set {value} to true, or apply Google's manifest (NOTES of the chart network)"
        yield failed(text, value, fix, by_hand)
