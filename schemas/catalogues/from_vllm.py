"""What one version of vLLM takes as the arguments of its engine, read from its source tree."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from shapes import Annotations, Shape, Sources

ARGUMENTS = "vllm.engine.arg_utils"
ENTRYPOINT = "vllm.entrypoints.llm"


def catalogue(tree: Path, version: str) -> dict[str, Any]:
    """Return the catalogue of a source tree: `keys` for both engines, `offline` and `served` for one of them."""
    sources = Sources(tree)
    annotations = Annotations(sources, ("dataclass",))
    shared = annotations.named(ARGUMENTS, "EngineArgs").fields
    served = annotations.named(ARGUMENTS, "AsyncEngineArgs").fields
    offline = {name: Shape({"any"}) for name in offline_arguments(sources) if name not in shared}
    return {
        "version": version,
        "keys": written(shared),
        "offline": sorted(offline),
        "served": sorted(served.keys() - shared.keys()),
    }


def written(fields: dict[str, Shape]) -> dict[str, Any]:
    """Return the type of each argument; a configuration of its own is a map, whatever is in it."""
    found = {}
    for name, shape in sorted(fields.items()):
        plain = Shape(set(shape.kinds), [] if "any" in shape.kinds else shape.words)
        found[name] = plain.written()
    return found


def offline_arguments(sources: Sources) -> set[str]:
    """Return the arguments that the class for offline generation names itself, or takes out of the others."""
    found = sources.find(ENTRYPOINT, "LLM")
    assert found
    assert isinstance(found[1], ast.ClassDef)
    nodes = [node for node in found[1].body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    names = {argument.arg for node in nodes for argument in (*node.args.args[1:], *node.args.kwonlyargs)}
    for call in (inner for node in nodes for inner in ast.walk(node) if isinstance(inner, ast.Call)):
        if ast.unparse(call.func) == "kwargs.pop" and isinstance(call.args[0], ast.Constant):
            names.add(str(call.args[0].value))
    return names
