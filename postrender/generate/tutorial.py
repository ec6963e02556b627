"""Write docs/tutorial.md: the page of `grpo guide` for a shipped stack, with the names of the example site file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from postrender.generate.sources import Schema
from postrender.start import guide
from postrender.start.names import Shown
from postrender.values import merge

TEMPLATE, PAGE = guide.TEMPLATE, "docs/tutorial.md"
EXAMPLE = "values/examples/site.yaml"
FILES = ("values/accelerators/b200.yaml", "values/recipes/gemma3-27b-gsm8k.yaml", EXAMPLE)


def page(root: Path, defaults: Schema, files: Sequence[str] = FILES) -> str:
    """Return the page of the stack of these files below a repository root, with the defaults of the charts."""
    found = [str(root / name) for name in files]
    tree = merge.without_nulls(merge.overlay(defaults, merge.load(found).as_helm_merges()))
    recipe, text = guide.recipe_of(found)
    listed = tuple("my-site.yaml" if name == EXAMPLE else name for name in files)
    template = (root / TEMPLATE).read_text("utf-8")
    return guide.render(template, tree, Shown(listed, "charts", recipe, text, example=EXAMPLE))
