"""All rules that `grpo check` asks: those of the gate, and those that the post-renderer has no time for.

Those that look at nothing but what is not there are not even loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

    from postrender.rules import Manifests, Rule

    # Says whether one of some words stands in what is judged.
    Named = Callable[..., bool]

# Loading all rules takes as long as looking for words in so many characters.
_SHORT: Final = 200_000


def asked(manifests: Manifests) -> Iterator[Rule]:
    """Yield the rules that may find something in these objects."""
    texts = manifests.texts
    is_short = sum(map(len, texts)) < _SHORT

    def named(*words: str) -> bool:
        return not is_short or any(word in text for word in words for text in texts)

    yield from _of_any_object(named)
    if manifests.of_kinds(("Service",)):
        yield from _of_services()
    # A job's entrypoint is judged as what a container starts with is.
    if manifests.pods() or manifests.of_kinds(("RayJob", "RayCronJob")):
        yield from _of_pods(named)
    if any(str(item.object.get("apiVersion")).startswith("ray.io/") for item in manifests.items):
        yield from _of_ray(named)


def rules() -> tuple[Rule, ...]:
    """Return all of them."""
    return *_of_any_object(_always), *_of_services(), *_of_pods(_always), *_of_ray(_always)


def _always(*_words: str) -> bool:
    return True


def _of_any_object(named: Named) -> Iterator[Rule]:
    from postrender.rules import gate
    from postrender.rules.kubernetes import schema
    from postrender.rules.network import attachment
    from postrender.rules.stream import ends_with_block_scalar, placeholder, value_retyped

    for module in (gate, attachment, schema):
        yield from module.RULES
    yield from (placeholder.RULE, value_retyped.RULE, ends_with_block_scalar.RULE)
    if named("-vpc-roce"):
        from postrender.rules.network import profile_of_a_region

        yield profile_of_a_region.RULE
    yield from _of_storage(named)


def _of_services() -> Iterator[Rule]:
    from postrender.rules.kubernetes import services

    yield from services.RULES


def _of_storage(named: Named) -> Iterator[Rule]:
    if named("PersistentVolume", "StorageClass", "VolumeClaim", "volumeClaim"):
        from postrender.rules.storage import lifetime

        yield from lifetime.RULES
    if named("lustre"):
        from postrender.rules.storage import lustre

        yield from lustre.RULES
    if named("gcsfuse"):
        from postrender.rules.storage import buckets

        yield from buckets.RULES


def _of_pods(named: Named) -> Iterator[Rule]:
    from postrender.rules.nccl import settings
    from postrender.rules.nodes import fits
    from postrender.rules.pods import images, powers, refused, shared_memory, start, zero
    from postrender.rules.secrets import shown
    from postrender.rules.storage import references

    for module in (settings, shared_memory, fits, zero, refused, references, start, images, powers, shown):
        yield from module.RULES
    if named("kueue", "gke-queued"):
        from postrender.rules.kueue import placement

        yield from placement.RULES


def _of_ray(named: Named) -> Iterator[Rule]:
    from postrender.rules.ray import containers, fields, groups, names, scaling

    for module in (names, fields, scaling, groups, containers):
        yield from module.RULES
    if named("RayJob", "RayCronJob"):
        from postrender.rules.ray import deletion, rayjob, runtime_env, schedulers, shell, submission

        for module in (rayjob, submission, shell, deletion, runtime_env, schedulers):
            yield from module.RULES
    if named("RayCronJob"):
        from postrender.rules.ray import cron

        yield from cron.RULES
    if named("RayService"):
        from postrender.rules.ray import service

        yield from service.RULES
    if named("enableInTreeAutoscaling", "autoscaler", "idleTimeoutSeconds"):
        from postrender.rules.ray import autoscaler

        yield from autoscaler.RULES
    if named("gcsFaultTolerance", "REDIS", "redis"):
        from postrender.rules.ray import fault_tolerance

        yield from fault_tolerance.RULES
    if named("authOptions"):
        from postrender.rules.ray import tokens

        yield from tokens.RULES
    if named("overwrite-container-cmd"):
        from postrender.rules.ray import own_start

        yield from own_start.RULES
    if named("kueue"):
        from postrender.rules.kueue import queue

        yield from queue.RULES
