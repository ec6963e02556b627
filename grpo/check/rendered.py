"""Check what a stack renders to: values that its charts reject, and its objects, traced back to the values files."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from grpo.check.objects import Checked, checked
from grpo.check.trace import Origins, identity
from grpo.helm.engines import Engine
from grpo.helm.stack import Stack
from grpo.lint import refusals
from grpo.lint.ignores import Ignores
from grpo.manifests.loader import read
from grpo.terminal.progress import Progress
from grpo.values.job_cluster import wiring_of
from postrender import textfile
from postrender.errors import InputError, RenderError
from postrender.finding import ERROR, Finding
from postrender.manifests.schemas import Kinds
from postrender.wiring.plan import Wiring


class Verdict(NamedTuple):
    """A stack's findings, the layers that rendered, the layers that rejected the values, and the number of objects."""

    findings: list[Finding]
    rendered: Sequence[str]
    refused: Sequence[str]
    objects: int


_SOURCE: Final = re.compile(r"^# Source: (\S+)$", re.MULTILINE)
# What a template reads values with, itself or through another one.
_VALUES: Final = re.compile(rb"\.Values|\b(?:include|template|tpl)\b")


class Target(NamedTuple):
    """The namespace and the Kubernetes version that a stack is rendered for; None means the chart's default version."""

    namespace: str = "default"
    kube_version: str | None = None


def judge(stack: Stack, engine: Engine, kinds: Kinds, target: Target, reported: Sequence[Finding]) -> Verdict:
    """Render all layers for one namespace and one cluster, and check them.

    Findings in `reported`, which are about the values, are not repeated. Raises EngineError if Helm cannot run.
    """

    def render(layer: str, change: Mapping[str, Any]) -> str:
        namespace, version = target
        return stack.render(engine, layer, namespace=namespace, kube_version=version, change=change).manifest

    manifests: dict[str, str] = {}
    found: list[Finding] = []
    of_charts: list[Finding] = []
    for layer in stack.layers():
        try:
            manifests[layer] = render(layer, {})
        except RenderError as error:
            of_charts += refusals.findings(error, stack.values, reported)
    documents = read({_name(layer): text.encode("utf-8") for layer, text in manifests.items()})
    result = checked(documents, _wiring(stack), kinds)
    for layer in sorted(manifests):
        mine = [each for each in result if each[1].file == _name(layer)]
        if mine:
            found += _moved(mine, Origins(stack.values, functools.partial(render, layer)), stack.charts)
    accepted = Ignores(stack.values)
    # A chart refuses the values whatever they accept.
    found = [*of_charts, *accepted.left(found)]
    refused = [layer for layer in stack.layers() if layer not in manifests]
    if not refused:
        found += accepted.useless_of_objects(ERROR)
    unique = {finding.key(): finding for finding in found}
    return Verdict(sorted(unique.values(), key=Finding.key), [*manifests], refused, len(documents))


def _name(layer: str) -> str:
    return f"<{layer}>"


def _wiring(stack: Stack) -> Wiring | None:
    """Return the values' wiring, or None if the values are too broken for one, which is reported as findings.

    Also None for a stack whose pods the post-renderer wires: what the charts render does not fit the machine yet.
    """
    if stack.values.get("stack.wiring.enabled") is False:
        return None
    try:
        return wiring_of(stack.values)
    except InputError:
        return None


def _moved(checked: Sequence[Checked], origins: Origins, charts: str) -> Iterator[Finding]:
    """Yield findings about rendered objects, moved to the lines of the values that cause them, if any."""
    places = [(identity(document.plain), path) for _, document, path in checked]
    reads = {document.text: _reads_values(document.text, charts) for _, document, _ in checked}
    sought = [place for place, (_, document, _) in zip(places, checked, strict=True) if reads[document.text]]
    with Progress("values") as progress:
        found = origins.of([*dict.fromkeys(sought)], progress.step)
    for (finding, _, _), place in zip(checked, places, strict=True):
        if place in found:
            at, key = found[place]
            yield finding._replace(at=at, also=[(finding.at, f"rendered from {key}")])
        else:
            yield finding


def _reads_values(text: str, charts: str) -> bool:
    """Return whether a document's template may read values; a plain manifest in a chart reads none."""
    source = _SOURCE.search(text)
    template = os.path.join(charts, *source[1].split("/")) if source else ""
    return not os.path.isfile(template) or _VALUES.search(textfile.read_bytes(template)) is not None
