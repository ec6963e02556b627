"""Run the embedded Helm as a process: one JSON request per line on stdin, one JSON answer per line on stdout.

It is a separate process because the Go library does not survive a fork, and never sees later changes of the
environment.
"""

# ruff: noqa: TID251 - this is the one module that may import helm_python

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, TextIO

from postrender import output_file
from postrender.types import Untyped
from postrender.values.merge import overlay

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# Of addresses, of which Go reserves more than it uses. The largest values file that is read (8 MiB) needs less.
_MEMORY = 6 * 1024**3
_DOCUMENT = re.compile(r"^---\n(?=# Source: )", re.MULTILINE)
# The library does not render hooks. With another annotation they are ordinary objects; this name has the same position
# among sorted annotations as the real one.
_HOOK, _ASIDE = "helm.sh/hook", "helm.sh/hooked"


def _private_stdout() -> TextIO:
    """Return the real stdout for answers, and redirect all other prints to stderr, where they cannot break the JSON."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _values(helm: Untyped, request: dict[str, Any]) -> dict[str, Any]:
    """Read the files with Helm's own reader and merge them as `-f` does, then merge the values given as data."""
    merged: dict[str, Any] = {}
    for text in request["texts"]:
        merged = overlay(merged, helm.values_from_yaml(text))
    return overlay(merged, request["values"] or {})


def _mentions_hooks(path: str) -> bool:
    if os.path.isdir(path):
        return any(_mentions_hooks(os.path.join(path, name)) for name in os.listdir(path))
    with open(path, "rb") as file:
        return _HOOK.encode() in file.read()


def _copy(source: str, target: str) -> None:
    """Link the files without hooks, and copy the others with the annotation renamed."""
    if not _mentions_hooks(source):
        os.symlink(os.path.abspath(source), target)
    elif os.path.isdir(source):
        os.mkdir(target)
        for name in os.listdir(source):
            _copy(os.path.join(source, name), os.path.join(target, name))
    else:
        with open(source, "rb") as file:
            output_file.create(target, file.read().replace(_HOOK.encode(), _ASIDE.encode()))


@contextlib.contextmanager
def _with_hooks(chart: str) -> Iterator[str]:
    """Yield a chart folder whose hooks render too: the folder itself, or a temporary copy."""
    if not os.path.isdir(chart) or not _mentions_hooks(chart):
        yield chart
        return
    with tempfile.TemporaryDirectory(prefix="grpo-chart-") as folder:
        copy = os.path.join(folder, os.path.basename(os.path.abspath(chart)))
        _copy(chart, copy)
        yield copy


def _hooks_last(helm: Untyped, manifest: str) -> str:
    """Return the manifest as `helm template` prints it: hooks after all other objects, with their real annotation."""
    if _ASIDE not in manifest:
        return manifest
    objects: list[str] = []
    hooks: list[str] = []
    for document in _DOCUMENT.split(manifest):
        text = document.replace(_ASIDE, _HOOK).rstrip("\n") + "\n" if document else ""
        (hooks if _ASIDE in document and _is_hook(helm, document) else objects).append(text)
    return "---\n".join([*objects, *hooks])


def _is_hook(helm: Untyped, document: str) -> bool:
    metadata = helm.values_from_yaml(document).get("metadata") or {}
    return _ASIDE in (metadata.get("annotations") or {})


def _install(helm: Untyped, request: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Run the same code as `helm template`: schema, kubeVersion, YAML check, install order; no cluster is contacted."""
    options = {"dry_run": "client", "namespace": request["namespace"]}
    if request["kube_version"]:
        options["kube_version"] = request["kube_version"]
    # A render consumes the chart's handle, so load the chart each time. The public install() has no kube_version,
    # so call the C interface below it, which has.
    native = helm._native
    with (
        _with_hooks(request["chart"]) as folder,
        helm.Config(storage_driver="memory", namespace=request["namespace"]) as config,
        helm.Chart.load(folder) as chart,
    ):
        answer = native.call_string(
            "helm_install",
            config._raw(),
            native.HANDLE(0),
            chart._raw(),
            None,
            request["release"],
            json.dumps(values),
            json.dumps(options),
        )
    release: dict[str, Any] = json.loads(answer)
    return release


def _render(helm: Untyped, request: dict[str, Any]) -> dict[str, Any]:
    release = _install(helm, request, _values(helm, request))
    notes = (release.get("notes") or "").replace(_ASIDE, _HOOK)
    return {"manifest": _hooks_last(helm, release.get("manifest", "")), "notes": notes}


def _answer(helm: Untyped, request: dict[str, Any]) -> dict[str, Any]:
    if request["op"] == "read":
        return {"values": helm.values_from_yaml(request["text"])}
    if request["op"] == "package":
        return {"archive": helm.package(request["chart"], destination=request["destination"])}
    return _render(helm, request)


def _limit_memory() -> None:
    """Limit memory, so that a template that counts to a hundred million ends this process instead of the machine."""
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        bound = _MEMORY if most == resource.RLIM_INFINITY else min(_MEMORY, most)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (bound, most))


def main() -> int:
    """Print the embedded Helm's version, then answer requests until stdin ends."""
    answers = _private_stdout()
    _limit_memory()
    # Import here: output of the library while it loads must not mix with the answers.
    import helm_python as helm  # noqa: PLC0415

    hello = {"version": helm._native.helm_sdk_version(), "package": helm.__version__}
    print(json.dumps(hello), file=answers, flush=True)
    for line in sys.stdin:
        try:
            answer = _answer(helm, json.loads(line))
        except helm.HelmError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
