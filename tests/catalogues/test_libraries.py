"""What is written of the classes of other libraries is what is generated, and what torch itself says."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
import yaml

from grpo.problems.optimizer import values_nemo_rl as optimizer
from grpo.values import catalogue
from postrender import facts
from tests.conftest import ROOT
from tests.jobs.torch_python import torch_python

KINDS = {"boolean", "integer", "number", "string", "list", "map", "any", "null"}
SIGNATURES = """
import inspect, json, sys, torch
found = {}
for path in json.load(sys.stdin):
    module, name = path.rsplit(".", 1)
    given = inspect.signature(getattr(sys.modules[module], name)).parameters.values()
    given = [each for each in given if each.name not in ("params", "optimizer", "args", "kwargs")]
    found[path] = [[each.name for each in given], [each.name for each in given if each.default is each.empty]]
print(json.dumps(found))
"""


@pytest.mark.parametrize("name", ["torch", "megatron"])
def test_the_loaded_library_equals_its_source_file(name: str) -> None:
    source = yaml.safe_load((ROOT / f"schemas/catalogues/libraries/{name}.yaml").read_text("utf-8"))
    assert facts.load(f"catalogues/libraries/{name}.json") == source == catalogue.library(name)


def test_types_come_from_the_small_vocabulary() -> None:
    given = [known.get("arguments", {}) for known in catalogue.library("torch").values()]
    for arguments in (*given, *catalogue.library("megatron").values()):
        written = [kinds.split("|") for kinds in arguments.values() if isinstance(kinds, str)]
        assert {kind for kinds in written for kind in kinds} <= KINDS


def test_a_class_has_either_arguments_or_a_reason_it_is_unusable() -> None:
    for name, known in catalogue.library("torch").items():
        assert ("arguments" in known) != ("unusable" in known), name
        assert set(known.get("required", ())) <= known.get("arguments", {}).keys(), name


@pytest.mark.full
def test_the_installed_torch_has_the_recorded_classes_and_arguments() -> None:
    """A newer torch than those of the images: what it adds or drops is a reason to look at the versions again."""
    written: dict[str, Any] = catalogue.library("torch")
    names = [name for name, known in written.items() if name.startswith("torch.") and "arguments" in known]
    done = subprocess.run(
        [str(torch_python()), "-c", SIGNATURES],
        input=json.dumps(names),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = json.loads(done.stdout)
    assert len(found) >= 20
    for name, (arguments, required) in found.items():
        assert sorted(arguments) == sorted(written[name]["arguments"]), name
        assert sorted(required) == sorted(written[name].get("required", [])), name


def test_a_class_is_also_found_by_its_module_path() -> None:
    assert optimizer._known("torch.optim.adamw.AdamW") == catalogue.library("torch")["torch.optim.AdamW"]
    assert optimizer._known("torch.optim.lr_scheduler.AdamW") is None
    assert optimizer._known("mypackage.AdamW") is None
