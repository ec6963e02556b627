"""Megatron's optimizer and learning rate: keys, order of rates, styles, offload; and what Megatron does not read."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values import catalogue
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import MEGATRON, is_megatron
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_OPTIMIZER: Final = f"{MEGATRON}.optimizer"
_SCHEDULER: Final = f"{MEGATRON}.scheduler"
_SECTIONS: Final = {"optimizer": _OPTIMIZER, "scheduler": _SCHEDULER}
_LR: Final = f"{_OPTIMIZER}.lr"
_FRACTION: Final = f"{_OPTIMIZER}.optimizer_offload_fraction"
_WARM_UP: Final = f"{_SCHEDULER}.lr_warmup_iters"
_DECAY: Final = f"{_SCHEDULER}.lr_decay_iters"
_STYLES: Final = ("lr_decay_style", "lr_wsd_decay_style", "weight_decay_incr_style")
_WEIGHTS: Final = tuple(f"{_SCHEDULER}.{end}_weight_decay" for end in ("start", "end"))


@TOPIC.problem(
    f"{_FRACTION} {_OPTIMIZER}.optimizer_cpu_offload",
    fails=Fails.AT_LOADING,
    source="nemo_rl/models/megatron/setup.py:890 at v0.7.0",
    logs="Currently for optimizer offloading, only optimizer_offload_fraction=1.0 is suppo",
)
def offload_fraction(run: RunConfig) -> Iterator[Finding]:
    """optimizer_offload_fraction is a share that this version cannot offload

    Fix: set optimizer_offload_fraction to 1.0, or optimizer_cpu_offload to false
    """
    if not is_megatron(run) or not run.on(f"{_OPTIMIZER}.optimizer_cpu_offload"):
        return
    share = run.number(_FRACTION)
    if not 0 < share <= 1 or (share < 1 and not run.since("v0.8.0")):
        what = f"optimizer_cpu_offload is on, and optimizer_offload_fraction is {quoted(run.number(_FRACTION))}"
        yield Finding(what, proposed={_FRACTION: 1})


@TOPIC.problem(
    f"{_OPTIMIZER} {_SCHEDULER}",
    fails=Fails.AT_LOADING,
    source="schemas/catalogues/libraries/megatron.yaml; nemo_rl/models/megatron/setup.py:1016 at v0.7.0",
)
def megatron_key(run: RunConfig) -> Iterator[Finding]:
    """a key of Megatron's optimizer or scheduler is not a field of its class

    Fix: correct the name, or remove the key
    """
    for name, section in _SECTIONS.items() if is_megatron(run) else ():
        known = catalogue.library("megatron")[name]
        for key in mapping(run.at(section)):
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
                fix = f"did you mean {close[0]}?" if close else ""
                yield Finding(f"{section}.{key} is no field of Megatron's {name}", keys=[f"{section}.{key}"], fix=fix)


@TOPIC.problem(
    f"{_OPTIMIZER}.min_lr {_SCHEDULER}.lr_warmup_init {_LR}",
    fails=Fails.AT_LOADING,
    source="Megatron-LM d30c3ae546, megatron/core/optimizer_param_scheduler.py:150; NeMo RL at v0.6.0",
)
def megatron_rates(run: RunConfig) -> Iterator[Finding]:
    """Megatron's learning rate is below its minimum or its initial warm-up value

    Fix: lower the value, or raise policy.megatron_cfg.optimizer.lr
    """
    if not is_megatron(run):
        return
    highest = run.number(_LR)
    for path in (f"{_OPTIMIZER}.min_lr", f"{_SCHEDULER}.lr_warmup_init"):
        if run.has(path) and run.number(path) > highest:
            name = path.rpartition(".")[2]
            what = f"{name} is {quoted(run.number(path))}, and lr is {quoted(highest)}"
            # The base file has the one that the user did not think of.
            yield Finding(what, keys=[path, _LR] if run.given_has(path) else [_LR, path])


@TOPIC.problem(
    f"{_WARM_UP} {_DECAY} grpo.max_num_steps",
    fails=Fails.AT_LOADING,
    source="Megatron-LM af73aa2ceb, megatron/core/optimizer_param_scheduler.py:74; NeMo RL at v0.4.0",
    before="v0.6.0",
)
def megatron_warm_up(run: RunConfig) -> Iterator[Finding]:
    """Megatron's warm-up is not shorter than its decay

    Fix: lower lr_warmup_iters, or raise lr_decay_iters
    """
    if not is_megatron(run):
        return
    decay = _DECAY if run.at(_DECAY) is not None else "grpo.max_num_steps"
    if run.integer(_WARM_UP) >= run.integer(decay):
        what = f"lr_warmup_iters is {run.integer(_WARM_UP)}, and {decay.rpartition('.')[2]} is {run.integer(decay)}"
        yield Finding(what, keys=[_WARM_UP, decay] if run.given_has(_WARM_UP) else [decay, _WARM_UP])


@TOPIC.problem(
    " ".join(f"{_SCHEDULER}.{name}" for name in _STYLES),
    fails=Fails.LATER,
    source="Megatron-LM d30c3ae546, megatron/core/optimizer_param_scheduler.py:279; NeMo RL at v0.6.0",
)
def megatron_style(run: RunConfig) -> Iterator[Finding]:
    """a style in Megatron's schedule is unknown, or lacks a setting

    Fix: use one of the supported styles
    """
    for name in _STYLES if is_megatron(run) else ():
        path, known = f"{_SCHEDULER}.{name}", catalogue.library("megatron")["scheduler"][name]
        if run.has(path) and not catalogue.fits(known, run.at(path)):
            yield Finding(f"{name} is {quoted(run.at(path))}, expected one of {', '.join(known)}", keys=[path])
    style, annealing = f"{_SCHEDULER}.lr_decay_style", f"{_SCHEDULER}.lr_wsd_decay_iters"
    # Later versions anneal over the whole decay then.
    if is_megatron(run) and not run.since("v0.6.0") and run.at(style) == "WSD" and run.at(annealing) is None:
        yield Finding("lr_decay_style is WSD, and lr_wsd_decay_iters is not given", keys=[style], fix="add it")


@TOPIC.problem(
    " ".join((*_WEIGHTS, f"{_SCHEDULER}.weight_decay_incr_style")),
    fails=Fails.AT_LOADING,
    source="Megatron-LM af73aa2ceb, megatron/core/optimizer_param_scheduler.py:104; NeMo RL at v0.4.0",
)
def megatron_weight_decay(run: RunConfig) -> Iterator[Finding]:
    """Megatron's weight decay falls, or changes although its style is constant

    Fix: set both to the same value, or choose linear or cosine with a higher end_weight_decay
    """
    if not is_megatron(run):
        return
    start, end = map(run.number, _WEIGHTS)
    constant = run.at(f"{_SCHEDULER}.weight_decay_incr_style") == "constant"
    if end < start or (constant and end != start):
        style = ", and weight_decay_incr_style is constant" if constant else ""
        yield Finding(f"start_weight_decay is {quoted(start)}, end_weight_decay {quoted(end)}{style}")


@TOPIC.problem(
    "policy.optimizer policy.scheduler",
    fails=Fails.SILENT,
    source="nemo_rl/models/megatron/setup.py:1016 at v0.7.0",
    severity=WARNING,
)
def optimizer_not_read(run: RunConfig) -> Iterator[Finding]:
    """policy.optimizer or policy.scheduler is set, but Megatron does not read it

    Why: Megatron reads other sections, so the learning rate stays that of the base file
    Fix: set the values under policy.megatron_cfg.optimizer and policy.megatron_cfg.scheduler
    """
    if not is_megatron(run):
        return
    given = mapping(run.given.get("policy"))
    rate, base = mapping(mapping(given.get("optimizer")).get("kwargs")).get("lr"), run.at(_LR)
    if rate is not None and rate != base and not run.given_has(_LR):
        what = f"policy.optimizer.kwargs.lr is {quoted(rate)}, Megatron reads {_LR}, which is {quoted(base)}"
        yield Finding(what, keys=["policy.optimizer.kwargs.lr", "policy.optimizer"])
    elif given.get("scheduler") and not run.given_has(_SCHEDULER) and given["scheduler"] != _base_schedule(run):
        yield Finding(
            "policy.scheduler is set, and Megatron reads policy.megatron_cfg.scheduler", keys=["policy.scheduler"]
        )


def _base_schedule(run: RunConfig) -> object:
    return mapping(run.catalogue.base["policy"]).get("scheduler")
