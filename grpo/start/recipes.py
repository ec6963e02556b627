"""Find the shipped recipe whose model is nearest to a given model, by number of parameters."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from grpo.values.frameworks import parameters
from grpo.values.frameworks.model import Model
from grpo.values.reference_errors import UnknownError
from postrender import paths
from postrender.errors import UsageError
from postrender.values import merge

# The number of parameters in a name on the hub: Qwen2.5-7B-Instruct, gemma-3-27b-it.
_IN_NAME = re.compile(r"(?<![\w.])([0-9]+(?:\.[0-9]+)?)[bB](?![a-zA-Z0-9])")
_BILLION = 1e9
_LONGEST_NAME = 32
# It only shows that the chain works: whoever wants that names it.
_NO_TRAINING = "smoke"


class Recipe(NamedTuple):
    """The facts by which `init` chooses a recipe: what it trains, with which framework, on how many nodes."""

    path: str
    run: str
    framework: str
    version: str
    model: str
    data: str
    nodes: int

    @property
    def name(self) -> str:
        """Return the recipe's file name without the extension."""
        return self.path.replace("\\", "/").rpartition("/")[2].removesuffix(".yaml")


class Choice(NamedTuple):
    """A recipe for a model, and an explanation of why it was chosen."""

    recipe: Recipe
    model: str
    why: str

    @property
    def own(self) -> bool:
        """Return whether the recipe trains a different model, so that the user needs their own recipe."""
        return self.model != self.recipe.model

    @property
    def stack(self) -> str:
        """Return a stack name: the recipe's name, or one from model and data if the recipe is not for the model."""
        words = f"{self.model.rpartition('/')[2]}-{self.recipe.data}" if self.own else self.recipe.name
        name = re.sub(r"[^a-z0-9]+", "-", words.lower()).lstrip("-0123456789")
        return name[:_LONGEST_NAME].rstrip("-")

    @property
    def run(self) -> str:
        """Return the run's name: the recipe's run name, or the stack's name if the recipe is not for the model."""
        return self.stack if self.own else self.recipe.run


@cache
def shipped() -> tuple[Recipe, ...]:
    """Return the package's recipes, sorted by name."""
    return tuple(_read(path) for path in paths.recipes())


def _read(path: str) -> Recipe:
    tree: Mapping[str, Any] = merge.load([path]).effective()
    job, ray = tree["job"], tree["ray"]
    config, is_verl = job["config"], job["framework"] == "verl"
    head = (ray["head"].get("gpus") or {}).get("enabled", False)
    return Recipe(
        # The recipes are read once, and a caller may change the working directory.
        path=os.path.abspath(path),
        run=job["name"],
        framework=job["framework"],
        version=str(job["version"]),
        model=config["actor_rollout_ref"]["model"]["path"] if is_verl else config["policy"]["model_name"],
        data=next(iter(job["prepareData"])) if is_verl else config["data"]["train"]["dataset_name"],
        nodes=ray["workers"]["replicas"] + int(head),
    )


def data_sets(framework: str) -> list[str]:
    """Return the data sets for which a framework has a recipe."""
    return sorted({recipe.data for recipe in shipped() if recipe.framework == framework})


def size(model: str) -> float | None:
    """Return a model's number of parameters: from its config.json, else from its name; None if neither gives it."""
    with contextlib.suppress(UnknownError):
        return float(parameters.count(Model(model, None)).total)
    found = _IN_NAME.search(model.rpartition("/")[2])
    return float(found[1]) * _BILLION if found else None


def billions(parameters: float) -> str:
    """Return a number of parameters in words."""
    return f"{parameters / _BILLION:.1f} billion parameters"


def nearest(model: str, framework: str, data: str) -> Choice:
    """Return the recipe for the framework and the data set whose model is nearest in size to this one.

    Among equally near recipes, it is the one on the fewest nodes. For a model of unknown size, it is the recipe with
    the largest model, whose settings need the least GPU memory. Raises UsageError if there is no recipe for the data
    set.
    """
    fitting = [
        each
        for each in shipped()
        if each.framework == framework and each.data == data and (each.name != _NO_TRAINING or each.model == model)
    ]
    if not fitting:
        known = ", ".join(data_sets(framework))
        fix = f"choose one of {known}, and change the data in the recipe afterwards (docs/howto/own-data.md)"
        raise UsageError(f"no recipe of {framework} trains on {data!r}", fix=fix)
    if same := [each for each in _by_nodes(fitting) if each.model == model]:
        return Choice(same[0], model, "it trains this model")
    own = size(model)
    if own is None:
        recipe = max(_by_nodes(fitting), key=lambda each: size(each.model) or 0.0)
        why = (
            f"the size of {model} is not known, so this is the recipe of {framework} on {data} with the largest model, "
            "whose settings spare the memory of the GPUs most; give --model-config for a choice by size"
        )
        return Choice(recipe, model, why)
    recipe = min(_by_nodes(fitting), key=lambda each: _distance(own, each))
    theirs = size(recipe.model) or 0.0
    why = (
        f"of the recipes of {framework} on {data}, its model is nearest in size: {billions(own)}, and "
        f"{recipe.model} has {billions(theirs)}"
    )
    return Choice(recipe, model, why)


def elsewhere(choice: Choice) -> str:
    """Return a line about a recipe that trains this model with another framework or data set, or an empty text."""
    same = [each for each in _by_nodes(shipped()) if each.model == choice.model and each.name != _NO_TRAINING]
    if not choice.own or not same:
        return ""
    # One that differs in one answer only comes first.
    taken = choice.recipe
    other = min(same, key=lambda each: (each.framework != taken.framework) + (each.data != taken.data))
    words = f" on {other.data}" if other.data != taken.data else ""
    options = f" --dataset {other.data}" if words else ""
    if other.framework != taken.framework:
        words, options = f" with {other.framework}{words}", f" --framework {other.framework}{options}"
    return f"recipe {other.name} trains this model{words}:{options}"


def _by_nodes(recipes: Sequence[Recipe]) -> list[Recipe]:
    """Return the recipes sorted by number of nodes, then by name length, so that variants come later."""
    return sorted(recipes, key=lambda each: (each.nodes, len(each.name), each.name))


def _distance(parameters: float, recipe: Recipe) -> float:
    """Return the distance between two models' sizes: the logarithm of the ratio of the larger to the smaller."""
    return abs(math.log(parameters / (size(recipe.model) or 1.0)))
