"""The real framework accepts the recipes: each configuration goes through the code of each NeMo RL version.

Set GRPO_NEMO_RL_SOURCES to a folder with the source trees: nrl-v0.4.0, v0.4.0 or RL-0.4.0 (as an archive of the tag
unpacks), and so on. Without it these tests are skipped; GRPO_REQUIRE_SOURCES makes that a failure.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import configuration
from tests.conftest import ROOT
from tests.recipes.contract import NESTED, REPOSITORIES, SETUPS, VERSIONS
from tests.recipes.rendered import Config, Configurations, leaves

PROGRAM = ROOT / "tests/recipes/nemo_rl.py"
Loaded = dict[str, Any]

# Keys that the tag's base file lacks and its code reads all the same: path, versions, where.
ALLOWED = {
    "data.train_data_path": (("v0.4.0", "v0.5.0"), "data/datasets/response_datasets/__init__.py, ResponseDataset"),
    "data.val_data_path": (("v0.4.0", "v0.5.0"), "data/datasets/response_datasets/__init__.py, ResponseDataset"),
    "data.input_key": (("v0.4.0", "v0.5.0"), "data/datasets/response_datasets/__init__.py, ResponseDataset"),
    "data.output_key": (("v0.4.0", "v0.5.0"), "data/datasets/response_datasets/__init__.py, ResponseDataset"),
    "data.train.split": (NESTED, "data/datasets/response_datasets/gsm8k.py"),
    "data.validation.split": (NESTED, "data/datasets/response_datasets/gsm8k.py"),
    "data.validation.dataset_name": (NESTED, "data/utils.py; null in the base file"),
    "data.validation.repeat": (NESTED, "data/datasets/response_datasets, AIME2024"),
    "policy.generation.vllm_kwargs.block_size": (("v0.5.0", "v0.6.0"), "an argument of vLLM's engine"),
    "grpo.skip_reference_policy_logprobs_calculation": (("v0.6.0",), "algorithms/grpo.py:1339; not in the base file"),
}


def sources(version: str) -> Path:
    """Return the tree of a version; without the folder skip, loudly, and with a folder that lacks it fail."""
    folder = os.environ.get("GRPO_NEMO_RL_SOURCES")
    if not folder:
        message = (
            "GRPO_NEMO_RL_SOURCES is not set, so the real framework saw no recipe: name a folder with its source trees"
        )
        (pytest.fail if os.environ.get("GRPO_REQUIRE_SOURCES") else pytest.skip)(message)
    names = (f"nrl-{version}", version, f"RL-{version.removeprefix('v')}")
    found = [Path(folder, name) for name in names if Path(folder, name, "nemo_rl").is_dir()]
    assert found, f"{folder} has none of {', '.join(names)} with a folder nemo_rl in it"
    return found[0]


def ask(tree: Path, configurations: dict[str, Config], folder: Path) -> dict[str, Loaded]:
    """Return what the framework of a tree makes of configurations, in a process of its own."""
    paths = {}
    for name, config in configurations.items():
        # The image keeps the framework's source in one folder, and this is another one.
        base = config["defaults"].replace("/opt/nemo-rl/", f"{tree}/")
        paths[name] = str(folder / f"{name}.yaml")
        Path(paths[name]).write_text(configuration.to_yaml({**config, "defaults": base}), encoding="utf-8")
    found = subprocess.run(
        [sys.executable, str(PROGRAM), str(tree)],
        input=json.dumps(paths),
        env={**os.environ, "GRPO_DATASETS": "/data/datasets"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    loaded: dict[str, Loaded] = json.loads(found.stdout)
    return loaded


@pytest.fixture(scope="session")
def accepted(configurations: Configurations, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function from a version to what its framework made of each configuration; it is asked once."""

    @functools.cache
    def load(version: str) -> dict[str, Loaded]:
        tree = sources(version)
        chosen = {f"{name}.{machine}": config for (name, _, machine), config in configurations.of(version).items()}
        return ask(tree, chosen, tmp_path_factory.mktemp(version))

    return load


