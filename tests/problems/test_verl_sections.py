"""What verl does with a key that it does not know hangs on the section, and on the workers that read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.lint.linter import judge_values
from grpo.lint.locate import ValueLocator
from postrender.finding import Finding
from postrender.values import merge
from tests.conftest import stack_files

_REF = "job: {config: {actor_rollout_ref: {ref: {megatron: {param_offload: true}}, actor: {use_kl_loss: %s}}}}\n"


def found(text: str, folder: Path, *, files: tuple[str, ...] = ()) -> list[Finding]:
    (folder / "own.yaml").write_text(text)
    machine, recipe, site = map(str, stack_files("b200", "qwen2.5-32b-gsm8k-verl"))
    return judge_values(merge.load([machine, recipe, *files, site, str(folder / "own.yaml")]))


@pytest.mark.parametrize(
    ("version", "kl", "refused"),
    [("0.9.1", "true", True), ("0.8.0", "true", True), ("0.9.1", "false", False), ("0.7.1", "true", False)],
)
def test_a_reference_that_is_loaded_is_read_as_strictly_as_the_actor(
    version: str, kl: str, refused: bool, tmp_path: Path
) -> None:
    files = () if version == "0.7.1" else (f"values/frameworks/verl-{version}.yaml",)
    (unknown,) = [each for each in found(_REF % kl, tmp_path, files=files) if each.rule == "verl/unknown-key"]
    assert unknown.why.startswith("refused by the workers" if refused else "silent in most sections")


def test_an_n_without_quotes_is_one_finding(tmp_path: Path) -> None:
    text = "job: {config: {actor_rollout_ref: {rollout: {n: 8}}}}\n"
    assert [each.rule for each in found(text, tmp_path) if each.severity == "error"] == ["values/boolean-key"]


def test_a_value_that_no_file_sets_is_placed_at_the_section_above_it(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("job: {version: 0.9.1, config: {}}\nray: {workers: {replicas: 2}}\n")
    locator = ValueLocator.of(merge.load([str(file)]))
    assert locator.place(["ray.head.memory"])[0].line == 2
    assert locator.place(["job.config.trainer.save_freq"])[0].line == 1
