"""What a tag publishes is what it says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.generate.release import CHARTS, problems
from postrender import __version__
from tests.conftest import LAYERS, ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
TAG = f"v{__version__}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a copy of what the check reads, as it stands on the day of a release."""
    for chart in CHARTS:
        (tmp_path / "charts" / chart).mkdir(parents=True)
        shutil.copy(ROOT / "charts" / chart / "Chart.yaml", tmp_path / "charts" / chart)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {__version__} – 2026-12-01\n", encoding="utf-8")
    (tmp_path / "dist").mkdir()
    charts = [f"{layer}-{__version__}.tgz" for layer in LAYERS]
    for name in [*charts, f"grpo_charts-{__version__}-py3-none-any.whl", "grpo-charts.cdx.json"]:
        (tmp_path / "dist" / name).touch()
    return tmp_path


def test_a_matching_tag_has_no_problems(root: Path) -> None:
    assert problems(TAG, root / "dist", root) == []


def test_everything_that_contradicts_the_tag_is_named(root: Path) -> None:
    assert problems("v1", root, root) == ["the tag is 'v1', expected vX.Y.Z"]
    found = "\n".join(problems("v99.0.0", root / "dist", root))
    for place in (
        "postrender/__init__.py",
        "charts/common/Chart.yaml",
        "charts/storage/Chart.yaml, dependency common",
        "charts/storage/Chart.yaml, appVersion",
    ):
        assert f"{place} says {__version__}, the tag says 99.0.0" in found
    assert "lacks network-99.0.0.tgz" in found
    assert "lacks grpo-charts.cdx.json: make dist" in "\n".join(problems(TAG, root, root))
    assert f"holds network-{__version__}.tgz, which is not of this version" in found
    assert "CHANGELOG.md has no line `## 99.0.0 – YYYY-MM-DD`" in found


def test_an_unreleased_changelog_is_a_problem(root: Path) -> None:
    (root / "CHANGELOG.md").write_text(f"## {__version__} – unreleased\n", encoding="utf-8")
    assert len(problems(TAG, root / "dist", root)) == 1


def steps(path: Path) -> list[dict[str, Any]]:
    """Return the steps of all jobs of a workflow."""
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job.get("steps", [])]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_and_used_in_one_version_only(path: Path) -> None:
    """A tag can be moved; the comment says to people which version the commit is."""
    everywhere = "\n".join(each.read_text(encoding="utf-8") for each in WORKFLOWS)
    text = path.read_text(encoding="utf-8")
    pinned = re.findall(r"uses: ([\w/-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"uses: [^.\s]", text))
    for action, commit, version in pinned:
        assert set(re.findall(rf"uses: {action}@(\S+) # (\S+)", everywhere)) == {(commit, version)}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_no_workflow_needs_a_secret(path: Path) -> None:
    """The token of the run and its identity are enough; a checkout leaves no token behind."""
    assert "secrets." not in path.read_text(encoding="utf-8")
    checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_everything_a_release_installs_is_pinned_by_hash() -> None:
    """The workflow builds by `make dist`, and installs nothing by itself."""
    run = "\n".join(step.get("run", "") for step in steps(ROOT / ".github/workflows/release.yaml"))
    assert "make dist" in run
    assert "pip " not in run
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndist: ##")[2].partition("\n\n")[0].splitlines()
    installs = [line for line in lines if "pip install" in line or "pip wheel" in line]
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert len(installs) == 2


def test_the_wheel_is_published_with_its_attested_sbom() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text(encoding="utf-8"))["jobs"]
    (attest,) = [step for step in jobs["wheel"]["steps"] if "actions/attest@" in step["uses"]]
    assert attest["with"] == {"subject-path": "dist/*.whl", "sbom-path": "sbom/grpo-charts.cdx.json"}


def test_a_release_contains_every_chart() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text(encoding="utf-8"))["jobs"]
    assert tuple(jobs["charts"]["strategy"]["matrix"]["chart"]) == LAYERS
