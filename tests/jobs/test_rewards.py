"""The rewards: each built-in, their combination, files of one's own, and the worked example of the documentation."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from grpo.problems import cases
from grpo.problems.rewards.values_nemo_rl import SCORES
from tests.programs import PROGRAMS

from .harness import ROOT
from .patience import patience  # noqa: F401 - a fixture of all tests here

answers, builtins, rewards = (importlib.import_module(f"reward{name}") for name in ("_answers", "_builtins", "s"))

EXAMPLE = ROOT / "values/examples/rewards.yaml"
LONG = 200_000
GOOD = "<think>6 times 12</think><answer>72</answer>"
needs_math = pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="math-verify is not installed")


def write(directory: Path, entries: dict[str, Any], **files: str) -> Path:
    (directory / "rewards").mkdir(parents=True, exist_ok=True)
    (directory / "rewards.json").write_text(json.dumps(entries))
    for name, text in files.items():
        (directory / "rewards" / f"{name}.py").write_text(text)
    return directory


def constant(name: str, weight: float, score: float, flag: bool | None = None) -> Any:
    return rewards.Reward(name, weight, lambda truth, response: (score, flag))


# -- format


@pytest.mark.parametrize(
    ("response", "score"),
    [
        (GOOD, 1.0),
        (f"So: {GOOD} Done.", 1.0),
        ("<think>6 times 12</think> 72", 0.25),
        ("<answer>72</answer>", 0.75),
        ("<answer>72</answer><think>6 times 12</think>", 0.75),
        ("<think><answer>72</answer></think>", 0.75),
        ("<think>a</think><answer>72", 0.25),
        ("<think>a</think><answer> \n</answer>", 0.25),
        ("<think>a</think><answer>7</answer><answer>72</answer>", 0.25),
        ("</answer>72<answer>", 0.0),
        ("72", 0.0),
        ("", 0.0),
        ("<answer>" * (LONG // 8), 0.0),
        ("<think>\0\ud800</think><answer>\U0001f600</answer>", 1.0),
    ],
)
def test_the_format_reward_scores_each_section(response: str, score: float) -> None:
    assert builtins.format_reward("72", response) == (score, None)


def test_the_format_reward_accepts_custom_tags_and_a_pattern() -> None:
    assert builtins.format_reward("", "<reason>a</reason><final>b</final>", "reason", "final") == (1.0, None)
    pattern = r"^<think>.+</think>\s*<answer>[^<]+</answer>$"
    assert builtins.format_reward("", "<think>a\nb</think>\n<answer>72</answer>", pattern=pattern) == (1.0, None)
    assert builtins.format_reward("", "<think>a</think><answer>72</answer> bye", pattern=pattern) == (0.0, None)


# -- exact_answer


@pytest.mark.parametrize(
    ("truth", "response"),
    [
        ("72", GOOD),
        ("72", r"so \boxed{72}"),
        ("72", "so\n#### 72"),
        ("72", "so\n#### $72.00.\nThat is all."),
        ("72", r"<answer>\boxed{72}</answer>"),
        ("72", r"first \boxed{70}, no: \boxed{72}"),
        ("72", r"\boxed{ \$72 }"),
        ("1,072", "<answer>1072</answer>"),
        ("72,000", r"\boxed{72,000}"),
        ("0.5", "<answer>1/2</answer>"),
        ("-3", "#### -3"),
        (".5", "#### 0.5"),
        ("Paris", "<answer>  **paris** </answer>"),
        (r"\frac{1}{2}", r"\boxed{\frac{1}{2}}"),
        ("6 times 12 is 72\n#### 72", "<answer>72</answer>"),
        (r"we get $\boxed{72}$", r"\boxed{72}"),
        ("72", "x" * LONG + "<answer>72</answer>"),
    ],
)
def test_a_correct_answer_is_found(truth: str, response: str) -> None:
    assert builtins.exact_answer(truth, response, math=False) == (1.0, True)


@pytest.mark.parametrize(
    "response",
    [
        "<answer>73</answer>",
        r"\boxed{72} no, \boxed{70}",
        r"\boxed{72",
        "<answer>72",
        "72</answer>",
        "The answer is 72.",
        "<answer></answer>",
        "",
        r"\boxed{" * (LONG // 7),
        "<answer>" * (LONG // 8) + "</answer>" * (LONG // 9),
        "\\boxed{" * (LONG // 16) + "72" + "}" * (LONG // 16),
        "<answer>" + "7" * LONG + "</answer>",
        "<answer>1/0</answer>",
        "\0\ud800\U0001f600",
        "<answer>\u0667\u0662\u2028</answer>x",
    ],
)
def test_a_wrong_or_malformed_answer_scores_zero(response: str) -> None:
    expected = (1.0, True) if "\u0667\u0662" in response else (0.0, False)  # digits of another script are digits
    assert builtins.exact_answer("72", response, math=False) == expected


def test_only_the_chosen_markers_mark_an_answer() -> None:
    response = "<answer>72</answer> #### 70"
    assert builtins.exact_answer("72", response) == (0.0, False)
    assert builtins.exact_answer("72", response, markers=["answer"]) == (1.0, True)
    assert builtins.exact_answer("72", "<final>72</final>", markers=["answer"], answer_tag="final") == (1.0, True)
    with pytest.raises(ValueError, match="boxed, answer, ####"):
        builtins.exact_answer("72", response, markers="answer")


def test_an_answer_marked_inside_the_reasoning_does_not_count() -> None:
    response = "<reason>\\boxed{72}</reason>"
    assert builtins.exact_answer("72", response) == (1.0, True)
    assert builtins.exact_answer("72", response, think_tag="reason") == (0.0, False)
    assert builtins.exact_answer("72", f"{response} \\boxed{{72}}", think_tag="reason") == (1.0, True)


def test_an_empty_ground_truth_is_reported() -> None:
    with pytest.raises(ValueError, match="the ground truth is empty"):
        builtins.exact_answer(" ", "<answer></answer>")


MATHEMATICS = [
    (r"\frac{1}{2}", "0.5", True),
    ("x^2+1", "1+x^2", True),
    ("(1,2)", "(1, 2)", True),
    ("72", "72 apples", True),
    (r"\sqrt{8}", r"2\sqrt{2}", True),
    ("x^2+1", "x^2-1", False),
    (r"\frac{1}{2}", r"\frac{1}{3}", False),
    ("72", "no idea", False),
    ("72", "", False),
    ("72", "\0}{\\\\\n", False),
]


@needs_math
@pytest.mark.full
@pytest.mark.parametrize(("truth", "answer", "right"), MATHEMATICS)
def test_math_verify_compares_expressions(truth: str, answer: str, right: bool) -> None:
    assert builtins.exact_answer(truth, f"<answer>{answer}</answer>") == (float(right), right)


# -- length


@pytest.mark.parametrize(
    ("response", "kwargs", "score"),
    [
        ("", {"limit": 10}, 0.0),
        ("x" * 10, {"limit": 10}, 0.0),
        ("x" * 11, {"limit": 10}, -1.0),
        ("x" * 11, {"limit": 10, "ramp": 4}, -0.25),
        ("x" * LONG, {"limit": 10, "ramp": 4}, -1.0),
        ("one two three", {"limit": 3, "unit": "words"}, 0.0),
        ("one two three four", {"limit": 3, "unit": "words", "ramp": 2}, -0.5),
        ("\0\ud800\U0001f600", {"limit": 3}, 0.0),
    ],
)
def test_the_length_reward_penalises_text_beyond_the_limit(response: str, kwargs: dict[str, Any], score: float) -> None:
    assert builtins.length("72", response, **kwargs) == (score, None)


# -- laws of the built-ins


@given(st.text())
def test_builtin_scores_stay_within_their_bounds(response: str) -> None:
    kwargs = {"format": {}, "exact_answer": {"math": False}, "length": {"limit": 5, "ramp": 10}}
    for name, (function, (low, high), judges) in builtins.BUILTINS.items():
        score, flag = function("72", response, **kwargs[name])
        assert low <= score <= high
        assert (flag is not None) == judges


def test_the_reward_scaling_rule_uses_the_builtin_bounds() -> None:
    assert {name: each.bounds for name, each in builtins.BUILTINS.items()} == SCORES


@given(st.text(st.characters(exclude_characters="<\\#{}")), st.integers())
def test_a_marked_answer_is_found_after_any_text(before: str, value: int) -> None:
    for marked in (f"<answer>{value}</answer>", rf"\boxed{{{value}}}", f"#### {value}"):
        assert builtins.exact_answer(str(value), before + marked, math=False) == (1.0, True)
        assert builtins.exact_answer(str(value + 1), before + marked, math=False) == (0.0, False)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 50), st.integers(0, 50))
def test_a_longer_response_never_scores_higher(shorter: int, more: int, limit: int, ramp: int) -> None:
    scores = [builtins.length("", "x" * n, limit, ramp=ramp)[0] for n in (shorter, shorter + more)]
    assert scores[1] <= scores[0]


# -- the combination

scores = st.floats(-10, 10)
weights = st.floats(0.001, 100)
terms = st.lists(st.tuples(weights, scores, st.sampled_from([True, False, None])), min_size=1, max_size=6)


def combination(rows: Any) -> Any:
    return rewards.Combination(constant(f"r{index}", *row) for index, row in rows)


@given(terms, st.randoms())
def test_the_order_of_rewards_does_not_matter(rows: Any, random: Any) -> None:
    numbered = list(enumerate(rows))
    mixed = random.sample(numbered, len(numbered))
    assert combination(numbered)("72", "x") == combination(mixed)("72", "x")


@given(terms, terms, st.floats(0.01, 100))
def test_the_score_is_linear_in_the_weights(some: Any, others: Any, factor: float) -> None:
    def score(rows: Any) -> float:
        return float(combination(enumerate(rows))("72", "x").score)

    assert score(some + others) == pytest.approx(score(some) + score(others), abs=1e-6)
    scaled = [(factor * weight, value, flag) for weight, value, flag in some]
    assert score(scaled) == pytest.approx(factor * score(some), abs=1e-6)


@given(terms)
def test_a_response_is_correct_unless_a_reward_says_otherwise(rows: Any) -> None:
    flags = [flag for *_, flag in rows if flag is not None]
    assert combination(enumerate(rows))("72", "x").correct is all(flags)


def test_weights_are_not_normalised() -> None:
    both = rewards.Combination([constant("a", 0.2, 1.0), constant("b", 0.8, 0.5, True), constant("c", 1, -1.0)])
    result = both("72", "x")
    assert result.score == pytest.approx(-0.4)
    assert result.parts == {"a": 1.0, "b": 0.5, "c": -1.0}


BAD: list[tuple[Callable[..., Any], str]] = [
    (lambda truth, response: 1 / 0, "ZeroDivisionError: division by zero (test_rewards.py:"),
    (lambda truth, response: 0.5, "expected (score, correct), got 0.5"),
    (lambda truth, response: None, "expected (score, correct), got None"),
    (lambda truth, response: (float("nan"), True), "expected a finite score, got nan"),
    (lambda truth, response: ("high", True), "expected (score, correct), got ('high', True)"),
    (lambda truth, response: (0.0, "no"), "expected (score, correct), got (0.0, 'no')"),
]


@pytest.mark.parametrize(("function", "said"), BAD)
def test_a_failing_reward_scores_zero_and_is_reported(function: Any, said: str) -> None:
    told: list[str] = []
    both = rewards.Combination([rewards.Reward("bad", 1, function), constant("good", 2, 1.0, True)], told.append)
    assert both("72", "x" * 1000) == (2.0, False, {"bad": 0.0, "good": 1.0})
    assert len(told) == 1
    assert told[0].startswith("reward bad failed once and scored 0.0 instead; the last time: ")
    assert said in told[0]
    assert "ground truth '72', response 'xxx" in told[0]
    assert len(told[0]) < 600


def test_every_failure_is_counted_but_not_every_one_is_reported() -> None:
    told: list[str] = []
    bad = rewards.Combination([rewards.Reward("bad", 1, lambda truth, response: {}[response])], told.append)
    for _ in range(1000):
        bad("72", "x")
    assert [text.split(" and scored")[0] for text in told] == [
        "reward bad failed once",
        *(f"reward bad failed {count} times in this process" for count in (10, 100, 1000)),
    ]


def test_any_failure_scores_zero_except_an_interrupt_or_exit() -> None:
    class Timeout(BaseException):
        pass

    def fail(error: BaseException) -> Any:
        def function(truth: str, response: str) -> Any:
            raise error

        return rewards.Combination([rewards.Reward("slow", 1, function)], lambda text: None)

    assert fail(Timeout())("72", "x") == (0.0, False, {"slow": 0.0})
    for end in (KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(end)):
            fail(end)("72", "x")


@pytest.mark.parametrize("response", [None, b"72", ["72"], 72])
def test_a_response_that_is_not_a_string_scores_zero(response: Any) -> None:
    told: list[str] = []
    assert rewards.Combination([constant("a", 1, 1.0)], told.append)("72", response).score == 0.0
    assert "expected a text as response, got " in told[0]


@pytest.mark.parametrize(
    ("truth", "score"), [("72", 1.0), (72, 1.0), (72.0, 1.0), (None, 0.0), (["72"], 0.0), (True, 0.0)]
)
def test_a_ground_truth_may_be_a_number(truth: Any, score: float, tmp_path: Path) -> None:
    told: list[str] = []
    exact = rewards.load(write(tmp_path, {"exact": {"weight": 1, "builtin": "exact_answer"}}), told.append)
    assert exact(truth, GOOD).score == score
    assert len(told) == (score == 0.0)


# -- what the directory holds

MINE = """
BOUNDS = (-1, 2)
def reward(ground_truth, response, *, bonus=0.0):
    return len(response) + bonus, ground_truth in response
