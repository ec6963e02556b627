"""Check the rendered values of a stack, and place the findings in the values files."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from postrender.check.objects import Checked, checked
from postrender.check.trace import Origins, identity
from postrender.errors import RenderError
from postrender.finding import Finding
from postrender.helm import engines
from postrender.helm.stack import Stack
from postrender.lint import refusals
from postrender.manifests.loader import read
from postrender.manifests.schemas import Kinds
from postrender.progress import Progress
from postrender.wiring.plan import Wiring


def judge_values(
    stack: Stack, wiring: Wiring, kinds: Kinds, helm_path: str | None, version: str | None
) -> tuple[list[Finding], int]:
    """Render all layers for one namespace and one cluster, and check them; place the findings in the values files."""
    with engines.choose(helm_path) as engine:
        try:
            layers = {layer: stack.render(engine, layer, kube_version=version) for layer in stack.layers()}
        except RenderError as error:
            if error.is_of_schema:
                raise
            return [refusals.finding(error, stack.values)], 0
        sys.stderr.write(f"rendered with {engine.name}\n")
        documents = read({_name(layer): each.manifest.encode("utf-8") for layer, each in layers.items()})
        found = checked(documents, wiring, kinds)
        findings: list[Finding] = []
        for layer in sorted(stack.layers()):
            mine = [each for each in found if each[1].file == _name(layer)]
            if mine:
                findings += _moved(mine, Origins(engine, stack, layer, version))
    return findings, len(documents)


def _name(layer: str) -> str:
    return f"<{layer}>"


def _moved(checked: Sequence[Checked], origins: Origins) -> Iterator[Finding]:
    """Yield findings about rendered objects, moved to the lines of the values that cause them, if there are any."""
    places = [(identity(document.plain), path) for _, document, path in checked]
    with Progress("values") as progress:
        found = origins.of([*dict.fromkeys(places)], progress.step)
    for (finding, _, _), place in zip(checked, places, strict=True):
        if place in found:
            at, key = found[place]
            yield finding._replace(at=at, also=[(finding.at, f"rendered from {key}")])
        else:
            yield finding
