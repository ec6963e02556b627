"""The print statements of the frameworks have the words that the readers look for.

GRPO_NEMO_RL_SOURCES names a folder with nrl-v0.7.0 and so on, GRPO_VERL_SOURCES one with verl-v0.9.1 and so on.
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

import nemo_rl_log
import verl_log
from grpo.values import catalogue

NEMO_RL = catalogue.versions("nemo-rl")
VERL = catalogue.versions("verl")
# What a version does not print yet.
LATER = {("v0.4.0", "Generation KL Error")}


def source(variable: str, name: str) -> Path:
    """Return a source tree; without it the test is skipped, with a message."""
    tree = Path(os.environ.get(variable, ""), name)
    if variable not in os.environ or not tree.is_dir():
        pytest.skip(f"{variable} names no folder with {name}: its print statements were not read")
    return tree


def printed(file: Path) -> list[str]:
    """Return the texts that a module prints; a value in one is `{}`."""
    calls = (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call))
    prints = [
        call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print" and call.args
    ]
    return [re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", "{}", ast.unparse(each)) for each in prints]


@pytest.mark.parametrize("version", NEMO_RL)
def test_nemo_rl_prints_the_text_that_is_parsed(version: str) -> None:
    folder = source("GRPO_NEMO_RL_SOURCES", f"nrl-{version}") / "nemo_rl/algorithms"
    texts = "\n".join(printed(folder / "grpo.py") + printed(folder / "utils.py"))
    measures = [name for name in nemo_rl_log._MEASURES if (version, name) not in LATER]
    expected = [f"• {name}: {{}}" for name in (*measures, *nemo_rl_log._VALIDATED)]
    expected += [
        "Step {}/{} ",
        "Epoch {}/{} ",
        "Saving checkpoint for step {}...",
        "▶ Starting validation at step {}...",
    ]
    expected += ["- E2E (Tokens/sec/gpu): {}", "- Generation Worker Group (Tokens/sec): {}", "• {}: {}s ({}%)"]
    expected += [nemo_rl_log._RESULTS, nemo_rl_log._SETUP, *nemo_rl_log._ENDS]
    assert [text for text in expected if text not in texts] == []


@pytest.mark.parametrize("version", NEMO_RL)
def test_nemo_rl_has_the_timers_that_are_parsed(version: str) -> None:
    text = (source("GRPO_NEMO_RL_SOURCES", f"nrl-{version}") / "nemo_rl/algorithms/grpo.py").read_text("utf-8")
    timers = set(re.findall(r'timer\.(?:time|start)\(\s*"([^"]+)"', text))
    assert {*nemo_rl_log.TIMERS} <= timers


def test_the_single_controller_prints_the_text_that_is_parsed() -> None:
    tree = source("GRPO_NEMO_RL_SOURCES", "nrl-v0.8.0")
    texts = "\n".join(printed(tree / "nemo_rl/algorithms/single_controller.py"))
    expected = [
        "⏱️  Timing:",
        "• Total step time: {}s",
        "• {}: {}s ({}%)",
        "step_metrics={}",
        "train step {}/{}  trainer_v={}",
    ]
    assert [text for text in [*expected, "Saving checkpoint for step {}..."] if text not in texts] == []
    script = "\n".join(printed(tree / "examples/run_grpo_single_controller.py"))
    assert nemo_rl_log._CONTROLLER in script
    assert nemo_rl_log._COMPLETE in script
    metrics = (tree / "nemo_rl/algorithms/single_controller_utils/utils.py").read_text("utf-8")
    assert [name for name in ("loss", "reward", "grad_norm") if f'["{name}"]' not in metrics] == []


@pytest.mark.parametrize("version", VERL)
def test_verl_prints_the_text_that_is_parsed(version: str) -> None:
    tree = source("GRPO_VERL_SOURCES", f"verl-v{version}")
    (logger,) = (tree / "verl").rglob("aggregate_logger.py")
    assert 'f"step:{step}"' in logger.read_text("utf-8")
    assert '" - ".join' in logger.read_text("utf-8")
    text = "\n".join(path.read_text("utf-8") for path in sorted((tree / "verl").rglob("*.py")))
    of_now = (
        "critic/score/mean",
        "response_length/mean",
        "response_length/clip_ratio",
        "actor/pg_loss",
        "perf/throughput",
    )
    assert [key for key in of_now if f'"{key}"' not in text] == []
    assert [words for words in verl_log._BEGINS if words not in text] == []
