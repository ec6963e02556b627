"""Add the parts of the wiring to a pod template in place: one function per part.

A policy decides what happens to an existing value that differs.
"""

from __future__ import annotations

from typing import Any, Final

from postrender import json_text
from postrender.errors import InputError
from postrender.manifests import nccl
from postrender.manifests.pods import Pod, mapping, sequence
from postrender.types import Json
from postrender.values.quantity import quantity
from postrender.wiring.plan import CHECK, Wiring

# What happens to an existing value that differs from the wiring.
FAIL: Final = "fail"
KEEP: Final = "keep"
REPLACE: Final = "replace"
POLICIES: Final = (FAIL, KEEP, REPLACE)
# Keys of a mount that mounts only a part of a volume.
_PARTS = ("subPath", "subPathExpr")


class Decisions:
    """Apply one policy to an object's conflicts and record them; `place` names the part of a pod."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.conflicts: list[dict[str, Any]] = []

    def replaces(self, place: str, there: Json, wanted: Json) -> bool:
        """Record a conflict and return whether the existing value is to be replaced.

        A literal value where a Secret reference is expected may be the secret itself, so it is not recorded.
        """
        if isinstance(wanted, dict) and "valueFrom" in wanted and isinstance(there, dict) and "value" in there:
            there = {**there, "value": "(a literal value, which is not shown)"}
        if isinstance(there, dict) and "env" in there:
            there = {key: value for key, value in there.items() if key != "env"}
        self.conflicts.append({"at": place, "there": there, "wanted": wanted, "decision": self.policy})
        return self.policy == REPLACE

    def merge_list(self, place: str, there: list[Json], wanted: list[dict[str, Any]], key: str = "name") -> list[Json]:
        """Merge entries into a list by their key: missing entries go first, existing entries keep their order."""
        result = list(there)
        missing = []
        # Of two entries with the same name Kubernetes uses the last.
        found = {str(each.get(key)): at for at, each in enumerate(there) if isinstance(each, dict)}
        for entry in wanted:
            at = found.get(entry[key])
            if at is None:
                missing.append(entry)
            elif there[at] != entry and self.replaces(f"{place}[{entry[key]}]", there[at], entry):
                result[at] = entry
        return [*missing, *result]

    def merge_map(self, place: str, there: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
        """Merge entries into a map: missing entries are added."""
        result = dict(there)
        for key, value in wanted.items():
            if key not in there or (there[key] != value and self.replaces(f"{place}[{key}]", there[key], value)):
                result[key] = value
        return result


class Target:
    """A pod template to wire, with its GPU container; the resource claims' names come from `owner` and `nodes`.

    `whole` is true for a pod that uses a complete GPU node. Any other pod gets only variables; `libraries` adds the
    path of the driver's libraries to them.
    """

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

    @property
    def image(self) -> str:
        """Return the container's image, or an empty text."""
        return str(self.container.get("image", ""))

    def place(self, part: str) -> str:
        """Return a dotted path below the object, for reports."""
        return ".".join(map(str, (*self.pod.path, part)))

    def container_place(self, part: str) -> str:
        """Return a dotted path below the object to a part of the container."""
        return self.place(f"spec.containers[{self.container.get('name', self.position)}].{part}")


def put(holder: dict[str, Any], key: str, value: Json) -> None:
    """Set a key, but add no empty list or map.

    Raises InputError if the key has a value of another type, which Kubernetes would reject.
    """
    there = holder.get(key)
    if there and type(there) is not type(value):
        shape = "a list" if isinstance(value, list) else "a map"
        raise InputError(f"{key} must be {shape}", fix="correct the template")
    if value or there:
        holder[key] = value


def add_interfaces(target: Target) -> None:
    """Add the annotations that attach interfaces; keep an existing list that is equal as JSON."""
    metadata = mapping(target.pod.template.get("metadata"))
    there = mapping(metadata.get("annotations"))
    wanted = dict(target.wiring.annotations)
    listed = target.wiring.keys["interfaces"]
    if listed in wanted and _means_the_same(there.get(listed), wanted[listed]):
        del wanted[listed]
    place = target.place("metadata.annotations")
    put(metadata, "annotations", target.decisions.merge_map(place, there, wanted))
    put(target.pod.template, "metadata", metadata)


def _means_the_same(there: object, wanted: str) -> bool:
    if not isinstance(there, str) or there == wanted:
        return False

    try:
        return bool(json_text.loads(there) == json_text.loads(wanted))
    except ValueError:
        return False


