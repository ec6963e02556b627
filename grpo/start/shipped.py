"""Describe the shipped machines and recipes, for `grpo init` and the documentation."""

from __future__ import annotations

import itertools

from grpo.start import questions, recipes
from postrender import paths


def machines() -> dict[str, str]:
    """Return the purpose of each accelerator profile with GPUs, by profile name."""
    return {name: description(paths.accelerator(name)) for name in questions.machines()}


def trainings() -> dict[str, str]:
    """Return what each recipe trains, by recipe name."""
    return {recipe.name: description(recipe.path) for recipe in recipes.shipped()}


def lines(described: dict[str, str]) -> list[str]:
    """Return names and descriptions in two columns."""
    width = max(map(len, described)) + 2
    return [f"  {name:{width}}{text}" for name, text in described.items()]


def description(path: str) -> str:
    """Return the first sentence of the comment at the top of a profile or a recipe, without its full stop."""
    with open(path, encoding="utf-8") as file:
        # The first line names the schema for editors.
        comment = itertools.takewhile(lambda line: line.startswith("#"), file.read().split("\n")[1:])
    return " ".join(line.removeprefix("#").strip() for line in comment).partition(". ")[0].removesuffix(".")
