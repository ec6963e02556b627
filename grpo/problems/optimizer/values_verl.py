"""The optimizer: its class and arguments, learning rate, warm-up, gradient clipping."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted, within
from grpo.problems.frameworks.verl import TOPIC, failing
from grpo.values.frameworks.verl import ACTOR, MODEL, has_engine_workers, has_new_trainer
from grpo.values.frameworks.verl_data import steps_of_run
from grpo.values.reference_errors import UnknownError
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig
    from postrender.types import Json

_OPTIM: Final = f"{ACTOR}.optim"
_CLASS: Final = f"{_OPTIM}.optimizer"
_MODULE: Final = f"{_OPTIM}.optimizer_impl"
_MORE: Final = f"{_OPTIM}.override_optimizer_config"
_RATE: Final = f"{_OPTIM}.lr"
_LEAST, _MOST = 1e-9, 1e-2
# What all take: verl itself passes the first two, and the third to each class with adam in its name.
_COMMON: Final = ("lr", "weight_decay", "foreach", "maximize")
_ADAM: Final = (*_COMMON, "betas", "eps", "amsgrad", "capturable", "differentiable", "fused")
_GRADUAL: Final = (*_COMMON, "betas", "eps", "capturable", "differentiable")
# torch.optim from 2.8 to 2.11, without those that refuse verl's arguments or a model's parameters.
_TORCH: Final[Mapping[str, tuple[str, ...]]] = {
    "Adam": (*_ADAM, "decoupled_weight_decay"),
    "AdamW": _ADAM,
    "Adamax": _GRADUAL,
    "NAdam": (*_GRADUAL, "momentum_decay", "decoupled_weight_decay"),
    "RAdam": (*_GRADUAL, "decoupled_weight_decay"),
    "SGD": (*_COMMON, "momentum", "dampening", "nesterov", "differentiable", "fused"),
    "Adagrad": (*_COMMON, "lr_decay", "initial_accumulator_value", "eps", "differentiable", "fused"),
    "Adadelta": (*_COMMON, "rho", "eps", "capturable", "differentiable"),
    "Adafactor": (*_COMMON, "beta2_decay", "eps", "d"),
    "ASGD": (*_COMMON, "lambd", "alpha", "t0", "differentiable", "capturable"),
    "RMSprop": (*_COMMON, "alpha", "eps", "momentum", "centered", "capturable", "differentiable"),
}
_UNFIT: Final = {
    "LBFGS": "takes no weight_decay, which verl passes",
    "Rprop": "takes no weight_decay, which verl passes",
    "SparseAdam": "takes no weight_decay, which verl passes",
    "Muon": "takes matrices only, and a model has vectors too",
}
_OTHERS: Final = {
    "torchao.optim": ("_AdamW", "Adam8bit", "AdamW8bit", "Adam4bit", "AdamW4bit", "AdamFp8", "AdamWFp8"),
    "bitsandbytes.optim": (
        *(f"{name}{bits}" for name in ("Adam", "AdamW", "Lion", "AdEMAMix", "LAMB") for bits in ("", "8bit", "32bit")),
        *(f"Paged{name}{bits}" for name in ("Adam", "AdamW", "Lion", "AdEMAMix") for bits in ("", "8bit", "32bit")),
        *(f"{name}{bits}" for name in ("SGD", "RMSprop", "Adagrad", "LARS") for bits in ("", "8bit", "32bit")),
        "PytorchLARS",
    ),
}
_SWITCHES: Final = (
    *("amsgrad", "capturable", "centered", "decoupled_weight_decay", "differentiable", "foreach", "fused"),
    *("maximize", "nesterov"),
)
_PAIR: Final = 2
_TYPE: Final = f"{ACTOR}.fsdp_config.model_dtype"
# Two neighbours in bfloat16 are at least 1/256 of a number apart, and half of that is rounded away.
_STILL: Final = 512
# Above it, a step changes weights of the usual size, up to 0.01.
_SMALL: Final = 1e-5


@TOPIC.problem(f"{_CLASS} {_MODULE}", fails=Fails.AT_LOADING, source="workers/config/optimizer.py:340 at 0.9.1")
def optimizer_class(run: RunConfig) -> Iterator[Finding]:
    """the optimizer is not a class in its module, or verl cannot use it

    Fix: use AdamW with optimizer_impl torch.optim, the defaults
    """
    name, module = run.at(_CLASS), run.at(_MODULE)
    known = list(_TORCH) if module == "torch.optim" else _OTHERS.get(str(module))
    if known is None or name in known:
        return
    what = f"{_CLASS} is {quoted(name)}"
    if module == "torch.optim" and str(name) in _UNFIT:
        yield Finding(f"{what}, which {_UNFIT[str(name)]}")
        return
    close = [each for each in known if each.lower() == str(name).lower()] or difflib.get_close_matches(str(name), known)
    fix = f"did you mean {close[0]}?" if close else ""
    yield Finding(f"{what}, which is no class of {module}", fix=fix)


@TOPIC.problem(_MORE, fails=Fails.AT_LOADING, source="workers/config/optimizer.py:335 at 0.9.1")
def optimizer_arguments(run: RunConfig) -> Iterator[Finding]:
    """override_optimizer_config has an argument or value that the optimizer does not accept

    Fix: correct the name or the value, or remove the line
    """
    given, name = run.at(_MORE), str(run.at(_CLASS))
    if run.at(_MODULE) != "torch.optim" or not isinstance(given, dict) or name not in _TORCH:
        return
    for key, value in given.items():
        path = f"{_MORE}.{key}"
        if key not in _TORCH[name]:
            close = difflib.get_close_matches(key, _TORCH[name], n=1)
            yield Finding(f"{name} takes no {key}", keys=[path], fix=f"did you mean {close[0]}?" if close else "")
        elif key in _SWITCHES and not isinstance(value, bool) and value is not None:
            yield Finding(f"{path} is {quoted(value)}, expected true or false", keys=[path])
        elif key not in _SWITCHES and isinstance(value, (str, bool)):
            yield Finding(f"{path} is {quoted(value)}, expected a number", keys=[path])
    if given.get("fused") is True and given.get("foreach") is True:
        yield Finding("fused and foreach are both on", keys=[f"{_MORE}.foreach", f"{_MORE}.fused"])


@TOPIC.problem(
    f"{_RATE} {_OPTIM}.weight_decay {_OPTIM}.betas",
    fails=Fails.AT_LOADING,
    source="workers/config/optimizer.py:326 at 0.9.1",
)
def optimizer_range(run: RunConfig) -> Iterator[Finding]:
    """a learning rate, weight decay, epsilon or beta is outside the optimizer's range

    Fix: set lr to 1.0e-6, weight_decay to 0.01 and betas to [0.9, 0.999], the defaults
    """
    own = run.at(_MORE)
    paths = (_RATE, f"{_OPTIM}.weight_decay", *(f"{_MORE}.{key}" for key in ("lr", "weight_decay", "eps")))
    yield from failing(run, {path: within(path, least=0) for path in paths})
    in_class = "adam" in str(run.at(_CLASS)).lower()
    path = f"{_MORE}.betas" if isinstance(own, dict) and "betas" in own else f"{_OPTIM}.betas"
    if in_class and not _are_betas(run.at(path)):
        yield Finding(f"{path} is {quoted(run.at(path))}, expected two numbers from 0 to less than 1", keys=[path])


def _are_betas(given: Json) -> bool:
    values = given if isinstance(given, list) else []
    numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    return len(values) == len(numbers) == _PAIR and all(0 <= value < 1 for value in numbers)


@TOPIC.problem(_RATE, fails=Fails.SILENT, source="workers/config/optimizer.py:326 at 0.9.1", severity=WARNING)
def learning_rate(run: RunConfig) -> str | None:
    """the learning rate is too high or too low to train a language model

    Why: if it is too high, the first updates destroy the model; if it is too low, bfloat16 weights do not change
    Fix: set it to 1.0e-6, verl's value for GRPO; with LoRA, to about 1.0e-5
    """
    rate = run.number(_RATE)
    usual = rate < 0 or _LEAST <= rate <= _MOST
    return None if usual else f"{_RATE} is {rate:g}, expected {_LEAST:g} to {_MOST:g}"


@TOPIC.problem(
    f"{_TYPE} {_RATE}",
    fails=Fails.SILENT,
    source="workers/engine/fsdp/transformer_impl.py:234 at 0.8.0",
    severity=WARNING,
)
def weights_in_bfloat16(run: RunConfig) -> str | None:
    """the optimizer updates weights in bfloat16, but its steps are too small for that

    Why: bfloat16 keeps 8 significant bits, so small optimizer steps are rounded away and most weights never change
    Fix: remove model_dtype: its default is fp32, and FSDP computes in bfloat16 in any case
    """
    # Optimizers of other modules may round at random.
    plain = run.at(f"{ACTOR}.strategy") in ("fsdp", "fsdp2") and run.at(_MODULE) == "torch.optim"
    has_lora = run.number(f"{MODEL}.lora_rank") > 0 or run.on(f"{MODEL}.lora_adapter_path")
    if not plain or has_lora or run.at(_TYPE) not in ("bf16", "bfloat16"):
        return None
    rate = run.number(_RATE)
    what = f"{_TYPE} is {quoted(run.at(_TYPE))}, and a step of lr {rate:g} changes no weight above {_STILL * rate:g}"
    return what if 0 < rate <= _SMALL else None


@TOPIC.problem(f"{_OPTIM}.min_lr_ratio", fails=Fails.AT_LOADING, source="utils/torch_functional.py:749 at 0.9.1")
def least_learning_rate(run: RunConfig) -> str | None:
    """min_lr_ratio is not a share from 0 to 1

    Fix: use a share from 0 to 1, not a learning rate: 0.1 ends at a tenth of lr
    """
    path, older = f"{_OPTIM}.min_lr_ratio", run.at(f"{_OPTIM}.warmup_style")
    if (older or run.at(f"{_OPTIM}.lr_scheduler_type")) != "cosine" or run.at(path) is None:
        return None
    return within(path, least=0, most=1)(run)


@TOPIC.problem(
    f"{_OPTIM}.lr_warmup_steps_ratio {_OPTIM}.lr_warmup_steps",
    fails=Fails.SILENT,
    source="workers/engine/fsdp/transformer_impl.py:516 at 0.9.1",
    severity=WARNING,
)
def warm_up_longer_than_run(run: RunConfig) -> Iterator[Finding]:
    """the learning rate's warm-up takes the entire run or longer

    Why: the learning rate never reaches its configured value, and the first steps train with almost none
    Fix: use a ratio such as 0.05, or fewer steps than the run has
    """
    ratio, count = f"{_OPTIM}.lr_warmup_steps_ratio", f"{_OPTIM}.lr_warmup_steps"
    steps = run.at(count)
    # Older workers take 0 for no warm-up; newer ones look at the ratio then, too.
    is_set = isinstance(steps, int) and (steps > 0 or (steps == 0 and not has_engine_workers(run)))
    if not is_set:
        if run.number(ratio) >= 1:
            yield Finding(f"{ratio} is {quoted(run.number(ratio))}, expected a share of less than 1", keys=[ratio])
    # In this mode a step has several updates, which count for the warm-up.
    elif not (has_new_trainer(run) and run.at("trainer.v1.trainer_mode") == "separate_async"):
        most = steps_of_run(run)
        if 0 < most <= run.integer(count):
            yield Finding(f"{count} is {quoted(steps)}, and the run has {most} steps", keys=[count])


@TOPIC.problem(
    f"{ACTOR}.grad_clip {_OPTIM}.clip_grad",
    fails=Fails.SILENT,
    source="workers/engine/fsdp/transformer_impl.py:806 at 0.9.1",
)
def gradient_clipping(run: RunConfig) -> str | None:
    """gradients are clipped to a norm of 0 or less

    Why: at 0, each gradient becomes 0 and nothing is learned; below 0, its direction is reversed
    Fix: set it to 1.0, the default; a large number such as 1.0e9 clips nothing
    """
    path = f"{_OPTIM}.clip_grad" if has_engine_workers(run) else f"{ACTOR}.grad_clip"
    if run.at(path) is None:
        raise UnknownError(path)
    return within(path, above=0)(run)


@TOPIC.problem(
    f"{ACTOR}.grad_clip",
    fails=Fails.SILENT,
    source="workers/engine/fsdp/transformer_impl.py:806 at 0.9.1",
    severity=WARNING,
    since="0.7.1",
)
def gradient_clipping_unread(run: RunConfig) -> Iterator[Finding]:
    """actor.grad_clip is set, but the workers read actor.optim.clip_grad

    Why: these workers read optim.clip_grad, so gradients are clipped at that value
    Fix: set actor_rollout_ref.actor.optim.clip_grad
    """
    path, read = f"{ACTOR}.grad_clip", f"{_OPTIM}.clip_grad"
    if has_engine_workers(run) and run.given_has(path) and run.at(path) != run.at(read):
        yield Finding(f"{path} is {quoted(run.at(path))}, and {read} is {quoted(run.at(read))}", keys=[path])
