"""Look up the training frameworks' images: which framework a repository belongs to, and which image fits a version."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from grpo.values.derived import mapping
from postrender import paths
from postrender.types import Json
from postrender.values import merge
from postrender.yaml import reader

# Where each framework publishes its images, as the recipes spell it.
REPOSITORIES: Final = {"nemo-rl": "nvcr.io/nvidia/nemo-rl", "verl": "docker.io/verlai/verl"}

# Public images that have neither framework: those that have no vLLM either, and those that have.
_BARE: Final = (
    *("rayproject/ray", "rayproject/ray-ml", "pytorch/pytorch", "nvidia/cuda", "nvcr.io/nvidia/cuda"),
    *("nvcr.io/nvidia/pytorch", "nvcr.io/nvidia/base/ubuntu", "library/python", "library/ubuntu", "library/debian"),
)
_OF_ENGINES: Final = ("rayproject/ray-llm", "vllm/vllm-openai", "lmsysorg/sglang")
_NAMED: Final = {name: re.compile(rf"(?:^|[-_.]){name.replace('-', '[-_]?')}(?:[-_.]|$)") for name in REPOSITORIES}
# The tags of verl's images name the engine, by the beginning of the tag; those of others with a number after it.
_ENGINES: Final = {"vllm": "vllm", "sgl": "sglang", "trtllm": "trtllm"}
ENGINES: Final = frozenset(_ENGINES.values())
_ENGINE: Final = re.compile(r"(vllm|sgl|trtllm)\d")


def is_published(repository: Json) -> bool:
    """Return whether a repository is a framework's own, not a copy."""
    return repository in REPOSITORIES.values()


def is_copy(repository: Json, tag: Json) -> bool:
    """Return whether an image is a framework's public image, or has the name and tag of one known to the package."""
    name = framework_of(repository)
    return is_published(repository) or bool(name and str(tag) in _tags(name))


@cache
def _tags(framework: str) -> frozenset[str]:
    """Return the tags of a framework's images in the package."""
    files = [*recipes(framework), *paths.frameworks(framework).values()]
    trees = [mapping(mapping(reader.load_values(file).plain().get("images")).get("training")) for file in files]
    return frozenset(str(tree["tag"]) for tree in trees if "tag" in tree)


def framework_of(repository: Json) -> str:
    """Return the framework whose name a repository has, as copies in other registries do; empty for all others."""
    name = str(repository).rpartition("/")[2]
    return name if name in REPOSITORIES else ""


def named_after(repository: Json) -> str:
    """Return the framework that an image name contains as a word, as in `verl-efa`; empty for none or both."""
    name = str(repository).rpartition("/")[2].lower()
    found = [framework for framework, word in _NAMED.items() if word.search(name)]
    return found[0] if len(found) == 1 else ""


def is_without_framework(repository: Json, *, has_code: bool) -> bool:
    """Return whether an image is a public one without a framework; with code from job.code, one without vLLM."""
    name = str(repository).removeprefix("docker.io/")
    name = name if "/" in name else f"library/{name}"
    return name in _BARE or (not has_code and name in _OF_ENGINES)


def engine_of(repository: Json, tag: Json) -> str:
    """Return a verl image's engine by its tag, even if the image is only built on verl's; empty if it is unknown."""
    text = str(tag)
    if is_of_verl(repository):
        return next((engine for start, engine in _ENGINES.items() if text.startswith(start)), "")
    found = _ENGINE.match(text)
    is_one = sum(word in text for word in _ENGINES) == 1
    return _ENGINES[found[1]] if found and is_one and named_after(repository) == "verl" else ""


def is_of_verl(repository: Json) -> bool:
    """Return whether an image is verl's own, or a copy with the same name."""
    return str(repository).endswith("verlai/verl")


def recipes(framework: str) -> list[str]:
    """Return the paths of a framework's recipes; of all recipes if it has none."""
    every = paths.recipes()
    return [file for file in every if reader.load_values(file).plain()["job"]["framework"] == framework] or every


@cache
def of_version(framework: str, version: str) -> Mapping[str, Any]:
    """Return the section `images.training` for a version, or the framework's recipes' if the version is unknown."""
    recipe = _of_recipe(framework, version)
    moved = paths.frameworks(framework).get(version)
    own = mapping(reader.load_values(moved).plain().get("images")).get("training") if moved else None
    return merge.overlay(recipe, mapping(own))


def _of_recipe(framework: str, version: str) -> dict[str, Any]:
    """Return the image from a framework's recipe, preferably one for this version."""
    found = [reader.load_values(file).plain() for file in recipes(framework)]
    found.sort(key=lambda tree: tree["job"]["version"] != version)
    return mapping(found[0]["images"]["training"]) if found else {}