"""


def test_a_file_is_loaded_as_a_reward(tmp_path: Path) -> None:
    entries = {"mine": {"weight": 0.5, "kwargs": {"bonus": 1}, "file": "mine.py"}}
    assert rewards.load(write(tmp_path, entries, mine=MINE))("72", "72") == (1.5, True, {"mine": 3.0})


OF_VERL = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1.0):
    if data_source == "none":
        return None
    if extra_info.get("as") == "map":
        return {"score": scale, "acc": False, "pred": solution_str}
    return scale * (solution_str == ground_truth)
"""


def test_a_verl_reward_function_is_used_unchanged(tmp_path: Path) -> None:
    entries = {"mine": {"weight": 0.5, "kwargs": {"scale": 2.0}, "file": "mine.py"}}
    told = list[str]()
    judge = rewards.load(write(tmp_path, entries, mine=OF_VERL), told.append)
    assert judge("72", "72") == (1.0, True, {"mine": 2.0})
    assert judge("72", "71", "openai/gsm8k", {"index": 0}) == (0.0, False, {"mine": 0.0})
    assert judge("72", "72", "openai/gsm8k", {"as": "map"}) == (1.0, False, {"mine": 2.0})
    # Its ground truth may be anything: test cases of a program, for instance.
    assert judge(["72"], "72") == (0.0, False, {"mine": 0.0})
    assert told == []
    assert judge("72", "72", "none") == (0.0, False, {"mine": 0.0})
    assert "expected a number or a dictionary with score, got None" in told[0]


