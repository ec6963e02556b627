"""The prompt asks for what the user's rewards look for."""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING, Final

from grpo.problems.rewards import values_own_code as own_code
from grpo.problems.topic import Topic
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import data_sections
from postrender.finding import WARNING, Finding
from postrender.problem import Fails
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig
    from postrender.types import Json

TOPIC: Final = Topic("job", framework="", source="")
_OWN: Final = re.compile(r"\$\{oc\.env:GRPO_PROMPTS\}/(.+)\.txt")
_PREPARED: Final = re.compile(r"\$\{oc\.env:GRPO_DATASETS\}/([^/$]+)/")
# What the prompts of the catalogue ask for, by the names of their lists.
_ASKING: Final = {"promptsForBox": r"\boxed", "promptsForAnswer": "Answer:", "promptsForTags": "<think> <answer>"}
# What the prompt of a prepared data set ends with, if its entry has no instruction: jobs/tasks/prepare_data.py.
_INSTRUCTION: Final = "####"
# Where the user writes what the model is asked.
_PLACES: Final = {"nemo-rl": "job.prompts", "verl": "job.prepareData.NAME.instruction"}
_MARKERS: Final = ("boxed", "answer", "####")
# Not the name of a group, as in (?P<answer>.
_TAG: Final = re.compile(r"(?<!\?P)</?([a-z]\w*)>|\\(boxed)", re.IGNORECASE)
# What models and their templates write unasked, and the marks of a text.
_UNASKED: Final = frozenset(
    ("<think>", "<thinking>", "<s>", "<pad>", "<unk>", "<bos>", "<eos>", "<tool_call>", "<br>", "<p>", "<b>", "<i>")
)


@TOPIC.problem("=job.rewards", fails=Fails.SILENT, source="jobs/rewards/reward_builtins.py at 0.1.0")
def marker_not_asked_for(run: RunConfig) -> Iterator[Finding]:
    """a reward looks for a marker that the prompt does not ask for

    Why: the model does not write it, so every response has the same score, 0, and the model learns nothing
    Fix: ask for it in job.prompts (verl: job.prepareData.NAME.instruction), or change the reward's kwargs
    """
    if not run.trains:
        return
    if run.framework == "verl" and _scores_itself(run):
        yield from _for_verl(run)
    prompt = _of_verl(run) if run.framework == "verl" else _of_nemo_rl(run)
    if prompt is None:
        return
    name, text = prompt
    for reward, entry in mapping(run.value("job.rewards")).items():
        wanted = _wanted(mapping(entry))
        if wanted and not any(each in text for each in wanted):
            what = f"reward {reward} looks for {' or '.join(wanted)}, and {name} asks for {_found(text)}"
            fix = f"ask for it in {_PLACES[run.framework]}, or change the kwargs of the reward"
            yield Finding(what, keys=[f"=job.rewards.{reward}"], fix=fix)


@TOPIC.problem("=job.rewards", fails=Fails.SILENT, source="jobs/rewards/rewards.py at 0.1.0", severity=WARNING)
def tag_not_asked_for(run: RunConfig) -> Iterator[Finding]:
    """your own reward looks for tags that the prompt does not ask for

    Why: if the reward needs them, every response has the same score, and the model learns nothing
    Fix: ask for them in the prompt, or look for the prompt's tags; if the reward needs no tags, ignore the finding
    """
    prompt = (_of_verl(run) if run.framework == "verl" else _of_nemo_rl(run)) if run.trains else None
    name_of_prompt, asked = (prompt[0], _tags(prompt[1])) if prompt else ("", set())
    for name, text, entry in own_code.files(run) if asked else ():
        # One tag that the prompt has may be enough for the reward.
        wanted = _tags(" ".join(_constants(text, entry))) - _UNASKED
        if wanted and not wanted & asked:
            found = " and ".join(sorted(asked))
            what = f"reward {name} looks for {' or '.join(sorted(wanted))}, and {name_of_prompt} asks for {found}"
            yield Finding(what, keys=[f"=job.rewards.{name}.file", f"=job.rewards.{name}"])


