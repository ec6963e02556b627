"""Reduce what a judge says to a word: the fact that its line of source stands for, or the line itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NEAR = 3  # an assertion of several lines is reported at one of them
# Facts that are several checks in a row: so many lines from the first to the last.
SPANS = {"K4": 12, "L5": 22, "L6": 20, "S5": 14}
CHART, ACCEPTED = "chart", "accepted"
# Facts that the judge of NeMo RL states itself, because the framework would say them on a live cluster only.
LATE = {
    "A1": "async_engine",
    "A2": "use_importance_sampling_correction",
    "A3": "non-colocated",
    "A4": "not supported with async",
    "S2": "metric_name",
    "S4": "model_save_format",
}
CODES = {3: "file", 4: "override", 5: "interpolation", 6: "schema", 7: "import"}
UNBUILT = 10
# Where a judge stumbles over its own stand-ins, or builds what the framework would not: nothing is known then.
STUMBLES = (
    "verl/utils/kernel/fp8_kernel.py",  # imported for LoRA, and computes with a stand-in for PyTorch
    "verl/workers/rollout/vllm_rollout/__init__.py",  # the same, and asks for the version of vLLM
    "nemo_rl/utils/venvs.py",  # NeMo Gym starts an environment of its own
    "nemo_rl/algorithms/grpo.py:683",  # counts the nodes of a live cluster
)
UNJUDGED = "unjudged"

# verl's lines at 0.6.1, 0.7.1, 0.8.0 and 0.9.1; a fact may have several.
VERL = {
    "B1": ("utils/config.py", "110/110/110/124"),
    "B2": ("utils/config.py", "96/96/96/110"),
    "B3": ("workers/config/actor.py", "155/217/226/227"),
    "B4": ("workers/config/actor.py", "131,137/193,199/202,208/202,208"),
    "B5": ("utils/config.py", "142,146/141,145/141,145/155,159"),
    "B6": ("workers/config/actor.py", "163,169/225,231/234,240/235,241"),
    "A1": ("workers/config/actor.py", "148/210/219/220"),
    "A3": ("workers/config/engine.py", "125/250/265/306"),
    "A4": ("workers/config/actor.py", "248/320/332/340"),
    "A6": ("workers/config/optimizer.py", "89/122/123/123"),
    "R2": ("workers/config/rollout.py", "-/253/289/283"),
    "R6": ("workers/config/rollout.py", "211/292/328/322"),
    "R7": ("workers/config/rollout.py", "205/266/302/296"),
    "R11": ("utils/config.py", "194/187/187/202"),
    "R12": ("utils/config.py", "199/200/200/215"),
}
VERL_VERSIONS = ("0.6.1", "0.7.1", "0.8.0", "0.9.1")
Lines = list[tuple[str, str, int]]


def nemo_rl_lines(catalogue: Path, version: str) -> Lines:
    """Read (fact, file, line) from a catalogue of rules: a list of {"id": …, "where": {"v0.7.0": "file:line"}}."""
    found = []
    for rule in json.loads(catalogue.read_text("utf-8")):
        if place := rule["where"].get(version):
            file, line = place.rsplit(":", 1)
            found.append((rule["id"], file, int(line)))
    return found


def verl_lines(version: str) -> Lines:
    """Return (fact, file, line) of verl's facts at a version."""
    column = VERL_VERSIONS.index(version)
    found = []
    for fact, (file, lines) in VERL.items():
        numbers = lines.split("/")[column].split(",")
        found += [(fact, f"verl/{file}", int(number)) for number in numbers if number != "-"]
    return found


def verdict(answer: Mapping[str, Any], lines: Lines) -> tuple[int, str]:
    """Return exit code and reason; what only the judge builds is no refusal."""
    if answer["code"] == UNBUILT and "ERROR[build]: algorithm" in answer["said"]:
        return 0, ACCEPTED
    unused = answer["code"] == UNBUILT and "ERROR[build]: actor_rollout_ref.ref:" in answer["said"]
    if unused or answer.get("where", "").startswith(STUMBLES):
        return int(answer["code"]), UNJUDGED
    return int(answer["code"]), reason(answer, lines)


def reason(answer: Mapping[str, Any], lines: Lines) -> str:
    """Return the facts that an answer stands for, in a word or two."""
    if answer["code"] == 0:
        return ACCEPTED
    if keys := answer.get("keys"):
        return f"schema: {_plain(keys[0])}"
    if answer.get("said", "").startswith("LATE-ERROR"):
        return "+".join(sorted(fact for fact, word in LATE.items() if word in answer["said"]))
    if "Data parallel size mismatch" in answer.get("said", ""):
        return "V5"
    where = answer.get("where", "")
    if where and (fact := _nearest(where, lines)):
        return fact
    if answer.get("error") == "TypeError" and _unexpected_key(answer):
        return "A11"
    place = where or CODES.get(answer["code"], "arithmetic")
    return f"other: {place} {answer.get('error', '')}".strip()


def _plain(key: str) -> str:
    """Return the path of a key without the names of the types that were tried there."""
    return ".".join(part for part in key.split(".") if re.fullmatch(r"[a-z_0-9]+", part))


def _unexpected_key(answer: Mapping[str, Any]) -> bool:
    """Say whether a dataclass was given a key that it does not have."""
    return re.search(r"unexpected keyword", answer.get("said", "")) is not None


def _nearest(where: str, lines: Lines) -> str:
    file, line = where.rsplit(":", 1)
    distances = [(int(line) - number, fact) for fact, place, number in lines if place == file]
    near = [(abs(far), fact) for far, fact in distances if -NEAR <= far <= SPANS.get(fact, NEAR)]
    return min(near, default=(0, ""))[1]
