"""The source trees from which catalogues and definitions were read, and the programs that read them."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grpo.values import catalogue
from tests.conftest import ROOT

EXTRACT = ROOT / "schemas/catalogues/extract.py"
SHIPPED = Path(__file__).with_name("shipped.py")
VERSIONS = [(framework, version) for framework in ("nemo-rl", "verl") for version in catalogue.versions(framework)]
ENGINES = [("vllm", version) for version in catalogue.versions("vllm")]
_FOLDERS = {
    "nemo-rl": ("GRPO_NEMO_RL_SOURCES", "nrl-v"),
    "verl": ("GRPO_VERL_SOURCES", "verl-v"),
    "vllm": ("GRPO_VLLM_SOURCES", "vllm-"),
    "kuberay": ("GRPO_KUBERAY_SOURCES", "kuberay-"),
}


def tree(framework: str, version: str) -> Path:
    """Return the source tree of a version; without it the test is skipped, and says so."""
    variable, prefix = _FOLDERS[framework]
    folder = Path(os.environ.get(variable, "/nowhere")) / f"{prefix}{version.removeprefix('v')}"
    if not folder.is_dir():
        message = f"{framework} {version} was not asked: {variable} names no folder with {folder.name}"
        (pytest.fail if os.environ.get("GRPO_REQUIRE_SOURCES") else pytest.skip)(message)
    return folder


def run(program: Path, *words: str) -> str:
    """Return what a program prints."""
    done = subprocess.run(
        [sys.executable, str(program), *words], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@functools.cache
def shipped(version: str) -> dict[str, Any]:
    """Return the GRPO configurations that a version of NeMo RL ships, as its own code loads and resolves them."""
    loaded: dict[str, Any] = json.loads(run(SHIPPED, str(tree("nemo-rl", version))))
    return loaded


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each path of a tree and its value; the items of a list have the path of the list."""
    for each in value if isinstance(value, list) else [value]:
        for key, inner in each.items() if isinstance(each, dict) else ():
            yield f"{path}{key}", inner
            yield from walk(inner, f"{path}{key}.")
