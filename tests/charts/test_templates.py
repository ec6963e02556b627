"""The templates themselves: short, documented, without state, and each helper checks its arguments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

CHARTS = ROOT / "charts"
FILES = sorted(
    path
    for chart in ("common", "network", "storage", "raycluster", "grpo-job")
    for path in (CHARTS / chart / "templates").rglob("*")
    if path.is_file()
)
PARTIALS = [path for path in FILES if path.suffix == ".tpl"]
OBJECTS = [path for path in FILES if path.suffix == ".yaml"]
COMMENT = re.compile(r"\{\{-? ?/\*(.*?)\*/ ?-?\}\}", re.DOTALL)
DEFINE = re.compile(r'define "([^"]+)"')
KEPT = re.compile(r'\bset \. "([^"]+)"')
CALL = re.compile(r'include "([^"]+)" (\(list [^)]*\)|\S+)')


def name(path: Path) -> str:
    return str(path.relative_to(CHARTS))


def code(path: Path) -> str:
    """Return a template without its comments."""
    return COMMENT.sub("", path.read_text(encoding="utf-8"))


def defines(path: Path) -> dict[str, str]:
    """Return the body of each helper of a file."""
    found = re.split(r"\{\{-? define ", code(path))[1:]
    return {text.split('"')[1]: text for text in found}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_template_is_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("path", FILES, ids=name)
def test_no_template_mutates_a_shared_helm_object(path: Path) -> None:
    """All files of a render see one .Release and one .Values, in an order that Helm chooses."""
    assert not re.search(r"\b(un)?set \$?\w*\.(Release|Values|Chart|Capabilities|Files)\b", code(path))


def test_each_cached_result_has_the_name_of_its_helper() -> None:
    kept = [(helper, key) for path in FILES for helper, body in defines(path).items() for key in KEPT.findall(body)]
    assert len(kept) >= 6
    assert [each for each in kept if each[0] != each[1]] == []


@pytest.mark.parametrize("path", OBJECTS, ids=name)
def test_each_template_spells_out_its_kind_and_main_field(path: Path) -> None:
    """One kind a file, with apiVersion, kind, metadata and the main field."""
    text = code(path)
    kinds = re.findall(r"^kind: (\w+)$", text, re.MULTILINE)
    assert len(set(kinds)) == 1
    assert text.count("apiVersion: ") == text.count("\nmetadata:\n") == len(kinds)
    main = "reclaimPolicy" if kinds[0] == "StorageClass" else "data" if kinds[0] == "ConfigMap" else "spec"
    assert kinds[0] == "ServiceAccount" or re.search(rf"^{main}:", text, re.MULTILINE)


@pytest.mark.parametrize("path", PARTIALS, ids=name)
def test_a_partial_begins_with_a_list_of_its_helpers(path: Path) -> None:
    """With the call of each; the parts of a framework and of a task are listed by their last name."""
    head = COMMENT.match(path.read_text(encoding="utf-8"))
    assert head, "expected a comment at the top"
    for helper in DEFINE.findall(code(path)):
        part = helper.rpartition(".")[2]
        listed = f'include "{helper}"' in head[1] or (
            helper.startswith(("grpo.nemo-rl.", "grpo.verl."))
            and re.search(rf"^{part} |, {part}|\"{part}\"", head[1], re.M)
        )
        assert listed or helper.startswith("grpo.task."), f"{helper} is not in the list"


@pytest.mark.parametrize("path", [*PARTIALS, *OBJECTS], ids=name)
def test_a_helper_has_a_comment_that_names_its_arguments(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for helper in DEFINE.findall(code(path)):
        assert re.search(rf"\{{\{{/\* {re.escape(helper)} [^:]+: ", text), f"{helper} has no comment of this form"


@pytest.mark.parametrize("path", [*PARTIALS, *OBJECTS], ids=name)
def test_a_helper_with_several_arguments_checks_their_number(path: Path) -> None:
    """Go would render the text <nil> for one that is missing."""
    for helper, body in defines(path).items():
        if "index . 1" in body:
            assert re.search(rf'if ne \(len \.\) \d \}}\}}\{{\{{ fail "{re.escape(helper)} takes \(list ', body), helper


def test_every_helper_is_called_and_every_call_resolves() -> None:
    """Calls with a computed name are those of the frameworks and of the tasks."""
    made = {helper for path in FILES for helper in defines(path)}
    called = {call for path in FILES for call, _ in CALL.findall(code(path))}
    assert called <= made
    computed = ("grpo.nemo-rl.", "grpo.verl.", "grpo.task.")
    assert {one for one in made - called if not one.startswith(computed)} <= {"grpo.training", "grpo.otherTask"}
