"""The process that holds the embedded Helm: one JSON request a line on stdin, one JSON answer a line on stdout.

It is a process of its own because the Go library does not survive a fork and keeps the environment it was loaded with.
"""

# ruff: noqa: TID251 - this is the one module that may import helm_python

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from postrender.values import overlay

if TYPE_CHECKING:
    from postrender.plain import Foreign

_DOCUMENT_LINE = re.compile(r"(?:^|\s*\n)---[^\S\n]*(?:\n|$)")


def _private_stdout() -> TextIO:
    """Keep the real stdout for answers: whatever else prints there goes to stderr, where it breaks no JSON."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _values(helm: Foreign, request: dict[str, Any]) -> dict[str, Any]:
    """Merge the files as Helm merges `-f`, each read by Helm's own reader, then the values given as data."""
    merged: dict[str, Any] = {}
    for text in request["texts"]:
        merged = overlay(merged, helm.values_from_yaml(text))
    return overlay(merged, request["values"] or {})


def _install(helm: Foreign, request: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Run the code path of `helm template`: schema, kubeVersion, YAML check, install order; no cluster is asked."""
    options = {"dry_run": "client", "namespace": request["namespace"]}
    if request["kube_version"]:
        options["kube_version"] = request["kube_version"]
    # The handle is used up by one render, hence a fresh chart each time. The public install() has no
    # kube_version, so the call goes to the C interface below it, which has.
    native = helm._native
    with (
        helm.Config(storage_driver="memory", namespace=request["namespace"]) as config,
        helm.Chart.load(request["chart"]) as chart,
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


def _has_hooks(chart: str) -> bool:
    """Say whether any template mentions a hook: looking costs less than a second render."""
    for folder, _, names in os.walk(chart, followlinks=True):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                if b"helm.sh/hook" in file.read():
                    return True
    return False


def _is_hook(helm: Foreign, document: str) -> bool:
    metadata = helm.values_from_yaml(document).get("metadata") or {}
    return "helm.sh/hook" in (metadata.get("annotations") or {})


def _hooks(helm: Foreign, request: dict[str, Any], values: dict[str, Any]) -> str:
    """Return the hooks in the form in which `helm template` appends them; the install call leaves them out."""
    options = {"name": request["release"], "namespace": request["namespace"]}
    with helm.Chart.load(request["chart"]) as chart:
        files = chart.render(values, **options)
    found = []
    for path in sorted(files):
        if path.endswith((".yaml", ".yml")) and not os.path.basename(path).startswith("_"):
            for document in _DOCUMENT_LINE.split(files[path]):
                if "helm.sh/hook" in document and _is_hook(helm, document):
                    found.append(f"---\n# Source: {path}\n{document.strip()}\n")
    return "".join(found)


def _render(helm: Foreign, request: dict[str, Any]) -> dict[str, Any]:
    values = _values(helm, request)
    release = _install(helm, request, values)
    manifest = release.get("manifest", "")
    if _has_hooks(os.path.join(request["chart"], "templates")):
        manifest += _hooks(helm, request, values)
    return {"manifest": manifest, "notes": release.get("notes") or ""}


def _answer(helm: Foreign, request: dict[str, Any]) -> dict[str, Any]:
    if request["op"] == "read":
        return {"values": helm.values_from_yaml(request["text"])}
    if request["op"] == "package":
        return {"archive": helm.package(request["chart"], destination=request["destination"])}
    return _render(helm, request)


def main() -> int:
    """Say which Helm is inside, then answer requests until stdin ends."""
    answers = _private_stdout()
    import helm_python as helm

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
