"""The configuration that rules judge is the one that the chart renders, laid over the framework's base file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from grpo.helm.engines import Engine
from grpo.values import catalogue
from grpo.values.config import OVERRIDE, RunConfig, overlaid
from grpo.values.reference_errors import DanglingError, UnknownError
from grpo.values.references import resolve
from postrender.values import merge
from tests.conftest import ROOT, SITE, thin
from tests.recipes.contract import VERSIONS
from tests.recipes.rendered import Configurations, leaves, render_plan, stack

VERL = ("qwen2.5-32b-gsm8k-verl", "qwen2.5-32b-gsm8k-verl-reference")


def effective(files: list[Path], more: dict[str, Any] | None = None) -> RunConfig:
    """Return what the files come to, as `grpo lint` sees it."""
    merged = merge.load([*map(str, files), str(SITE)])
    tree = merge.overlay(merge.defaults(), merged.as_helm_merges())
    return RunConfig(merge.without_nulls(merge.overlay(tree, more or {})))


def assert_same(rendered: dict[str, Any], run: RunConfig) -> None:
    """Assert that each leaf of a rendered configuration is one of the run's, and each that was given is rendered."""
    for path, value in leaves(rendered):
        dotted = ".".join(path)
        if OVERRIDE in path:
            continue
        below: Any = run.config
        for key in path:
            below = below[key]
        assert below == value, dotted
    for path, value in leaves(run.given):
        if value == {}:
            continue
        below = rendered
        for key in path:
            below = below[key]
        assert below == value, path


@pytest.mark.full
def test_the_linted_config_equals_the_rendered_one(helm: Engine) -> None:
    seen = 0
    for (recipe, version, accelerator), rendered in Configurations(helm).items():
        if recipe != "smoke-one-gpu":
            assert_same(rendered, effective(stack(recipe, version, accelerator)))
            seen += 1
    assert seen > 60


OVERLAYS: list[dict[str, Any]] = [
    {"job": {"config": {"policy": {"generation": {"vllm_cfg": {"gpu_memory_utilization": 0.5}}}}}},
    {"job": {"configFor": {"b200": {"policy": {"optimizer": {OVERRIDE: True, "name": "torch.optim.SGD"}}}}}},
    {"job": {"configFor": {"v0.6.0": {"grpo": {"seed": 1}}, "b200": {"grpo": {"seed": 2}}}}},
    {"job": {"configFor": {"b200": {"data": {OVERRIDE: True, "train": {"dataset_name": "DeepScaler"}}}}}},
    {"job": {"config": {"env": {OVERRIDE: True, "math": {"num_workers": 2}}}}},
    {"job": {"rewards": {"exact": {"builtin": "exact_answer"}}}},
    {
        "job": {
            "rewards": {"exact": {"builtin": "exact_answer"}},
            "config": {"data": {"train": {"env_name": "code"}}, "env": {"rewards": {"num_workers": 3}}},
        }
    },
    {"job": {"nodes": 1}, "ray": {"workers": {"replicas": 3}}},
]


@pytest.mark.parametrize("version", thin([each for each in VERSIONS if each != "v0.4.0"], 3))
@pytest.mark.parametrize(
    "more", thin(OVERLAYS, 4), ids=lambda more: yaml.safe_dump(more, default_flow_style=True).strip()[:60]
)
def test_overlays_and_derived_keys_match_the_chart(helm: Engine, version: str, more: dict[str, Any]) -> None:
    files = stack("gemma3-1b-openmath", version)
    assert_same(render_plan(helm, files, more)["config"], effective(files, more))


ON_VERL: list[dict[str, Any]] = [
    {},
    {"tracking": {"wandb": {"enabled": True, "name": "first"}, "tensorboard": {"enabled": False}}},
    {"tracking": {"mlflow": {"enabled": True, "trackingUri": "http://mlflow.example:5000"}}},
    {"job": {"attempt": 3, "env": {"OURS": {"value": "1"}}, "config": {"trainer": {"rollout_data_dir": "/data/x"}}}},
    {"job": {"code": {"packages": {"math-verify": "0.8.0", "aiohttp": "3.9.1"}}}},
    {
        "job": {
            "code": {
                "packages": {"verl": None},
                "repository": "https://git.example/team/verl.git",
                "revision": "0a" * 20,
            },
            "rewards": {"exact": {"builtin": "exact_answer"}},
            "config": {"custom_reward_function": {"path": "/data/mine.py"}},
        }
    },
    {
        "job": {"rewards": {"exact": {"builtin": "exact_answer"}}, "volume": "lustre"},
        "storage": {"lustre": {"mountPath": "/lustre", "existingClaim": {"name": "lustre-pvc"}}},
    },
]


