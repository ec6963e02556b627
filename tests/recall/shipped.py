"""The GRPO recipes that NeMo RL ships, as values of ours: lint must have nothing against them. A program too.

shipped.py TREE prints {"file name": configuration} of the recipes for language models of a source tree, each merged
with its base files and resolved by the tree's own loader.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PATTERN = "examples/configs/recipes/llm/grpo*.yaml"
VARIABLES = {"HF_HOME": "/data/huggingface"}  # some of them ask for it
# What the chart derives, so that another value is an error: theirs are folders of their own machines.
DERIVED = ("checkpoint_dir", "log_dir", "wandb_enabled", "tensorboard_enabled", "mlflow_enabled", "wandb", "mlflow")
# A profile by the GPUs of a node; another number is a share of the first.
PROFILES = {8: "h200", 4: "gb200"}


def configurations(tree: Path) -> dict[str, Any]:
    """Return the shipped recipes of a tree by file name, in a process of its own."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__)), str(tree)],
        env={**os.environ, **VARIABLES, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def stack(name: str, config: dict[str, Any], version: str, folder: Path) -> list[Path]:
    """Write a shipped recipe as values, and return the files of its stack."""
    import yaml

    nodes, gpus = config["cluster"]["num_nodes"], config["cluster"]["gpus_per_node"]
    older = ROOT / f"values/frameworks/nemo-rl-{version}.yaml"
    ours = [ROOT / "values/recipes/smoke.yaml", *([older] if older.exists() else [])]
    trees = [yaml.safe_load(file.read_text("utf-8")) for file in ours]
    values: dict[str, Any] = {
        "images": trees[-1]["images"],
        "ray": {"head": {**trees[0]["ray"]["head"], **trees[-1]["ray"]["head"]}, "workers": {"replicas": nodes}},
        "job": {"framework": "nemo-rl", "version": version, "config": dict(_ours(config))},
    }
    if gpus not in PROFILES:
        values["accelerator"] = {"gpusPerNode": gpus}
    if gpus == 4:
        # The framework has images for both processors; which one is meant says the machine.
        values["images"] = {**values["images"], "training": {**values["images"]["training"], "arm64": True}}
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(values), "utf-8")
    profile = PROFILES.get(gpus, PROFILES[8])
    return [ROOT / f"values/accelerators/{profile}.yaml", file, ROOT / "tests/site.yaml"]


def _ours(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the sections without what the chart derives from other values."""
    for section, value in config.items():
        if section in ("cluster", "defaults"):
            continue
        if section in ("logger", "checkpointing"):
            yield section, {key: one for key, one in value.items() if key not in DERIVED}
        else:
            yield section, value


def errors(tree: Path, version: str, folder: Path) -> dict[str, list[str]]:
    """Return the rules of the errors that lint finds in each shipped recipe; clean ones have an empty list."""
    from grpo.lint.linter import lint

    found = {}
    for name, config in configurations(tree).items():
        files = stack(name, config, version, folder)
        findings = lint([str(file) for file in files])
        found[name] = sorted({one.rule for one in findings if getattr(one, "severity", "error") == "error"})
    return found


if __name__ == "__main__":
    from tests.recipes.nemo_rl import enter, resolved

    source = Path(sys.argv[1]).resolve()
    enter(source)
    output, sys.stdout = sys.stdout, sys.stderr
    json.dump({file.stem: resolved(file) for file in sorted(source.glob(PATTERN))}, output)
