"""The program as text: it travels in an entrypoint, runs on Python 3.10, and writes YAML that frameworks read."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.programs import PROGRAMS, flat_folder

from .harness import MODULES, Site, load_program

SOURCES = {name: PROGRAMS[name].read_text(encoding="utf-8") for name in ("launch", *MODULES)}
HOSTILE = {
    "n": 8,
    "no": "yes",
    "1e-3": "1e-3",
    "lr": 3e-07,
    "big": 123456789012345678901234567890,
    "huge": 1e22,
    "half": 0.5,
    "minus": -2.5e-08,
    "nothing": None,
    "flag": False,
    "lists": [[1, [2.0, None]], [], {}, [{}]],
    "time": "12:30:00:00",
    "prompt": 'It\'s "quoted" `id` $HOME ${x} $(id) \\ \\n # no, comment\n\tGRPO_PLAN\nGRPO_FILE\n',
    "marks": ": - ? & * ! | > % @",
    "float text": '1e-07, "3e-08" \\"4e-09',
    "letters": "é 語 \U0001f600 \x85 \u2028 \u2029 \ufeff \x7f \u00a0 \x00 \x1b \ud7ff \ue000 \uffff",
    "<<": {"=": "merge"},
    "": "empty key",
    "spaces": "  both ends  ",
}
# Texts that look like numbers, between quotes and backslashes, are what a search for numbers could mistake.
NUMBER_LIKE = r'["\\]{0,3}[-+]?[0-9.]{1,4}(e[-+]?[0-9]{1,2})?["\\]{0,3}'
TEXTS = st.text(max_size=30) | st.from_regex(NUMBER_LIKE, fullmatch=True)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4)


VALUES = st.recursive(SCALARS, nested, max_leaves=12)
CONFIGS = st.dictionaries(TEXTS, VALUES, max_size=5)


TO_YAML: Callable[[Any], str] = load_program("configuration").to_yaml


def exactly(value: Any) -> Any:
    """Return a value in which types, and the sign of a zero, count."""
    if isinstance(value, dict):
        return {key: exactly(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exactly(item) for item in value]
    return type(value), value, math.copysign(1, value) if isinstance(value, float) else None


def plain(value: Any) -> Any:
    """Return a value without what OmegaConf takes for its own language: interpolations and missing marks."""
    if isinstance(value, dict):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value.replace("$", "S").replace("???", "") if isinstance(value, str) else value


@pytest.mark.parametrize("loader", [pytest.param(yaml.SafeLoader, marks=pytest.mark.full), yaml.CSafeLoader])
@settings(deadline=None)
@given(config=CONFIGS)
def test_pyyaml_parses_the_configuration_unchanged(loader: Any, config: dict[str, Any]) -> None:
    assert exactly(yaml.load(TO_YAML(config), Loader=loader)) == exactly(config)


@settings(deadline=None)
@given(config=CONFIGS.map(plain))
def test_omegaconf_parses_the_configuration_unchanged(
    tmp_path_factory: pytest.TempPathFactory, config: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    path.write_text(TO_YAML(config), encoding="utf-8")
    assert exactly(OmegaConf.to_container(OmegaConf.load(path))) == exactly(config)


def test_interpolations_are_written_unresolved(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(TO_YAML({"a": {"b": 3e-07}, "c": "${a.b}", "d": "???"}), encoding="utf-8")
    config = OmegaConf.load(path)
    assert config.c == 3e-07
    assert OmegaConf.is_missing(config, "d")


def test_the_configuration_is_readable() -> None:
    text = TO_YAML({"policy": {"lr": 3e-07, "name": "gemma é 語"}, "data": {}})
    assert text == '{\n  "policy": {\n    "lr": 3.0e-07,\n    "name": "gemma é 語"\n  },\n  "data": {}\n}\n'


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_large_hostile_plan_arrives_intact(site: Site, shell: str) -> None:
    site.shell = shell
    words = ['a "b"', "it's", "$HOME", "`id`", "a\nb", "\\", "*", "語 \U0001f600", "{programs}x"]
    script = "import json, sys; json.dump(sys.argv[2:], open(sys.argv[1], 'w'))"
    config = HOSTILE | {f"key-{number}": "x" * 50 for number in range(350)}
    launch = site.start(command=["python3", "-c", script, str(site.tmp / "words"), *words], config=config)
    assert launch.wait() == 0, launch.output
    path = site.directory / "attempts/1/config.yaml"
    for loader in (yaml.SafeLoader, yaml.CSafeLoader):
        assert exactly(yaml.load(path.read_text(encoding="utf-8"), Loader=loader)) == exactly(config)
    arrived = json.loads((site.tmp / "words").read_text())
    assert arrived[:-1] == words[:-1]
    assert re.fullmatch("/.+x", arrived[-1])


def test_a_launch_works_in_an_ascii_locale(site: Site) -> None:
    launch = site.start_plan(site.plan(config=HOSTILE, run="é"), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert launch.wait() == 0, launch.output


@pytest.mark.parametrize("redirection", ["3<&-", "3</dev/null"])
def test_a_missing_plan_is_reported_in_one_line(redirection: str) -> None:
    command = ["sh", "-c", f'exec "$0" "$1" {redirection}', sys.executable, str(flat_folder() / "launch.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("grpo: no plan on file descriptor 3")
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
