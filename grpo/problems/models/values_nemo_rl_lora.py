"""LoRA: which modules get an adapter, and whether the training backend reads the section at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import DTENSOR, MEGATRON, is_megatron, is_v2, is_vllm, model_of
from grpo.values.reference_errors import UnknownError
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_LORA: Final = f"{DTENSOR}.lora_cfg"
_PEFT: Final = f"{MEGATRON}.peft"
_LISTS: Final = ("target_modules", "exclude_modules")
# Models whose modules have the names below; Automodel joins some of them into one.
_DENSE: Final = (
    *("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM"),
)
_MODULES: Final = (
    *(f"self_attn.{name}_proj" for name in ("q", "k", "v", "o", "qkv")),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down", "gate_up")),
)
# What Megatron calls the modules of Hugging Face.
_IN_MEGATRON: Final = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj"), "linear_qkv"),
    **dict.fromkeys(("gate_proj", "up_proj"), "linear_fc1"),
    "o_proj": "linear_proj",
    "down_proj": "linear_fc2",
}


def _section(run: RunConfig) -> str | None:
    """Return the LoRA section that is on and read, or None without LoRA."""
    section = _PEFT if is_megatron(run) else _LORA
    return section if run.on(f"{section}.enabled") and (is_megatron(run) or is_v2(run)) else None


def _listed(run: RunConfig, section: str) -> list[list[str]]:
    """Return the names to train and the names to leave out."""
    found = []
    for name in _LISTS:
        given = run.at(f"{section}.{name}")
        found.append([each for each in given if isinstance(each, str)] if isinstance(given, list) else [])
    return found


@TOPIC.problem(
    " ".join(f"{_LORA}.{name}" for name in (*_LISTS, "match_all_linear")),
    fails=Fails.AT_LOADING,
    source="Automodel 92635e74f4, components/_peft/module_matcher.py; nemo_rl/models/automodel/setup.py:585 at v0.6.0",
    since="v0.5.0",
)
def lora_targets(run: RunConfig) -> Iterator[Finding]:
    """LoRA has no setting, or several conflicting ones, to choose its modules

    Fix: set only target_modules (with match_all_linear false), only exclude_modules, or only match_all_linear
    """
    section = _section(run)
    if not section:
        return
    targets, excluded = _listed(run, section)
    match_all = section == _LORA and run.on(f"{_LORA}.match_all_linear")
    path = f"{section}.{_LISTS[0] if targets else _LISTS[1]}"
    if targets and excluded:
        yield Finding("target_modules and exclude_modules are both given", keys=[path])
    elif match_all and run.since("v0.6.0") and (targets or excluded):
        what = f"match_all_linear is on, and {path.rpartition('.')[2]} is given"
        yield Finding(what, keys=[path], proposed={f"{_LORA}.match_all_linear": False})
    elif section == _LORA and not run.since("v0.6.0") and not (match_all or targets or excluded):
        yield Finding("LoRA is on, and no modules are chosen", keys=[section], fix="set match_all_linear to true")


@TOPIC.problem(
    f"{_LORA}.target_modules {_LORA}.exclude_modules",
    fails=Fails.SILENT,
    source="Automodel 1d42deb981, components/_peft/module_matcher.py; NeMo RL at v0.5.0",
    severity=WARNING,
    since="v0.5.0",
    before="v0.6.0",
)
def lora_targets_ignored(run: RunConfig) -> Iterator[Finding]:
    """LoRA matches all linear modules, but some are chosen or excluded

    Why: every linear module gets an adapter, including those that are not chosen
    Fix: set match_all_linear to false
    """
    if _section(run) != _LORA or not run.on(f"{_LORA}.match_all_linear"):
        return
    for name, given in zip(_LISTS, _listed(run, _LORA), strict=True):
        if given:
            proposed = {f"{_LORA}.match_all_linear": False}
            yield Finding(f"match_all_linear is on, and {name} is given", keys=[f"{_LORA}.{name}"], proposed=proposed)


@TOPIC.problem(
    f"{_LORA}.target_modules",
    fails=Fails.AT_FIRST_STEP,
    source="Automodel 24b47e8562, components/_peft/lora.py:592; nemo_rl/models/automodel/setup.py:585 at v0.7.0",
    since="v0.5.0",
)
def lora_module(run: RunConfig) -> Iterator[Finding]:
    """one of NeMo RL's LoRA target modules is not a module of the model

    Why: the modules get no adapter; if none gets one, nothing can be trained, and the first step fails
    Fix: use a pattern for the full name, such as *q_proj; Megatron calls them linear_qkv, linear_fc1 …
    """
    section = _section(run)
    targets = _listed(run, section)[0] if section else []
    keys = [f"{section}.target_modules"]
    if section == _PEFT:
        for name in targets:
            if name in _IN_MEGATRON:
                yield Finding(f"Megatron has no module {name}", keys=keys, fix=f"write {_IN_MEGATRON[name]}")
    elif not run.on(f"{_LORA}.match_all_linear"):
        for name in targets:
            if re.fullmatch(r"\w+", name) and name != "lm_head":
                what = (
                    f"no module is called {name}: the whole name is compared, such as model.layers.0.self_attn.q_proj"
                )
                yield Finding(what, keys=keys, fix=f'write "*{name}"')
            elif (names := _names(run)) and not any(map(_pattern(name).fullmatch, names)):
                yield Finding(f"no module of {run.at('policy.model_name')} matches {name}", keys=keys)


def _names(run: RunConfig) -> list[str]:
    """Return the names of the model's linear modules; empty if they are unknown."""
    try:
        model = model_of(run)
        if model.architecture not in _DENSE:
            return []
        layers = range(model.number("num_hidden_layers"))
    except UnknownError:
        return []
    return ["lm_head", *(f"model.layers.{layer}.{module}" for layer in layers for module in _MODULES)]


