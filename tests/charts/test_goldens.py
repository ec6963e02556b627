"""Goldens of both whole stacks, for review; the same objects through Helm 3, Helm 4 and the embedded Helm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from postrender import diff
from postrender.helm import Binary, Rendered
from tests import options
from tests.conftest import ACCELERATORS, LAYERS, RECIPES, ROOT, Render, checked, require_tool, stack_files

GOLDENS = ROOT / "tests/goldens"
MEND = "run `make goldens` and review the difference"


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("platform", ["gke-standard", "gke-autopilot"])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_golden(
    accelerator: str, recipe: str, platform: str, layer: str, render_text: Callable[..., Rendered], write_goldens: bool
) -> None:
    """Every object of every layer is what was reviewed."""
    rendered = render_text(layer, options.FACTORS["platform"][platform], accelerator=accelerator, recipe=recipe)
    checked(rendered)
    name = f"{recipe}-{accelerator}" + ("-autopilot" if platform == "gke-autopilot" else "")
    golden = GOLDENS / name / f"{layer}.yaml"
    if write_goldens:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(rendered.manifest, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == rendered.manifest, MEND


@pytest.mark.parametrize("tool", [pytest.param(name, marks=pytest.mark.tool(name)) for name in ("helm3", "helm4")])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_the_helm_binaries_render_the_golden(accelerator: str, layer: str, tool: str) -> None:
    """Helm 3, Helm 4 and the embedded Helm give the same objects."""
    golden = Rendered(
        layer, (GOLDENS / f"gemma3-27b-gsm8k-{accelerator}/{layer}.yaml").read_text(encoding="utf-8"), None, "golden"
    )
    rendered = Binary(require_tool(tool)).render(
        str(ROOT / "charts" / layer), stack_files(accelerator), release=layer, namespace="team-a"
    )
    assert [*rendered.documents] == [*golden.documents]


def test_the_machines_differ_in_a_known_list_of_paths(render: Render, write_goldens: bool) -> None:
    """What a switch from B200 to H200 changes is written down, path by path."""
    golden = GOLDENS / "b200-h200.txt"
    found = [
        f"{layer} {one.object} {one.path}\n"
        for layer in LAYERS
        for one in diff.compare({name: render(layer, accelerator=name) for name in ("b200", "h200")})
    ]
    if write_goldens:
        golden.write_text("".join(found), encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == "".join(found), MEND
