"""Render a stack, to find out what it requires from the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from grpo.cluster.expected import Expected
from grpo.helm.engines import Engine
from grpo.helm.stack import Stack
from grpo.lint.linter import described_run
from grpo.plan import host, planner
from grpo.values import gke_versions
from postrender.manifests.pods import mapping
from postrender.values import merge
from postrender.values.merge import Values
from postrender.yaml.reader import Node

# Where the frameworks' configurations name the model, and what a name on the hub looks like: a path is no name.
_MODELS: Final = ("job.config.policy.model_name", "job.config.actor_rollout_ref.model.path")
_MODEL: Final = re.compile(r"[\w.-]+/[\w.-]+")


def render(stack: Stack, engine: Engine, namespace: str) -> Expected:
    """Render a stack's layers for a namespace; raise as Stack.render does."""
    layers = stack.layers()
    volume = stack.values.get("job.volume", "data")
    mount = stack.values.get(f"storage.{volume}.mountPath")
    run = stack.values.get("job.name")
    accelerator = mapping(stack.values.effective().get("accelerator"))
    return Expected(
        stack.name,
        namespace,
        {layer: stack.release(layer) for layer in layers},
        stack.objects(engine, layers, namespace),
        f"{mount}/runs/{run}" if mount and run else "",
        dict(_places(stack.values.root, "")),
        {path: str(name) for path in _MODELS if _MODEL.fullmatch(str(name := stack.values.get(path, "")))},
        _host_memory(stack.values),
        list(gke_versions.needs(merge.over_defaults(stack.values))),
        sorted(mapping(accelerator.get("resources"))),
        sorted({str(mapping(claim).get("deviceClass")) for claim in mapping(accelerator.get("claims")).values()}),
    )


def _places(node: Node, path: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the dotted path of each value below a node, with its text and its place."""
    if path:
        is_name = isinstance(node.value, str) and path.endswith(".name")
        yield path, (str(node.value) if is_name else "", str(node.key_at))
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            yield from _places(child, f"{path}.{key}" if path else str(key))


def _host_memory(values: Values) -> dict[str, Any]:
    """Return `grpo plan`'s result for a node: verdict, peak, limit, and what only one phase has; or else `reason`."""
    run = described_run(values)
    if run is None:
        return {"reason": "the values describe no run on a machine"}
    setup, reason = (found := planner.plan(run)).setup, found.reason
    if setup is None or setup.machine.host is None:
        return {"reason": reason or "the memory of a node is not known"}
    return {
        "verdict": host.verdict(setup),
        "peak": str(host.peak(setup)),
        "limit": str(setup.machine.host),
        "during": {phase: {item.name: str(item.fixed) for item in host.during(setup, phase)} for phase in host.PHASES},
    }
