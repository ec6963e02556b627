"""A shell completes commands, options and values: bash, zsh and fish, as click's scripts ask for them."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess

import pytest

from grpo.cli import main as cli
from tests.conftest import thin

SHELLS = ("bash", "zsh", "fish")


def grpo(instruction: str, **environment: str) -> str:
    """Run `grpo` as the script of a shell does, or to get the script."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        for name, value in {"_GRPO_COMPLETE": instruction, **environment}.items():
            patch.setenv(name, value)
        assert cli.main([]) == 0
    out.seek(0)
    return out.read()


def completed(shell: str, *words: str) -> set[str]:
    """Return what a shell is told about the last of the words."""
    number = str(len(words))
    if shell == "fish":
        # Fish gives the words before the cursor, and the one that is typed.
        text = grpo("fish_complete", COMP_WORDS=" ".join(("grpo", *words)), COMP_CWORD=words[-1])
        return {line.partition(",")[2].partition("\t")[0] for line in text.splitlines()}
    text = grpo(f"{shell}_complete", COMP_WORDS=" ".join(("grpo", *words)), COMP_CWORD=number)
    if shell == "zsh":
        lines = text.splitlines()
        return {lines[at + 1] for at in range(0, len(lines) - 2, 3)}
    return {line.partition(",")[2] for line in text.splitlines() if line}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_completion_script_parses_in_its_shell(shell: str) -> None:
    script = grpo(f"{shell}_source")
    assert f"_GRPO_COMPLETE={shell}_complete" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize("shell", thin(SHELLS, 3))
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("che",), {"check", "checkpoints"}),
        (("helm-plugin", "in"), {"install"}),
        (("render", "--n"), {"--namespace", "--notes"}),
        (("lint", "--accelerator", "h2"), {"h200"}),
        (("init", "--recipe", "sm"), {"smoke"}),
        (("init", "--platform", "gke"), {"gke-standard", "gke-autopilot"}),
        (("diff", "--accelerator", "b"), {"b200"}),
        (("lint", "--format", "j"), {"json", "junit"}),
        (("check", "--fail-on", "w"), {"warning"}),
        (("render", "r"), {"raycluster"}),
        (("checkpoints", "--framework", "v"), {"verl"}),
        (("rules", "secr"), {"secrets", "secrets/literal-token"}),
        (("explain", "values/tok"), {"values/token"}),
        (("check", "--select", "pods,values/tok"), {"pods,values/token"}),
        (("values", "ray.workers.rep"), {"ray.workers.replicas"}),
    ],
)
def test_commands_options_and_values_are_completed(shell: str, words: tuple[str, ...], expected: set[str]) -> None:
    found = completed(shell, *words)
    assert expected <= found
    assert all(name.startswith(words[-1]) for name in found)


def test_file_names_are_completed_by_the_shell() -> None:
    text = grpo("bash_complete", COMP_WORDS="grpo lint -f va", COMP_CWORD="3")
    assert text == "file,va\n"


def test_errors_before_the_cursor_cause_no_traceback() -> None:
    assert completed("bash", "lint", "--accelerator", "zork", "--format", "te") == {"text"}
    assert completed("bash", "zork", "--for") == set()
