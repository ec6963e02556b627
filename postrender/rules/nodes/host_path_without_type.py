"""A mounted folder of the driver must exist on the node."""

from __future__ import annotations

from postrender.pods import mapping, sequence
from postrender.rules import ERROR, Hit, Manifests, Rule, at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

# Where GKE's nodes keep the driver and the RDMA plugin.
_DRIVER = "/home/kubernetes/bin"


def check(manifests: Manifests) -> Iterator[Hit]:
    """Look at the hostPath volumes of every pod."""
    for item, pod in manifests.pods():
        for number, volume in enumerate(map(mapping, sequence(pod.spec.get("volumes")))):
            host_path = mapping(volume.get("hostPath"))
            path = str(host_path.get("path", ""))
            if (path == _DRIVER or path.startswith(f"{_DRIVER}/")) and not host_path.get("type"):
                what = f"volume {volume.get('name')} mounts {path} of the node without a type"
                yield at(item, (*pod.path, "spec", "volumes", number), what)


RULE = Rule(
    "nodes/host-path-without-type",
    severity=ERROR,
    title="a folder of the driver is mounted without a type",
    why="where the folder is missing an empty one is mounted, which hides the driver; with a type the pod says so",
    fix="write type: Directory beside the path",
    source="https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types",
    check=check,
)
