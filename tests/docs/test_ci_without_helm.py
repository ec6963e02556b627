"""The hooks and the action as pre-commit and GitHub run them: installed from the source, where there is no helm.

These tests install from a package registry, so only `make test-full` has them.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.docs.test_ci_page import add_program, blocks, folder, run, started

__all__ = ["folder"]
pytestmark = pytest.mark.full
# git-submodule, which pre-commit runs, is a shell script that needs these.
PROGRAMS_OF_GIT = ("sed", "uname", "basename", "tr", "cut", "grep", "expr")
PRE_COMMIT = "pre-commit==4.7.0"


def installing(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """Skip the test if there is no registry, but not in CI."""
    said = done.stdout + done.stderr
    lacks = "No matching distribution found" in said or "Could not find a version" in said
    if done.returncode and lacks and not os.environ.get("GRPO_REQUIRE_TOOLS"):
        pytest.skip("no package registry can be reached, so the installed hooks and action were not tested")
    return done


@pytest.fixture
def source(folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files of this checkout, as users get it; put Python on PATH."""
    monkeypatch.delenv("PYTHONPATH")
    (folder / "bin/grpo").unlink()
    for name in PROGRAMS_OF_GIT:
        link = folder / "programs" / name
        if not link.exists():
            link.symlink_to(str(shutil.which(name, path=os.defpath)))
    add_program(folder, "python3", f'exec {shlex.quote(sys.executable)} "$@"')
    copy = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        if os.path.lexists(ROOT / name):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    return copy


def save(repository: Path) -> str:
    """Commit all files of a folder; return the commit."""
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *words], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


def test_pre_commit_installs_and_runs_the_hooks_of_the_page(
    source: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path_factory.mktemp("pre-commit")
    python = shlex.quote(sys.executable)
    done = installing(run(f"{python} -m venv {program} && {program}/bin/pip install --quiet {PRE_COMMIT}"))
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path_factory.mktemp("hooks")))
    monkeypatch.setenv("HOME", str(program))
    config = blocks()[0]
    config["repos"][0].update(repo=str(source), rev=save(source))
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    (folder / ".gitignore").write_text("/bin\n/programs\n/runner\n")
    save(folder)
    done = run(f"{program}/bin/pre-commit run --all-files --verbose")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "clean: 3 files, 4 charts, " in done.stdout
    assert done.stdout.count("Passed") == 2


def test_the_action_checks_charts_and_keeps_grpo_for_later_steps(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_ENV"):
        (folder / name).touch()
        monkeypatch.setenv(name, str(folder / name))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
    used = blocks()[1]["steps"][1]["with"]
    done = installing(started(root=str(source), **{key.replace("-", "_"): value for key, value in used.items()}))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "clean: 3 files, 4 charts, " in done.stderr
    added = (folder / "GITHUB_PATH").read_text().splitlines()
    monkeypatch.setenv("PATH", os.pathsep.join([*added, os.environ["PATH"]]))
    # test_review.py has a repository for the lines of git.
    compare = blocks()[3]["steps"][0]["run"].splitlines()[1]
    (folder / ".main").symlink_to(folder)
    (folder / "deploy/pod.yaml").unlink()
    files = "-f values/b200.yaml -f values/recipe.yaml -f values/site.yaml"
    assert run(f"grpo render {files} --output-dir deploy && {compare}").returncode == 0
    (folder / "values/site.yaml").write_text(
        (folder / "values/site.yaml").read_text() + "job: {config: {grpo: {a: 1}}}\n"
    )
    assert run(compare).returncode == 1
    report, upload = blocks()[2]["steps"]
    assert run(report["run"]).returncode == 1
    (result,) = json.loads((folder / upload["with"]["sarif_file"]).read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "values/site.yaml"
