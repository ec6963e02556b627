"""Packaged charts: real files, profiles and recipes included, usable without a checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.helm.engines import Engine
from tests.conftest import LAYERS, PROFILES, ROOT, stack_files


@pytest.mark.parametrize("layer", LAYERS)
def test_a_package_has_no_links_and_contains_all_it_needs(layer: str, packages: Path) -> None:
    """No link leads out of it, and profiles and recipes travel with it."""
    chart = packages / layer
    assert not [path for path in chart.rglob("*") if path.is_symlink()]
    assert (chart / "charts/common/templates/_names.tpl").is_file()
    assert {path.name for path in (chart / "values/accelerators").iterdir()} == {f"{name}.yaml" for name in PROFILES}
    assert (chart / "values/recipes/gemma3-27b-gsm8k.yaml").is_file()
    # What `helm show readme` and Artifact Hub show.
    assert (chart / "README.md").read_text(encoding="utf-8") == (ROOT / f"charts/{layer}/README.md").read_text("utf-8")
    # Tests that import the programs leave byte code beside them.
    assert not list(chart.rglob("*.pyc"))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_package_renders_what_the_checkout_renders(layer: str, packages: Path, helm: Engine) -> None:
    """Its own values files give the same manifest."""
    profile, recipe, site = stack_files()
    inside = [*(packages / layer / file.relative_to(ROOT) for file in (profile, recipe)), site]
    from_checkout = helm.render(str(ROOT / "charts" / layer), stack_files(), release="x")
    assert helm.render(str(packages / layer), inside, release="x").manifest == from_checkout.manifest
