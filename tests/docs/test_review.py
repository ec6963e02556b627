"""What the pages and the template of GitLab tell a reviewer and CI to run, in a repository with a main."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from grpo.cli import main as cli
from tests.conftest import ROOT, stack_files, thin
from tests.docs import pages

Change = Callable[[], None]
SHELL = f'set -euo pipefail\ngrpo() {{ {sys.executable} -m grpo.cli "$@"; }}\n'
STEPS = 'git() { command git -c user.name=a -c user.email=a@example.com -c init.defaultBranch=main "$@"; }\n'
OLDER = "attempt 2 of this run is older than attempt 3, and an ended attempt never runs again"
PAGE = (ROOT / "docs/howto/ci.md").read_text(encoding="utf-8")


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "GIT_CONFIG_GLOBAL": os.devnull, "GRPO_CHECKOUT": str(folder)}
    return subprocess.run(
        ["bash", "-c", SHELL + STEPS + script], cwd=folder, env=variables, text=True, capture_output=True, check=False
    )


def site(attempt: int) -> str:
    return f"{stack_files()[-1].read_text(encoding='utf-8')}\njob: {{attempt: {attempt}}}\n"


def render(folder: Path, *files: Path) -> None:
    words = [word for file in files for word in ("-f", str(file))]
    assert cli.main(["render", "all", *words, "--namespace", "rl", "--output-dir", str(folder)]) == 0


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a shallow clone of a repository with values and a rendered folder, whose run has its third attempt."""
    origin = tmp_path / "origin"
    (origin / "values").mkdir(parents=True)
    for name, file in zip(("b200", "recipe"), stack_files()[:-1], strict=True):
        shutil.copy(file, origin / f"values/{name}.yaml")
    (origin / "values/site.yaml").write_text(site(3), encoding="utf-8")
    render(origin / "deploy", *(origin / f"values/{name}.yaml" for name in ("b200", "recipe", "site")))
    done = shell("git init -q . && git add -A && git commit -qm Stack", origin)
    assert done.returncode == 0, done.stderr
    clone = tmp_path / "clone"
    done = shell(f"git clone -q --depth 1 file://{origin} {clone}", tmp_path)
    assert done.returncode == 0, done.stderr
    return clone


def steps() -> dict[str, str]:
    """Return the script of the page's last list of steps, and that of the template for GitLab."""
    listed = yaml.safe_load(re.findall(r"^```yml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[-1])["steps"]
    job = yaml.safe_load((ROOT / "examples/gitlab-ci.yml").read_text(encoding="utf-8"))["grpo-deploy"]
    install, *lines = job["script"]
    assert install == "pip install --quiet 'grpo-charts[render]'"
    return {
        "page": "".join(step["run"] for step in listed),
        "gitlab": "\n".join([f"F='{job['variables']['F']}'", *lines]),
    }


def nothing() -> None: ...


def reverted() -> None:
    """Revert the commit that raised the attempt, with its rendered folder."""
    Path("values/site.yaml").write_text(site(2), encoding="utf-8")
    shutil.rmtree("deploy")
    render(Path("deploy"), *(Path(f"values/{name}.yaml") for name in ("b200", "recipe", "site")))


def stale() -> None:
    Path("values/site.yaml").write_text(site(4), encoding="utf-8")


def edited() -> None:
    path = Path("deploy/raycluster/raycluster-gemma-ray.yaml")
    path.write_text(path.read_text(encoding="utf-8").replace("replicas: ", "replicas: 1"), encoding="utf-8")


def added() -> None:
    Path("deploy/grpo-job/rayjob-more-1.yaml").write_text("kind: RayJob\n", encoding="utf-8")


CHANGES: dict[Change, tuple[int, str]] = {
    nothing: (0, ""),
    reverted: (1, f"RayJob/gemma3-gsm8k-3: {OLDER}\n    fix: raise job.attempt above 3 "),
    stale: (1, "+++ b/deploy/grpo-job/rayjob-gemma3-gsm8k-4.yaml"),
    edited: (1, "-      replicas: 1"),
    added: (2, "deploy/grpo-job/rayjob-more-1.yaml: not written by grpo render, so this folder is not changed"),
}


@pytest.mark.parametrize("change", thin(CHANGES, len(CHANGES)), ids=lambda each: each.__name__)
def test_ci_finds_changes_main_refuses_and_folders_not_rendered_again(
    change: Change, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clone)
    change()
    assert shell("git add -A && git commit -qm Change --allow-empty", clone).returncode == 0
    done = shell(steps()["page"], clone)
    code, said = CHANGES[change]
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr


@pytest.mark.full
def test_the_gitlab_template_finds_the_same_problems(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone)
    reverted()
    done = shell(steps()["gitlab"], clone)
    assert (done.returncode, OLDER in done.stdout) == (1, True), done.stderr
    files, *lines = steps()["gitlab"].splitlines()
    values = files.removeprefix("F='").removesuffix("'")
    assert [line.replace("$F", values) for line in lines] == steps()["page"].splitlines()


def test_a_reviewer_sees_a_change_to_the_recipe(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both pages compare with a folder that has the files of main."""
    monkeypatch.chdir(clone)
    recipe = Path("values/recipe.yaml")
    text, count = re.subn("num_prompts_per_step: [0-9]+", "num_prompts_per_step: 8", recipe.read_text(encoding="utf-8"))
    assert count == 1
    recipe.write_text(text, encoding="utf-8")
    files = "F=(-f values/b200.yaml -f values/recipe.yaml -f values/site.yaml)\n"
    for name in ("docs/howto/change-a-run.md", "docs/gitops.md"):
        page = (ROOT / name).read_text(encoding="utf-8")
        (block,) = [each for each in pages.blocks(page, "bash") if "worktree" in each]
        lines = [line for line in block.splitlines() if re.match(r"git |grpo diff .*(main|<\()", line)]
        script = "\n".join(lines).replace("--accelerator b200 ", "")
        done = shell(f"unset GRPO_CHECKOUT\n{files}{script}\ngit worktree remove --force ../main", clone)
        assert done.returncode == 0, done.stderr
        assert re.search(r"num_prompts_per_step\n +left +[0-9]+\n +right  8\n", done.stdout)
