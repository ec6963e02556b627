"""The values that wiring follows from are read as Helm merges them, and judged as the charts' schema judges them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from postrender import paths, stackvalues, values
from postrender.errors import InputError
from postrender.precomputed import SCHEMA
from tests.conftest import ROOT

PROFILES = sorted((ROOT / "values/accelerators").glob("*.yaml"))
RECIPES = sorted((ROOT / "values/recipes").glob("*.yaml"))
SITE = str(ROOT / "values/examples/site.yaml")


@pytest.mark.parametrize("profile", PROFILES, ids=[path.stem for path in PROFILES])
@pytest.mark.parametrize("recipe", RECIPES, ids=[path.stem for path in RECIPES])
def test_every_stack_is_read_as_the_full_reader_reads_it(profile: Any, recipe: Any) -> None:
    files = [str(profile), str(recipe), SITE]
    defaults = values.load([paths.defaults("raycluster")]).as_helm_merges()
    whole = values.without_nulls(values.overlay(defaults, values.load(files).as_helm_merges()))
    assert stackvalues.load(files) == {name: whole[name] for name in SCHEMA["properties"]}


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))


GOOD = stackvalues.load([str(PROFILES[0]), str(RECIPES[0]), SITE])
WRONG: tuple[Any, ...] = (None, 1, "x", True, [], {}, {"unknown": 1})


@pytest.mark.parametrize("path", [*_leaves(GOOD)], ids=".".join)
def test_misfits_are_those_that_a_real_validator_finds(path: tuple[str, ...]) -> None:
    judge = jsonschema_rs.Draft7Validator(SCHEMA)
    for wrong, remove in itertools.product(WRONG, (False, True)):
        tree = copy.deepcopy(GOOD)
        holder = tree
        for key in path[:-1]:
            holder = holder[key]
        if remove:
            del holder[path[-1]]
        else:
            holder[path[-1]] = wrong
        assert (stackvalues.misfit(tree, SCHEMA) is None) == judge.is_valid(tree), (path, wrong, remove)


def test_two_profiles_are_refused() -> None:
    with pytest.raises(InputError, match="a second accelerator profile"):
        stackvalues.load([str(PROFILES[0]), str(PROFILES[1])])
