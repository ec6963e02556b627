"""A mounted driver folder must exist on the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from postrender.manifests.pods import Pod
    from postrender.wiring.plan import Wiring

# Where GKE's nodes keep the driver and the RDMA plugin. No other nodes have the folder, so that a type would not help.
_DRIVER = "/home/kubernetes/bin"
_REMOVE = "remove the volume and its mounts: only nodes of GKE have the folder, and the values are for another cloud"
# Where device plugins have their sockets.
_DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins/"
# With these types the kubelet creates a missing folder, or does not check.
_NO_TEST = {"": "without a type", "DirectoryOrCreate": "with the type DirectoryOrCreate"}


def check(manifests: Manifests) -> Iterator[Finding]:
    """Check every pod's hostPath volumes, except in GPU pods for a machine that is not the values'."""
    own = _of_profile(manifests.wiring)
    is_elsewhere = manifests.wiring is not None and not manifests.wiring.is_google
    whole = {id(pod) for _, pod, _ in manifests.whole_pods()}
    for item, pod in manifests.pods():
        if manifests.wiring and pod.gpu_container()[1] and id(pod) not in whole:
            # It is for another machine, which the values do not describe.
            continue
        for number, volume in enumerate(map(mapping, sequence(pod.spec.get("volumes")))):
            host_path = mapping(volume.get("hostPath"))
            path, reason = str(host_path.get("path", "")), _NO_TEST.get(str(host_path.get("type") or ""))
            if item.object.get("kind") == "DaemonSet" and (_installs(pod, volume) or _is_device_plugin(pod)):
                continue
            place = (*pod.path, "spec", "volumes", number)
            if is_elsewhere and _is_below(path, [_DRIVER]) and not _is_below(path, own):
                what = f"volume {volume.get('name')} mounts {path}, a folder of GKE's nodes"
                yield item.finding(place, what)._replace(fix=_REMOVE)
            elif reason and _is_below(path, [_DRIVER, *own]):
                what = f"volume {volume.get('name')} mounts {path} of the node {reason}"
                yield item.finding(place, what)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in folders)


def _installs(pod: Pod, volume: dict[str, object]) -> bool:
    """Return whether the pod itself creates a volume's content: in an init container, or with a creating type."""
    makers = [*sequence(pod.spec.get("initContainers"))]
    makers += pod.containers() if mapping(volume.get("hostPath")).get("type") else []
    mounts = [mapping(mount) for each in makers for mount in sequence(mapping(each).get("volumeMounts"))]
    return any(each.get("name") == volume.get("name") and each.get("readOnly") is not True for each in mounts)


def _is_device_plugin(pod: Pod) -> bool:
    """Return whether a pod is a device plugin, which waits for the driver that another pod installs."""
    folders = [mapping(mapping(volume).get("hostPath")).get("path") for volume in sequence(pod.spec.get("volumes"))]
    return any(f"{folder}/".startswith(_DEVICE_PLUGINS) for folder in folders)


def _of_profile(wiring: Wiring | None) -> list[str]:
    """Return the folders in the values, because a custom profile may have different ones."""
    volumes = [mapping(volume.get("hostPath")) for volume in wiring.volumes] if wiring else []
    return [str(each["path"]).rstrip("/") for each in volumes if each.get("path")]


RULE = Problem(
    "nodes/host-path-without-type",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.AT_START,
    title="a pod mounts a folder of the driver that its node may not have",
    why="if the folder is missing, the pod mounts an empty one and finds no driver; with a type it fails at the mount",
    fix="write type: Directory beside the path",
    source="https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types",
    check=check,
)