def _pattern(name: str) -> re.Pattern[str]:
    """Return Automodel's regex for a pattern; a pattern that cannot be compiled matches everything here."""
    try:
        return re.compile(name.replace(".*", "*").replace("*", ".*"))
    except re.error:
        return re.compile(".*")


@TOPIC.problem(
    f"{_LORA}.enabled {_PEFT}.enabled",
    fails=Fails.SILENT,
    source="nemo_rl/models/megatron/setup.py:1201 at v0.7.0",
    severity=WARNING,
    since="v0.5.0",
)
def lora_not_read(run: RunConfig) -> Iterator[Finding]:
    """LoRA is configured where the training backend does not read it

    Why: the entire model is trained, which needs several times the memory, at a learning rate meant for LoRA
    Fix: for DTensor, use policy.dtensor_cfg.lora_cfg; for Megatron, use policy.megatron_cfg.peft
    """
    used, other = (_PEFT, _LORA) if is_megatron(run) else (_LORA, _PEFT)
    if run.on(f"{other}.enabled") and not run.on(f"{used}.enabled"):
        backend = "Megatron" if is_megatron(run) else "DTensor"
        yield Finding(f"{backend} trains, and {other} is on, which it does not read", keys=[f"{other}.enabled"])


@TOPIC.problem(
    f"{_LORA}.enabled =job.version",
    fails=Fails.AT_FIRST_STEP,
    source="nemo_rl/models/policy/workers/dtensor_policy_worker_v2.py:1753 at v0.5.0",
    since="v0.5.0",
    before="v0.6.0",
)
def lora_not_merged(run: RunConfig) -> str | None:
    """LoRA is on, but this version cannot send LoRA weights to vLLM

    Why: the run fails before its first step: vLLM gets names such as q_proj.lora_A.weight, which its model lacks
    Fix: use v0.6.0 or later, which merges the adapters first, or set policy.dtensor_cfg.lora_cfg.enabled to false
    """
    if _section(run) != _LORA or not is_vllm(run):
        return None
    return f"lora_cfg is enabled, and {run.version} sends the adapters to vLLM as weights of their own"
