"""What the catalogues say holds together, and they know every key of this project's own recipes."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
import yaml

from grpo.values import catalogue
from postrender import facts
from postrender.errors import InputError
from tests.catalogues.sources import VERSIONS, walk
from tests.conftest import ROOT

KINDS = {"any", "boolean", "integer", "number", "string", "list", "map", "null"}
every_version = pytest.mark.parametrize(("framework", "version"), VERSIONS)


def overlaid(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Lay job.configFor over job.config as the chart does: _override_ replaces."""
    merged = dict(under)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict) and not value.get("_override_"):
            merged[key] = overlaid(merged[key], value)
        else:
            merged[key] = value
    return merged


@functools.cache
def recipes(framework: str, version: str) -> dict[str, dict[str, Any]]:
    """Return the configuration of each recipe at a version, by its name and the machine's."""
    moving = ROOT / f"values/frameworks/{framework}-{version}.yaml"
    found = {}
    for file in sorted((ROOT / "values/recipes").glob("*.yaml")):
        job = yaml.safe_load(file.read_text("utf-8"))["job"]
        if job["framework"] == framework:
            also = yaml.safe_load(moving.read_text("utf-8"))["job"] if moving.exists() else {}
            config, choices = overlaid(job["config"], also.get("config", {})), job.get("configFor", {})
            for machine in ("b200", "h200"):
                laid = overlaid(config, choices.get(version, {}))
                found[f"{file.stem} {machine}"] = overlaid(laid, choices.get(machine, {}))
    return found


def test_each_version_known_to_the_charts_has_a_catalogue() -> None:
    schema = json.loads((ROOT / "charts/grpo-job/values.schema.json").read_text("utf-8"))
    named = schema["properties"]["job"]["properties"]["version"]["else"]["enum"]
    assert named == [version for _, version in VERSIONS]


def source(framework: str, name: str) -> Any:
    """Return what a YAML file of schemas/catalogues/ says."""
    return yaml.safe_load((ROOT / f"schemas/catalogues/{framework}/{name}.yaml").read_text("utf-8"))


@every_version
def test_the_loaded_catalogue_equals_its_source_file(framework: str, version: str) -> None:
    assert facts.load(f"catalogues/{framework}/{version}.json") == source(framework, version)


@pytest.mark.parametrize("version", catalogue.versions("nemo-rl"))
def test_each_nemo_rl_version_names_a_vllm_with_known_arguments(version: str) -> None:
    engine = catalogue.engine(catalogue.load("nemo-rl", version).vllm)
    assert {"dtype", "gpu_memory_utilization", "max_num_seqs", "kv_cache_dtype"} <= engine.keys.keys()
    assert not {*engine.offline, *engine.served} & engine.keys.keys()


@every_version
def test_every_base_key_is_known_and_has_a_valid_type(framework: str, version: str) -> None:
    known = catalogue.load(framework, version)
    base = dict(walk(known.base))
    assert {path for path in base if not known.knows(path)} == set()
    assert {path: value for path, value in base.items() if not known.allows(path, value)} == {}
    assert known.required - base.keys() == set()


@every_version
def test_types_come_from_the_small_vocabulary(framework: str, version: str) -> None:
    known = catalogue.load(framework, version)
    kinds = {kind for written in known.keys.values() if isinstance(written, str) for kind in written.split("|")}
    assert kinds <= KINDS
    assert all(known.knows(section) for section in known.keys if section.rpartition(".")[0])


@every_version
def test_a_misspelt_key_is_unknown_outside_open_sections(framework: str, version: str) -> None:
    """Of every key that is not below an open section."""
    known = catalogue.load(framework, version)
    closed = [path for path in known.keys if not known.is_open(path.rpartition(".")[0])]
    assert len(closed) > 100
    for path in closed:
        wrong = path + "_x"
        assert not known.knows(wrong)
        assert known.type_of(wrong) is None
        assert known.allows(wrong, object())


@every_version
def test_every_recipe_key_is_known_and_has_a_valid_type(framework: str, version: str) -> None:
    known = catalogue.load(framework, version)
    assert recipes(framework, version)
    for name, config in recipes(framework, version).items():
        found = dict(walk(config))
        assert {path for path in found if not known.knows(path)} == set(), name
        assert {path: value for path, value in found.items() if not known.allows(path, value)} == {}, name