def test_user_arguments_override_those_of_the_row(tmp_path: Path) -> None:
    text = "def compute_score(data_source, **kwargs): return float(data_source == 'mine')"
    entries = {"mine": {"weight": 1, "kwargs": {"data_source": "mine"}, "file": "mine.py"}}
    assert rewards.load(write(tmp_path, entries, mine=text))("72", "72", "other").score == 1.0


def test_a_file_with_both_functions_uses_ours(tmp_path: Path) -> None:
    entries = {"mine": {"weight": 1, "file": "mine.py"}}
    assert rewards.load(write(tmp_path, entries, mine=MINE + OF_VERL))("72", "72").score == 2.0


def test_the_combined_rewards_are_described(tmp_path: Path) -> None:
    entries: dict[str, Any] = {
        "shape": {"weight": 0.2, "builtin": "format"},
        "exact": {"weight": 0.8, "kwargs": {}, "builtin": "exact_answer"},
        "mine": {"weight": 2, "file": "mine.py"},
    }
    assert rewards.load(write(tmp_path, entries, mine=MINE)).describe() == [
        "reward shape: weight 0.2, score 0 to 1",
        "reward exact: weight 0.8, score 0 to 1",
        "reward mine: weight 2, score -1 to 2",
        "score of a response: -2 to 5, the weighted sum of 3 rewards",
    ]
    unknown = rewards.load(write(tmp_path, entries, mine=MINE.replace("BOUNDS", "OTHER"))).describe()
    assert unknown[2:] == [
        "reward mine: weight 2, score unknown, its file has no BOUNDS",
        "score of a response: unknown, the weighted sum of 3 rewards",
    ]
    shape = rewards.load(write(tmp_path, {"shape": {"weight": 1, "builtin": "format"}})).describe()
    assert shape[-1].startswith("warning: no reward judges the answer")


