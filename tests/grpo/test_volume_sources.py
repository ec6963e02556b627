"""A volume with the sources of two files is one finding, before what is wrong in one of them."""

from __future__ import annotations

from pathlib import Path

from grpo.lint import linter
from tests.conftest import stack_files


def test_two_sources_are_reported_before_the_missing_keys_of_either(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(
        "storage:\n  data:\n    gcsfuse: null\n    existingClaim: {name: shared}\n    pvc: {storageClassName: fast}\n"
    )
    (found,) = linter.lint([*map(str, stack_files("b200", "gemma3-27b-gsm8k")), str(own)])
    assert (found.rule, found.at.line) == ("values/several-sources", 5)
    assert found.what == "storage.data has 2 sources (existingClaim, pvc), and a volume has one"
    assert found.fix == "keep one; to keep pvc, set storage.data.existingClaim to null"


def test_the_suggested_version_is_the_numerically_nearest(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    for version, nearest in (("0.7.0", "0.7.1"), ("0.8.1", "0.8.0"), ("v0.9", "0.9.1"), ("1.0.0", "0.9.1")):
        own.write_text(f"job:\n  version: {version!r}\n")
        found = linter.lint([*map(str, stack_files("b200", "qwen2.5-32b-gsm8k-verl")), str(own)])
        assert f"did you mean {nearest}?" in {each.fix for each in found}, version
