"""A general file after a more special one is a finding where it overrides something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.lint import linter
from postrender.finding import Finding
from tests.conftest import ROOT, SITE

PROFILE, RECIPE = ROOT / "values/accelerators/b200.yaml", ROOT / "values/recipes/gemma3-27b-gsm8k.yaml"
FRAMEWORK = ROOT / "values/frameworks/nemo-rl-v0.6.0.yaml"
Lint = Callable[..., list[Finding]]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.yaml"
    file.write_text("ray:\n  workers:\n    replicas: 4\n  env: {A: {value: b}}\njob:\n  attempt: 2\n")
    return file


def order(*files: Path) -> list[Finding]:
    return [each for each in linter.lint([*map(str, files)]) if each.rule == "values/file-order"]


def test_a_file_overridden_by_a_later_recipe_is_found_with_both_lines(own: Path) -> None:
    (found,) = order(PROFILE, own, RECIPE, SITE)
    assert str(found.at) == f"{own}:3:5"
    assert f"ray.workers.replicas is 4 here, and {RECIPE}, which comes later, overrides it with 2" in found.what
    ((where, what),) = found.also
    assert (where.file, what) == (str(RECIPE), "wins: ray.workers.replicas is 2")
    assert found.fix == f"give {own} after {RECIPE}"


def test_a_framework_file_before_the_recipe_is_found_once_with_the_count_of_lost_values() -> None:
    (found,) = order(PROFILE, FRAMEWORK, RECIPE, SITE)
    assert found.at.file == str(FRAMEWORK)
    assert "and 3 more of its values" in found.what
    assert len(found.also) == 3


def test_usual_orders_and_files_that_lose_no_values_pass(own: Path) -> None:
    assert order(PROFILE, RECIPE, FRAMEWORK, SITE, own) == []
    assert order(RECIPE, PROFILE, SITE, own) == []
    # The site file sets nothing that the recipe sets.
    assert order(SITE, PROFILE, RECIPE) == []
    own.write_text("ray: {workers: {replicas: 2}}\n")
    assert order(PROFILE, own, RECIPE, SITE) == []


def test_a_value_that_the_last_file_sets_again_is_not_lost(own: Path, tmp_path: Path) -> None:
    last = tmp_path / "last.yaml"
    last.write_text("ray: {workers: {replicas: 8}}\n")
    assert order(PROFILE, own, RECIPE, SITE, last) == []


def test_a_second_recipe_is_found_but_a_users_own_file_is_not_one(own: Path) -> None:
    other = ROOT / "values/recipes/llama3.1-8b-math-2n.yaml"
    (found,) = order(PROFILE, RECIPE, other, SITE)
    assert (found.at.file, found.severity) == (str(other), "warning")
    assert found.what == f"{other} is a second recipe, after {RECIPE}"
    own.write_text(other.read_text())
    assert order(PROFILE, RECIPE, own, SITE) == []


def test_a_users_file_with_an_image_and_a_configuration_is_not_a_recipe(own: Path) -> None:
    own.write_text("images: {training: {tag: v0.6.0-own}}\njob: {config: {grpo: {max_num_steps: 5}}}\n")
    assert order(PROFILE, RECIPE, FRAMEWORK, SITE, own) == []
