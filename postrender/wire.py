"""Wire the objects of one document: choose the pods, apply the transforms, say what was done and what was skipped."""

from __future__ import annotations

from postrender import pods, transforms
from postrender.transforms import FAIL, Decisions, Target
from postrender.wiring import FORMAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from postrender.plain import Plain
    from postrender.pods import Path, Pod
    from postrender.wiring import Wiring

# On an object: `skip` is the user's word, anything else ours.
STAMP: Final = "grpo-charts/wiring"
SKIP: Final = "skip"
# In a list of what was skipped: every pod of the object, as somebody asked for.
ALL: Final = "all"
_LABEL_OF_OWNER = "grpo-charts/owner"
_PACKED = ("path", "item", "elsewhere", "pods", "variables", "skipped", "conflicts", "beside", "changed")
# Labels that would make a queue of Kueue admit an object that has no pods.
_KUEUE = "kueue.x-k8s.io/"
_HOOK = "helm.sh/"
_WEIGHT = "helm.sh/hook-weight"
_FILE = "postrenderer.helm.sh/postrender-filename"


class Options:
    """Hold what the command line says about wiring."""

    __slots__ = ("init_containers", "policy", "select", "templates")

    def __init__(
        self,
        *,
        policy: str = FAIL,
        select: frozenset[tuple[str, str]] = frozenset(),
        templates: Mapping[str, tuple[str, ...]] | None = None,
        init_containers: bool = False,
    ) -> None:
        self.policy = policy
        self.select = select
        self.templates = templates or {}
        self.init_containers = init_containers


class Wired:
    """Say what became of one object with pod templates (`found`).

    `pods` are the paths of those that were wired, `variables` of those that got variables only, `skipped` others with
    GPUs and the reasons, `beside` the objects that must stand beside it; `elsewhere` says that a pod was skipped
    because it selects another machine.
    """

    __slots__ = ("beside", "changed", "conflicts", "elsewhere", "found", "item", "path", "pods", "skipped", "variables")

    def __init__(self, path: Path, item: dict[str, Any], found: list[Pod]) -> None:
        self.path = path
        self.item = item
        self.found = found
        self.elsewhere = False
        self.pods: list[str] = []
        self.variables: list[str] = []
        self.skipped: list[dict[str, str]] = []
        self.conflicts: list[dict[str, Any]] = []
        self.beside: list[dict[str, Any]] = []
        self.changed = False

    def packed(self) -> tuple[Any, ...]:
        """Return all of it but what is found again as plain data, for another process."""
        return tuple(getattr(self, name) for name in _PACKED)

    @staticmethod
    def unpacked(packed: tuple[Any, ...], options: Options) -> Wired:
        """Return what was packed."""
        path, item, *_ = packed
        wired = Wired(path, item, pods.pods(item, options.templates))
        for name, value in zip(_PACKED, packed, strict=True):
            setattr(wired, name, value)
        return wired

    @property
    def kind(self) -> str:
        """Return the object's kind."""
        return str(self.item.get("kind"))

    @property
    def name(self) -> str:
        """Return the object's name, or how its name begins."""
        metadata = pods.mapping(self.item.get("metadata"))
        return str(metadata.get("name") or metadata.get("generateName") or "")


def wire(document: Plain, wiring: Wiring, options: Options) -> tuple[Plain, list[Wired]]:
    """Return the wired copy of a document, and what was done to each of its objects that has pods.

    The copy shares with the document what is not changed, which makes them quick to compare.
    """
    holder = {"": document}
    done = []
    for path, original in pods.objects(document):
        if found := pods.pods(original, options.templates):
            for pod in found:
                _own_pod(_own(holder, ("", *path, *pod.path)))
            item = _own(holder, ("", *path))
            _own(item, ("metadata",))
            done.append(_wire_object(Wired(path, item, pods.pods(item, options.templates)), original, wiring, options))
    return holder[""], done


def _own(holder: Plain, path: Path) -> Plain:
    """Give a copy the maps and lists on a path for its own, where it shares them; return the last of them."""
    for part in path:
        there: Plain = pods.mapping(holder).get(part) if isinstance(part, str) else holder[part]
        if not isinstance(there, (dict, list)):
            return None
        holder[part] = there.copy()
        holder = holder[part]
    return holder


def _own_pod(template: dict[str, Any]) -> None:
    """Give a pod template for its own what transforms change in place."""
    _own(template, ("metadata",))
    for kind in ("initContainers", "containers"):
        containers = _own(template, ("spec", kind))
        for at in range(len(pods.sequence(containers))):
            _own(containers, (at, "resources"))


def _wire_object(result: Wired, original: Mapping[str, Any], wiring: Wiring, options: Options) -> Wired:
    stamp = pods.mapping(pods.mapping(result.item.get("metadata")).get("annotations")).get(STAMP)
    if options.select and (result.kind.lower(), result.name) not in options.select:
        result.skipped.append({"pod": ALL, "reason": "not selected"})
        return result
    if str(stamp).lower() == SKIP:
        result.skipped.append({"pod": ALL, "reason": f"the annotation {STAMP} says {SKIP}"})
        return result
    decisions = Decisions(options.policy)
    targets = _targets(result, wiring, decisions)
    for target in targets:
        _apply(target, options)
        (result.pods if target.whole else result.variables).append(target.place("spec"))
    result.conflicts = decisions.conflicts
    result.changed = result.item != original
    if result.changed or (stamp is not None and targets):
        metadata = pods.mapping(result.item.get("metadata"))
        there = pods.mapping(metadata.get("annotations"))
        metadata["annotations"] = {**there, STAMP: f"{FORMAT} {wiring.digest}"}
        result.item["metadata"] = metadata
    whole = [target for target in targets if target.whole]
    if whole:
        result.beside = [_beside(each, result.item) for each in wiring.documents(whole[0].owner, whole[0].nodes)]
    return result


def _targets(result: Wired, wiring: Wiring, decisions: Decisions) -> list[Target]:
    targets = []
    for pod in result.found:
        count, reason = pod.gpu_container()[1], wiring.unfit(pod)
        if reason:
            result.skipped.append({"pod": ".".join(map(str, pod.path)), "reason": reason})
            result.elsewhere |= count == wiring.gpus
        for position in pod.gpu_containers():
            target = Target(pod, position, wiring, decisions)
            target.whole = not reason and (count > 0 or pod.worker)
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
        transforms.add_claims(target)
    transforms.add_variables(target, init_containers=options.init_containers)
    if target.whole:
        transforms.add_check(target)


def _beside(new: dict[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """Give a new object the namespace, the labels and Helm's annotations of the object that needs it."""
    metadata = pods.mapping(item.get("metadata"))
    # To the fast reader an unquoted number is no text, even as a key.
    named = {str(key): value for key, value in pods.mapping(metadata.get("labels")).items()}
    labels = {key: value for key, value in named.items() if not key.startswith(_KUEUE)}
    there = pods.mapping(metadata.get("annotations"))
    kept = {key: value for key, value in there.items() if key == _FILE or key.startswith(_HOOK)}
    if f"{_HOOK}hook" in kept:
        # Helm makes one hook after the other and waits for each: what its pods need must come first.
        kept[_WEIGHT] = str(_weight(kept.get(_WEIGHT)) - 1)
    own = {"namespace": metadata.get("namespace"), "labels": labels, "annotations": kept}
    return {**new, "metadata": {**new["metadata"], **{key: value for key, value in own.items() if value}}}


def _weight(there: Plain) -> int:
    """Return the weight of a hook as Helm reads it: what is no number is none."""
    try:
        return int(str(there))
    except ValueError:
        return 0
