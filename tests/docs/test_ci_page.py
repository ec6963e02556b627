"""What docs/howto/ci.md shows is what there is: hooks, action and template run, and refuse what is wrong."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from postrender.cli.commands.judge.check import check
from postrender.cli.commands.judge.lint import lint
from tests.conftest import ROOT, stack_files

PAGE = (ROOT / "docs/howto/ci.md").read_text(encoding="utf-8")
BAD = "job: {config: {grpo: {val_batch_size: 512}}}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a:1}]}\n"


def blocks() -> list[Any]:
    """Return the page's blocks that are no values."""
    return [yaml.safe_load(block) for block in re.findall(r"^```yml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that the page names, and grpo on PATH."""
    (tmp_path / "values").mkdir()
    for name, file in zip(("b200", "recipe", "site"), stack_files(), strict=True):
        shutil.copy(file, tmp_path / f"values/{name}.yaml")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/pod.yaml").write_text(POD)
    program = tmp_path / "bin/grpo"
    program.parent.mkdir()
    code = "import sys; from postrender.cli.main import main; sys.exit(main())"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{code}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.full
def test_the_hooks_run_as_the_page_configures_them(folder: Path) -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    (repository,) = blocks()[0]["repos"]
    assert {hook["id"] for hook in repository["hooks"]} == {*hooks}
    for used in repository["hooks"]:
        hook = hooks[used["id"]]
        words = [*shlex.split(hook["entry"]), *used.get("args", [])]
        if hook.get("pass_filenames", True):
            assert re.match(used["files"], "deploy/pod.yaml")
            words.append("deploy/pod.yaml")
        done = run(shlex.join(words))
        assert done.returncode == 0, done.stdout + done.stderr
    (folder / "values/site.yaml").write_text(
        (folder / "values/site.yaml").read_text() + "job: {config: {grpo: {a: 1}}}\n"
    )
    assert run(shlex.join(["grpo", "lint", *repository["hooks"][0]["args"]])).returncode == 1


def test_the_template_for_gitlab_runs(folder: Path) -> None:
    job = yaml.safe_load((ROOT / "examples/gitlab-ci.yml").read_text())["grpo-lint"]
    install, lint = job["script"]
    assert install == "pip install --quiet grpo-charts"
    done = run(lint)
    assert done.returncode == 0, done.stderr
    assert (folder / job["artifacts"]["reports"]["junit"]).read_text().startswith("<?xml")


def action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run what the action runs; pip and venv are stand-ins, as a test has no registry."""
    stub = folder / "bin/python3"
    stub.write_text(
        '#!/bin/sh\n[ "$1 $2" = "-m venv" ] || exit 9\nmkdir -p "$3/bin"\n'
        f'printf \'#!/bin/sh\\necho "$@" > {folder}/installed\\n\' > "$3/bin/pip"\n'
        f'ln -s {folder}/bin/grpo "$3/bin/grpo"\nchmod +x "$3/bin/pip"\n'
    )
    stub.chmod(0o755)
    names = {
        "GRPO_ACTION_PACKAGE": "grpo-charts",
        **{f"GRPO_ACTION_{key.upper()}": value for key, value in inputs.items()},
    }
    environment = {**os.environ, **names}
    command = ["bash", str(ROOT / "tools/action.sh")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.full
def test_the_action_judges_what_it_is_given(folder: Path) -> None:
    used = blocks()[1]["steps"][1]["with"]
    declared = yaml.safe_load((ROOT / "action.yml").read_text())
    assert {*used} <= {*declared["inputs"]}
    inputs = {key.replace("-", "_"): value for key, value in used.items()}
    done = action(folder, **inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "installed").read_text().split()[-1] == "grpo-charts"
    (folder / "more file.yaml").write_text(BAD)
    done = action(folder, **{**inputs, "values": f"{inputs['values']}  more file.yaml\n"})
    assert done.returncode == 1
    assert done.stdout.startswith("::error file=more file.yaml,line=1,")
    assert action(folder, manifests="no-such-folder").returncode == 3
    done = action(folder)
    assert (done.returncode, "there is nothing to judge" in done.stderr) == (2, True)


def test_the_action_hands_every_input_on_as_a_variable() -> None:
    """An input that stood in the script itself would be run as a command."""
    declared = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = declared["runs"]["steps"]
    assert "${{" not in step["run"]
    script = (ROOT / "tools/action.sh").read_text()
    for name in step["env"]:
        assert name in script or name in step["run"]


def test_the_table_says_which_command_has_an_option() -> None:
    listed = re.findall(r"^\| `(--[-a-z]+)[^`]*` \| ([a-z, ]+) \|", PAGE, re.MULTILINE)
    assert len(listed) == len(re.findall(r"^\| `--", PAGE, re.MULTILINE)) > 0
    commands = {"lint": lint, "check": check}
    for option, named in listed:
        have = [name for name, command in commands.items() if any(option in each.opts for each in command.params)]
        assert (option, named.split(", ")) == (option, have)


def test_every_values_file_names_its_schema_for_editors() -> None:
    for file in (ROOT / "values").glob("*/*.yaml"):
        first = file.read_text(encoding="utf-8").splitlines()[0]
        found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
        assert found, file
        assert (file.parent / found[1]).resolve() == ROOT / "schemas/values.schema.json"
