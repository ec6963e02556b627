"""The valid stacks that mutations start from: values files in the order of -f, without the site file."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import ROOT

# Profile, recipe, and what stands between them.
STACKS = {
    "two-nodes": ("h200", "llama3.1-8b-math-gsm8k", ()),
    "apart": ("h200", "llama3.1-8b-math-gsm8k-noncolocated", ()),
    "gemma": ("h200", "gemma3-27b-gsm8k", ()),
    "dynamic": ("h200", "gemma3-1b-openmath", ()),
    "smoke": ("h200", "smoke", ()),
    "one-gpu": ("h200", "smoke", ("one-gpu",)),
    "verl": ("b200", "qwen2.5-32b-gsm8k-verl", ()),
}


def files_of(framework: str, version: str, base: str) -> list[Path]:
    """Return the values files of a stack; the version that a recipe is written for has no file of its own."""
    profile, recipe, between = STACKS[base]
    older = ROOT / f"values/frameworks/{framework}-{version}.yaml"
    return [
        ROOT / f"values/accelerators/{profile}.yaml",
        *(ROOT / f"values/examples/{name}.yaml" for name in between),
        ROOT / f"values/recipes/{recipe}.yaml",
        *([older] if older.exists() else []),
    ]
