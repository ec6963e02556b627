"""Every command explains itself: in one line in the list of commands, and with examples in its own help."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import commands
from grpo.cli.main import main

Run = Callable[..., str]
COMMANDS = sorted(
    path.stem.replace("_", "-") for path in Path(commands.__file__).parent.rglob("*.py") if path.stem != "__init__"
)
NESTED = ["helm-plugin dir", "helm-plugin install"]


@pytest.fixture
def help_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what `grpo WORDS` prints, which ends with 0 and without an error."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(*words: str) -> str:
        assert main([*words]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return run


def test_the_group_help_lists_each_command_once_with_a_full_sentence(help_of: Run) -> None:
    sections = help_of("--help").split("\nOptions:\n")[1].split("\n\n")[1:-3]
    listed = [line for section in sections for line in re.sub(r"\n {5,}", " ", section).splitlines()[1:]]
    assert sorted(line.split()[0] for line in listed) == COMMANDS
    for line in listed:
        assert re.fullmatch(r"  [a-z-]+ +[A-Z].*[^.]\.", line), line


def test_the_group_help_explains_shell_completion_and_exit_codes(help_of: Run) -> None:
    text = help_of("--help")
    for shell in ("bash", "zsh", "fish"):
        assert re.search(rf"^ +{shell} .*_GRPO_COMPLETE={shell}_source grpo", text, re.MULTILINE)
    assert "Exit codes: 0 no errors, 1 errors (or warnings with --fail-on warning), 2 " in text


@pytest.mark.parametrize("command", [*COMMANDS, *NESTED])
def test_the_help_of_a_command_shows_usage_options_and_examples(help_of: Run, command: str) -> None:
    text = help_of(*command.split(), "--help")
    assert text == help_of(*command.split(), "-h")
    assert text.startswith(f"Usage: grpo {command} ")
    assert "\nOptions:\n" in text
    assert max(map(len, text.splitlines())) <= 120
    # What click would not leave as it is must not be seen.
    assert "\b" not in text
    assert "\\b" not in text
    if command != "version":
        examples = text.split("\n  Examples:\n")[1].splitlines()
        assert any(line.startswith(f"    grpo {command}") or f"$(grpo {command}" in line for line in examples)


@pytest.mark.parametrize("command", [*COMMANDS, *NESTED])
def test_each_option_has_a_description(help_of: Run, command: str) -> None:
    text = help_of(*command.split(), "--help").split("\nOptions:\n")[1].split("\n\n")[0]
    options = re.split(r"\n  (?=-)", text.removeprefix("  "))
    for option in options:
        assert re.search(r"  +[A-Z].*", option.replace("\n", "  ")), option


def test_n_is_the_short_form_of_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "storage", "-n", "My NS"]) == 2
    assert "--namespace is 'My NS', expected lower-case letters" in capsys.readouterr().err


# Values of another chart, of which it compares the files; and a plugin that passes on its options.
_OTHERS = {"dead-values", "helm-plugin"}


@pytest.mark.parametrize("command", [each for each in COMMANDS if each not in _OTHERS])
def test_a_command_that_accepts_values_accepts_all_of_helms_value_flags(command: str, help_of: Run) -> None:
    """Pages put -f and --set-file into one variable, and give it to every command."""
    options = set(re.findall(r"--[a-z-]+", help_of(command, "--help")))
    if "--values" in options:
        assert options >= {"--set", "--set-string", "--set-json", "--set-file"}