@pytest.mark.parametrize("version", ["v0.6.0", "v0.7.0", "v0.8.0"])
def test_a_recipe_section_that_replaces_the_base_is_complete(version: str) -> None:
    known, replaced = catalogue.load("nemo-rl", version), 0
    for name, config in recipes("nemo-rl", version).items():
        for section, value in config.items():
            if value.get("_override_"):
                replaced += 1
                found = {f"{section}.{path}" for path, _ in walk(value)}
                must = {path for path in known.required if path.rpartition(".")[0] == section}
                assert must - found == set(), name
    assert replaced


@every_version
def test_a_moved_key_is_unknown_and_its_replacement_is_known(framework: str, version: str) -> None:
    known = catalogue.load(framework, version)
    assert known.moved
    for old, new in known.moved.items():
        assert not known.knows(old)
        assert not new or known.knows(new)


def test_the_data_section_moved_in_both_directions() -> None:
    assert catalogue.load("nemo-rl", "v0.7.0").moved["data.dataset_name"] == "data.train.dataset_name"
    assert catalogue.load("nemo-rl", "v0.5.0").moved["data.train.dataset_name"] == "data.dataset_name"
    assert catalogue.load("nemo-rl", "v0.5.0").moved["data.default.env_name"] == "data.env_name"
    assert catalogue.load("nemo-rl", "v0.4.0").moved["data.env_name"] == ""


def test_accepted_names_depend_on_the_version() -> None:
    old, new = catalogue.load("nemo-rl", "v0.5.0"), catalogue.load("nemo-rl", "v0.7.0")
    assert not old.accepts("datasets", "gsm8k")
    assert new.accepts("datasets", "gsm8k")
    assert not new.accepts("datasets", "gsm9k")
    assert new.accepts("datasets", "package.module.Class")
    assert not old.accepts("datasets", "package.module.Class")
    assert not new.accepts("advantageEstimators", "grop")
    assert old.accepts("advantageEstimators", "grop"), "v0.5.0 has no such names"
    assert new.accepts("packingAlgorithms", "modified_first_fit_decreasing")


@pytest.mark.parametrize("version", catalogue.versions("nemo-rl"))
def test_recipes_use_only_known_names(version: str) -> None:
    known = catalogue.load("nemo-rl", version)
    kinds = {"dataset_name": "datasets", "processor": "processors", "env_name": "environments"}
    for config in recipes("nemo-rl", version).values():
        for path, value in walk({**known.base, **config}):
            key = path.rpartition(".")[2]
            if path.startswith("data.") and key in kinds and "${" not in str(value):
                assert known.accepts(kinds[key], value), (path, value)


FITS = [
    ("grpo.num_prompts_per_step", 16, True),
    ("grpo.num_prompts_per_step", 16.0, True),
    ("grpo.num_prompts_per_step", 16.5, False),
    ("grpo.num_prompts_per_step", "16", False),
    ("grpo.num_prompts_per_step", True, False),
    ("grpo.num_prompts_per_step", "${policy.train_global_batch_size}", True),
    ("grpo.num_prompts_per_step", float("inf"), False),
    ("grpo.max_val_samples", None, True),
    ("loss_fn.reference_policy_kl_penalty", 0, True),
    ("loss_fn.reference_policy_kl_penalty", "0.01", False),
    ("policy.dtensor_cfg.enabled", "yes", False),
    ("policy.generation.vllm_cfg.kv_cache_dtype", "fp8", True),
    ("policy.generation.vllm_cfg.kv_cache_dtype", "fp16", False),
    ("policy.scheduler", [], True),
    ("policy.scheduler", 1, False),
    ("policy.scheduler.0.kwargs.total_iters", 10, True),
    ("policy.generation.vllm_kwargs.anything", object(), True),
]


@pytest.mark.parametrize(("path", "value", "expected"), FITS)
def test_only_values_of_the_right_type_are_accepted(path: str, value: object, expected: bool) -> None:
    known = catalogue.load("nemo-rl", "v0.7.0")
    assert known.knows(path)
    assert known.allows(path, value) is expected


