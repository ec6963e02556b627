"""A pattern that was made linear means what it meant: the slow one beside it finds the same in short texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flight_recorder
import last_error
import nemo_rl_evaluation
import reward_numbers
import samples
from grpo.manifests import chart_files, entrypoint
from grpo.problems.charts import templates
from grpo.problems.ray import duration
from grpo.problems.ray import objects_shell as shell
from grpo.problems.ray import probe as operator
from grpo.start import training
from grpo.values import gke_versions


def _found(pattern: str | re.Pattern[str], mode: str = "search", flags: int = 0) -> Callable[[str], Any]:
    def found(text: str) -> Any:
        match = getattr(re.compile(pattern, flags), mode)(text)
        return match and (match.groups() or match[0])

    return found


def _dictionary(text: str) -> Any:
    for match in re.finditer(r"\}", text):
        try:
            return ast.literal_eval(text[: match.end()])
        except (ValueError, TypeError, SyntaxError):
            continue
    return None


def _can_be(text: str) -> bool:
    parts = ["aaa", "b", "aa"]
    return re.fullmatch(".*".join(parts), text) is not None


_LINES = "^exec 3<<'GRPO_PLAN'\n(?P<text>.*?)^GRPO_PLAN$"
_GO = "([0-9]+\\.?[0-9]*|\\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h)"
_TRACE = "Traceback (most recent call last):"
REWRITTEN = {
    "gke": (_found(r"v?(\d+)\.(\d+)\.(\d+)-gke\.(\d+)"), _found(gke_versions._VERSION), "v 1 23 . .4 -gke. x"),
    "operator": (_found(r"v?(\d+)\.(\d+)\.\d+"), _found(operator._VERSION), "v 1 23 . .4 x"),
    "seconds": (_found(r"([0-9.]+) s a step"), _found(training._SECONDS), "1 23 . s a step x"),
    "braces": (_found(r"\{[^\s{}]*(?:,|\.\.)\S*\}", "match"), _found(shell._BRACES, "match"), "{ } , . .. a b"),
    "duration": (_found(f"[-+]?(?:0|(?:{_GO})+)\\Z", "match"), _found(duration._WHOLE, "match"), "0 1 . .5 ms s h -"),
    "arithmetic": (
        _found(r"[\d\s.,+*/()$=-]*\d[\d\s.,+*/()$=-]*", "fullmatch"),
        _found(reward_numbers._ARITHMETIC, "fullmatch"),
        "1 + ( ) = a .",
    ),
    "after": (
        _found("(?:[^\\W\\d_]|[\\s/.,;:'\u2019\")(%\u00b0$\u20ac\u00a3\u00b2\u00b3-])*", "fullmatch"),
        _found(reward_numbers._AFTER, "fullmatch"),
        "\u00b2 a . _ 1 %",
    ),
    "rank": (_found(r"(\d+)$"), _found(flight_recorder.RANK), "1 23 a _"),
    "order": (lambda text: int((re.search("[0-9]+$", text) or [0])[0]), samples.order, "1 0 23 a _"),
    "metric": (
        _found(r"metric=(?P<metric>[^\s=]\S*) num_tests_per_prompt=(?P<samples>\d+)"),
        _found(nemo_rl_evaluation.METRIC),
        "metric= pass@k  num_tests_per_prompt= 1",
    ),
    "dictionary": (
        lambda text: _dictionary("{" + text),
        lambda text: nemo_rl_evaluation.leading_dictionary("{" + text),
        "{ } 'a' : ' , 1 \" \\",
    ),
    "plan": (
        _found(_LINES, flags=re.MULTILINE | re.DOTALL),
        _found(entrypoint.PLAN),
        "exec|3<<'GRPO_PLAN'\n GRPO_PLAN \n a",
    ),
    "package": (
        lambda text: re.sub(r"(?:-v?\d+\.\d+\.\d+[^/]*)?(?:\.tgz|\.tar\.gz)$", "", text),
        chart_files._without_version,
        "a -v -1 1.2.3 . / .tgz .tar.gz",
    ),
    "template": (_can_be, lambda text: templates._can_be("aaa{{ .x }}b{{ .y }}aa", text), "a aa b c"),
    "error": (
        lambda text: not re.search(r"Exception ignored [^\n]*\n[^\n]*$", text),
        lambda text: bool(last_error.last_error(f"{text}{_TRACE}\nValueError: x")),
        "Exception|ignored|in \n a",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", REWRITTEN)
def test_each_rewritten_function_behaves_like_the_old_one(name: str) -> None:
    old, new, words = REWRITTEN[name]
    tokens = [each.replace("|", " ") for each in words.split(" ")]

    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.sampled_from(tokens), max_size=12).map("".join))
    def same(text: str) -> None:
        assert new(text) == old(text), text

    same()


def test_a_dictionary_is_parsed_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = ast.literal_eval
    monkeypatch.setattr(ast, "literal_eval", lambda text: asked.append(text) or real(text))
    assert nemo_rl_evaluation.leading_dictionary("{'a': " + "{}" * 10_000 + "}" * 10_000) is None
    assert len(asked) == 1


def test_an_unhashable_key_is_not_an_error() -> None:
    assert nemo_rl_evaluation.leading_dictionary("{{}}") is None
    assert nemo_rl_evaluation.parse_config("{{}}") is None
