"""No placeholder is left in a manifest."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Manifests
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.pods import Path
    from postrender.types import Json

_WORDS_LEFT: Final = (
    r"<[A-Za-z][A-Za-z0-9_. -]*>|\b(?:YOUR|REPLACE|CHANGE|INSERT)[-_ ](?:ME|THIS|WITH|[A-Z_-]{2,})"
    r"|(?i:\bchangeme\b)|(?i:\byour-(?:bucket|project|token|key|name|registry|secret|cluster|image)\b)"
)
_LEFT: Final = re.compile(rf"\$\{{\w+\}}|{_WORDS_LEFT}")
# A variable's value may be a text for a shell in the container, which expands ${NAME}.
_IN_VARIABLES: Final = re.compile(_WORDS_LEFT)
# Texts for shells, programs and people.
_TEXTS: Final = frozenset(
    (
        *("command", "args", "data", "stringData", "binaryData", "annotations", "description", "entrypoint"),
        *("runtimeEnvYAML", "managedFields", "status"),
    )
)
_KINDS: Final = frozenset(
    (
        *("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "JobSet", "LeaderWorkerSet"),
        *(
            "RayCluster",
            "RayJob",
            "RayCronJob",
            "RayService",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "StorageClass",
        ),
        *("ServiceAccount", "Service", "ConfigMap", "Secret", "Network", "GKENetworkParamSet", "ComputeDomain"),
        *("ResourceClaimTemplate", "LocalQueue", "ClusterQueue", "ResourceFlavor", "Namespace"),
    )
)


def check(manifests: Manifests) -> Iterator[Finding]:
    """Search names, addresses and settings, but not the texts that shells and programs read."""
    for item in manifests.of_kinds(_KINDS):
        for path, text in _texts(item.object):
            found = (_IN_VARIABLES if "env" in path else _LEFT).search(text)
            if found:
                yield item.finding(path, f"{path[-1]} has the placeholder {found[0]}")


def _texts(value: Json, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        if "\n" not in value:
            yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in _TEXTS:
                yield from _texts(each, (*path, key))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _texts(each, (*path, number))


RULE = Problem(
    "stream/placeholder",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.PENDING,
    title="a placeholder is left in a manifest",
    why="Kubernetes uses the placeholder as a name, and the pod waits for an object that does not exist",
    fix="write the value; kubectl and Helm do not expand shell variables",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/",
    check=check,
)