def add_placement(target: Target) -> None:
    """Add the node selector, and each toleration that no existing one covers."""
    spec = target.pod.spec
    wanted = target.wiring.selector(target.owner, target.image)
    there = mapping(spec.get("nodeSelector"))
    put(spec, "nodeSelector", target.decisions.merge_map(target.place("spec.nodeSelector"), there, wanted))
    tolerations = sequence(spec.get("tolerations"))
    missing = [each for each in target.wiring.tolerations if not any(_covers(other, each) for other in tolerations)]
    put(spec, "tolerations", [*missing, *tolerations])


def _covers(there: Json, wanted: dict[str, str]) -> bool:
    """Return whether a toleration covers another; an empty key or effect matches all."""
    there = mapping(there)
    if there.get("key") not in (None, "", wanted["key"]) or there.get("effect") not in (None, "", wanted["effect"]):
        return False
    if there.get("operator") == "Exists":
        return True
    # The default operator is Equal, which tolerates a single value.
    return wanted["operator"] == "Equal" and bool(there.get("key")) and there.get("value") == wanted["value"]


def add_volumes(target: Target) -> None:
    """Add shared memory and the node's driver folders; a path that is already mounted keeps its volume.

    If another volume already has the name, the new volume gets a different name.
    """
    spec, container = target.pod.spec, target.container
    volumes, mounts = sequence(spec.get("volumes")), sequence(container.get("volumeMounts"))
    names = {volume["name"]: _name(volume, volumes, mounts, target) for volume in target.wiring.volumes}
    wanted = [_as_there({**volume, "name": names[volume["name"]]}, volumes) for volume in target.wiring.volumes]
    paths = {mount["mountPath"]: _of(mounts, mount["mountPath"]) for mount in target.wiring.mounts}
    wanted_mounts = [
        {
            **mount,
            "name": names[mount["name"]],
            "mountPath": paths[mount["mountPath"]].get("mountPath", mount["mountPath"]),
        }
        for mount in target.wiring.mounts
    ]
    put(spec, "volumes", target.decisions.merge_list(target.place("spec.volumes"), volumes, wanted))
    place = target.container_place("volumeMounts")
    put(container, "volumeMounts", target.decisions.merge_list(place, mounts, wanted_mounts, key="mountPath"))


def _as_there(wanted: dict[str, Any], volumes: list[Any]) -> dict[str, Any]:
    """Return a volume, or the one of its name if that is the same memory with more room: no limit, or a larger one."""
    there = next((each for each in map(mapping, volumes) if each.get("name") == wanted["name"]), {})
    own, directory = mapping(there.get("emptyDir")), mapping(wanted.get("emptyDir"))
    is_memory = there.keys() == {"name", "emptyDir"} and {**own, "sizeLimit": ""} == {**directory, "sizeLimit": ""}
    size, least = quantity(own.get("sizeLimit")), quantity(directory.get("sizeLimit"))
    has_room = own.get("sizeLimit") is None or (size is not None and least is not None and size >= least)
    return there if directory and is_memory and has_room else wanted


def _name(volume: dict[str, Any], volumes: list[Any], mounts: list[Any], target: Target) -> str:
    """Return the name of the volume that is already mounted at the path, or else a name that no other volume has."""
    name = str(volume["name"])
    path = next(mount["mountPath"] for mount in target.wiring.mounts if mount["name"] == name)
    there = _of(mounts, path)
    # The mount must be of the whole volume: the rest of a partly mounted one belongs to the user.
    if there and not any(key in there for key in _PARTS):
        return str(there.get("name", name))
    taken = next((each for each in map(mapping, volumes) if each.get("name") == name), volume)
    return name if taken == volume else f"{name}-wiring"


def _of(mounts: list[Any], path: str) -> dict[str, Any]:
    """Return the mount at a path, with or without a trailing slash; an empty map if there is none."""
    return next((each for each in map(mapping, mounts) if str(each.get("mountPath")).rstrip("/") == path), {})