WRONG: list[tuple[Any, str, str]] = [
    ({}, "", "names no reward"),
    ([], "", "names no reward"),
    ({"a b": {"weight": 1, "builtin": "format"}}, "", "'a b' must be a name of letters"),
    ({"a": 1}, "", "and its value a map"),
    ({"a": {"builtin": "format"}}, "", "reward a: weight must be a number more than 0, not None"),
    ({"a": {"weight": 0, "builtin": "format"}}, "", "more than 0, not 0"),
    ({"a": {"weight": -1, "builtin": "format"}}, "", "more than 0, not -1"),
    ({"a": {"weight": True, "builtin": "format"}}, "", "more than 0, not True"),
    ({"a": {"weight": 1}}, "", "reward a: set either builtin (format, exact_answer, length) or file"),
    ({"a": {"weight": 1, "builtin": "format", "file": "mine.py"}}, "", "set either builtin"),
    ({"a": {"weight": 1, "builtin": "exact"}}, "", "there is no builtin 'exact', expected one of format, "),
    ({"a": {"weight": 1, "builtin": "length"}}, "", "missing a required argument: 'limit'"),
    ({"a": {"weight": 1, "builtin": "length", "kwargs": {"limit": 0}}}, "", "limit more than 0"),
    ({"a": {"weight": 1, "builtin": "length", "kwargs": {"limit": "9"}}}, "", "reward a: kwargs"),
    ({"a": {"weight": 1, "builtin": "format", "kwargs": {"tag": "a"}}}, "", "unexpected keyword argument 'tag'"),
    ({"a": {"weight": 1, "builtin": "format", "kwargs": {"pattern": "("}}}, "", "reward a: kwargs"),
    ({"mine": {"weight": 1, "file": "other.py"}}, MINE, "other.py does not exist"),
    ({"mine": {"weight": 1, "file": "mine.py"}}, "def reward(:", "mine.py:1: "),
    (
        {"mine": {"weight": 1, "file": "mine.py"}},
        "import nothing_like_it",
        "mine.py cannot be imported: ModuleNotFound",
    ),
    ({"mine": {"weight": 1, "file": "mine.py"}}, "def score(): pass", "mine.py defines no function reward("),
    (
        {"mine": {"weight": 1, "file": "mine.py"}},
        "async " + OF_VERL.lstrip(),
        "reward mine: compute_score is async, and it is called without await",
    ),
    (
        {"mine": {"weight": 1, "file": "mine.py"}},
        "def compute_score(data_sources, solution_strs, ground_truths, extra_infos): pass",
        "reward mine: compute_score takes a batch, and it is called with one solution_str",
    ),
    *(
        ({"mine": {"weight": 1, "file": "mine.py", "kwargs": {name: "2"}}}, OF_VERL, "which come from the run")
        for name in ("solution_str", "ground_truth")
    ),
    ({"mine": {"weight": 1, "file": "mine.py", "kwargs": {"x": 1}}}, OF_VERL, "unexpected keyword argument 'x'"),
    (
        {"mine": {"weight": 1, "file": "mine.py"}},
        "def compute_score(solution_str, ground_truth): pass",
        "unexpected keyword argument 'data_source'",
    ),
    ({"mine": {"weight": 1, "file": "mine.py", "kwargs": {"x": 1}}}, MINE, "unexpected keyword argument 'x'"),
    ({"mine": {"weight": 1, "file": "mine.py"}}, "BOUNDS = 1\n" + MINE[17:], "BOUNDS must be two numbers"),
    ({"mine": {"weight": 1, "file": "mine.py"}}, "SECONDS = 0\n" + MINE, "SECONDS must be a number more than 0, not 0"),
    (
        {"mine": {"weight": 1, "file": "mine.py"}},
        "SECONDS = '9'\n" + MINE,
        "SECONDS must be a number more than 0, not '9'",
    ),
]


