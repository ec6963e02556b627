"""Write one command for each object that must exist: it creates the object from files, or shows whether it exists.

No command contains a secret: kubectl reads it from a file.
"""

from __future__ import annotations

import re
import shlex
from typing import Final

from grpo.manifests.needs.needed import DEFINITION, Need
from grpo.manifests.needs.references import PULL_KEY

# What brings the kinds of a group: what the API server does not know, Helm cannot install.
BRINGS: Final = {
    "ray.io": "install the KubeRay operator with its CRDs",
    "networking.gke.io": "create the GKE cluster with --enable-multi-networking; on another platform set network.mode",
    "resource.k8s.io": "use Kubernetes 1.34 or newer, or another network.mode",
    "resource.nvidia.com": "install NVIDIA's DRA driver",
    "monitoring.coreos.com": "install the Prometheus operator, or set ray.metrics.scrape to none",
    "monitoring.googleapis.com": "enable GKE's managed Prometheus, or set ray.metrics.scrape to none",
}
# As kubectl calls kinds whose plain name is long, or that of another group too.
_CALLED: Final = {
    DEFINITION: "crd",
    "PersistentVolumeClaim": "pvc",
    "LocalQueue": "localqueues.kueue.x-k8s.io",
    "WorkloadPriorityClass": "workloadpriorityclasses.kueue.x-k8s.io",
    "Network": "networks.networking.gke.io",
    "GKENetworkParamSet": "gkenetworkparamsets.networking.gke.io",
}
# By kind; by name where somebody brings just this one.
_HINTS: Final = {
    "gcsfuse.csi.storage.gke.io": "gcloud container clusters update CLUSTER --update-addons=GcsFuseCsiDriver=ENABLED",
    "lustre.csi.storage.gke.io": "gcloud container clusters update CLUSTER --update-addons=LustreCsiDriver=ENABLED",
    "CSIDriver": "install it, or use another kind of volume",
    "DeviceClass": "install the driver that brings it, or choose another network.mode",
    "PersistentVolumeClaim": "create it, with ReadWriteMany, or name one that is there",
}
_MADE_OF_FILES: Final = {"Secret": "secret generic", "ConfigMap": "configmap"}
_DOCKER: Final = "DOCKER_CONFIG_FILE"


def command(need: Need) -> str:
    """Return the command that creates a needed object, or that shows it if somebody else creates it."""
    scope = f" --namespace {need.namespace}" if need.namespace else ""
    name = shlex.quote(need.name)
    if need.kind in _MADE_OF_FILES:
        return f"kubectl create {_MADE_OF_FILES[need.kind]} {name}{scope} {_content(need)}"
    if need.kind == "ServiceAccount":
        return f"kubectl create serviceaccount {name}{scope}"
    return f"kubectl get {_CALLED.get(need.kind, need.kind.lower())} {name}{scope}"


def creates(need: Need) -> bool:
    """Return whether the command creates the needed object."""
    return need.kind in (*_MADE_OF_FILES, "ServiceAccount")


def explained(need: Need) -> str:
    """Return the command; if it only looks, add a comment: which object names the need, and what to do without it."""
    if creates(need):
        return command(need)
    return f"{command(need)}  # {need.sources[0].title}: {hint(need)}"


def hint(need: Need) -> str:
    """Return what to do if the object does not exist."""
    if need.kind == DEFINITION:
        return BRINGS.get(need.name.partition(".")[2], "install what brings it")
    return _HINTS.get(need.name) or _HINTS.get(
        need.kind, command(need) if creates(need) else "create it, or name one that is there"
    )


def file_of(need: Need, key: str) -> str:
    """Return the placeholder for the file with a key's content, named after the variable that uses the key."""
    if key == PULL_KEY:
        return _DOCKER
    return f"{_word(need.variables.get(key) or key)}_FILE"


def _content(need: Need) -> str:
    """Return the flags that fill a Secret or a ConfigMap from files."""
    if need.keys:
        files = " ".join(f"--from-file={shlex.quote(key)}={file_of(need, key)}" for key in need.keys)
        return f"{files} --type=kubernetes.io/dockerconfigjson" if PULL_KEY in need.keys else files
    is_environment = any(each.reference.is_variable for each in need.sources)
    return f"--from-env-file={_word(need.name)}_FILE" if is_environment else f"--from-file={_word(need.name)}_FOLDER"


def _word(name: str) -> str:
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
