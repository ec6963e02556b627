"""What docs/howto/ci.md shows is what there is: hooks, action and template run, and refuse what is wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.cli.commands.judge.check import check
from grpo.cli.commands.judge.lint import lint
from tests.conftest import ROOT, stack_files

PAGE = (ROOT / "docs/howto/ci.md").read_text(encoding="utf-8")
BAD = "job: {config: {grpo: {val_batch_size: 512}}}\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a:1}]}\n"


def blocks() -> list[Any]:
    """Return the page's blocks that are no values."""
    return [yaml.safe_load(block) for block in re.findall(r"^```yml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)]


# What the action and git start, and no helm, wherever it is on this machine.
PROGRAMS = (
    "bash",
    "basename",
    "cat",
    "chmod",
    "cp",
    "dirname",
    "env",
    "git",
    "mkdir",
    "mktemp",
    "realpath",
    "rm",
    "sh",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that the page names, and a PATH with grpo and without helm."""
    (tmp_path / "values").mkdir()
    for name, file in zip(("b200", "recipe", "site"), stack_files(), strict=True):
        shutil.copy(file, tmp_path / f"values/{name}.yaml")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy/pod.yaml").write_text(POD)
    code = "import sys; from grpo.cli.main import main; sys.exit(main())"
    add_program(tmp_path, "grpo", f'exec {shlex.quote(sys.executable)} -c "{code}" "$@"')
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{programs}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path / "runner"))
    (tmp_path / "runner").mkdir()
    # Set where the tests themselves run in an action.
    monkeypatch.delenv("GITHUB_PATH", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add_program(folder: Path, name: str, script: str) -> None:
    """Put a program on PATH."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.full
def test_the_hooks_run_as_configured_on_the_page(folder: Path) -> None:
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


def test_the_gitlab_template_runs(folder: Path) -> None:
    job = yaml.safe_load((ROOT / "examples/gitlab-ci.yml").read_text())["grpo-lint"]
    install, lint = job["script"]
    assert install == "pip install --quiet 'grpo-charts[render]'"
    done = run(lint)
    assert done.returncode == 0, done.stderr
    assert (folder / job["artifacts"]["reports"]["junit"]).read_text().startswith("<?xml")


def action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run what the action runs; pip and venv are stand-ins, as a test has no registry."""
    add_program(
        folder, "python3", f'[ "$1 $2 $3" = "-I -m venv" ] && mkdir -p "$4/bin" && cp {folder}/bin/python "$4/bin"'
    )
    add_program(
        folder,
        "python",
        f'[ "$1" = "-I" ] && shift\nif [ "$1" = "-m" ]; then echo "$@" >{folder}/installed; exit; fi\n'
        f'shift && exec {folder}/bin/grpo "$@"',
    )
    return started(**inputs)


def started(**inputs: str) -> subprocess.CompletedProcess[str]:
    """Run what the action runs, with the variables that it sets."""
    (step,) = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    given = {f"GRPO_ACTION_{key.upper()}": value for key, value in inputs.items()}
    names = {**dict.fromkeys(step["env"], ""), "GRPO_ACTION_ROOT": str(ROOT), **given}
    command = ["bash", str(ROOT / "tools/action.sh")]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **names})


@pytest.mark.full
def test_the_action_checks_the_given_values_and_manifests(folder: Path) -> None:
    used = blocks()[1]["steps"][1]["with"]
    declared = yaml.safe_load((ROOT / "action.yml").read_text())
    assert {*used} <= {*declared["inputs"]}
    inputs = {key.replace("-", "_"): value for key, value in used.items()}
    done = action(folder, **inputs)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "more file.yaml").write_text(BAD)
    done = action(folder, **{**inputs, "values": f"{inputs['values']}  more file.yaml\n"})
    assert done.returncode == 1
    assert done.stdout.startswith("::error file=more file.yaml,line=1,")
    assert action(folder, manifests="no-such-folder").returncode == 3
    done = action(folder)
    assert (done.returncode, "there is nothing to judge" in done.stderr) == (2, True)


def test_the_action_gives_lint_the_files_of_values(folder: Path) -> None:
    add_program(folder, "grpo", f'echo "$@" >>{folder}/said')
    set_file = "job.rewards.code.file=my reward.py\njob.prompts.a=a.txt\n"
    inputs = {"values": "site.yaml", "manifests": "deploy", "set_file": set_file}
    assert action(folder, **inputs).returncode == 0
    lint, check = (folder / "said").read_text().splitlines()
    assert " --set-file job.rewards.code.file=my reward.py --set-file job.prompts.a=a.txt " in lint
    assert "--set-file" not in check
    assert "--namespace" not in lint + check
    assert action(folder, **inputs, namespace="rl $(id)").returncode == 0
    assert all(each.endswith(" --namespace=rl $(id)") for each in (folder / "said").read_text().splitlines()[2:])


def test_the_action_installs_helm_if_it_is_missing(folder: Path) -> None:
    def installed(**inputs: str) -> str:
        assert action(folder, manifests="deploy", **inputs).returncode == 0
        return (folder / "installed").read_text().split()[-1]

    add_program(folder, "grpo", "exit 0")
    assert installed() == f"{ROOT}[render]"
    assert installed(package="grpo-charts==0.1.0") == "grpo-charts==0.1.0"
    add_program(folder, "helm", "exit 1")
    assert installed() == str(ROOT)
    assert [*(folder / "runner").iterdir()] == []


def test_the_action_adds_only_grpo_to_the_path_of_later_steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin/grpo").rename(folder / "bin/judge")
    add_program(folder, "grpo", "exit 0")
    monkeypatch.setenv("GITHUB_PATH", str(folder / "path"))
    assert action(folder, manifests="deploy").returncode == 0
    (place,) = map(Path, (folder / "path").read_text().splitlines())
    assert [each.name for each in place.iterdir()] == ["grpo"]
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    add_program(folder, "grpo", f'exec {folder}/bin/judge "$@"')
    (folder / "deploy/link.yaml").symlink_to("/proc/self/environ")
    done = run("grpo check deploy --format sarif > grpo.sarif")
    assert "this is outside of the checkout" in done.stderr
    (result,) = json.loads((folder / "grpo.sarif").read_text())["runs"][0]["results"]
    assert result["ruleId"] == "checks/could-not-run"


def test_the_action_does_not_print_the_target_of_a_link(folder: Path) -> None:
    (folder / "link.yaml").symlink_to("/proc/self/environ")
    done = action(folder, values="values/b200.yaml\nvalues/recipe.yaml\nvalues/site.yaml\nlink.yaml")
    assert done.returncode == 2
    assert "link.yaml::this is outside of the checkout" in done.stdout.replace(",title=checks/could-not-run", "")
    assert str(ROOT) not in done.stdout + done.stderr


def wheel(folder: Path) -> Path:
    """Make a package that pip installs without a registry; its grpo is that of this checkout."""
    search = [str(ROOT), *(each for each in sys.path if each.endswith("site-packages"))]
    files = {
        "stand_in.pth": "".join(f"{each}\n" for each in search),
        "grpo_charts-0.dist-info/METADATA": "Metadata-Version: 2.1\nName: grpo-charts\nVersion: 0\n",
        "grpo_charts-0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "grpo_charts-0.dist-info/entry_points.txt": "[console_scripts]\ngrpo = grpo.cli.main:program\n",
        "grpo_charts-0.dist-info/RECORD": "",
    }
    path = folder / "grpo_charts-0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


@pytest.mark.full
def test_the_action_runs_no_code_from_the_checkout(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever opens a pull request writes these files; PYTHONPATH and the variables of pip are the workflow's."""
    add_program(folder, "python3", f'exec {shlex.quote(sys.executable)} "$@"')
    poison = f"import os; open(os.path.join({str(folder)!r}, 'ran-' + os.path.basename(__file__)), 'w')\n"
    names = ("venv", "pip", "ensurepip", "sitecustomize", "usercustomize", "json", "yaml", "setup")
    for name in (
        *(f"{each}.py" for each in names),
        "postrender/__init__.py",
        "grpo/__init__.py",
        "grpo-charts/setup.py",
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(poison)
    (folder / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "setup"\n')
    (folder / "pip.conf").write_text(f"[install]\ntarget = {folder}/ran-pip.conf\n")
    (folder / "bad.yaml").write_text(BAD)
    trusted = {"PYTHONPATH": ".", "PIP_CONFIG_FILE": "pip.conf", "PIP_NO_INDEX": "1"}
    package = str(wheel(tmp_path_factory.mktemp("dist")))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in trusted.items():
            patch.setenv(name, value)
        files = ["values/b200.yaml", "values/recipe.yaml", "values/site.yaml"]
        done = started(package=package, values="\n".join([*files, "bad.yaml"]), manifests="deploy")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::error file=bad.yaml,line=1,"), done.stderr
    assert not [*folder.glob("ran-*")]


def test_the_action_passes_every_input_as_an_environment_variable() -> None:
    """An input that stood in the script itself would be run as a command."""
    declared = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = declared["runs"]["steps"]
    assert "${{" not in step["run"]
    script = (ROOT / "tools/action.sh").read_text()
    for name in step["env"]:
        assert name in script or name in step["run"]


def test_the_table_lists_the_commands_that_have_each_option() -> None:
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