@pytest.mark.parametrize(("entries", "text", "said"), WRONG)
def test_a_mistake_is_reported_in_one_sentence_without_a_traceback(
    entries: Any, text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(rewards.RewardError) as refused:
        rewards.load(write(tmp_path, entries, mine=text))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_unreadable_reward_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(rewards.RewardError, match="cannot be read"):
        rewards.load(tmp_path)
    (tmp_path / "rewards.json").write_text("{")
    with pytest.raises(rewards.RewardError, match="cannot be read"):
        rewards.load(tmp_path)


def test_the_program_checks_its_own_directory(tmp_path: Path) -> None:
    for name in ("rewards", "reward_builtins", "reward_answers", "reward_limits", "reward_numbers"):
        (tmp_path / f"{name}.py").write_bytes(PROGRAMS[name].read_bytes())

    def check() -> Any:
        return subprocess.run(
            [sys.executable, tmp_path / "rewards.py"], capture_output=True, text=True, check=False, env={"LC_ALL": "C"}
        )

    write(tmp_path, {"mine": {"weight": 1, "file": "mine.py"}}, mine=MINE)
    assert check().stdout == (
        "grpo: reward mine: weight 1, score -1 to 2\n"
        "grpo: score of a response: -1 to 2, the weighted sum of 1 rewards\n"
    )
    write(tmp_path, {"mine": {"weight": 1, "file": "mine.py"}}, mine="raise ValueError('\u00e9')")
    ended = check()
    assert (ended.returncode, ended.stderr) == (1, "")
    assert ended.stdout == "grpo: mine.py cannot be imported: ValueError: \\xe9 (mine.py:1)\n"


def test_a_tally_returns_means_and_resets() -> None:
    tally = rewards.Tally()
    tally.add([rewards.Result(1.0, True, {"a": 0.5}), rewards.Result(0.0, False, {"a": 0.0})])
    assert tally.line() == "2 responses: score 0.5000, correct 0.5000, reward a 0.2500"
    tally.add([rewards.Result(0.25, True, {"a": 0.5})])
    assert tally.line() == "1 responses: score 0.2500, correct 1.0000, reward a 0.5000"


# -- the worked example

VALUES = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["job"]
ROWS = [
    ("right", GOOD, 1.0, True),
    ("wrong", GOOD.replace("72", "71"), 0.2, False),
    ("right, without its thoughts", "<answer>72</answer>", 0.95, True),
    ("right, nothing marks it", "The answer is 72.", 0.0, False),
    ("right, answer never closed", "<think>6 times 12</think><answer>72", 0.05, False),
    ("right, too long", "<think>" + "x" * 2400 + "</think><answer>72</answer>", 0.5, True),
    ("right, somewhat long", GOOD + " " * (2000 - len(GOOD)), 0.75, True),
    ("empty", "", 0.0, False),
    ("very long, nothing in it", "x" * LONG, -0.5, False),
    ("not language", "\0\ud800\U0001f600", 0.0, False),
    ("no text", None, 0.0, False),
]


@pytest.mark.parametrize(("response", "score", "correct"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_example_scores_as_documented(response: Any, score: float, correct: bool, tmp_path: Path) -> None:
    result = rewards.load(write(tmp_path, VALUES["rewards"]), lambda text: None)("72", response)
    assert (result.score, result.correct) == (pytest.approx(score), correct)


def test_the_example_documents_its_own_bounds(tmp_path: Path) -> None:
    lines = rewards.load(write(tmp_path, VALUES["rewards"])).describe()
    assert lines[-1] == "score of a response: -0.5 to 1, the weighted sum of 3 rewards"
    assert "(here -0.5 to 1)" in EXAMPLE.read_text(encoding="utf-8")


def test_the_examples_prompt_asks_for_what_it_rewards() -> None:
    prompt = VALUES["prompts"]["tags"].format("What is 6 times 12?")
    assert "What is 6 times 12?" in prompt
    assert all(f"<{tag}>" in prompt and f"</{tag}>" in prompt for tag in ("think", "answer"))
    assert VALUES["config"]["data"]["default"]["prompt_file"].endswith("/tags.txt")


def pair_cases() -> list[tuple[str, str, str]]:
    """Return kind, name and text of each reward in the cases of the problem job/reward-not-a-pair."""
    trees = {each.name: yaml.safe_load(each.text) for each in cases.cases()["job/reward-not-a-pair"]}
    return [(kind, name, each["file"]) for kind, tree in trees.items() for name, each in tree["job"]["rewards"].items()]


@pytest.mark.parametrize(("kind", "name", "text"), pair_cases())
def test_the_lint_rule_matches_the_results_that_a_run_rejects(kind: str, name: str, text: str, tmp_path: Path) -> None:
    told: list[str] = []
    combined = rewards.load(write(tmp_path, {"mine": {"weight": 1, "file": "mine.py"}}, mine=text), told.append)
    # The response that is wrong in the case "early" is the empty one.
    score = combined("42", "" if name == "early" else "42").score
    assert any(re.search("expected .*score.*, got", line) for line in told) == (kind == "bad")
    assert (score > 0) == (kind == "good" and name != "not_yet")
