"""The prompt asks for what the rewards of the user's choice look for."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from postrender.finding import Finding
from postrender.rules.values.define import Topic
from postrender.rules.values.nemo_rl.run import data_sections
from postrender.values.derived import mapping
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from postrender.types import Json
    from postrender.values.config import Effective

TOPIC: Final = Topic("job", framework="", source="")
_OWN: Final = re.compile(r"\$\{oc\.env:GRPO_PROMPTS\}/(.+)\.txt")
_PREPARED: Final = re.compile(r"\$\{oc\.env:GRPO_DATASETS\}/([^/$]+)/")
# What the prompts of the catalogue ask for, by the names of their lists.
_ASKING: Final = {"promptsForBox": r"\boxed", "promptsForAnswer": "Answer:", "promptsForTags": "<think> <answer>"}
# What the prompt of a prepared data set ends with, if its entry has no instruction: jobs/tasks/prepare_data.py.
_INSTRUCTION: Final = "####"
_MARKERS: Final = ("boxed", "answer", "####")


@TOPIC.rule(
    "marker-not-asked-for",
    "nemo-rl/R2 nemo-rl/P6",
    "=job.rewards",
    title="the prompt asks for what a built-in reward looks for",
    why="silent: the model does not write it, so every response has the same score, 0, and the model learns nothing",
    fix="ask for it in job.prompts (verl: job.prepareData.NAME.instruction), or change the kwargs of the reward",
    source="jobs/rewards/reward_builtins.py at 0.1.0",
)
def _asked(run: Effective) -> Iterator[Finding]:
    trains = run.value("job.task") in (None, "train")
    prompt = (_of_verl(run) if run.framework == "verl" else _of_nemo_rl(run)) if trains else None
    if prompt is None:
        return
    name, text = prompt
    for reward, entry in mapping(run.value("job.rewards")).items():
        wanted = _wanted(mapping(entry))
        if wanted and not any(each in text for each in wanted):
            what = f"reward {reward} looks for {' or '.join(wanted)}, and {name} asks for {_found(text)}"
            yield Finding(what, keys=[f"=job.rewards.{reward}"])


def _wanted(entry: Mapping[str, Json]) -> list[str]:
    """Return the texts of which a built-in reward needs one for a score above 0; none if that is not known."""
    kwargs = mapping(entry.get("kwargs"))
    answer = f"<{kwargs.get('answer_tag', 'answer')}>"
    if entry.get("builtin") == "format" and not kwargs.get("pattern"):
        return [f"<{kwargs.get('think_tag', 'think')}>", answer]
    if entry.get("builtin") != "exact_answer":
        return []
    markers = kwargs.get("markers", _MARKERS)
    texts = {"boxed": r"\boxed", "answer": answer, "####": "####"}
    return [texts[each] for each in markers if each in texts] if isinstance(markers, list | tuple) else []


def _found(text: str) -> str:
    """Name what a prompt asks for, for a message."""
    known = (r"\boxed", "<think>", "<answer>", "####", "Answer:")
    return " and ".join(each for each in known if each in text) or "none of them"


def _of_nemo_rl(run: Effective) -> tuple[str, str] | None:
    """Return name and text of the prompts of the training data, None if one is not known."""
    names, texts = [], []
    for path, section in data_sections(run):
        for key in ("prompt_file", "system_prompt_file"):
            file = section.get(key)
            if path == "data.validation" or not file:
                continue
            text = _text(run, str(file))
            if text is None:
                return None
            names.append(os.path.basename(str(file)))
            texts.append(text)
    # Without a prompt the model gets the question of the data set, which may ask for anything.
    return (" and ".join(dict.fromkeys(names)), "\n".join(texts)) if texts else None


def _text(run: Effective, file: str) -> str | None:
    """Return the text of a prompt file, or for a prompt of the image what it asks for."""
    own = _OWN.fullmatch(file)
    if own is None:
        names, name = run.catalogue.names, os.path.normpath(file)
        asked = [words for topic, words in _ASKING.items() if name in names[topic]]
        return " ".join(asked) if name in names["prompts"] else None
    text = mapping(run.value("job.prompts")).get(own[1])
    return text if isinstance(text, str) else None


def _of_verl(run: Effective) -> tuple[str, str] | None:
    """Return name and text of the instruction of the training data, None if not all of it is prepared."""
    given = value_at(run.config, ("data", "train_files"))
    names, texts = [], []
    for file in given if isinstance(given, list) else [given]:
        found = _PREPARED.match(str(file))
        entry = mapping(run.value("job.prepareData")).get(found[1]) if found else None
        if found is None or not isinstance(entry, dict):
            return None
        instruction = entry.get("instruction")
        named = f"job.prepareData.{found[1]}.instruction"
        names.append(named if instruction else "the instruction of task prepare-data")
        texts.append(str(instruction or _INSTRUCTION))
    return " and ".join(dict.fromkeys(names)), "\n".join(texts)
