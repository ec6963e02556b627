"""Goldens of both whole stacks, for review; the same objects through Helm 3, Helm 4 and the embedded Helm."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from grpo.helm.engines import Binary, Rendered
from grpo.manifests import diff
from tests import options
from tests.conftest import ACCELERATORS, LAYERS, RECIPES, ROOT, Render, checked, require_tool, stack_files, thin

GOLDENS = ROOT / "tests/goldens"
MEND = "run `make goldens` and review the difference"


REFERENCE = "gemma3-27b-gsm8k"
# The programs are reviewed where they are written, in jobs/.
PROGRAMS = re.compile(r"(<<'GRPO_PROGRAMS' [^\n]*\n)[^(]*?(\n *GRPO_PROGRAMS\n[^\n]* sha256 )[0-9a-f]{64}")


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Yield (accelerator, recipe, platform, layer): all layers of one recipe, and the job of each other one."""
    for accelerator in ACCELERATORS:
        for platform in ("gke-standard", "gke-autopilot"):
            yield from ((accelerator, REFERENCE, platform, layer) for layer in LAYERS)
        yield from ((accelerator, recipe, "gke-standard", "grpo-job") for recipe in RECIPES if recipe != REFERENCE)


@pytest.mark.parametrize(("accelerator", "recipe", "platform", "layer"), thin(list(cases()), 6))
def test_the_rendered_objects_match_the_golden_file(
    accelerator: str, recipe: str, platform: str, layer: str, render_text: Callable[..., Rendered], write_goldens: bool
) -> None:
    """Every object is what was reviewed."""
    rendered = render_text(layer, options.FACTORS["platform"][platform], accelerator=accelerator, recipe=recipe)
    checked(rendered)
    text = PROGRAMS.sub(r"\1...\2...", rendered.manifest)
    name = f"{recipe}-{accelerator}" + ("-autopilot" if platform == "gke-autopilot" else "")
    golden = GOLDENS / name / f"{layer}.yaml"
    if write_goldens:
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text, MEND


def test_no_golden_file_is_left_over() -> None:
    folders = {f"{recipe}-{one}" + "-autopilot" * (platform != "gke-standard") for one, recipe, platform, _ in cases()}
    assert {path.name for path in GOLDENS.iterdir() if path.is_dir()} == folders


@pytest.mark.full
@pytest.mark.parametrize("tool", ["helm3", "helm4"])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_the_helm_binaries_render_the_same(
    accelerator: str, layer: str, tool: str, render_text: Callable[..., Rendered]
) -> None:
    """Helm 3, Helm 4 and the embedded Helm give the same objects."""
    embedded = render_text(layer, accelerator=accelerator)
    rendered = Binary(require_tool(tool)).render(
        str(ROOT / "charts" / layer), stack_files(accelerator), release=layer, namespace="team-a"
    )
    assert [*rendered.documents] == [*embedded.documents]


def test_the_machines_differ_only_in_the_listed_paths(render: Render, write_goldens: bool) -> None:
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
