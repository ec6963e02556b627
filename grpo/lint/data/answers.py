"""What compares a run's expected answers, and why it cannot read an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from grpo.problems.rewards import values_own_code as own_code
from grpo.values.config import RunConfig
from grpo.values.derived import mapping
from postrender.types import Json
from reward_answers import find_answer

# Words, and not the names of LaTeX or of a variable.
_WORD: Final = re.compile(r"(?<![\\\w])[^\W\d_]{2,}")
_MANY_WORDS, _SOME_WORDS, _FEW_WORDS = 25, 10, 4
# What has one of these may be mathematics.
_SIGNS: Final = re.compile(r"[\d\\$=^]")
_ZERO: Final = "such a row has reward 0 for every response"
# What verl's judge of GSM8K finds in a response, once it has removed the commas.
_DIGITS: Final = re.compile(r"-?[0-9.]+")
_HF_VERIFY: Final = "hf_math_verify"
# verl/utils/reward_score/__init__.py:44 at 0.6.1, 0.7.1, 0.8.0 and 0.9.0: all have the same.
GSM8K: Final = "openai/gsm8k"
SOURCES: Final = frozenset(
    (
        *(GSM8K, "lighteval/MATH", "DigitalLearningGmbH/MATH-lighteval", "HuggingFaceH4/MATH-500"),
        *("math_dapo", "math", "math_dapo_reasoning", "hiyouga/geometry3k"),
        *("numina_aops_forum", "numina_synthetic_math", "numina_amc_aime", "numina_synthetic_amc", "numina_cn_k12"),
        *("numina_olympiads", "codecontests", "apps", "codeforces", "taco"),
        *(f"searchR1_{name}" for name in ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique")),
        "searchR1_bamboogle",
    )
)


class Judge(NamedTuple):
    """A consumer of answers: what it does with them, what happens to an unreadable answer, and why it is unreadable."""

    does: str
    why: str
    wrong: Callable[[Json], str]
    keys: tuple[str, ...] = ()
    # What to write, if it is not the final answer alone.
    fix: str = ""
    is_doubtful: bool = False


def of_rewards(run: RunConfig) -> list[Judge]:
    """Return the rewards of job.rewards, with what they receive as the expected answer."""
    found, others = [], []
    own = {name: own_code.takes_any(text) for name, text, _ in own_code.files(run)}
    for name, entry in mapping(run.value("job.rewards")).items():
        if mapping(entry).get("builtin") == "exact_answer":
            does = f"reward {name} (exact_answer) compares it"
            why = f"{_ZERO} (jobs/rewards/reward_builtins.py:60 at 0.1.0)"
            found.append(Judge(does, why, _exact, (f"=job.rewards.{name}",)))
        elif entry is not None and not own.get(name):
            others.append(name)
    # The first one is as strict as all others.
    for name in () if found else others[:1]:
        does, keys = f"reward {name} takes a text", (f"=job.rewards.{name}",)
        why = f"{_ZERO}: the reward is not called (jobs/rewards/rewards.py:130 at 0.1.0)"
        found.append(Judge(does, why, _typed, keys, "write a text"))
    for name in [name for name in own if not own[name]][: not found or found[0].wrong is _typed]:
        does, keys = f"reward {name} gets it", (f"=job.rewards.{name}",)
        why = "a reward that compares it scores every response alike, so the model learns nothing from the row"
        found.append(
            Judge(does, why, _blank, keys, "write the expected answer, or remove these rows", is_doubtful=True)
        )
    return found


def has_rewards(run: RunConfig) -> bool:
    """Return whether job.rewards replaces the framework's own reward."""
    return any(entry is not None for entry in mapping(run.value("job.rewards")).values())


def of_environment(run: RunConfig, section: Mapping[str, Json]) -> list[Judge]:
    """Return the NeMo RL environment checks that apply to a data set; empty if the environment is unknown."""
    if section.get("env_name", "math") != "math" or not _is_plain(run):
        return []
    source = "(nemo_rl/environments/math_environment.py:107 at v0.7.0)"
    only = rf"a response has reward 1 only with the same words inside \boxed{{}}, else 0 {source}"
    fix = "set job.rewards with a reward that reads such answers: docs/howto/own-reward.md"
    return [
        Judge("environment math compares it", f"{_ZERO} {source}", _math),
        Judge("environment math compares mathematics", only, _prose, fix=fix, is_doubtful=True),
    ]


def _is_plain(run: RunConfig) -> bool:
    """Return whether the environment math compares with math-verify."""
    implementation = run.at("env.math.math_verify_impl", _HF_VERIFY)
    return implementation in (None, _HF_VERIFY) and run.at("env.math.verifier_type") in (None, "math")


def of_source(source: Json) -> Iterator[Judge]:
    """Yield verl's own judge for a data source, if what the judge reads is known."""
    if source == GSM8K:
        why = f"{_ZERO} (verl/utils/reward_score/gsm8k.py:69 at 0.9.1)"
        yield Judge(f"verl's reward for {GSM8K} compares it", why, _digits)


def has_own_judge(source: str) -> bool:
    """Return whether verl has a reward for a data source."""
    return source in SOURCES or source.startswith("aime")


def is_solution(text: str) -> bool:
    """Return whether a text is a full solution, not just the final answer."""
    words = len(_WORD.findall(text))
    return words >= _MANY_WORDS or ("\n" in text.strip() and words >= _SOME_WORDS)


def _kind(value: Json) -> str:
    names = {type(None): "null", bool: "a boolean", list: "a list", dict: "a map", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)


def _exact(value: Json) -> str:
    """Return why the built-in reward cannot read an answer; it reads numbers as text."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return ""
    if not isinstance(value, str):
        return f"is {_kind(value)}"
    if not value.strip():
        return "is empty"
    if find_answer(value) is not None:
        return ""
    return "is a whole solution without a mark of its final answer" if is_solution(value) else ""


def _math(value: Json) -> str:
    r"""Return why math-verify cannot read an answer inside \boxed{}."""
    if not isinstance(value, str):
        return f"is {_kind(value)}, and no text"
    if not value.strip():
        return "is empty"
    if "####" in value:
        return "has the mark ####, and the final answer alone is compared"
    if "<answer>" in value:
        return "has the tags <answer>, and the final answer alone is compared"
    # It looks for mathematics between dollars, and for a box.
    return "is a whole solution" if is_solution(value) and "$" not in value and r"\boxed" not in value else ""


def _prose(value: Json) -> str:
    """Return why an answer that math-verify can read contains no mathematics."""
    if not isinstance(value, str) or _math(value) or _SIGNS.search(value):
        return ""
    words = len(_WORD.findall(value))
    if words and "\n" in value.strip():
        return "has several lines of words"
    return "is a sentence" if words >= _FEW_WORDS else ""


def _typed(value: Json) -> str:
    """Return why an answer reaches none of the rewards in job.rewards except verl's; numbers count as text."""
    return "" if isinstance(value, (str, int, float)) and not isinstance(value, bool) else f"is {_kind(value)}"


def _blank(value: Json) -> str:
    return "is empty" if isinstance(value, str) and not value.strip() else ""


def _digits(value: Json) -> str:
    if not isinstance(value, str):
        return f"is {_kind(value)}, and no text"
    return "" if _DIGITS.fullmatch(value) else "is not only a number without commas and unit"
