"""The judges of the frameworks, asked as the frameworks ask them."""

from __future__ import annotations

import os
import re
import runpy
from collections.abc import Callable
from pathlib import Path

# From the true answer and a response to a score.
Judge = Callable[[str, str], float]


def nemo_rl() -> Judge:
    """Return the judge of NeMo RL's math environment (nemo_rl/environments/math_environment.py, v0.4.0 to v0.7.0).

    The gold text is put into a box and read as LaTeX alone; a response may also hold a plain number.
    """
    # The library takes seconds to import, and only a few tests ask it.
    from math_verify.metric import math_metric
    from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig

    verify = math_metric(
        gold_extraction_target=(LatexExtractionConfig(),),
        pred_extraction_target=(ExprExtractionConfig(), LatexExtractionConfig()),
    )

    def judge(gold: str, response: str) -> float:
        try:
            return float(verify([f"\\boxed{{{gold}}}"], [response])[0])
        except Exception:  # the environment counts whatever goes wrong as a wrong answer
            return 0.0

    return judge


def _verl(module: str) -> Judge | None:
    root = os.environ.get("GRPO_VERL_SOURCES")
    if not root:
        return None
    score = runpy.run_path(str(Path(root) / f"verl-v0.7.1/verl/utils/reward_score/{module}.py"))["compute_score"]
    return lambda gold, response: float(score(response, gold))


def verl_gsm8k() -> Judge:
    """Return verl's own judge of GSM8K where its sources are, otherwise its rule.

    Among the last 300 characters the last "#### number", without commas, is compared with the gold as text
    (verl/utils/reward_score/gsm8k.py, the same from v0.6.1 to v0.9.0).
    """

    def judge(gold: str, response: str) -> float:
        found = re.findall(r"#### (-?[0-9.,]+)", response[-300:])
        return float(bool(found) and found[-1].replace(",", "") == gold)

    return _verl("gsm8k") or judge


def verl_math() -> Judge | None:
    """Return verl's own judge of MATH (verl/utils/reward_score/math_reward.py) where its sources are."""
    return _verl("math_reward")
