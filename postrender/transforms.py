"""Add the parts of the wiring to a pod template, in place: one transform each, and none knows of text.

What is there already and differs is decided by one policy. One module, as each one more would make every start slower.
"""

from __future__ import annotations

from postrender.errors import InputError
from postrender.pods import mapping, sequence
from postrender.wiring import CHECK, INTERFACES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from postrender.plain import Plain
    from postrender.pods import Pod
    from postrender.wiring import Wiring

# What happens where something is there already and differs from what the wiring wants.
FAIL: Final = "fail"
KEEP: Final = "keep"
REPLACE: Final = "replace"
POLICIES: Final = (FAIL, KEEP, REPLACE)
# A part of a volume is mounted.
_PARTS = ("subPath", "subPathExpr")


class Decisions:
    """Apply one policy to the conflicts of one object, and remember them; `place` names the part of a pod."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.conflicts: list[dict[str, Any]] = []

    def replaces(self, place: str, there: Plain, wanted: Plain) -> bool:
        """Note a conflict, and say whether what is there is to be replaced.

        A value that stands where a Secret should be named may be the secret itself, whatever its shape.
        """
        if isinstance(wanted, dict) and "valueFrom" in wanted and isinstance(there, dict) and "value" in there:
            there = {**there, "value": "(a literal value, which is not shown)"}
        if isinstance(there, dict) and "env" in there:
            there = {key: value for key, value in there.items() if key != "env"}
        self.conflicts.append({"at": place, "there": there, "wanted": wanted, "decision": self.policy})
        return self.policy == REPLACE

    def named(self, place: str, there: list[Plain], wanted: list[dict[str, Any]], key: str = "name") -> list[Plain]:
        """Return a list whose entries have names: what lacks stands in front, in its order, the rest where it was."""
        result = list(there)
        lacking = []
        # Of two entries with one name Kubernetes uses the last.
        found = {str(each.get(key)): at for at, each in enumerate(there) if isinstance(each, dict)}
        for entry in wanted:
            at = found.get(entry[key])
            if at is None:
                lacking.append(entry)
            elif there[at] != entry and self.replaces(f"{place}[{entry[key]}]", there[at], entry):
                result[at] = entry
        return [*lacking, *result]

    def entries(self, place: str, there: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
        """Return a map with what lacks added."""
        result = dict(there)
        for key, value in wanted.items():
            if key not in there or (there[key] != value and self.replaces(f"{place}[{key}]", there[key], value)):
                result[key] = value
        return result


class Target:
    """A pod template to wire, with its container; `owner` and `nodes` name the claims of devices.

    `whole` says that the pod takes a whole GPU node; any other pod gets variables only, with `libraries` the path of
    the driver's libraries too.
    """

    __slots__ = (
        "_above",
        "container",
        "decisions",
        "libraries",
        "nodes",
        "owner",
        "pod",
        "position",
        "whole",
        "wiring",
    )

    def __init__(self, pod: Pod, position: int, wiring: Wiring, decisions: Decisions) -> None:
        self.pod = pod
        self.position = position
        self.container: dict[str, Any] = pod.containers()[position]
        self.wiring = wiring
        self.decisions = decisions
        self.whole = False
        self.libraries = False
        self.owner = ""
        self.nodes: int | None = None
        self._above = "".join(f"{part}." for part in pod.path)

    @property
    def image(self) -> str:
        """Return the image of the container, or an empty text."""
        return str(self.container.get("image", ""))

    def place(self, part: str) -> str:
        """Return a dotted path below the object, for reports."""
        return f"{self._above}{part}"

    def container_place(self, part: str) -> str:
        """Return a dotted path below the object to a part of the container."""
        return self.place(f"spec.containers[{self.container.get('name', self.position)}].{part}")


def put(holder: dict[str, Any], key: str, value: Plain) -> None:
    """Set a key, unless it would become an empty list or map that is not there now.

    Raises InputError where something of another kind stands there, which Kubernetes would refuse.
    """
    there = holder.get(key)
    if there and type(there) is not type(value):
        shape = "a list" if isinstance(value, list) else "a map"
        raise InputError(f"{key} must be {shape}, and is none", fix="correct the template")
    if value or there:
        holder[key] = value


def add_interfaces(target: Target) -> None:
    """Add the interfaces that GKE attaches, as annotations; a list that says the same in other words is left alone."""
    metadata = mapping(target.pod.template.get("metadata"))
    there = mapping(metadata.get("annotations"))
    wanted = dict(target.wiring.annotations)
    if INTERFACES in wanted and _means_the_same(there.get(INTERFACES), wanted[INTERFACES]):
        del wanted[INTERFACES]
    place = target.place("metadata.annotations")
    put(metadata, "annotations", target.decisions.entries(place, there, wanted))
    put(target.pod.template, "metadata", metadata)


def _means_the_same(there: object, wanted: str) -> bool:
    if not isinstance(there, str) or there == wanted:
        return False
    import json

    try:
        return bool(json.loads(there) == json.loads(wanted))
    except ValueError:
        return False


def add_placement(target: Target) -> None:
    """Add the labels by which the pod chooses its node, and the tolerations that no other one covers."""
    spec = target.pod.spec
    wanted = target.wiring.selector(target.owner, target.image)
    there = mapping(spec.get("nodeSelector"))
    put(spec, "nodeSelector", target.decisions.entries(target.place("spec.nodeSelector"), there, wanted))
    tolerations = sequence(spec.get("tolerations"))
    lacking = [each for each in target.wiring.tolerations if not any(_covers(other, each) for other in tolerations)]
    put(spec, "tolerations", [*lacking, *tolerations])


def _covers(there: Plain, wanted: dict[str, str]) -> bool:
    """Say whether a toleration tolerates at least what another one does; an empty key or effect means all."""
    there = mapping(there)
    if there.get("key") not in (None, "", wanted["key"]) or there.get("effect") not in (None, "", wanted["effect"]):
        return False
    return there.get("operator") == "Exists" or (bool(there.get("key")) and there.get("value") == wanted.get("value"))


def add_volumes(target: Target) -> None:
    """Add the driver's folders on the node and shared memory; what is mounted already keeps the name of its volume.

    A volume that has one of our names and is something else stays what it is, and ours gets another name.
    """
    spec, container = target.pod.spec, target.container
    volumes, mounts = sequence(spec.get("volumes")), sequence(container.get("volumeMounts"))
    names = {volume["name"]: _name(volume, volumes, mounts, target) for volume in target.wiring.volumes}
    wanted = [{**volume, "name": names[volume["name"]]} for volume in target.wiring.volumes]
    paths = {mount["mountPath"]: _of(mounts, mount["mountPath"]) for mount in target.wiring.mounts}
    wanted_mounts = [
        {
            **mount,
            "name": names[mount["name"]],
            "mountPath": paths[mount["mountPath"]].get("mountPath", mount["mountPath"]),
        }
        for mount in target.wiring.mounts
    ]
    put(spec, "volumes", target.decisions.named(target.place("spec.volumes"), volumes, wanted))
    place = target.container_place("volumeMounts")
    put(container, "volumeMounts", target.decisions.named(place, mounts, wanted_mounts, key="mountPath"))


def _name(volume: dict[str, Any], volumes: list[Any], mounts: list[Any], target: Target) -> str:
    """Return the name of the volume that is mounted where ours belongs, or a name that no other volume has."""
    name = str(volume["name"])
    path = next(mount["mountPath"] for mount in target.wiring.mounts if mount["name"] == name)
    there = _of(mounts, path)
    # A part of a volume is mounted: what the rest of it is for, is not ours to say.
    if there and not any(key in there for key in _PARTS):
        return str(there.get("name", name))
    taken = next((each for each in map(mapping, volumes) if each.get("name") == name), volume)
    return name if taken == volume else f"{name}-wiring"


def _of(mounts: list[Any], path: str) -> dict[str, Any]:
    """Return the mount at a path, which may be written with a slash at its end; empty where there is none."""
    return next((each for each in map(mapping, mounts) if str(each.get("mountPath")).rstrip("/") == path), {})


def add_claims(target: Target) -> None:
    """Add both halves of each claim of devices, the pod's and the container's: with one half the pod gets no device."""
    wanted = target.wiring.claims(target.owner, target.nodes)
    if not wanted:
        return
    spec = target.pod.spec
    place = target.place("spec.resourceClaims")
    put(spec, "resourceClaims", target.decisions.named(place, sequence(spec.get("resourceClaims")), wanted))
    resources = mapping(target.container.get("resources"))
    names = [{"name": each["name"]} for each in wanted]
    there = sequence(resources.get("claims"))
    put(resources, "claims", target.decisions.named(target.container_place("resources.claims"), there, names))
    put(target.container, "resources", resources)


def add_variables(target: Target, *, init_containers: bool = False) -> None:
    """Add the variables to the container, and the secrets to the init containers where that is asked for."""
    wiring, container = target.wiring, target.container
    wanted = wiring.secrets
    if target.libraries:
        wanted = [*wiring.libraries(target.image), *wanted]
    if target.whole:
        wanted = [*wanted, *wiring.nccl]
    _add(target, container, target.container_place("env"), wanted)
    if init_containers:
        for at, each in enumerate(sequence(target.pod.spec.get("initContainers"))):
            # Ours needs no secret, and must look the same in a second run.
            if isinstance(each, dict) and each.get("name") != CHECK:
                place = target.place(f"spec.initContainers[{each.get('name', at)}].env")
                _add(target, each, place, wiring.secrets)


def _add(target: Target, container: dict[str, object], place: str, wanted: list[dict[str, object]]) -> None:
    put(container, "env", target.decisions.named(place, sequence(container.get("env")), wanted))


def add_check(target: Target) -> None:
    """Add the init container that fails where the node lacks what NCCL needs, with image and mounts of the container.

    It is the first of all; bash itself says nothing of a BASH_ENV that is missing.
    """
    wanted = target.wiring.check_node(target.image)
    if wanted is None:
        return
    there = map(mapping, sequence(target.container.get("volumeMounts")))
    at = {str(mount.get("mountPath")).rstrip("/"): mount for mount in there}
    # It looks at what the container will see, a part of a volume included.
    mounts = [{**mount, **at.get(mount["mountPath"], {}), "readOnly": True} for mount in wanted["volumeMounts"]]
    containers = sequence(target.pod.spec.get("initContainers"))
    place = target.place("spec.initContainers")
    checked = target.decisions.named(place, containers, [{**wanted, "volumeMounts": mounts}])
    put(target.pod.spec, "initContainers", checked)
