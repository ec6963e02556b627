"""Write the `grpo guide` pages for a shipped stack, with the names from the example site file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from grpo.generate.sources import Schema
from grpo.helm.engines import Embedded
from grpo.helm.stack import Stack
from grpo.manifests.needs import prerequisites
from grpo.start import guide
from grpo.start.names import Shown
from postrender.values import merge

PAGE = "docs/tutorial.md"
TEMPLATES = {PAGE: "docs/tutorial.md.in", "docs/howto/change-a-run.md": "docs/change.md.in"}
EXAMPLE = "values/examples/site.yaml"
FILES = ("values/accelerators/b200.yaml", "values/recipes/gemma3-27b-gsm8k.yaml", EXAMPLE)


def page(root: Path, defaults: Schema, files: Sequence[str] = FILES, name: str = PAGE) -> str:
    """Return a page for the stack given by these files below a repository root, with the charts' defaults."""
    found = [str(root / name) for name in files]
    tree = merge.without_nulls(merge.overlay(defaults, merge.load(found).as_helm_merges()))
    recipe, text = guide.recipe_of(found, tree)
    listed = tuple("my-site.yaml" if name == EXAMPLE else name for name in files)
    template = (root / TEMPLATES[name]).read_text("utf-8")
    shown = Shown(listed, "charts", recipe, text, example=EXAMPLE)
    with Embedded() as engine:
        needed = prerequisites.of_stack(Stack.load(found), engine, shown.namespace)
    return guide.render(template, tree, shown._replace(prerequisites=needed))
