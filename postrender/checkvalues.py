"""Judge what values render to: findings stand in the values."""

from __future__ import annotations

import sys

from postrender import helm, refusals
from postrender.check import checked
from postrender.documents import read
from postrender.failures import RenderError
from postrender.origin import Origins, identity
from postrender.progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from postrender.check import Checked
    from postrender.finding import Finding
    from postrender.kinds import Kinds
    from postrender.options import Options
    from postrender.stack import Stack
    from postrender.wiring import Wiring


def judge_values(options: Options, stack: Stack, wiring: Wiring, kinds: Kinds) -> tuple[list[Finding], int]:
    """Render all layers, which are of one namespace and one cluster, and judge them; findings stand in the values."""
    version = options.last("kube-version")
    with helm.choose(options.last("helm")) as engine:
        try:
            layers = {layer: stack.render(engine, layer, kube_version=version) for layer in stack.layers()}
        except RenderError as error:
            if error.is_of_schema:
                raise
            return [refusals.finding(error, stack.values)], 0
        sys.stderr.write(f"rendered with {engine.name}\n")
        documents = read({_name(layer): each.manifest.encode("utf-8") for layer, each in layers.items()})
        found = checked(documents, wiring, kinds)
        for layer in stack.layers():
            mine = [each for each in found if each[1].file == _name(layer)]
            if mine:
                _move(mine, Origins(engine, stack, layer, version))
    return [finding for finding, _, _ in found], len(documents)


def _name(layer: str) -> str:
    return f"<{layer}>"


def _move(checked: Sequence[Checked], origins: Origins) -> None:
    """Put findings about rendered objects at the lines of the values that they come from, where there are any."""
    places = [(identity(document.plain), path) for _, document, path in checked]
    found = origins.of([*dict.fromkeys(places)], Progress("values").step)
    for (finding, _, _), place in zip(checked, places, strict=True):
        if place in found:
            at, key = found[place]
            finding.also = [(finding.at, f"rendered from {key}")]
            finding.at = at
