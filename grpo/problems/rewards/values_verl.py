"""Settings that another setting requires: the critic for GAE, the length from which DAPO's penalty starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.frameworks.verl import TOPIC
from grpo.problems.sign import printed
from grpo.values.frameworks.verl import has_critic
from postrender.finding import WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_CRITIC: Final = "critic.model.path"


@TOPIC.problem(
    f"algorithm.adv_estimator critic.enable {_CRITIC}",
    fails=Fails.AT_LOADING,
    source="trainer/ppo/utils.py:98 at 0.9.1",
    severity=WARNING,
)
def critic_without_model(run: RunConfig) -> Iterator[Finding]:
    """a critic is on, but critic.model.path is not set

    Why: the workers look for verl's default, a folder of verl's authors, and fail when they load the critic
    Fix: use grpo, which needs no critic, or set critic.model.path to the critic's model
    """
    if has_critic(run) and not run.given_has(_CRITIC):
        keys = ["algorithm.adv_estimator" if run.at("critic.enable") is None else "critic.enable", _CRITIC]
        what = f"{keys[0]} is {quoted(run.at(keys[0]))}, which needs a critic, and {_CRITIC} is not given"
        yield Finding(what, keys=keys)


@TOPIC.problem(
    "reward.reward_kwargs reward_model.reward_kwargs",
    fails=Fails.AT_SETUP,
    source="experimental/reward_loop/reward_manager/dapo.py:39 at 0.9.1",
    logs=printed("max_resp_len must be provided if overlong_buffer_cfg=", "overlong_buffer.len must be positive"),
)
def overlong_buffer(run: RunConfig) -> Iterator[Finding]:
    """DAPO's overlong buffer is longer than max_resp_len or has no length, or max_resp_len is missing

    Why: the reward workers reject it only at startup, with the cluster already running and billing
    Fix: set max_resp_len to data.max_response_length, and len to a fraction of it
    """
    path = _penalty(run)
    if not path:
        return
    buffer = f"{path}.overlong_buffer_cfg"
    if run.at(f"{path}.max_resp_len") is None:
        yield Finding(f"{buffer} is given, and {path}.max_resp_len is not", keys=[buffer])
        return
    length, most = run.integer(f"{buffer}.len"), run.integer(f"{path}.max_resp_len")
    if length > most:
        yield Finding(f"overlong_buffer_cfg.len is {length}, and max_resp_len {most}", keys=[f"{buffer}.len"])
    elif length < 1 and run.on(f"{buffer}.enable"):
        # 0.6.1 does not reject it, and divides by it.
        yield Finding(f"overlong_buffer_cfg.len is {length}, and enable is true", keys=[f"{buffer}.len"])


def _penalty(run: RunConfig) -> str:
    """Return the section with DAPO's settings; an empty text if its penalty is not requested."""
    older = not run.since("0.9.1") and run.at("reward_model.reward_manager") is not None
    path = "reward_model.reward_kwargs" if older else "reward.reward_kwargs"
    manager = run.at("reward_model.reward_manager" if older else "reward.reward_manager.name")
    buffer = f"{path}.overlong_buffer_cfg"
    # 0.9.1 asks only for what is on.
    is_asked = run.at(buffer) is not None and (not run.since("0.9.1") or run.on(f"{buffer}.enable"))
    return path if manager == "dapo" and is_asked else ""


@TOPIC.problem(
    "reward.reward_kwargs reward_model.reward_kwargs",
    fails=Fails.SILENT,
    source="experimental/reward_loop/reward_manager/dapo.py:110 at 0.9.1",
    severity=WARNING,
)
def overlong_penalty(run: RunConfig) -> Iterator[Finding]:
    """DAPO's overlong penalty applies to every answer or to none

    Why: the penalty starts at max_resp_len - overlong_buffer_cfg.len tokens, so it does not single out long answers
    Fix: set max_resp_len to data.max_response_length, and len to a fraction of it, such as a quarter
    """
    path = _penalty(run)
    buffer = f"{path}.overlong_buffer_cfg"
    if not (path and run.on(f"{buffer}.enable")):
        return
    length, most = run.integer(f"{buffer}.len"), run.integer(f"{path}.max_resp_len")
    longest = run.integer("data.max_response_length")
    keys = [f"{path}.max_resp_len", f"{buffer}.len", "data.max_response_length"]
    start = f"max_resp_len {most} - overlong_buffer_cfg.len {length} = {most - length}"
    if length == most > 0:
        yield Finding(f"{start}: every answer has a penalty", keys=keys)
    elif length > 0 and most - length >= longest:
        yield Finding(f"{start}, and no answer is longer than {longest}: none has a penalty", keys=keys)
