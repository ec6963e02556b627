"""Write a recipe for a model without a shipped recipe: another recipe's text, and what to check in it."""

from __future__ import annotations

import math
import re

from grpo.plan import planner
from grpo.problems.models.values_thinking import ENOUGH, KWARGS
from grpo.start import recipes
from grpo.start.recipes import Choice
from grpo.values import models
from grpo.values.config import RunConfig
from postrender import textfile
from postrender.values import merge
from postrender.yaml import writer

_BEGINNING = "images:"
_FRAMEWORKS = {"nemo-rl": "NeMo RL", "verl": "verl"}
# What depends on the model, with the keys of each framework.
_MEMORY = {
    "nemo-rl": (
        "ray.workers.replicas, policy.dtensor_cfg.tensor_parallel_size, policy.train_micro_batch_size,"
        " policy.logprob_batch_size, policy.generation.vllm_cfg (tensor_parallel_size, gpu_memory_utilization)"
    ),
    "verl": (
        "ray.workers.replicas, actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu, actor_rollout_ref.rollout"
        " (tensor_model_parallel_size, gpu_memory_utilization), the micro batches of ref and rollout"
    ),
}
_LENGTH = {"nemo-rl": "policy.max_total_sequence_length", "verl": "data.max_response_length and rollout.max_model_len"}
_RATE = {"nemo-rl": "policy.optimizer.kwargs.lr", "verl": "actor_rollout_ref.actor.optim.lr"}
# From here on a ratio with one digit is not 1.0.
_OTHER = 1.05


def text(choice: Choice, schema: str) -> str:
    """Return a recipe's text for the chosen model; `schema` is the path of the editors' schema, or empty."""
    original = textfile.read_bytes(choice.recipe.path).decode("utf-8")
    body = original[original.index(f"\n{_BEGINNING}") + 1 :]
    return "\n".join([*writer.schema(schema), *_header(choice), _renamed(body, choice)])


def scale(choice: Choice) -> str:
    """Describe the model's size relative to that of the recipe's model."""
    theirs, ours = recipes.size(choice.recipe.model), recipes.size(choice.model)
    if not ours or not theirs:
        return f"the size of {choice.model} is not known"
    more, word = (ours / theirs, "larger") if ours >= theirs else (theirs / ours, "smaller")
    if more < _OTHER:
        return f"{choice.model} is about as large as {choice.recipe.model}"
    return f"{choice.model} is {more:.1f} times {word} than {choice.recipe.model}"


def _renamed(body: str, choice: Choice) -> str:
    """Insert the names of the model and run; drop the old commit, step times and W&B name, which no longer apply."""
    old, model = re.escape(choice.recipe.model), choice.model
    body = re.sub(rf"^( +){old}: .*$", rf"\g<1>{writer.key(model)}: {{revision: main}}", body, flags=re.MULTILINE)
    body = re.sub(r"^  stepTimes:.*\n(?:    .*\n)*", "", body, flags=re.MULTILINE)
    body = re.sub(r"^(job:\n  name: ).*$", rf"\g<1>{choice.run}", body, flags=re.MULTILINE)
    body = re.sub(r"^(tracking:\n(?:  .*\n)*?)    name: .*\n", r"\g<1>", body, count=1, flags=re.MULTILINE)
    return re.sub(rf"(?<=: ){old}(?=\s|$)", model, body)


def _header(choice: Choice) -> list[str]:
    """Return the comment at the top: what was derived from what, and what to check."""
    recipe, model = choice.recipe, choice.model
    framework = _FRAMEWORKS[recipe.framework]
    lines = [
        *writer.comments(f"{model} on {recipe.data} with {framework}, derived by grpo init from recipe {recipe.name}."),
        *writer.comments(f"Why this one: {choice.why}."),
        *writer.comments(
            f"What differs from it: the name of the model, {recipe.model} → {model}, under job.config and job.fetch, "
            "and the name of the run (job.name), which is its name in W&B too. No time of a step is known. Everything "
            "else is as it was for the other model. Nobody has run it."
        ),
        "#",
        "# Check, before you pay for GPUs:",
    ]
    return [*lines, *(line for topic, words in _checks(choice).items() for line in _check(topic, words)), ""]


def _check(topic: str, words: str) -> list[str]:
    first, *rest = writer.comments(words, " " * 19)
    return [f"#   {topic:<15}{first.lstrip(' #')}", *(f"#{' ' * 17} {line.lstrip(' #')}" for line in rest)]


def _checks(choice: Choice) -> dict[str, str]:
    framework, ours = choice.recipe.framework, recipes.size(choice.model)
    found = {
        "memory": f"{scale(choice)}: {_MEMORY[framework]}",
        "heads": "the tensor-parallel sizes must divide the attention heads of the model",
        "length": f"{_LENGTH[framework]}: prompt and answer must fit; the model has a limit of its own",
        "prompt": "the tokenizer needs a chat template; a base model often lacks one",
        **_thinking(choice),
        "learning rate": f"{_RATE[framework]} is that of the other model",
        "revision": "job.fetch.models: main can move; write the commit that task fetch prints",
    }
    if ours:
        found["disk"] = _disk(choice, ours)
    return found


def _thinking(choice: Choice) -> dict[str, str]:
    """Return what to check of a model whose chat template lets it think."""
    if not (models.load(choice.model) or {}).get("thinks"):
        return {}
    framework = choice.recipe.framework
    return {
        "thinking": f"the model thinks before it answers, which takes thousands of tokens: switch it off with "
        f"{KWARGS[framework]}: {{enable_thinking: false}}, or raise {_LENGTH[framework]} to {ENOUGH} or more"
    }


def _disk(choice: Choice, ours: float) -> str:
    """Describe a checkpoint's size, and what task convert needs of it, as `grpo plan` computes for the recipe."""
    run = RunConfig(merge.over_defaults(merge.load([choice.recipe.path])))
    theirs = recipes.size(choice.recipe.model) or ours
    said = f"a checkpoint is about {math.ceil(planner.checkpoints(run)[0].gib * ours / theirs)} GiB (calculated)"
    if planner.merges_in_pieces(run):
        return f"{said}; task convert merges it piece by piece"
    weights = math.ceil(planner.converted(run).gib * ours / theirs)
    return f"{said}; task convert needs {weights} GiB of ray.head.memory"
