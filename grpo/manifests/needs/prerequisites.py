"""What a stack needs before its installation, and before its training starts, according to its rendered charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from grpo.helm.engines import Engine
from grpo.helm.stack import Stack
from grpo.manifests import entrypoint
from grpo.manifests.needs.needed import Need, needs
from postrender import paths
from postrender.manifests.pods import mapping


class Prerequisites(NamedTuple):
    """`needs` are objects that must exist, `files` those that the job reads, each with the task that writes it.

    A file without a task is the user's own.
    """

    needs: tuple[Need, ...] = ()
    files: Mapping[str, str] = {}


def of_stack(stack: Stack, engine: Engine, namespace: str) -> Prerequisites:
    """Return what a stack's four layers and its fetch task need; raise as Stack.render does."""
    rendered = stack.objects(engine, paths.LAYERS, namespace)
    found = [each for objects in rendered.values() for each in objects]
    if stack.values.get("huggingface.offline.enabled") is True:
        # Only this task has the token, which the others do without.
        fetch = {"job": {"task": "fetch", "cluster": {"mode": "ephemeral"}}}
        found += stack.render(engine, "grpo-job", namespace=namespace, change=fetch).documents
    return of_objects(found, namespace)


def of_objects(objects: Iterable[Mapping[str, Any]], namespace: str) -> Prerequisites:
    """Return what rendered objects need in a namespace."""
    given = list(objects)
    files = {
        str(file): str(task)
        for each in given
        if each.get("kind") == "RayJob"
        for file, task in mapping(entrypoint.plan(each).get("neededFiles")).items()
    }
    return Prerequisites(tuple(needs(given, namespace)), files)
