"""Look up the images of the training frameworks: whose a repository is, and which one belongs to a version."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from postrender import paths
from postrender.types import Json
from postrender.values import merge
from postrender.values.derived import mapping
from postrender.yaml import reader

# Where each framework publishes its images, as the recipes spell it.
REPOSITORIES: Final = {"nemo-rl": "nvcr.io/nvidia/nemo-rl", "verl": "docker.io/verlai/verl"}


def is_published(repository: Json) -> bool:
    """Return whether a repository is the one of a framework, and no copy of it."""
    return repository in REPOSITORIES.values()


def framework_of(repository: Json) -> str:
    """Return the framework after which a repository is called, as copies in other registries are; empty for others."""
    name = str(repository).rpartition("/")[2]
    return name if name in REPOSITORIES else ""


def recipes(framework: str) -> list[str]:
    """Return the paths of the recipes for a framework; of all recipes for one that has none."""
    every = paths.recipes()
    return [file for file in every if reader.load_values(file).plain()["job"]["framework"] == framework] or every


@cache
def of_version(framework: str, version: str) -> Mapping[str, Any]:
    """Return the section `images.training` that belongs to a version, of the framework's recipes if it is not known."""
    recipe = _of_recipe(framework, version)
    moved = paths.frameworks(framework).get(version)
    own = mapping(reader.load_values(moved).plain().get("images")).get("training") if moved else None
    return merge.overlay(recipe, mapping(own))


def _of_recipe(framework: str, version: str) -> dict[str, Any]:
    """Return the image of a recipe for a framework, of this version if there is one."""
    found = [reader.load_values(file).plain() for file in recipes(framework)]
    found.sort(key=lambda tree: tree["job"]["version"] != version)
    return mapping(found[0]["images"]["training"]) if found else {}
