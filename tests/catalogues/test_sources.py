"""The catalogues are what the source trees say, and nothing that a framework ships is refused by them."""

from __future__ import annotations

import pytest
import yaml

from grpo.values import catalogue
from tests.catalogues import sources

NEMO_RL = catalogue.versions("nemo-rl")
# Shipped configurations with a key that nothing of their version reads: upstream moved it and left it there.
LEFT_BEHIND = {
    ("v0.6.0", "examples/configs/recipes/llm/performance/dapo-deepseek-v3-64n8g.yaml"): {
        "data.dataset_name",
        "data.prompt_file",
    },
    ("v0.7.0", "examples/configs/recipes/llm/performance/dapo-deepseek-v3-64n8g.v2.yaml"): {
        "data.dataset_name",
        "data.prompt_file",
    },
    ("v0.8.0", "examples/configs/recipes/llm/performance/dapo-deepseek-v3-64n8g.v2.yaml"): {
        "data.dataset_name",
        "data.prompt_file",
    },
}

# The file names no model; who uses it does.
TEMPLATES = {("v0.8.0", "examples/nemo_gym/nemotron-3-ultra/ifbench_teacher.yaml"): {"policy.tokenizer.name": None}}


@pytest.mark.parametrize(("framework", "version"), [*sources.VERSIONS, *sources.ENGINES])
def test_the_catalogue_extracted_from_the_source_matches_the_committed_file(framework: str, version: str) -> None:
    tree = sources.tree(framework, version)
    written = (sources.ROOT / f"schemas/catalogues/{framework}/{version}.yaml").read_text("utf-8")
    assert sources.run(sources.EXTRACT, framework, str(tree), version) == written


@pytest.mark.parametrize("version", NEMO_RL)
def test_no_shipped_setting_is_unknown_or_of_the_wrong_type(version: str) -> None:
    """Each configuration is loaded by the framework's own code, its interpolations resolved."""
    known, configs = catalogue.load("nemo-rl", version), sources.shipped(version)
    loaded = {file: config for file, config in configs.items() if isinstance(config, dict)}
    assert len(loaded) >= 40
    assert len(loaded) >= len(configs) - 1, {file: text for file, text in configs.items() if file not in loaded}
    for file, config in loaded.items():
        found = dict(sources.walk(config))
        assert {path for path in found if not known.knows(path)} == LEFT_BEHIND.get((version, file), set()), file
        wrong = {path: value for path, value in found.items() if not known.allows(path, value)}
        assert wrong == TEMPLATES.get((version, file), {}), file


@pytest.mark.parametrize("version", catalogue.versions("verl"))
def test_composed_defaults_equal_those_shipped_with_verl(version: str) -> None:
    """Its own tools write what Hydra composes into a file beside the parts."""
    file = sources.tree("verl", version) / "verl/trainer/config/_generated_ppo_trainer.yaml"
    generated = dict(sources.walk(yaml.safe_load(file.read_text("utf-8"))))
    known = catalogue.load("verl", version)
    assert {path for path in generated if not known.knows(path)} == set()
    assert {path: value for path, value in generated.items() if not known.allows(path, value)} == {}
    base = dict(sources.walk(known.base))
    left = {path for path in generated.keys() - base.keys() if not path.endswith("_target_")}
    assert {path for path in left if "profiler" not in path} == set()
    assert len(left) < 10
    # The part that chooses the engine is no key of the result.
    assert base.keys() - generated.keys() <= {"model_engine"}
    shared = [path for path in base.keys() & generated.keys() if not isinstance(base[path], dict)]
    assert {path: generated[path] for path in shared if generated[path] != base[path]} == {}


@pytest.mark.parametrize("version", NEMO_RL)
def test_the_base_equals_the_file_merged_by_the_framework(version: str) -> None:
    """Where no interpolation stands, the values are those that its own code loads."""
    base = dict(sources.walk(catalogue.load("nemo-rl", version).base))
    loaded = dict(sources.walk(sources.shipped(version)["examples/configs/grpo_math_1B.yaml"]))
    assert base.keys() == loaded.keys()
    plain = {path: value for path, value in base.items() if "${" not in str(value)}
    assert plain == {path: loaded[path] for path in plain}
    assert len(plain) > 150
