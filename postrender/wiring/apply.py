"""Wire a document's objects and report what changed and what was skipped."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from postrender import spelling
from postrender.counting import counted
from postrender.manifests import pods
from postrender.manifests.pods import Path, Pod
from postrender.types import Json
from postrender.values import mutations
from postrender.wiring import transforms
from postrender.wiring.plan import Wiring
from postrender.wiring.transforms import FAIL, Decisions, Target

# An annotation of an object. Users write `skip`; any other value is written here.
STAMP: Final = "grpo-charts/wiring"
SKIP: Final = "skip"
# An annotation of an object: its pods with GPUs that are not wired, and why. Helm hides what a post-renderer that
# succeeds says.
NOT_WIRED: Final = "grpo-charts/not-wired"
# Why a pod in a kind of somebody else is not wired.
UNKNOWN: Final = "is not known to have pods there"
# In the list of skipped pods: every pod of the object.
ALL: Final = "all"
_LABEL_OF_OWNER = "grpo-charts/owner"
# With these labels Kueue would queue an object that has no pods.
_KUEUE = "kueue.x-k8s.io/"
_HOOK = "helm.sh/"
_WEIGHT = "helm.sh/hook-weight"
_FILE = "postrenderer.helm.sh/postrender-filename"


class Options(NamedTuple):
    """Wiring options from the command line."""

    policy: str = FAIL
    select: frozenset[tuple[str, str]] = frozenset()
    templates: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    init_containers: bool = False
    allow_unwired: bool = False

    def selects(self, kind: str, name: str) -> bool:
        """Return whether an object is among the selected ones; the kind's case does not matter."""
        return any((each.lower(), own) == (kind.lower(), name) for each, own in self.select)


class Wired:
    """Report on one object that has pod templates (`found`), or GPU pods at places where none are expected.

    `pods` lists the paths of the wired templates, `variables` the templates that got only environment variables,
    `skipped` the templates that are not wired and the reason. `companions` lists objects to install with this one.
    `lacks_gpus` is true for a Ray cluster in which no pod requests GPUs: its groups are among the skipped ones.
    """

    def __init__(self, path: Path, item: dict[str, Any], found: list[Pod]) -> None:
        self.path = path
        self.item = item
        self.found = found
        self.lacks_gpus = False
        self.pods: list[str] = []
        self.variables: list[str] = []
        self.skipped: list[dict[str, str]] = []
        self.conflicts: list[dict[str, Any]] = []
        self.companions: list[dict[str, Any]] = []
        self.changed = False

    @property
    def kind(self) -> str:
        """Return the object's kind."""
        return str(self.item.get("kind"))

    @property
    def name(self) -> str:
        """Return the object's name, or its generateName."""
        metadata = pods.mapping(self.item.get("metadata"))
        return str(metadata.get("name") or metadata.get("generateName") or "")

    def unwired(self) -> list[tuple[str, str]]:
        """Return path and reason of each pod that lacks wiring or GPUs and was not left out on purpose."""
        there = [(each["pod"], each["reason"]) for each in self.skipped if each["pod"] != ALL]
        return [(path, f"{path or 'the pod'} {reason}") for path, reason in there]


def stamp_of(item: Json) -> str:
    """Return what an earlier run wrote into an object's annotation; an empty text if there was no earlier run."""
    stamp = str(_note(item) or "")
    return "" if stamp.lower() == SKIP else stamp


def _note(item: Json) -> Json:
    return pods.mapping(pods.mapping(pods.mapping(item).get("metadata")).get("annotations")).get(STAMP)


def wire(document: Json, wiring: Wiring, options: Options) -> tuple[Json, list[Wired]]:
    """Return a wired copy of a document and a report on each of its objects that has pods.

    The copy shares every unchanged part with the document.
    """
    holder = {"": document}
    done = []
    for path, original in pods.objects(document):
        found = pods.pods(original, options.templates)
        strays = pods.strays(original, found)
        if found or strays:
            for pod in found:
                _own_pod(_own(holder, ("", *path, *pod.path)))
            item = _own(holder, ("", *path))
            _own(item, ("metadata",))
            result = Wired(path, item, pods.pods(item, options.templates))
            done.append(_wire_object(result, original, wiring, options, strays))
    return holder[""], done


def _own(holder: Json, path: Path) -> Json:
    """Copy the maps and lists along a path, so that they can be changed; return the innermost copy."""
    for part in path:
        there: Json = pods.mapping(holder).get(part) if isinstance(part, str) else holder[part]
        if not isinstance(there, (dict, list)):
            return None
        holder[part] = there.copy()
        holder = holder[part]
    return holder


def _own_pod(template: dict[str, Any]) -> None:
    """Copy the parts of a pod template that transforms change in place."""
    _own(template, ("metadata",))
    for kind in ("initContainers", "containers"):
        containers = _own(template, ("spec", kind))
        for at in range(len(pods.sequence(containers))):
            _own(containers, (at, "resources"))


