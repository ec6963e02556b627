"""All rules that `grpo check` asks: those of the gate, and those that the post-renderer has no time for.

Those that look at nothing but what is not there are not even loaded.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.rules import Manifests, Rule


def asked(manifests: Manifests) -> Iterator[Rule]:
    """Yield the rules that may find something in these objects."""
    yield from _of_any_object()
    if manifests.pods():
        yield from _of_pods()
    if any(str(item.object.get("apiVersion")).startswith("ray.io/") for item in manifests.items):
        yield from _of_ray()


def rules() -> tuple[Rule, ...]:
    """Return all of them."""
    return *_of_any_object(), *_of_pods(), *_of_ray()


def _of_any_object() -> Iterator[Rule]:
    from postrender.rules import gate
    from postrender.rules.kubernetes import schema
    from postrender.rules.network import attachment, profile_of_a_region
    from postrender.rules.storage import buckets, lifetime, lustre
    from postrender.rules.stream import ends_with_block_scalar, placeholder, value_retyped

    for module in (gate, attachment, lifetime, lustre, buckets, schema):
        yield from module.RULES
    yield profile_of_a_region.RULE
    yield placeholder.RULE
    yield value_retyped.RULE
    yield ends_with_block_scalar.RULE


def _of_pods() -> Iterator[Rule]:
    from postrender.rules.kueue import placement
    from postrender.rules.nccl import settings
    from postrender.rules.nodes import fits
    from postrender.rules.pods import images, powers, shared_memory, start, zero
    from postrender.rules.secrets import shown
    from postrender.rules.storage import references

    for module in (settings, shared_memory, fits, zero, references, placement, start, images, powers, shown):
        yield from module.RULES


def _of_ray() -> Iterator[Rule]:
    from postrender.rules.kueue import queue
    from postrender.rules.ray import (
        autoscaler,
        containers,
        deletion,
        fault_tolerance,
        fields,
        groups,
        names,
        own_start,
        rayjob,
        runtime_env,
        scaling,
        schedulers,
        shell,
        submission,
        tokens,
    )

    for module in (names, fields, scaling, groups, containers, rayjob, submission, shell, deletion, autoscaler):
        yield from module.RULES
    for module in (tokens, schedulers, fault_tolerance, queue, runtime_env, own_start):
        yield from module.RULES
