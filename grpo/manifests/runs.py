"""Determine what a change of rendered objects does to existing training runs.

Some changes are rejected: by the API server, because an attempt is older, or because the new attempt cannot resume.
Others are accepted but end a run, or make it start at step 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from grpo.manifests import attempts, networks, restored
from grpo.manifests.attempts import Training
from postrender.manifests import apiserver
from postrender.manifests.apiserver import Object, Refusal
from postrender.manifests.pods import mapping
from postrender.types import Json, Path

_PLAN: Final = ("spec", "entrypoint(plan)")
_BEGIN_AGAIN: Final = "take the change back, or choose another job.name, which starts at step 0"
_ACTOR: Final = ("actor_rollout_ref", "actor")
_SCHEDULE: Final = "megatron/core/optimizer_param_scheduler.py, _check_and_set"
_CLUSTER: Final = "RayCluster"
_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_HOOK: Final = "helm.sh/hook"
# KubeRay recreates no pods for these: its hash of the spec leaves them out.
_COUNTS: Final = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
_STOPS: Final = "a run on it stops, and loses what it did after its last saved step"
_GONE: Final = {
    _CLUSTER: "a tool that prunes deletes it: a run on it ends",
    "PersistentVolumeClaim": "a tool that prunes deletes it, and the files of a volume that was made for it",
}
_UNMOUNTED: Final = "a tool that prunes deletes it once no pod uses it: new pods wait, and the files of its volume stay"


class Ending(NamedTuple):
    """What an accepted change does to a run: the object that causes it, what happens, and what to do."""

    object: str
    why: str
    fix: str
    # `ends`: a run stops or starts again; `ignored`: the next attempt does not read what changed.
    kind: str = "ends"


class _Kept(NamedTuple):
    """A property that an attempt must share with the one before it: `read` returns it, or None if it is unknown."""

    framework: str
    field: Path
    name: str
    read: Callable[[Training], Json]
    source: str
    # Whether the attempt is refused before any step is saved.
    at_once: bool = False


def _gpus(run: Training) -> Json:
    """Return the number of GPUs of a verl run that resumes from a step and saves it with FSDP."""
    nodes, each = run.at("trainer", "nnodes"), run.at("trainer", "n_gpus_per_node")
    resumes = run.at("trainer", "resume_mode") in (None, "auto")
    has_fsdp = run.at(*_ACTOR, "strategy") in (None, "fsdp", "fsdp2") and run.at("model_engine") in (None, "dp")
    known = isinstance(nodes, int) and isinstance(each, int) and resumes and has_fsdp
    return nodes * each if known else None


def _lora(run: Training) -> Json:
    """Return NeMo RL's LoRA rank for the training backend."""
    section = ("megatron_cfg", "peft") if attempts.backend(run) == "Megatron" else ("dtensor_cfg", "lora_cfg")
    found = run.switch("policy", *section, "enabled")
    return None if found is None else _rank(run.at("policy", *section, "dim") if found else 0)


def _verl_lora(run: Training) -> Json:
    return _rank(run.switch("actor_rollout_ref", "model", "lora_rank"))


def _rank(found: Json) -> Json:
    return f"of rank {found}" if found else None if found is None else "off"


def _identity(key: str, name: str) -> _Kept:
    source = "jobs/launcher/launch.py, check_identity"
    return _Kept("", ("identity", key), name, lambda run: run.plan["identity"].get(key), source, at_once=True)


# docs/howto/resume.md names the same.
KEPT: Final = (
    _identity("framework", "job.framework"),
    _identity("model", "the model"),
    _identity("stack", "stack.name"),
    _Kept(
        "verl",
        ("config", "trainer", "nnodes"),
        "the number of GPUs",
        _gpus,
        "verl v0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py, and jobs/inspection/resume.py",
    ),
    _Kept(
        "nemo-rl",
        ("config", "policy", "megatron_cfg", "enabled"),
        "the training backend",
        attempts.backend,
        "nemo_rl/models/policy at v0.7.0: each backend has a format of its own",
    ),
    _Kept("nemo-rl", ("config", "policy"), "LoRA", _lora, "torch.distributed.checkpoint: missing or other tensors"),
    _Kept("verl", ("config", "actor_rollout_ref", "model", "lora_rank"), "LoRA", _verl_lora, "verl's FSDP: other keys"),
)


def refusals(before: Iterable[Object], after: Iterable[Object]) -> list[Refusal]:
    """Return what is rejected if the objects `after` are applied over the objects `before`.

    This covers what the API server rejects, and attempts that are older than the existing one or cannot resume.
    """
    before, after = [*before], [*after]
    wanted = attempts.newest(after)
    pairs = ((old, wanted[key]) for key, old in attempts.newest(before).items() if key in wanted)
    return [*apiserver.refusals(before, after), *(found for old, new in pairs for found in _not_resumed(old, new))]


def _not_resumed(old: Training, new: Training) -> Iterator[Refusal]:
    if new.attempt < old.attempt or new.place != old.place:
        return
    for row in KEPT:
        if row.framework not in ("", new.framework) or not (row.at_once or attempts.saves(old)):
            continue
        was, now = row.read(old), row.read(new)
        if was is None or now is None or was == now:
            continue
        why = f"{_attempt(old, new)} cannot resume: {row.name} was {was} and would be {now}"
        yield Refusal(old.object, ((*_PLAN, *row.field),), _BEGIN_AGAIN, row.source, why)
        if row.at_once:
            return
    for each in restored.changes(old, new):
        if each.effect == restored.REFUSED:
            why = f"{_attempt(old, new)} cannot resume: {each.text} is another schedule than that of the saved step"
            yield Refusal(old.object, tuple((*_PLAN, *field) for field in each.fields), each.fix, _SCHEDULE, why)