def _wire_object(
    result: Wired, original: Mapping[str, Any], wiring: Wiring, options: Options, strays: list[tuple[Path, int]]
) -> Wired:
    stamp = _note(result.item)
    if options.select and not options.selects(result.kind, result.name):
        result.skipped.append({"pod": ALL, "reason": "not selected"})
        return result
    if str(stamp).lower() == SKIP:
        result.skipped.append({"pod": ALL, "reason": f"the annotation {STAMP} is {SKIP}"})
        return result
    decisions = Decisions(options.policy)
    targets = _targets(result, wiring, decisions)
    for target in targets:
        _apply(target, options)
        (result.pods if target.whole else result.variables).append(target.place("spec"))
    result.conflicts = decisions.conflicts
    result.skipped += [
        {"pod": ".".join(map(str, path)), "reason": stray(result.kind, path, count)} for path, count in strays
    ]
    groups = [pod for pod in result.found if pod.worker]
    # A head alone is a cluster for a task that needs no GPUs.
    result.lacks_gpus = (
        bool(wiring.gpus and groups) and result.kind in pods.RAY and not (strays or _have_gpus(result.found))
    )
    if result.lacks_gpus:
        result.skipped += [{"pod": ".".join(map(str, pod.path)), "reason": _lack(pod, result.item)} for pod in groups]
    is_wired = result.item != original or (stamp is not None and bool(targets))
    _annotate(result, {STAMP: wiring.stamp} if is_wired else {})
    result.changed = result.item != original
    whole = [target for target in targets if target.whole]
    if whole:
        result.companions = [_companion(each, result.item) for each in wiring.documents(whole[0].owner, whole[0].nodes)]
    return result


def _have_gpus(found: list[Pod]) -> bool:
    return any(pod.gpu_container()[1] for pod in found)


def _lack(pod: Pod, item: Json) -> str:
    """Return that a group's pods request no GPUs, and what their containers request instead."""
    group = pods.mapping(mutations.at(item, pod.path[:-1])).get("groupName")
    reason = f"{f'(group {group}) ' if group else ''}asks for no {pods.GPU}"
    for container in pod.containers():
        for name, part in pods.requested(container).items():
            if name == pods.GPU:
                return f"{reason}: container {container.get('name')} has {container['resources'][part][name]} in {part}"
            if spelling.meant(str(name), [pods.GPU], is_value=True):
                return f"{reason}: container {container.get('name')} asks for {name}, did you mean {pods.GPU}?"
    return reason


def stray(kind: str, path: Path, count: int) -> str:
    """Return why GPU pods are not wired at a place where a kind is not known to have pods."""
    reason = f"takes {counted(count, 'GPU')}, and {kind} {UNKNOWN}"
    if path[-1:] == ("template",):
        place = ".".join(pods.EACH if isinstance(part, int) else str(part) for part in path)
        reason = f"{reason} (--pod-template-path {kind}={place})"
    return reason


def _annotate(result: Wired, notes: dict[str, str]) -> None:
    """Add annotations to the object, including one that names its unwired pods."""
    metadata = pods.mapping(result.item.get("metadata"))
    there = pods.mapping(metadata.get("annotations"))
    if unwired := result.unwired():
        notes = {**notes, NOT_WIRED: "; ".join(reason for _, reason in unwired)}
    kept = {key: value for key, value in there.items() if key != NOT_WIRED or key in notes}
    if notes or kept != there:
        metadata["annotations"] = {**kept, **notes}
        result.item["metadata"] = metadata


def _targets(result: Wired, wiring: Wiring, decisions: Decisions) -> list[Target]:
    targets = []
    for pod in result.found:
        count, reason = pod.gpu_container()[1], wiring.unfit(pod)
        if reason:
            result.skipped.append({"pod": ".".join(map(str, pod.path)), "reason": reason})
            if not pod.ray:
                # No secret for a pod that nobody named.
                continue
        for position in pod.gpu_containers():
            target = Target(pod, position, wiring, decisions)
            # A machine without GPUs is that of the workers: no GPUs tell which pods it is for.
            target.whole = not reason and (count > 0 or (pod.worker and not wiring.gpus))
            targets.append(target)
    whole = [target.pod for target in targets if target.whole]
    nodes = [pod.count for pod in whole]
    for target in targets:
        target.nodes = None if None in nodes else sum(each or 0 for each in nodes)
        labels = pods.mapping(pods.mapping(target.pod.template.get("metadata")).get("labels"))
        target.owner = str(labels.get(_LABEL_OF_OWNER) or result.name)
        target.libraries = target.whole or (target.pod.ray and (bool(whole) or not result.skipped))
    return targets


def _apply(target: Target, options: Options) -> None:
    if target.whole:
        transforms.add_interfaces(target)
        transforms.add_placement(target)
        transforms.add_volumes(target)
        transforms.add_network(target)
        transforms.add_claims(target)
    transforms.add_variables(target, init_containers=options.init_containers)
    if target.whole:
        transforms.add_check(target)


def _companion(new: dict[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new object with the namespace, labels and Helm annotations of the object that needs it."""
    metadata = pods.mapping(item.get("metadata"))
    text_labels = {str(key): value for key, value in pods.mapping(metadata.get("labels")).items()}
    labels = {key: value for key, value in text_labels.items() if not key.startswith(_KUEUE)}
    there = pods.mapping(metadata.get("annotations"))
    kept = {key: value for key, value in there.items() if key == _FILE or key.startswith(_HOOK)}
    if f"{_HOOK}hook" in kept:
        # Helm installs hooks one by one and waits for each, so the objects that its pods need must come first.
        kept[_WEIGHT] = str(_weight(kept.get(_WEIGHT)) - 1)
    own = {"namespace": metadata.get("namespace"), "labels": labels, "annotations": kept}
    return {**new, "metadata": {**new["metadata"], **{key: value for key, value in own.items() if value}}}


def _weight(there: Json) -> int:
    """Return a hook's weight as Helm reads it: 0 if it is not a number."""
    try:
        return int(str(there))
    except ValueError:
        return 0
