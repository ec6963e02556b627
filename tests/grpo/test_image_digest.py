"""A digest of an earlier file that wins over a later image is a finding at the line of the image."""

from __future__ import annotations

from pathlib import Path

import pytest

from grpo.lint import linter
from postrender.finding import ERROR, Finding
from tests.conftest import ROOT, SITE

STACK = [
    ROOT / "values/accelerators/h200.yaml",
    ROOT / "values/recipes/qwen2.5-32b-gsm8k-verl.yaml",
    ROOT / "values/frameworks/verl-0.9.1.yaml",
    SITE,
]
OWN = "registry.example/team/verl-efa"


def found_with(text: str, folder: Path, *more: str) -> list[Finding]:
    """Lint the stack with files of one's own."""
    files = []
    for number, content in enumerate((text, *more)):
        files.append(folder / f"own-{number}.yaml")
        files[-1].write_text(f"images:\n  training:\n{content}", encoding="utf-8")
    rule = "values/digest-of-another-image"
    return [each for each in linter.lint([*map(str, STACK), *map(str, files)]) if each.rule == rule]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"    repository: {OWN}\n    tag: vllm024-own\n", 3),
        (f"    repository: {OWN}\n", 3),
        ("    libraryPath: /x\n    tag: vllm018.dev1\n", 4),
    ],
)
def test_a_custom_image_with_an_inherited_digest_is_found(text: str, line: int, tmp_path: Path) -> None:
    (found,) = found_with(text, tmp_path)
    assert (found.at.file, found.at.line, found.severity) == (str(tmp_path / "own-0.yaml"), line, ERROR)
    assert "verl-0.9.1.yaml wins: it is that of docker.io/verlai/verl:vllm024.dev2" in found.what
    assert found.fix == "set images.training.digest to '' or to the digest of your image"
    assert "verl-0.9.1.yaml" in found.also[0][0].file


@pytest.mark.parametrize(
    "texts",
    [
        ["    minimumDriver: 580\n"],
        [f"    repository: {OWN}\n    tag: a\n    digest: ''\n"],
        [f"    repository: {OWN}\n    tag: a\n    digest: sha256:{'a' * 64}\n"],
        # The digest may come in a file of its own, before or after.
        [f"    repository: {OWN}\n    tag: a\n", "    digest: ''\n"],
        ["    digest: ''\n", f"    repository: {OWN}\n    tag: a\n"],
        # A copy under the same name and tag has the same digest.
        ["    repository: registry.example/mirror/verl\n"],
        ["    repository: docker.io/verlai/verl\n    tag: vllm024.dev2\n"],
    ],
)
def test_an_image_with_its_own_digest_or_none_passes(texts: list[str], tmp_path: Path) -> None:
    assert found_with(texts[0], tmp_path, *texts[1:]) == []
