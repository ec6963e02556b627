"""How NeMo RL's Single Controller, from v0.8.0 on, treats rollouts that fail or hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted, within
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.values.frameworks.nemo_rl import CONTROLLER, is_controlled
from postrender.finding import Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_FIRST: Final = "v0.8.0"
_FAILURE: Final = f"{CONTROLLER}.rollout_failure"
_HEALTH: Final = f"{CONTROLLER}.generation_fleet_health"
_ROUTER: Final = f"{CONTROLLER}.generation_router"
_WATCHDOG: Final = f"{CONTROLLER}.stall_watchdog"
_GYM: Final = "env.should_use_nemo_gym"
_STALLED: Final = f"{_WATCHDOG}.stall_timeout_s"
_ROLLOUT: Final = f"{_FAILURE}.nemo_gym.rollout_timeout_s"
_BACKEND: Final = f"{_ROUTER}.backend_timeout_s"
_DROPPED: Final = f"{_FAILURE}.on_dropped_prompt"
_ATTEMPTS: Final = f"{_FAILURE}.max_replacement_attempts"
_RESERVE: Final = f"{_FAILURE}.replacement_reserve_prompts"
_BUDGETS: Final = (f"{_FAILURE}.max_skipped_prompts", f"{_FAILURE}.max_consecutive_dropped_prompts")
_FRACTION: Final = f"{_FAILURE}.min_step_batch_fraction"
_STATUS: Final = f"{_ROUTER}.no_healthy_backend_status"
_SAMPLER: Final = f"{CONTROLLER}.sampler.name"
_OF_GYM: Final = (_ROLLOUT, f"{_FAILURE}.nemo_gym.max_row_attempts")
_NATIVE: Final = (f"{_FAILURE}.native.generation_timeout_s", f"{_FAILURE}.native.env_timeout_s")
# The defaults of nemo_rl/algorithms/single_controller_utils/config.py, of what is compared below.
_DEFAULTS: Final = {
    f"{_FAILURE}.backoff_base_s": 1.0,
    f"{_FAILURE}.max_backoff_s": 30.0,
    _ATTEMPTS: 1,
    _RESERVE: 1,
    f"{_HEALTH}.probe_timeout_s": 2.0,
    f"{_HEALTH}.probe_interval_s": 5.0,
    f"{_ROUTER}.port_range_low": 6000,
    f"{_ROUTER}.port_range_high": 6099,
    f"{_ROUTER}.connect_timeout_s": 5.0,
    _BACKEND: 600.0,
    f"{_WATCHDOG}.interval_s": 30.0,
    _STALLED: 600.0,
    f"{_FAILURE}.nemo_gym.max_row_attempts": 3,
}
# The first is less than the second, and where the last word says so it may be equal.
_ORDERED: Final = (
    (f"{_FAILURE}.backoff_base_s", f"{_FAILURE}.max_backoff_s", True),
    (f"{_HEALTH}.probe_timeout_s", f"{_HEALTH}.probe_interval_s", False),
    (f"{_ROUTER}.port_range_low", f"{_ROUTER}.port_range_high", False),
    (f"{_ROUTER}.connect_timeout_s", _BACKEND, True),
    (f"{_WATCHDOG}.interval_s", _STALLED, False),
    *((deadline, _STALLED, False) for deadline in (_ROLLOUT, *_NATIVE)),
)
_ABOVE_ZERO: Final = (
    *dict.fromkeys(key for first, second, _ in _ORDERED for key in (first, second)),
    f"{_FAILURE}.max_infra_attempts_per_prompt",
    f"{_FAILURE}.max_data_attempts_per_prompt",
    f"{_FAILURE}.nemo_gym.max_row_attempts",
    f"{_HEALTH}.unhealthy_threshold",
    f"{_HEALTH}.healthy_threshold",
    f"{_HEALTH}.max_restart_attempts_per_shard",
    f"{_HEALTH}.min_healthy_shards",
)
_NOT_NEGATIVE: Final = (
    *_BUDGETS,
    _ATTEMPTS,
    _RESERVE,
    f"{CONTROLLER}.sampler.max_lookahead_versions",
    f"{CONTROLLER}.sampler.max_staleness_versions",
)
# NeMo-Gym repeats a request for ever that is answered with one of these.
_REPEATED: Final = (429, 500, 502, 503, 504, 520)


def _number(run: RunConfig, key: str) -> float | None:
    """Return a number or its default, or None for null, which disables a deadline."""
    value = run.at(key, _DEFAULTS.get(key))
    return None if value is None else run.number(key) if run.has(key) else _DEFAULTS[key]


def _short(key: str) -> str:
    return key.removeprefix(f"{CONTROLLER}.")


@TOPIC.problem(
    " ".join((*_ABOVE_ZERO, *_NOT_NEGATIVE, _FRACTION)),
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:115 at 7ea279ab",
    since=_FIRST,
)
def controller_range(run: RunConfig) -> Iterator[Finding]:
    """a number in async_rl is out of range

    Fix: use a number in the range, or remove the key
    """
    if not is_controlled(run):
        return
    tests = [
        *((key, within(key, above=0)) for key in _ABOVE_ZERO),
        *((key, within(key, least=0)) for key in _NOT_NEGATIVE),
        (_FRACTION, within(_FRACTION, above=0, most=1)),
    ]
    for key, test in tests:
        what = test(run) if run.at(key) is not None else None
        if what:
            yield Finding(what, keys=[key])


@TOPIC.problem(
    " ".join(dict.fromkeys(key for first, second, _ in _ORDERED for key in (first, second))),
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:476 at 7ea279ab",
    since=_FIRST,
)
def controller_deadlines(run: RunConfig) -> Iterator[Finding]:
    """a deadline in async_rl does not end before the one that encloses it

    Fix: lower the first, or raise the second
    """
    pairs = [*_ORDERED, *([(_BACKEND, _ROLLOUT, True)] if run.on(f"{_ROUTER}.enabled") else [])]
    for first, second, may_equal in pairs if is_controlled(run) else ():
        low, high = _number(run, first), _number(run, second)
        if low is not None and high is not None and (low > high or (low == high and not may_equal)):
            relation = "at most" if may_equal else "less than"
            keys = [key for key in (first, second) if run.given_has(key)] or [first]
            yield Finding(f"{_short(first)} is {low:g}, expected {relation} {_short(second)} {high:g}", keys=keys)


@TOPIC.problem(
    f"{' '.join(_BUDGETS)} {_SAMPLER}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:621 at 7ea279ab",
    since=_FIRST,
)
def controller_drops(run: RunConfig) -> Iterator[Finding]:
    """answers may be dropped, but the sampler does not assign each answer to its step

    Fix: set async_rl.sampler.name to in_order, or both budgets to 0
    """
    sampler = run.at(_SAMPLER, "in_order")
    if not is_controlled(run) or sampler in ("in_order", "custom"):
        return
    for key in _BUDGETS:
        if run.has(key) and run.integer(key) > 0:
            yield Finding(f"{_short(key)} is {run.integer(key)}, and the sampler is {quoted(sampler)}", keys=[key])


@TOPIC.problem(
    f"{_ATTEMPTS} {_RESERVE} {_DROPPED}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:204 at 7ea279ab",
    since=_FIRST,
)
def controller_replacements(run: RunConfig) -> Iterator[Finding]:
    """dropped prompts are to be replaced, but no attempts or no reserve is configured

    Fix: set it to 1 or more, or set on_dropped_prompt to shrink
    """
    if not is_controlled(run) or run.at(_DROPPED) != "replace":
        return
    for key in (_ATTEMPTS, _RESERVE):
        if run.has(key) and run.integer(key) == 0:
            yield Finding(f"on_dropped_prompt is replace, and {_short(key)} is 0", keys=[key], proposed={key: 1})


@TOPIC.problem(
    f"{' '.join((*_NATIVE, *_OF_GYM))} {_ROUTER}.enabled {_GYM}",
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:790 at 7ea279ab",
    since=_FIRST,
)
def controller_unread_deadline(run: RunConfig) -> Iterator[Finding]:
    """async_rl has settings for a kind of rollout that the run does not use

    Fix: move it to rollout_failure.native without NeMo-Gym, or to rollout_failure.nemo_gym with it
    """
    if not is_controlled(run):
        return
    gym = run.on(_GYM)
    says = f"env.should_use_nemo_gym is {'on' if gym else 'off'}"
    for key in _NATIVE if gym else _OF_GYM:
        if run.at(key) not in (None, _DEFAULTS.get(key)):
            yield Finding(f"{says}, and {_short(key)} is set", keys=[key])
    if not gym and run.on(f"{_ROUTER}.enabled"):
        fix = "set async_rl.generation_router.enabled to false"
        yield Finding(f"{says}, and generation_router is on", keys=[f"{_ROUTER}.enabled"], fix=fix)


@TOPIC.problem(
    _STATUS,
    fails=Fails.AT_SETUP,
    source="nemo_rl/algorithms/single_controller_utils/config.py:355 at 7ea279ab",
    since=_FIRST,
)
def controller_status(run: RunConfig) -> str | None:
    """NeMo-Gym retries on the status that the router returns when no engine is healthy

    Fix: set it to 409, the default, or another number that NeMo-Gym does not retry
    """
    status = run.at(_STATUS)
    repeated = is_controlled(run) and status in _REPEATED
    return f"no_healthy_backend_status is {status}, which NeMo-Gym repeats for ever" if repeated else None
