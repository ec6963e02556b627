"""A table of answers: what exact_answer makes of each, and what the judges of the frameworks make of it."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.conftest import thin

from . import judges
from .harness import ROOT

answers, builtins, limits, numbers = (
    importlib.import_module(f"reward_{name}") for name in ("answers", "builtins", "limits", "numbers")
)
rewards = importlib.import_module("rewards")

TABLE: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests/jobs/answers.yaml").read_text(encoding="utf-8"))
PAGE = ROOT / "docs/howto/own-reward.md"
LONG = 200_000
# What the answers of a judge are marked with; it is not asked about others.
MARKS = {"nemo-rl": "", "verl-gsm8k": "####", "verl-math": "box"}


@pytest.fixture(autouse=True)
def no_child() -> Iterator[None]:
    yield
    limits.are_equal.stop()


def asked(judge: str) -> list[dict[str, Any]]:
    return [row for row in TABLE if MARKS[judge] in row["response"]]


@pytest.mark.full
def test_each_answer_of_the_table_has_its_score() -> None:
    told: list[str] = []
    judge = rewards.Combination([rewards.Reward("exact", 1, builtins.exact_answer)], told.append)
    wrong = [row for row in TABLE if judge(row["truth"], row["response"]).score != row["score"]]
    assert wrong == []
    # The tower of powers.
    assert len(told) == 1
    assert "OutOfTimeError: the comparison of two expressions did not end within 4 s" in told[0]


def test_the_table_is_large_and_balanced() -> None:
    assert len(TABLE) >= 126
    assert 0.4 < sum(row["score"] for row in TABLE) / len(TABLE) < 0.6
    assert len({(row["truth"], row["response"]) for row in TABLE}) == len(TABLE)
    assert all(row["why"] and row["score"] in (0, 1) for row in TABLE)


@pytest.mark.full
@pytest.mark.parametrize("name", MARKS)
def test_the_judges_of_the_frameworks_differ_where_the_table_says_so(name: str) -> None:
    judge = {"nemo-rl": judges.nemo_rl, "verl-gsm8k": judges.verl_gsm8k, "verl-math": judges.verl_math}[name]()
    if judge is None:
        pytest.skip("GRPO_VERL_SOURCES does not name a folder with verl-v0.7.1: its judge of MATH was not asked")
    found = {row["response"]: judge(row["truth"], row["response"]) != row["score"] for row in asked(name)}
    assert found == {row["response"]: name in row.get("differs", ()) for row in asked(name)}


@pytest.mark.parametrize("name", MARKS)
def test_the_page_has_the_agreement_of_the_table(name: str) -> None:
    agree = sum(name not in row.get("differs", ()) for row in asked(name))
    line = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if f"`{name}`" in line)
    assert f"{agree} of {len(asked(name))}" in line


PARTS = (
    *("1 ", "1,", "1,111", "1/", "$", "{}", "a ", "= ", "- ", "x^2", "**a", "<think>"),
    *("\\text{", "\\frac{1", "\\boxed ", "\\boxed{", "\\boxed 1"),
)


@pytest.mark.parametrize("part", thin(PARTS, 3))
@pytest.mark.parametrize("length", [answers.LONGEST - 20, LONG])
def test_any_text_is_read_in_linear_time(part: str, length: int) -> None:
    text, started = part * (length // len(part)), time.process_time()
    for response in (text, f"\\boxed{{{text}}}", f"<answer>{text}</answer>", f"#### {text}x"):
        builtins.exact_answer("72", response, math=False)
    numbers.read(numbers.clean(text))
    assert time.process_time() - started < 5
