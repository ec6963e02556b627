"""A table of answers: what exact_answer makes of each, and what the judges of the frameworks make of it."""

from __future__ import annotations

import importlib
import inspect
import signal
import time
from typing import Any

import pytest
import yaml

from grpo.generate.blocks.texts import MARKS
from tests.conftest import thin

from . import judges
from .harness import ROOT
from .patience import patience  # noqa: F401 - a fixture of all tests here

answers, builtins, limits, numbers = (
    importlib.import_module(f"reward_{name}") for name in ("answers", "builtins", "limits", "numbers")
)
rewards = importlib.import_module("rewards")
OURS = limits.SECONDS

TABLE: list[dict[str, Any]] = yaml.safe_load((ROOT / "tests/jobs/answers.yaml").read_text(encoding="utf-8"))
LONG = 200_000
TOWER = r"\boxed{9^{9^{9^9}}}"


def asked(judge: str) -> list[dict[str, Any]]:
    return [row for row in TABLE if MARKS[judge] in row["response"]]


@pytest.mark.full
def test_each_answer_in_the_table_gets_its_score(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    judge = rewards.Combination([rewards.Reward("exact", 1, builtins.exact_answer)], told.append)
    # The tower of powers comes last: all others have all the time that they need.
    *rows, tower = sorted(TABLE, key=lambda row: row["response"] == TOWER)
    wrong = [row for row in rows if judge(row["truth"], row["response"]).score != row["score"]]
    assert (wrong, told) == ([], [])
    monkeypatch.setattr(limits, "SECONDS", 0.1)
    assert judge(tower["truth"], tower["response"]).score == tower["score"]
    assert len(told) == 1
    assert "OutOfTimeError: the comparison of two expressions did not end within 0.1 s" in told[0]


def test_the_table_is_large_and_balanced() -> None:
    assert len(TABLE) >= 126
    assert 0.4 < sum(row["score"] for row in TABLE) / len(TABLE) < 0.6
    assert len({(row["truth"], row["response"]) for row in TABLE}) == len(TABLE)
    assert all(row["why"] and row["score"] in (0, 1) for row in TABLE)


@pytest.mark.full
def test_math_verify_times_out_later_than_our_own_limit() -> None:
    """It would call the answer wrong and say nothing."""
    grader, parser = (importlib.import_module(f"math_verify.{name}") for name in ("grader", "parser"))
    defaults = {**inspect.signature(grader.verify).parameters, **inspect.signature(parser.parse).parameters}
    assert min(defaults["timeout_seconds"].default, defaults["parsing_timeout"].default) > OURS


@pytest.mark.full
@pytest.mark.parametrize("name", MARKS)
def test_the_frameworks_judges_differ_where_the_table_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = {"nemo-rl": judges.nemo_rl, "verl-gsm8k": judges.verl_gsm8k, "verl-math": judges.verl_math}[name]()
    if judge is None:
        pytest.skip("GRPO_VERL_SOURCES does not name a folder with verl-v0.7.1: its judge of MATH was not asked")
    # math-verify gives up after 5 s: too soon on a busy machine, and too late for what never ends.
    alarm = signal.alarm
    found = {}
    for row in asked(name):
        never = row["response"] == TOWER
        monkeypatch.setattr(signal, "alarm", (lambda seconds: alarm(min(seconds, 1))) if never else (lambda seconds: 0))
        found[row["response"]] = judge(row["truth"], row["response"]) != row["score"]
    assert found == {row["response"]: name in row.get("differs", ()) for row in asked(name)}


PARTS = (
    *("1 ", "1,", "1,111", "1/", "$", "{}", "a ", "= ", "- ", "x^2", "**a", "<think>"),
    *("\\text{", "\\frac{1", "\\boxed ", "\\boxed{", "\\boxed 1"),
)


@pytest.mark.parametrize("part", thin(PARTS, 3))
@pytest.mark.parametrize("length", [answers.LONGEST - 20, LONG])
def test_any_text_is_parsed_in_linear_time(part: str, length: int) -> None:
    text, started = part * (length // len(part)), time.process_time()
    for response in (text, f"\\boxed{{{text}}}", f"<answer>{text}</answer>", f"#### {text}x"):
        builtins.exact_answer("72", response, math=False)
    numbers.read(numbers.clean(text))
    assert time.process_time() - started < 5
