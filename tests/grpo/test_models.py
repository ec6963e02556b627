"""schemas/models.yaml says of each model what its config.json says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from grpo.values import models
from grpo.values.frameworks.model import Model
from grpo.values.reference_errors import UnknownError
from tests.conftest import RECIPES, ROOT

WHOLE: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "schemas/models.yaml").read_text("utf-8"))
NUMBERS = {
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("intermediate_size", "vocab_size", "max_position_embeddings", "sliding_window"),
    *("num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size"),
}
# What no part of the language model is; `thinks` is of its chat template.
OTHERS = {"architectures", "like", "model_type", "source", "text_config", "thinks", "tie_word_embeddings"}


def resolved(name: str) -> dict[str, Any]:
    said = dict(WHOLE[name])
    same = said.pop("like", None)
    return {**(resolved(same) if same else {}), **said}


def language_model(said: Mapping[str, Any]) -> dict[str, Any]:
    return {**said, **said.get("text_config", {})}


@pytest.mark.parametrize("name", WHOLE)
def test_stored_model_facts_match_their_source(name: str) -> None:
    assert models.load(name) == resolved(name)


@pytest.mark.parametrize("name", WHOLE)
def test_a_model_file_names_its_source_and_contains_only_config_json_keys(name: str) -> None:
    entry = WHOLE[name]
    assert len(entry["source"]) > 20
    assert set(entry) | set(entry.get("text_config", {})) <= NUMBERS | OTHERS
    said = language_model(resolved(name))
    assert re.fullmatch(r"\w+For(CausalLM|ConditionalGeneration)", said["architectures"][0])
    assert all(said[key] is None or said[key] > 0 for key in NUMBERS & set(said))
    assert said["num_attention_heads"] % said["num_key_value_heads"] == 0


@pytest.mark.parametrize("name", WHOLE)
def test_a_models_stored_sizes_match_the_parameter_count_in_its_name(name: str) -> None:
    billions = re.search(r"-(\d+(?:\.\d+)?)b(?:-|$)", name.lower())
    said = language_model(resolved(name))
    hidden, head = said["hidden_size"], said["head_dim"]
    attention = 2 * hidden * head * (said["num_attention_heads"] + said["num_key_value_heads"])
    experts = said.get("num_experts") or said.get("num_local_experts") or 1
    inner = said.get("moe_intermediate_size") or said["intermediate_size"]
    words = said["vocab_size"] * hidden * (1 if said["tie_word_embeddings"] else 2)
    count = words + said["num_hidden_layers"] * (attention + 3 * hidden * inner * experts)
    assert billions or "Nemo" in name
    assert count / 1e9 == pytest.approx(float(billions[1]) if billions else 12.2, rel=0.25)


@pytest.mark.parametrize(
    "name",
    ["", " ", "nobody/nothing", "text_config", "  text_config", "Qwen/Qwen2.5-7B ", "Qwen/Qwen2.5-7B:\n  like", "Qwen"],
)
def test_an_unknown_model_has_no_facts(name: str) -> None:
    assert models.load(name) is None


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_model_in_a_recipe_is_known(recipe: str) -> None:
    config = yaml.safe_load((ROOT / f"values/recipes/{recipe}.yaml").read_text("utf-8"))["job"]["config"]
    name = config["policy"]["model_name"] if "policy" in config else config["actor_rollout_ref"]["model"]["path"]
    assert models.load(name)
    assert Model(name, None).positions() >= 4096


GEMMA, QWEN = "google/gemma-3-27b-it", "Qwen/Qwen2.5-7B-Instruct"


@pytest.mark.parametrize(
    ("name", "overrides", "heads"),
    [
        (QWEN, None, 28),
        (QWEN, {}, 28),
        (QWEN, {"num_attention_heads": 32}, 32),
        (GEMMA, None, 32),
        (GEMMA, {"text_config": {"num_attention_heads": 16}}, 16),
        (GEMMA, {"num_attention_heads": 16}, 16),
        (GEMMA, {"text_config": {"num_key_value_heads": 8}}, 32),
    ],
)
def test_a_runs_overrides_replace_the_models_numbers(name: str, overrides: dict[str, Any] | None, heads: int) -> None:
    assert Model(name, overrides).number("num_attention_heads") == heads


@pytest.mark.parametrize("value", [0, -4, True, 2.5, "8", "${x}", [8]])
def test_a_non_numeric_override_makes_the_value_unknown(value: object) -> None:
    with pytest.raises(UnknownError):
        Model(QWEN, {"num_attention_heads": value}).number("num_attention_heads")


@pytest.mark.parametrize("overrides", ["x", ["x"], 3])
def test_overrides_that_are_not_a_map_make_the_value_unknown(overrides: object) -> None:
    with pytest.raises(UnknownError):
        Model(QWEN, overrides)


@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters", "model_max_length"])
def test_positions_derived_from_several_numbers_are_unknown(key: str) -> None:
    assert Model(QWEN, {key: None}).positions() == 32768
    for overrides in ({key: {"factor": 4.0}}, {"text_config": {key: {"factor": 4.0}}}):
        with pytest.raises(UnknownError):
            Model(QWEN, overrides).positions()


@pytest.mark.parametrize(("name", "count"), [(QWEN, 0), ("Qwen/Qwen3-30B-A3B", 128), ("openai/gpt-oss-20b", 32)])
def test_a_models_experts_are_counted(name: str, count: int) -> None:
    assert Model(name, None).experts() == count


@pytest.mark.parametrize("overrides", [None, {"architectures": []}, {"architectures": ["Other"]}])
def test_a_models_class_is_known_only_without_an_architectures_override(overrides: dict[str, Any] | None) -> None:
    if overrides is None:
        assert Model(GEMMA, overrides).architecture == "Gemma3ForConditionalGeneration"
    else:
        with pytest.raises(UnknownError):
            _ = Model(GEMMA, overrides).architecture
