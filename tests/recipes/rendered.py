"""What a recipe comes to: the configuration in the plan of its RayJob, for each version and accelerator."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from grpo.helm.engines import Engine
from tests.charts.test_grpo_job import plan
from tests.conftest import ACCELERATORS, ROOT, SITE
from tests.recipes.contract import DEFAULT, VERSIONS

ONE_GPU = ROOT / "values/examples/one-gpu.yaml"
Config = dict[str, Any]
Key = tuple[str, str, str]
Configure = Callable[..., Config]


def recipe_file(recipe: str) -> Path:
    """Return the file of a recipe."""
    return ROOT / f"values/recipes/{recipe}.yaml"


def framework_file(version: str) -> Path:
    """Return the file that moves a NeMo RL stack to another version."""
    return ROOT / f"values/frameworks/nemo-rl-{version}.yaml"


@functools.cache
def nemo_rl_recipes() -> list[str]:
    """Return the names of the recipes for NeMo RL, sorted."""
    trees = {file.stem: yaml.safe_load(file.read_text("utf-8")) for file in (ROOT / "values/recipes").glob("*.yaml")}
    return sorted(name for name, tree in trees.items() if tree["job"].get("framework", "nemo-rl") == "nemo-rl")


def stack(recipe: str, version: str = DEFAULT, accelerator: str = "b200") -> list[Path]:
    """Return the values files of a recipe at a version, as a person gives them."""
    other = [] if version == DEFAULT else [framework_file(version)]
    return [ROOT / f"values/accelerators/{accelerator}.yaml", recipe_file(recipe), *other]


def render_plan(helm: Engine, files: list[Path], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the plan of the RayJob that these files render."""
    chart = str(ROOT / "charts/grpo-job")
    rendered = helm.render(chart, [*files, SITE], values=values, release="grpo-job", namespace="team-a")
    return plan(list(rendered.documents))


class Configurations(Mapping[Key, Config]):
    """The configurations by (recipe, version, accelerator), each rendered when asked for; smoke on one GPU too."""

    def __init__(self, helm: Engine) -> None:
        self._helm = helm
        self._rendered: dict[Key, Config] = {}
        names = [*nemo_rl_recipes(), "smoke-one-gpu"]
        self._keys = [(name, version, machine) for name in names for version in VERSIONS for machine in ACCELERATORS]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, key: Key) -> Config:
        if key not in self._rendered:
            recipe, version, accelerator = key
            files = stack(recipe.removesuffix("-one-gpu"), version, accelerator)
            if recipe.endswith("-one-gpu"):
                files.insert(1, ONE_GPU)
            self._rendered[key] = render_plan(self._helm, files)["config"]
        return self._rendered[key]

    def of(self, version: str) -> dict[Key, Config]:
        """Return those of one version."""
        return {key: self[key] for key in self if key[1] == version}


def leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path and the value of each leaf; a list or an empty map is one."""
    for key, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value
