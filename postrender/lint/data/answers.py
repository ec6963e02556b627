"""What compares the expected answers of a run, and why it cannot read one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from postrender.types import Json
from postrender.values.config import Effective
from postrender.values.derived import mapping
from reward_answers import find_answer

# Words, and not the names of LaTeX or of a variable.
_WORD: Final = re.compile(r"(?<![\\\w])[^\W\d_]{2,}")
_MANY_WORDS, _SOME_WORDS = 25, 10
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
    """One that compares answers: its name, what happens to an answer that it cannot read, and why it cannot."""

    name: str
    why: str
    wrong: Callable[[Json], str]
    keys: tuple[str, ...] = ()


def of_rewards(run: Effective) -> list[Judge]:
    """Return the rewards of job.rewards that read the expected answer, but for those that are files."""
    found = []
    for name, entry in mapping(run.value("job.rewards")).items():
        if mapping(entry).get("builtin") == "exact_answer":
            why = "such a row has reward 0 for every response (jobs/rewards/reward_builtins.py:60 at 0.1.0)"
            found.append(Judge(f"reward {name} (exact_answer)", why, _exact, (f"=job.rewards.{name}",)))
    return found


def has_rewards(run: Effective) -> bool:
    """Say whether job.rewards replaces the framework's own reward."""
    return any(entry is not None for entry in mapping(run.value("job.rewards")).values())


def of_environment(run: Effective, section: Mapping[str, Json]) -> list[Judge]:
    """Return the environment of NeMo RL that compares the answers of a data set; none for one that is not known."""
    if section.get("env_name", "math") != "math" or not _is_plain(run):
        return []
    why = "such a row has reward 0 for every response (nemo_rl/environments/math_environment.py:107 at v0.7.0)"
    return [Judge("environment math", why, _math)]


def _is_plain(run: Effective) -> bool:
    """Say whether the environment math compares with math-verify."""
    implementation = run.at("env.math.math_verify_impl", _HF_VERIFY)
    return implementation in (None, _HF_VERIFY) and run.at("env.math.verifier_type") in (None, "math")


def of_source(source: Json) -> Iterator[Judge]:
    """Yield verl's own judge of a data source, if it is known what it reads."""
    if source == GSM8K:
        why = "such a row has reward 0 for every response (verl/utils/reward_score/gsm8k.py:69 at 0.7.1)"
        yield Judge(f"verl's reward for {GSM8K}", why, _digits)


def has_own_judge(source: str) -> bool:
    """Say whether verl has a reward for a data source."""
    return source in SOURCES or source.startswith("aime")


def is_solution(text: str) -> bool:
    """Say whether a text is a whole solution, and not the answer at its end."""
    words = len(_WORD.findall(text))
    return words >= _MANY_WORDS or ("\n" in text.strip() and words >= _SOME_WORDS)


def _kind(value: Json) -> str:
    names = {type(None): "null", bool: "a boolean", list: "a list", dict: "a map", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)


def _exact(value: Json) -> str:
    """Say why the built-in reward cannot read an answer; numbers are texts for it."""
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
    r"""Say why math-verify cannot read an answer inside \boxed{}."""
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


def _digits(value: Json) -> str:
    if not isinstance(value, str):
        return f"is {_kind(value)}, and no text"
    return "" if _DIGITS.fullmatch(value) else "is not only a number without commas and unit"
