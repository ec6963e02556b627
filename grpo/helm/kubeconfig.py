"""Choose a context of the kubeconfig, as kubectl reads it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from grpo.helm import kubectl
from postrender import json_text
from postrender.errors import ClusterError

_FIX = "kubectl config get-contexts must work first"


@dataclass(frozen=True)
class Context:
    """A context by its name; `has_program` if a credential program logs in, `file` if it is no default kubeconfig."""

    name: str
    namespace: str = "default"
    has_program: bool = False
    file: str | None = None

    @property
    def flags(self) -> list[str]:
        """Return the options that let kubectl use this context, whichever is the current one by then."""
        return ["--context", self.name, *(["--kubeconfig", self.file] if self.file else [])]


def choose(file: str | None = None, context: str | None = None) -> Context:
    """Return a context, the current one by default.

    Raises ClusterError if kubectl cannot run, or if there is no such context or not all that it names.
    """
    where = file or os.environ.get("KUBECONFIG") or "~/.kube/config"
    found = _read(file, where)
    contexts = _by_name(found, "contexts", "context")
    chosen = context or str(found.get("current-context") or "")
    if not contexts and not any(map(os.path.exists, map(os.path.expanduser, where.split(os.pathsep)))):
        raise ClusterError(f"there is no kubeconfig: {where} does not exist", fix=kubectl.GET_KUBECONFIG)
    others = f"its contexts are {', '.join(contexts)}" if contexts else kubectl.GET_KUBECONFIG
    if not chosen:
        raise ClusterError(f"the kubeconfig {where} has no current context", fix=f"choose one by --context; {others}")
    if chosen not in contexts:
        raise ClusterError(f"the kubeconfig {where} has no context {chosen!r}", fix=others)
    about = contexts[chosen]
    # Without a user kubectl asks without credentials.
    user = _named(found, "user", about, where, chosen) if about.get("user") else {}
    _named(found, "cluster", about, where, chosen)
    return Context(chosen, str(about.get("namespace") or "default"), bool(user.get("exec")), file)


def _read(file: str | None, where: str) -> dict[str, Any]:
    try:
        found = json_text.loads(kubectl.configuration(file))
    except kubectl.FailedError as error:
        # kubectl names the file once more.
        said = error.said.removeprefix("error: ").rpartition('": ')[2]
        raise ClusterError(f"the kubeconfig {where} cannot be used: {said}", fix=_FIX) from error
    return found if isinstance(found, dict) else {}


def _by_name(found: dict[str, Any], key: str, inside: str) -> dict[str, dict[str, Any]]:
    return {str(each.get("name")): each.get(inside) or {} for each in found.get(key) or []}


def _named(found: dict[str, Any], kind: str, about: dict[str, Any], where: str, context: str) -> dict[str, Any]:
    """Return the cluster or the user that a context names; kubectl would go on without it, and ask another server."""
    name = about.get(kind)
    if name not in (known := _by_name(found, f"{kind}s", kind)):
        said = f"names no {kind}" if not name else f"names the {kind} {name!r}, which is not there"
        raise ClusterError(f"the kubeconfig {where} cannot be used: its context {context!r} {said}", fix=_FIX)
    return known[name]
