"""The health checks of examples/argocd, asked as Argo CD asks them."""

from __future__ import annotations

import yaml
from lupa.lua51 import LuaRuntime

from harness import suite
from harness.kube import Manifest

CHECKS = yaml.safe_load((suite.REPOSITORY / "examples/argocd/health.yaml").read_text())["data"]


def health(item: Manifest) -> str:
    """Return how Argo CD would judge an object that KubeRay has written to."""
    lua = LuaRuntime()
    lua.globals().obj = lua.table_from(item, recursive=True)
    return str(lua.execute(CHECKS[f"resource.customizations.health.ray.io_{item['kind']}"]).status)