@pytest.mark.parametrize("version", thin(catalogue.versions("verl")[::-1], 4))
@pytest.mark.parametrize(
    "more", thin(ON_VERL, 3), ids=lambda more: yaml.safe_dump(more, default_flow_style=True).strip()[:60]
)
def test_derived_verl_keys_match_the_chart(helm: Engine, version: str, more: dict[str, Any]) -> None:
    older = [] if version == "0.7.1" else [ROOT / f"values/frameworks/verl-{version}.yaml"]
    for recipe in VERL:
        files = [*stack(recipe), *older]
        if "repository" in str(more) and version == "0.9.1":
            more = {"job": {**more["job"], "config": {}}}
        run = effective(files, more)
        assert_same(render_plan(helm, files, more)["config"], run)
        assert run.derived["ray_kwargs"]["ray_init"]["runtime_env"]["env_vars"].keys() >= {
            "GRPO_DATASETS",
            "PYTHONPATH",
        }


TRACKED = {
    "tracking": {
        "wandb": {"enabled": True, "name": "first"},
        "mlflow": {"enabled": True, "trackingUri": "http://mlflow.example:5000", "experiment": "second"},
    }
}


@pytest.mark.parametrize("version", VERSIONS)
def test_derived_tracker_keys_match_the_chart(helm: Engine, version: str) -> None:
    files = stack("gemma3-1b-openmath", version)
    run = effective(files, TRACKED)
    assert_same(render_plan(helm, files, TRACKED)["config"], run)
    assert run.derived["logger"]["mlflow"]["run_name"] == "gemma3-1b-openmath"


def test_a_replaced_section_keeps_nothing_from_the_base_file() -> None:
    more = {"job": {"config": {"env": {OVERRIDE: True, "math": {"num_workers": 2}}}}}
    assert effective(stack("gemma3-1b-openmath"), more).config["env"] == {"math": {"num_workers": 2}}
    # An older version merges all the same.
    older = effective(stack("gemma3-1b-openmath", "v0.5.0"), more).config["env"]["math"]
    assert {**older, "num_workers": 2} == older
    assert len(older) > 1


@pytest.mark.parametrize("version", catalogue.versions("nemo-rl"))
def test_references_are_resolved_as_by_omegaconf(version: str) -> None:
    """The base files have every form that is used in practice."""
    tree = catalogue.load("nemo-rl", version).base
    for name, function in (("mul", lambda a, b: a * b), ("div", lambda a, b: a / b), ("max", max)):
        OmegaConf.register_new_resolver(name, function, replace=True)
    expected = OmegaConf.to_container(OmegaConf.create(tree), resolve=True)
    assert isinstance(expected, dict)
    seen = 0
    for path, value in leaves(tree):
        wanted: Any = expected
        for key in path:
            wanted = wanted[key]
        if isinstance(value, str):
            seen += "${" in value
            assert resolve(tree, path) == wanted, path
    assert seen >= 4


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("${a.b}", 3),
        ("x${a.b}y${a.c}", "x3yhe"),
        ("${mul:${a.b},2}", 6),
        ("${mul:${mul:${a.b}, 2},${a.b}}", 18),
        ("${div:${a.b},2}", 1.5),
        ("${max:${a.b},7}", 7),
        ("${oc.select:a.b,5}", 3),
        ("${oc.select:no.such,5}", 5),
        ("${oc.select:no.such,null}", None),
        ("${.b}", "here"),
        ("${a.list.1}", 20),
        ("${a.list[1]}", 20),
        ("plain", "plain"),
    ],
)
def test_every_form_of_reference_is_resolved_as_by_omegaconf(text: str, wanted: object) -> None:
    OmegaConf.register_new_resolver("mul", lambda a, b: a * b, replace=True)
    OmegaConf.register_new_resolver("div", lambda a, b: a / b, replace=True)
    OmegaConf.register_new_resolver("max", max, replace=True)
    tree = {"a": {"b": 3, "c": "he", "list": [10, 20]}, "s": {"b": "here", "t": text}}
    assert resolve(tree, ("s", "t")) == wanted
    assert OmegaConf.to_container(OmegaConf.create(tree), resolve=True)["s"]["t"] == wanted  # type: ignore[index,call-overload]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("${no.such}", DanglingError),
        ("${oc.env:HOME}", UnknownError),
        ("${s.t}", UnknownError),
        ("${mul:${a},2}", UnknownError),
        ("${mul:1}", UnknownError),
        ("${open", UnknownError),
        ("${div:1,0}", UnknownError),
        ("${${a}}", UnknownError),
    ],
)
def test_an_unresolvable_reference_raises_an_error(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve({"a": {"b": 1}, "s": {"t": text}}, ("s", "t"))


def test_a_map_with_the_marker_replaces_the_section_and_drops_the_marker() -> None:
    under = {"a": {"b": 1, "c": {"d": 2}}}
    assert overlaid(under, {"a": {"c": {OVERRIDE: True, "e": 3}}}) == {"a": {"b": 1, "c": {"e": 3}}}
    assert overlaid(under, {"a": {"c": {OVERRIDE: False, "e": 3}}}) == {"a": {"b": 1, "c": {"d": 2, "e": 3}}}
    assert overlaid(under, {"a": None}) == {"a": None}
    assert under == {"a": {"b": 1, "c": {"d": 2}}}


def test_an_h200_profile_gives_the_expected_cluster_size() -> None:
    run = effective([ROOT / "values/accelerators/h200.yaml", *stack("gemma3-27b-gsm8k")[1:]])
    assert (run.nodes, run.have, run.gpus, run.accelerator) == (2, 2, 8, "h200")
