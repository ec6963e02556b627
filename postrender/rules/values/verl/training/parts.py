"""Parts that a choice needs: the critic of GAE, the length that DAPO's penalty counts from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from postrender.finding import WARNING, Finding
from postrender.rules.values.checks import quoted
from postrender.rules.values.verl.run import TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.values.config import Effective

_CRITIC: Final = "critic.model.path"


@TOPIC.rule(
    "critic-without-model",
    "A7",
    f"algorithm.adv_estimator critic.enable {_CRITIC}",
    title="a critic has a model",
    why="the workers look for verl's default, a folder of its authors, and end when they load the critic",
    fix="write grpo, which needs no critic, or name the critic's model in critic.model.path",
    source="trainer/ppo/utils.py:98 at 0.7.1",
    severity=WARNING,
)
def _critic(run: Effective) -> Iterator[Finding]:
    switch = run.at("critic.enable")
    is_on = run.at("algorithm.adv_estimator") == "gae" if switch is None else bool(switch)
    if is_on and not run.given_has(_CRITIC):
        keys = ["algorithm.adv_estimator" if switch is None else "critic.enable", _CRITIC]
        what = f"{keys[0]} is {quoted(run.at(keys[0]))}, which needs a critic, and {_CRITIC} is not given"
        yield Finding(what, keys=keys)


@TOPIC.rule(
    "overlong-buffer",
    "D5",
    "reward.reward_kwargs reward_model.reward_kwargs",
    title="DAPO's overlong buffer is no longer than the response",
    why="the reward workers refuse it when they start: the cluster is up, and its GPUs are paid for",
    fix="set max_resp_len to data.max_response_length, and len to a part of it",
    source="experimental/reward_loop/reward_manager/dapo.py:39 at 0.7.1",
)
def _overlong(run: Effective) -> Iterator[Finding]:
    older = not run.since("0.9.1") and run.at("reward_model.reward_manager") is not None
    section = "reward_model" if older else "reward"
    manager = run.at("reward_model.reward_manager" if older else "reward.reward_manager.name")
    path = f"{section}.reward_kwargs"
    buffer = f"{path}.overlong_buffer_cfg"
    # 0.9.1 asks only for what is on.
    if manager != "dapo" or run.at(buffer) is None or (run.since("0.9.1") and not run.on(f"{buffer}.enable")):
        return
    if run.at(f"{path}.max_resp_len") is None:
        yield Finding(f"{buffer} is given, and {path}.max_resp_len is not", keys=[buffer])
        return
    length, most = run.integer(f"{buffer}.len"), run.integer(f"{path}.max_resp_len")
    if length > most:
        yield Finding(f"overlong_buffer_cfg.len is {length}, and max_resp_len {most}", keys=[f"{buffer}.len"])
