"""Nothing that a person should have filled in is left."""

from __future__ import annotations

from postrender.patterns import Pattern
from postrender.rules import ERROR, Hit, Manifests, Rule, at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

    from postrender.plain import Plain
    from postrender.pods import Path

_WORDS_LEFT: Final = (
    r"<[A-Za-z][A-Za-z0-9_. -]*>|\b(?:YOUR|REPLACE|CHANGE|INSERT)[-_ ](?:ME|THIS|WITH|[A-Z_-]{2,})"
    r"|(?i:\bchangeme\b)|(?i:\byour-(?:bucket|project|token|key|name|registry|secret|cluster|image)\b)"
)
_LEFT: Final = Pattern(rf"\$\{{\w+\}}|{_WORDS_LEFT}")
# A variable's value may be a text for a shell of the container, which fills ${NAME} in.
_IN_VARIABLES: Final = Pattern(_WORDS_LEFT)
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


# What every text has that the patterns find; the longer ones in small letters.
_SIGNS: Final = ("${", "<", "YOUR", "REPLACE", "CHANGE", "INSERT")
_WORDS: Final = ("changeme", "your-")
_ANY: Final = (r"\$\{", *_SIGNS[1:], *(f"(?i:{word})" for word in _WORDS))
# From here on it is worth to make a better search.
_LONG: Final = 100_000


def check(manifests: Manifests) -> Iterator[Hit]:
    """Search names, addresses and settings; not what shells and programs read."""
    may_hold = _search(manifests)
    for item in manifests.of_kinds(_KINDS):
        # A document may be long for what is left out below.
        if "data" not in item.object and not may_hold(manifests.texts[item.document]):
            continue
        for path, text in _texts(item.object):
            if not _may_hold(text):
                continue
            found = (_IN_VARIABLES if "env" in path else _LEFT).search(text)
            if found:
                yield at(item, path, f"{path[-1]} holds the placeholder {found[0]}")


def _search(manifests: Manifests) -> Callable[[str], bool]:
    """Return what says whether it is worth to look at a document."""
    if sum(map(len, manifests.texts)) < _LONG:
        return _may_hold
    from postrender import schema

    return schema.finder(_ANY)


def _may_hold(text: str) -> bool:
    """Say whether it is worth to look: most texts have none of the signs."""
    if any(sign in text for sign in _SIGNS):
        return True
    small = text.lower()
    return any(word in small for word in _WORDS)


def _texts(value: Plain, path: Path = ()) -> Iterator[tuple[Path, str]]:
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


RULE = Rule(
    "stream/placeholder",
    severity=ERROR,
    title="a placeholder is left in a manifest",
    why="Kubernetes takes it for a name: the pod waits for what nobody has called so",
    fix="write the value; kubectl and Helm do not expand variables of the shell",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/",
    check=check,
)
