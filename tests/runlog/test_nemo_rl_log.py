"""The lines of NeMo RL v0.4.0 to v0.8.0 become steps, validations and phases."""

from __future__ import annotations

import pytest

import log_readers
from steps import CHECKPOINT, ENDED, LOADING, STEP, VALIDATION, Event, Phase, Step, Validation
from tests.runlog import logs


def events(text: str, form: str = "nemo-rl") -> list[Event]:
    reader = log_readers.reader(form)
    return reader.feed(text) + reader.end()


def steps(text: str) -> list[Step]:
    return [event for event in events(text) if isinstance(event, Step)]


def numbers(text: str) -> list[int]:
    return [step.number for step in steps(text)]


@pytest.mark.parametrize("version", logs.VERSIONS)
def test_a_step_has_the_measures_that_its_version_prints(version: str) -> None:
    first, *others = steps(logs.nemo_rl(version))
    assert [each.number for each in (first, *others)] == [1, 2, 3]
    assert first == Step(
        number=1,
        line=first.line,
        reward=0.25,
        loss=0.0125,
        length=200.5,
        generation_kl=None if version == "v0.4.0" else 0.0007,
        seconds=50.0,
        tokens_per_second_per_gpu=640.5,
        phases={
            "generation": 20.0,
            "training": 15.0,
            "logprobs": 10.0,
            "refit": 2.0,
            "rewards": 0.5,
            "some_new_timer": 0.25,
        },
    )


@pytest.mark.parametrize("version", logs.VERSIONS)
def test_the_asynchronous_loop_prints_no_response_length(version: str) -> None:
    text = logs.nemo_rl(version, asynchronous=True)
    assert numbers(text) == [1, 2, 3]
    assert steps(text)[0].length is None
    assert steps(text)[0].phases["generation"] == 20.0
    assert steps(text)[0].phases["refit"] == 2.0


def test_a_steps_line_is_that_of_its_results() -> None:
    text = logs.nemo_rl()
    lines = text.split("\n")
    assert [lines[step.line - 1] for step in steps(text)] == ["📊 Training Results:"] * 3


def test_with_dynamic_sampling_the_reward_covers_all_generations() -> None:
    """And the header of a step is printed for each batch that it tries."""
    text = logs.epoch(1, 1) + logs.header(1, 9) * 3 + logs.work() + logs.results(reward=0.5, sampling=True)
    assert [(step.number, step.reward) for step in steps(text)] == [(1, 0.5)]


def test_steps_are_counted_across_epochs() -> None:
    one = "".join(logs.header(step, 3) + logs.results() for step in (1, 2, 3))
    assert numbers(logs.epoch(1, 3) + one + logs.epoch(2, 3) + one) == [1, 2, 3, 4, 5, 6]
    # A run that resumes in its third epoch.
    assert numbers(logs.SETUP + logs.epoch(3, 3) + logs.header(2, 3) + logs.results()) == [8]


def test_a_checkpoint_corrects_the_numbers_of_later_steps() -> None:
    """The last header before an epoch of another length may say less than all steps."""
    text = (
        logs.header(1, 5) + "Saving checkpoint for step 11...\n" + logs.results() + logs.header(2, 5) + logs.results()
    )
    assert numbers(text) == [11, 12]


def test_phases_are_reported_as_the_run_progresses() -> None:
    text = (
        logs.SETUP
        + logs.validation(0, 0.125)
        + logs.header(1, 2)
        + logs.validation(1, 0.25)
        + "Saving checkpoint for step 1...\n"
        + logs.results()
        + logs.ENDED
    )
    found = [event for event in events(text) if not isinstance(event, Step)]
    assert found == [
        Phase(LOADING),
        Phase(VALIDATION, 0),
        Validation(0, 0.125, 201.5, 12.25),
        Phase(LOADING),
        Phase(STEP, 1),
        Phase(VALIDATION, 1),
        Validation(1, 0.25, 201.5, 12.25),
        Phase(STEP, 1),
        Phase(CHECKPOINT, 1),
        Phase(STEP, 1),
        Phase(ENDED),
    ]
    assert steps(text)[0].phases["validation"] == 12.25


def test_a_second_attempt_in_the_same_log_restarts_the_numbering() -> None:
    text = logs.nemo_rl(steps=4) + logs.nemo_rl(steps=3, start=3)
    assert numbers(text) == [1, 2, 3, 4, 3, 4, 5]


