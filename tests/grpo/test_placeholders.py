"""Values that are still those of the example site file are findings, and all of them."""

from __future__ import annotations

from pathlib import Path

from grpo.lint import linter
from postrender import paths
from tests.conftest import SITE, stack_files

PROFILE, RECIPE, _ = map(str, stack_files())


def placeholders(*files: str) -> list[str]:
    found = [each for each in linter.lint([PROFILE, RECIPE, *files]) if each.rule == "values/placeholder"]
    assert all(each.at.line and each.at.col and each.severity == "error" for each in found)
    return [each.what.partition(" is ")[0] for each in found]


def test_every_placeholder_in_the_example_is_found_and_no_real_site_matches() -> None:
    names = ["platform.projectId", "platform.projectNumber", "network.gvnic.prefix", "network.rdma.prefix"]
    assert placeholders(paths.example_site()) == [
        *names,
        "storage.data.gcsfuse.bucket",
        "storage.weights.gcsfuse.bucket",
    ]
    assert placeholders(str(SITE)) == []


def test_a_placeholder_under_a_different_key_is_found(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text("storage: {scratch: {mountPath: /s, gcsfuse: {bucket: my-bucket}}}\n")
    assert placeholders(str(SITE), str(file)) == ["storage.scratch.gcsfuse.bucket"]
    file.write_text("job: {name: my-run}\n")
    assert placeholders(str(SITE), str(file)) == []