def _tags(text: str) -> set[str]:
    return {f"<{found[1].lower()}>" if found[1] else r"\boxed" for found in _TAG.finditer(text)}


def _constants(text: str, entry: Mapping[str, Json]) -> Iterator[str]:
    """Yield the texts in a reward's file, except those that stand alone as comments, and the texts in its kwargs."""
    tree = own_code.parsed(text)
    nodes = [*ast.walk(tree)] if tree else []
    comments = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in comments:
            yield node.value
    yield from (each for each in mapping(entry.get("kwargs")).values() if isinstance(each, str))


def _wanted(entry: Mapping[str, Json]) -> list[str]:
    """Return the texts of which a built-in reward needs at least one to score above 0; empty if they are unknown."""
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
    """Return what a prompt asks for, for a message."""
    known = (r"\boxed", "<think>", "<answer>", "####", "Answer:")
    return " and ".join(each for each in known if each in text) or "none of them"


def _of_nemo_rl(run: RunConfig) -> tuple[str, str] | None:
    """Return the name and text of the training data's prompts, or None if one of them is unknown."""
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


def _text(run: RunConfig, file: str) -> str | None:
    """Return a prompt file's text or, for a prompt in the image, what it asks for."""
    own = _OWN.fullmatch(file)
    if own is None:
        names, name = run.catalogue.names, os.path.normpath(file)
        asked = [words for topic, words in _ASKING.items() if name in names[topic]]
        return " ".join(asked) if name in names["prompts"] else None
    text = mapping(run.value("job.prompts")).get(own[1])
    return text if isinstance(text, str) else None


def _of_verl(run: RunConfig) -> tuple[str, str] | None:
    """Return the name and text of the training data's instruction, or None if some of the data is not prepared."""
    given = value_at(run.config, ("data", "train_files"))
    names, texts = [], []
    for file in given if isinstance(given, list) else [given]:
        prepared = _prepared(run, str(file))
        if prepared is None:
            return None
        name, instruction = prepared
        names.append(name if instruction else "the instruction of task prepare-data")
        texts.append(instruction or _INSTRUCTION)
    return " and ".join(dict.fromkeys(names)), "\n".join(texts)


def _prepared(run: RunConfig, file: str) -> tuple[str, str] | None:
    """Return the key and text of the user's instruction for a prepare-data file, or None for other files."""
    found = _PREPARED.match(file)
    entry = mapping(run.value("job.prepareData")).get(found[1]) if found else None
    if found is None or not isinstance(entry, dict):
        return None
    return f"job.prepareData.{found[1]}.instruction", str(entry.get("instruction") or "")


def _scores_itself(run: RunConfig) -> bool:
    """Return whether verl's own function scores the answers, without a user's reward or a reward model."""
    if any(entry is not None for entry in mapping(run.value("job.rewards")).values()):
        return False
    sections = ("reward.custom_reward_function.path", "custom_reward_function.path")
    others = (*sections, "reward.reward_model.enable", "reward_model.enable", "data.custom_cls.path")
    sources = ("reward.reward_manager.source", "reward_model.reward_loop_source")
    own_manager = any(run.at(path) not in (None, "register") for path in sources)
    return not own_manager and not any(map(run.on, others))


def _for_verl(run: RunConfig) -> Iterator[Finding]:
    """Report instructions that do not ask for GSM8K's marker, by which verl scores all that prepare-data writes."""
    given = value_at(run.config, ("data", "train_files"))
    for file in given if isinstance(given, list) else [given]:
        name, text = _prepared(run, str(file)) or ("", "")
        if text and _INSTRUCTION not in text:
            what = f"verl's own reward looks for {_INSTRUCTION}, and {name} does not ask for it"
            fix = f"remove the instruction: the default asks for {_INSTRUCTION}; or set job.rewards"
            yield Finding(what, keys=[f"={name}"], fix=fix)