def test_open_sections_accept_any_key_but_the_chart_owns_the_marker() -> None:
    known = catalogue.load("nemo-rl", "v0.7.0")
    assert known.is_open("policy.generation.vllm_kwargs")
    assert known.is_open("policy.generation.vllm_kwargs.compilation_config.level")
    assert not known.is_open("policy.generation.vllm_cfg")
    assert not known.is_open("policy.generation")
    assert known.type_of("policy.generation.vllm_kwargs.block_size") == "any"
    assert known.knows("env.mine.whatever")
    assert known.knows("data._override_")
    assert not known.knows("dat._override_")


def test_changing_a_returned_base_does_not_affect_the_catalogue() -> None:
    known = catalogue.load("nemo-rl", "v0.7.0")
    changed = known.base
    changed["policy"]["scheduler"].clear()
    assert len(known.base["policy"]["scheduler"]) == 3
    assert known.base["data"]["max_input_seq_length"] == "${policy.max_total_sequence_length}"


def test_an_unknown_version_is_refused_with_a_list_of_known_ones() -> None:
    with pytest.raises(InputError, match=r"nemo-rl v0\.3\.0 are not known; known versions: v0\.4\.0, .*v0\.7\.0"):
        catalogue.load("nemo-rl", "v0.3.0")
    with pytest.raises(InputError, match="known versions: none"):
        catalogue.load("trl", "1.0")


def test_every_listed_word_belongs_to_a_key_of_some_version() -> None:
    written = catalogue.words("nemo-rl")
    known = [catalogue.load("nemo-rl", version) for version in catalogue.versions("nemo-rl")]
    assert len(written) > 60
    assert {path for path in written if not any(path in version.keys for version in known)} == set()
    assert written == source("nemo-rl", "words")
    assert catalogue.words("verl") == {}


@pytest.mark.parametrize("name", ["", "..", "nemo-rl/../verl", "*", "a" * 300, "a\0b"])
def test_a_path_is_not_accepted_as_a_framework_name(name: str) -> None:
    assert catalogue.versions(name) == []
    assert catalogue.words(name) == {}


@pytest.mark.parametrize("version", catalogue.versions("verl"))
def test_verl_accepts_a_single_logger_as_a_string(version: str) -> None:
    known = catalogue.load("verl", version)
    assert known.allows("trainer.logger", "console")
    assert known.allows("trainer.logger", ["console"])
    assert not known.allows("trainer.logger", 1)


def test_each_trainer_mode_has_its_steps_between_weight_updates() -> None:
    known = catalogue.load("verl", "0.9.1")
    for mode in ("sync", "colocate_async", "separate_async"):
        assert known.knows(f"trainer.v1.{mode}.parameter_sync_step")


@pytest.mark.parametrize("version", catalogue.versions("verl"))
def test_a_key_accepts_only_the_words_its_class_compares_against(version: str) -> None:
    """A key that the class itself replaces before it compares takes any text; null fits where the class allows it."""
    known, actor = catalogue.load("verl", version), "actor_rollout_ref.actor"
    assert known.allows(f"{actor}.loss_agg_mode", "token-mean")
    assert known.allows(f"{actor}.loss_agg_mode", "token-sum") == (version == "0.9.1")
    assert not known.allows(f"{actor}.loss_agg_mode", None)
    assert known.allows(f"{actor}.optim.warmup_style", None)
    assert not known.allows(f"{actor}.optim.warmup_style", "linear")
    assert known.allows(f"{actor}.optim.lr_scheduler_type", "linear")
    # No run of GRPO builds the critic.
    assert known.allows("critic.optim.warmup_style", "linear")


@pytest.mark.parametrize("version", catalogue.versions("nemo-rl"))
def test_every_dataset_declares_its_arguments_and_prompts(version: str) -> None:
    known = catalogue.load("nemo-rl", version)
    assert known.datasets.keys() == {*known.names["datasets"]} - {"*.*"}
    for name, reads in known.datasets.items():
        assert {*reads["required"]} <= {*reads["arguments"]}, name
    assert {*known.names["promptsWithQuestion"]} < {*known.names["prompts"]}