def unknown(config: Config, base: Config, version: str) -> list[str]:
    """Return the paths of a rendered configuration that neither the base file nor the list above has."""
    known = {".".join(path[:depth]) for path, _ in leaves(base) for depth in range(1, len(path) + 1)}
    paths = {".".join(path) for path, _ in leaves(config)} - {"defaults"}
    allowed = {path for path, (versions, _) in ALLOWED.items() if version in versions}
    return sorted(path for path in paths - known - allowed if not path.endswith("._override_"))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_real_framework_accepts_every_recipe(version: str, accepted: Any) -> None:
    """Its loader merges and resolves it, and its MasterConfig has nothing against it, machine by machine."""
    found = accepted(version)
    assert len(found) == 2 * (len(SETUPS) + 1)
    assert {name: loaded["errors"] for name, loaded in found.items() if loaded["errors"]} == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_framework_reads_every_key(version: str, accepted: Any, configurations: Configurations) -> None:
    """It would ignore a misspelt one without a word; and what the list allows is used, or it goes."""
    found, used = accepted(version), set()
    for (name, _, machine), config in configurations.of(version).items():
        base = found[f"{name}.{machine}"]["base"]
        assert unknown(config, base, version) == [], name
        used |= {".".join(path) for path, _ in leaves(config)}
    assert {path for path, (versions, _) in ALLOWED.items() if version in versions} - used == set()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("recipe", sorted(SETUPS))
def test_the_effective_configuration_matches_the_contract(recipe: str, version: str, accepted: Any) -> None:
    """After inheritance, what the base file adds to the contract is the same with every version."""
    setup, config = SETUPS[recipe], accepted(version)[f"{recipe}.h200"]["config"]
    policy, generation = config["policy"], config["policy"]["generation"]
    lengths = (
        policy["max_total_sequence_length"],
        generation["max_new_tokens"],
        generation["vllm_cfg"]["max_model_len"],
    )
    assert (*lengths, config["data"]["max_input_seq_length"]) == setup.lengths
    assert policy["tokenizer"]["name"] == setup.model
    assert (policy["optimizer"]["name"], policy["megatron_cfg"]["enabled"]) == ("torch.optim.AdamW", False)
    loss, grpo = config["loss_fn"], config["grpo"]
    assert (loss["ratio_clip_c"], loss["token_level_loss"], loss.get("reference_policy_kl_type", "k3")) == (
        None,
        True,
        "k3",
    )
    assert (grpo["normalize_rewards"], grpo["use_leave_one_out_baseline"], grpo["max_num_epochs"]) == (True, True, 1)
    assert (grpo["val_at_start"], grpo.get("val_at_end", False), grpo["async_grpo"]["enabled"]) == (False, False, False)
    assert config["checkpointing"].get("save_optimizer", True) is True
    assert config["env"]["math"]["num_workers"] == (16 if recipe == "qwen3-1.7b-deepscaler" else 8)
    data = config["data"].get("default") or config["data"]
    assert data["prompt_file"] == "examples/prompts/cot.txt"
    assert {path for path, _ in leaves(config) if "_override_" in path} == set()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_data_sets_are_fetched_from_the_repositories_that_training_reads(version: str) -> None:
    """Another repository would be downloaded for nothing, and the training would ask the hub all the same."""
    folder = sources(version) / "nemo_rl/data/datasets/response_datasets"
    text = "".join(file.read_text("utf-8") for file in folder.glob("*.py"))
    loaded = set(re.findall(r'load_dataset\(\s*"([^"]+)"', text))
    missing = {one for each in REPOSITORIES.values() for one in each} - loaded
    assert missing == ({"openai/gsm8k"} if version in ("v0.4.0", "v0.5.0") else set())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_real_framework_rejects_an_invalid_configuration(
    version: str, configurations: Configurations, tmp_path: Path
) -> None:
    """So that an acceptance means something: a wrong type, a reference to nothing, a misspelt key."""
    tree, good = sources(version), configurations["smoke", version, "b200"]

    def spoilt(**policy: Any) -> Config:
        return {**good, "policy": {**good["policy"], **policy}}

    wrong = {
        "type": spoilt(train_global_batch_size="abc"),
        "reference": spoilt(model_name="${policy.nothing}"),
        "key": spoilt(trian_global_batch_size=8),
    }
    found = ask(tree, wrong, tmp_path)
    assert re.search(r"policy.*train_global_batch_size.*integer", str(found["type"]["errors"]))
    assert "InterpolationKeyError" in str(found["reference"]["errors"])
    assert unknown(wrong["key"], found["key"]["base"], version) == ["policy.trian_global_batch_size"]