def _attempt(old: Training, new: Training) -> str:
    return f"attempt {new.attempt}" if new.attempt != old.attempt else "the next attempt"


def endings(
    before: Iterable[Object], after: Iterable[Object], *, is_there: bool = True, elsewhere: Iterable[Object] = ()
) -> list[Ending]:
    """Return what stops runs, lets them start at step 0 or does not reach them, if `after` is applied over `before`.

    `is_there` says whether the objects `before` are those of a cluster: then a tool that prunes deletes what is neither
    in `after` nor elsewhere.
    """
    before, after = [*before], [*after]
    old, new = attempts.newest(before), attempts.newest(after)
    pairs = [(old[key], new[key]) for key in old if key in new]
    found = [each for pair in pairs for each in (*_starts_again(*pair), *_ignored(*pair))]
    clusters = {apiserver.identity(item): item for item in after}
    for item in before:
        there = clusters.get(apiserver.identity(item))
        if there is not None and item.get("kind") == _CLUSTER:
            found += _stopped(item, there)
    return [*found, *_gone(before, [*after, *elsewhere], old)] if is_there else found


def _gone(before: Iterable[Object], after: list[Object], old: Mapping[tuple[str, str], Training]) -> Iterator[Ending]:
    new = attempts.newest(after)
    started = [run for namespace, run in new if (namespace, run) not in old]
    for (namespace, run), each in old.items():
        if (namespace, run) not in new:
            also = f", and {started[0]} starts at step 0" if len(started) == 1 else ""
            why = f"run {run} ends, because a tool that prunes deletes its RayJob{also}"
            fix = f"keep job.name, stack.name and the namespace to go on; its steps stay in {each.place[0]}"
            yield Ending(each.object, why, fix)
    left = {apiserver.identity(item) for item in after}
    yield from (Ending(*each) for each in networks.gone(before, after))
    for item in before:
        key = apiserver.identity(item)
        if (
            key not in left
            and key[1] in _GONE
            and not mapping(mapping(item.get("metadata")).get("annotations")).get(_HOOK)
        ):
            fix = "keep stack.name and the namespace, or let the runs end first"
            yield Ending(f"{key[1]}/{key[3]}", _why_gone(item), fix)


def _why_gone(item: Object) -> str:
    """Return what happens to an object that is gone; the files of a claim on a volume that is written stay."""
    is_made = not mapping(item.get("spec")).get("volumeName")
    return _GONE[str(item["kind"])] if item["kind"] == _CLUSTER or is_made else _UNMOUNTED


def _stopped(before: Object, after: Object) -> Iterator[Ending]:
    """Yield the changes that remove a RayCluster's pods."""
    was, now = mapping(before.get("spec")), mapping(after.get("spec"))
    queued = _QUEUE in mapping(mapping(after.get("metadata")).get("labels"))
    recreates = queued or mapping(now.get("upgradeStrategy")).get("type") == "Recreate"
    old, new = (_of_pods(each, counts=queued) for each in (was, now))
    changed = [f"spec.{key}" for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    fewer = [name for name, count in _counts(was).items() if _counts(now).get(name, 0) < count]
    name = f"{_CLUSTER}/{mapping(after.get('metadata')).get('name')}"
    fix = "apply it when no run is on it"
    if now.get("suspend") is True and was.get("suspend") is not True:
        yield Ending(name, f"its pods are deleted (spec.suspend): {_STOPS}", fix)
    elif recreates and changed:
        kept = "" if queued else ", or set ray.upgrade to manual, with which its pods stay until you delete them"
        yield Ending(name, f"its pods are recreated ({', '.join(changed)}): {_STOPS}", f"{fix}{kept}")
    elif fewer:
        yield Ending(name, f"it loses pods of the group {', '.join(fewer)}: {_STOPS}", fix)


def _of_pods(spec: Mapping[str, Any], *, counts: bool) -> dict[str, Json]:
    """Return the part of a RayCluster's spec whose change recreates its pods."""
    groups = [
        {key: value for key, value in mapping(group).items() if counts or key not in _COUNTS}
        for group in spec.get("workerGroupSpecs") or ()
    ]
    kept = {key: value for key, value in spec.items() if key not in ("upgradeStrategy", "suspend", "workerGroupSpecs")}
    return {**kept, "workerGroupSpecs": groups}


def _counts(spec: Mapping[str, Any]) -> dict[str, int]:
    groups = [mapping(group) for group in spec.get("workerGroupSpecs") or ()]
    return {str(each.get("groupName")): count for each in groups if isinstance(count := each.get("replicas", 0), int)}


def _starts_again(old: Training, new: Training) -> Iterator[Ending]:
    if new.attempt >= old.attempt and new.place != old.place:
        was, now = (f"{directory} on claim {claim}" for directory, claim in (old.place, new.place))
        why = f"attempt {new.attempt} starts at step 0: it looks for steps in {now}, and those are in {was}"
        yield Ending(old.object, why, "copy that folder first, or take the change back")


def _ignored(old: Training, new: Training) -> Iterator[Ending]:
    """Yield what changed and does not reach the attempt, because its checkpoint decides it."""
    if new.attempt < old.attempt or new.place != old.place:
        return
    for each in restored.changes(old, new):
        attempt = _attempt(old, new)
        if each.effect == restored.IGNORED:
            why = f"has no effect on {attempt}: {each.text}; a resume takes it from the saved step"
            yield Ending(old.object, why, each.fix, restored.IGNORED)
        elif each.effect == restored.UNSURE:
            why = f"{attempt} may not resume: {each.text} {each.says}"
            yield Ending(old.object, why, each.fix)