def add_network(target: Target) -> None:
    """Add what a device plugin's network needs: container resources and capabilities, and the host network."""
    wiring, container, spec = target.wiring, target.container, target.pod.spec
    if wiring.resources:
        resources = mapping(container.get("resources"))
        # Of a device there are as many in the limits as in the requests.
        asked = {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}
        more = {name: asked[name] for name in wiring.resources if wiring.is_enough(name, asked.get(name))}
        for kind in ("requests", "limits"):
            place = target.container_place(f"resources.{kind}")
            there = mapping(resources.get(kind))
            # 16 and "16" are one amount.
            other = {
                name: more.get(name, amount)
                for name, amount in wiring.resources.items()
                if not wiring.is_enough(name, there.get(name))
            }
            put(resources, kind, target.decisions.merge_map(place, there, other))
        put(container, "resources", resources)
    context = mapping(container.get("securityContext"))
    if wiring.capabilities and context.get("privileged") is not True:
        capabilities = mapping(context.get("capabilities"))
        added = sequence(capabilities.get("add"))
        missing = [name for name in wiring.capabilities if name not in added]
        if missing:
            new = {**capabilities, "add": [*added, *missing]}
            put(container, "securityContext", {**context, "capabilities": new})
    if wiring.uses_host_network:
        wanted = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
        merged = target.decisions.merge_map(
            target.place("spec"), {key: spec[key] for key in wanted if key in spec}, wanted
        )
        spec.update(merged)


def add_claims(target: Target) -> None:
    """Add each resource claim to both the pod and the container, because the pod gets a device only with both."""
    wanted = target.wiring.claims(target.owner, target.nodes)
    if not wanted:
        return
    spec = target.pod.spec
    place = target.place("spec.resourceClaims")
    put(spec, "resourceClaims", target.decisions.merge_list(place, sequence(spec.get("resourceClaims")), wanted))
    resources = mapping(target.container.get("resources"))
    names = [{"name": each["name"]} for each in wanted]
    there = sequence(resources.get("claims"))
    put(resources, "claims", target.decisions.merge_list(target.container_place("resources.claims"), there, names))
    put(target.container, "resources", resources)


def add_variables(target: Target, *, init_containers: bool = False) -> None:
    """Add the variables to the container and, on request, the secrets to the init containers."""
    wiring, container = target.wiring, target.container
    wanted = wiring.secrets
    if target.libraries:
        wanted = [*wiring.libraries(target.image), *wanted]
    if target.whole:
        wanted = [*wanted, *wiring.nccl]
    _add(target, container, target.container_place("env"), wanted)
    if init_containers:
        for at, each in enumerate(sequence(target.pod.spec.get("initContainers"))):
            # The check container needs no secret, and a second run must not change it.
            if isinstance(each, dict) and each.get("name") != CHECK:
                place = target.place(f"spec.initContainers[{each.get('name', at)}].env")
                _add(target, each, place, wiring.secrets)


def _add(target: Target, container: dict[str, object], place: str, wanted: list[dict[str, Any]]) -> None:
    there = sequence(container.get("env"))
    given = {str(each.get("name")): each for each in map(mapping, there)}
    other = [each for each in wanted if not _says_the_same(given.get(each["name"]), each)]
    put(container, "env", target.decisions.merge_list(place, there, other))


def _says_the_same(there: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
    """Return whether an existing variable says in another way what is wanted."""
    if there is None or there.keys() != {"name", "value"} or "value" not in wanted:
        return False
    return nccl.is_same(wanted["name"], str(there["value"]), str(wanted["value"]))


def add_check(target: Target) -> None:
    """Add the init container that checks the node, first in the list, with the container's image and mounts.

    Without this check, a missing BASH_ENV script would go unnoticed, because bash does not report it.
    """
    wanted = target.wiring.check_node(target.image)
    if wanted is None:
        _refuse_check(target)
        return
    there = map(mapping, sequence(target.container.get("volumeMounts")))
    at = {str(mount.get("mountPath")).rstrip("/"): mount for mount in there}
    # The check must see the same files as the container, including a mounted part of a volume.
    mounts = [{**mount, **at.get(mount["mountPath"], {}), "readOnly": True} for mount in wanted["volumeMounts"]]
    containers = sequence(target.pod.spec.get("initContainers"))
    place = target.place("spec.initContainers")
    checked = target.decisions.merge_list(place, containers, [{**wanted, "volumeMounts": mounts}])
    put(target.pod.spec, "initContainers", checked)


def _refuse_check(target: Target) -> None:
    """Treat an earlier run's check for another machine as a conflict, because it fails on this machine.

    Raises InputError if conflicts are to be replaced, because nothing is ever removed.
    """
    place = target.place(f"spec.initContainers[{CHECK}]")
    for container in map(mapping, sequence(target.pod.spec.get("initContainers"))):
        script = "".join(map(str, sequence(container.get("args"))))
        if (
            container.get("name") == CHECK
            and f"{CHECK}: " in script
            and target.decisions.replaces(place, container, None)
        ):
            what = f"{place} is from an earlier run with other values, and nothing stands in its place"
            raise InputError(what, fix="remove it, or render the objects again from the source")