@pytest.mark.parametrize("loss", ["nan", "inf", "-inf"])
def test_a_non_finite_loss_is_read(loss: str) -> None:
    text = logs.header(1, 1) + logs.results().replace("Loss: 0.0125", f"Loss: {loss}")
    assert str(steps(text)[0].loss) == loss


@pytest.mark.parametrize(
    "prefix",
    [
        "(main pid=4711) ",
        "\x1b[36m(main pid=4711, ip=10.0.0.7)\x1b[0m ",
        "[pod/my-run-1-abcde/ray-job-submitter] ",
        "2026-11-25T14:00:00.123456789Z ",
        "[pod/a/b] 2026-11-25T14:00:00Z (main pid=1) ",
    ],
)
def test_a_prefix_before_each_line_does_not_matter(prefix: str) -> None:
    text = logs.nemo_rl()
    prefixed = "".join(f"{prefix}{line}" for line in text.splitlines(keepends=True))
    assert events(prefixed) == events(text)


def test_windows_line_endings_do_not_matter() -> None:
    text = logs.nemo_rl()
    assert events(text.replace("\n", "\r\n")) == events(text)


def test_a_progress_bar_before_a_line_does_not_hide_it() -> None:
    """A progress bar does not end its line, so the next line may follow it."""
    bar = logs.BARS.rpartition("\r")[2]
    text = logs.header(1, 1).replace("\n=", f"\n{bar}=") + logs.results().replace("  • Loss", f"{bar}  • Loss")
    assert [(step.number, step.loss) for step in steps(text)] == [(1, 0.0125)]


def test_interleaved_lines_from_other_processes_do_not_matter() -> None:
    noise = "(MegatronPolicyWorker pid=9) • a list item: 12.5s\n• Loss is printed here\n(raylet) - E2E test\n"
    text = logs.nemo_rl()
    noisy = "".join(line + noise for line in text.splitlines(keepends=True))
    clean = [Step(**{**vars(step), "line": 0}) for step in steps(text)]
    assert [Step(**{**vars(step), "line": 0}) for step in steps(noisy)] == clean


def test_text_written_by_the_model_is_not_a_result() -> None:
    """Validation shows samples in boxes; only what stands at the start of a line counts."""
    text = logs.header(1, 1) + "│ • Avg Reward: 9.0000 │\nThe answer • Loss: 3.0\n" + logs.results()
    assert [(step.reward, step.loss) for step in steps(text)] == [(0.25, 0.0125)]


def test_an_interrupted_step_is_incomplete() -> None:
    whole = logs.header(1, 9) + logs.results() + logs.header(2, 9) + logs.results()
    cut = whole[: whole.rindex("⏱️")]
    assert numbers(cut) == [1]
    assert numbers(whole[: whole.rindex("🔍")]) == [1, 2]


def test_results_before_any_header_have_no_number() -> None:
    assert numbers(logs.results() + logs.header(5, 9) + logs.results()) == [5]


CONTROLLER = "🚀 Launching SingleControllerActor\n"


def test_a_single_controller_step_is_read_without_a_header() -> None:
    """What it prints among the times, a rate, is no phase."""
    (first, second) = steps(CONTROLLER + logs.controlled(7, 9) + logs.controlled(8, 9, loss="nan"))
    assert first == Step(
        number=7,
        line=first.line,
        reward=0.25,
        loss=0.0125,
        grad_norm=0.5,
        generation_kl=0.0007,
        seconds=50.0,
        phases={"generation": 20.0, "training": 15.0, "refit": 2.0},
    )
    assert (second.number, str(second.loss)) == (8, "nan")


def test_a_single_controller_step_without_its_number_is_not_reported() -> None:
    text = CONTROLLER + logs.controlled(1, 9) + logs.controlled(2, 9).rpartition("(Single")[0]
    assert numbers(text) == [1]
    # Another attempt begins anew.
    assert numbers(text + CONTROLLER + logs.controlled(2, 9)) == [1, 2]


def test_the_single_controllers_phases_are_read() -> None:
    text = CONTROLLER + logs.controlled(1, 2) + "Saving checkpoint for step 2...\n" + logs.controlled(2, 2)
    phases = [event for event in events(text + "SC run complete: {}\n") if isinstance(event, Phase)]
    assert phases == [Phase(LOADING), Phase(STEP, 2), Phase(CHECKPOINT, 2), Phase(ENDED)]
