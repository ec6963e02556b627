"""The lines of verl's console logger and of its file log become steps, validations and phases."""

from __future__ import annotations

import json
import math

import pytest

import log_readers
from steps import CHECKPOINT, ENDED, LOADING, STEP, VALIDATION, Event, Phase, Step, Validation
from tests.runlog import logs


def events(text: str, form: str = "verl") -> list[Event]:
    reader = log_readers.reader(form)
    return reader.feed(text) + reader.end()


def steps(text: str, form: str = "verl") -> list[Step]:
    return [event for event in events(text, form) if isinstance(event, Step)]


WHOLE = Step(
    number=3,
    line=1,
    reward=0.8125,
    reward_min=0.0,
    reward_max=1.0,
    length=240.5,
    truncated=0.0039,
    loss=-0.0021,
    grad_norm=0.118,
    entropy=0.2113,
    kl=0.00041,
    generation_kl=0.0004,
    importance_ratio=0.999,
    seconds=61.75,
    phases={"generation": 30.5, "training": 20.25, "refit": 1.5},
    tokens_per_second_per_gpu=702.5,
    memory_gib=71.5,
)


@pytest.mark.parametrize("measures", [logs.VERL, logs.VERL_NUMPY], ids=["python", "numpy"])
@pytest.mark.parametrize("prefix", ["", "(TaskRunner pid=812) ", "\x1b[36m(TaskRunnerV1 pid=8, ip=10.8.0.7)\x1b[0m "])
def test_a_step_has_every_measure_on_its_line(measures: dict[str, object], prefix: str) -> None:
    assert events(prefix + logs.verl(3, measures)) == [WHOLE, Phase(STEP, 4)]


def test_a_measure_inside_a_timer_is_not_a_phase() -> None:
    """verl also has tokens and counts there, such as those of its slowest answer."""
    more = {"timing_s/agent_loop/slowest/response_length": 2841, "timing_s/generation_timing/max": 29.0}
    (step,) = steps(logs.verl(3, {**logs.VERL, **more}))
    assert step.phases == WHOLE.phases


def test_the_old_keys_mean_the_same_and_old_steps_are_counted_from_0() -> None:
    text = "".join(logs.verl(step, logs.VERL_OLD) for step in (0, 1))
    first, second = steps(text)
    assert (first.number, second.number) == (1, 2)
    assert (first.entropy, first.kl, first.loss, first.grad_norm) == (0.526, 0.001, -0.018, 8.138)
    assert first.seconds == 39.0
    assert first.phases == {"generation": 18.5, "training": 20.5}


def test_the_memory_key_of_the_engine_workers_is_read() -> None:
    """verl issue 7412 shows it."""
    row = {key: value for key, value in logs.VERL.items() if key != "perf/max_memory_reserved_gb"}
    (step,) = steps(logs.verl(1, {**row, "actor/perf/max_memory_reserved_gb": 27.5}))
    assert step.memory_gib == 27.5


def test_a_kl_without_a_coefficient_is_ignored() -> None:
    """The workers of v0.7 print 0 then."""
    measures = {key: value for key, value in logs.VERL.items() if key != "actor/kl_coef"}
    assert steps(logs.verl(1, measures))[0].kl is None


@pytest.mark.parametrize(("written", "read"), [("nan", "nan"), ("np.float64(nan)", "nan"), ("inf", "inf")])
def test_non_finite_numbers_are_read(written: str, read: str) -> None:
    assert str(steps(logs.verl(1, {**logs.VERL, "actor/grad_norm": written}))[0].grad_norm) == read


def test_responses_shorter_than_an_earlier_one_are_not_truncated() -> None:
    """verl 0.9.1 counts the answers that are as long as the longest of their step, which need not be the limit.

    Source: verl/trainer/ppo/metric_utils.py (compute_data_metrics): the width of a batch that is padded to its longest.
    """
    rows = [(8, 0.0078), (5, 0.4141), (5, 0.4570), (8, 0.0039)]
    line = "step:{} - critic/score/mean:0.5 - response_length/max:{}.0 - response_length/clip_ratio:{}\n"
    text = "".join(line.format(number, *row) for number, row in enumerate(rows, 1))
    assert [step.truncated for step in steps(text)] == [0.0078, 0.0, 0.0, 0.0039]


def test_a_line_may_have_only_a_validation_or_both() -> None:
    scores = {"val-core/openai/gsm8k/reward/mean@1": 0.5, "val-aux/openai/gsm8k/reward/std@4": 9.0}
    assert events(logs.verl(0, scores)) == [Validation(0, 0.5)]
    both = events(logs.verl(10, {**logs.VERL, **scores, "timing_s/testing": 48.25}))
    assert both[0] == Validation(10, 0.5, None, 48.25)
    assert isinstance(both[1], Step)
    assert both[1].phases["validation"] == 48.25
    # Of v0.2, and with two data sets.
    old = {"val/test_score/openai/gsm8k": 0.25, "val/test_score/math": 0.75}
    assert events(logs.verl(20, old)) == [Validation(20, 0.5)]


def test_a_best_of_n_score_is_not_a_validation_score() -> None:
    scores = {"val-core/math/acc/mean@8": 0.25, "val-core/math/acc/best@8/mean": 0.75}
    assert events(logs.verl(5, scores)) == [Validation(5, 0.25)]


def test_phases_are_reported_as_the_run_progresses() -> None:
    text = (
        "(TaskRunner pid=1) Total training steps: 10\n"
        "(TaskRunner pid=1) test_gen_batch meta info: {'eos_token_id': 1}\n"
        "(TaskRunner pid=1) local_global_step_folder: checkpoints/p/e/global_step_5\n"
        "(TaskRunner pid=1) (\"Final validation metrics: {'val-core/a/reward/mean@1': \"\n"
    )
    assert events(text) == [Phase(LOADING), Phase(VALIDATION), Phase(CHECKPOINT), Phase(ENDED)]


def test_other_lines_that_mention_a_step_are_ignored() -> None:
    text = "Training Progress:   3%|▎ | 1/30 [01:00<30:00, 60.0s/it]\nstep:5 is next\nat step:6 - a:b\nstep:x - a:1\n"
    assert events(text) == []


def test_a_progress_bar_before_a_step_does_not_hide_it() -> None:
    bar = "Training Progress:   3%|▎         | 1/30 [01:00<30:00, 60.0s/it]"
    assert [step.number for step in steps(bar + logs.verl(4, logs.VERL))] == [4]


def row(step: int, data: object) -> str:
    return json.dumps({"step": step, "data": data}, separators=(",", ":")) + "\n"


def test_the_file_log_has_the_same_steps() -> None:
    assert steps(row(3, logs.VERL), log_readers.VERL_FILE) == [WHOLE]


def test_the_file_log_has_null_for_a_non_finite_number() -> None:
    found = steps(row(1, {**logs.VERL, "actor/grad_norm": None}), log_readers.VERL_FILE)
    assert found[0].grad_norm is not None
    assert math.isnan(found[0].grad_norm)


def test_damaged_lines_in_the_file_log_are_skipped() -> None:
    text = '[1]\n{"step": "a", "data": {}}\n{"step": 1}\n\n' + row(2, {"critic/score/mean": "text"}) + row(3, logs.VERL)
    found = steps(text + row(4, logs.VERL)[:-40], log_readers.VERL_FILE)
    assert [step.number for step in found] == [3]
