"""Laws of the readers: where the text is cut does not matter, nothing raises, and a file is read like a string."""

from __future__ import annotations

import codecs
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import log_readers
from log_lines import LONGEST
from steps import Event, Step
from tests.conftest import examples, thin
from tests.runlog import logs

NEMO_RL = logs.SETUP + logs.epoch(1, 2) + logs.validation(0) + logs.nemo_rl(steps=2) + logs.header(3, 9) + logs.work()
COLOURED = logs.verl_run([logs.VERL, logs.VERL_NUMPY, logs.VERL], "\x1b[36m(TaskRunner pid=7, ip=10.0.0.1)\x1b[0m ")
TEXTS = {
    "nemo-rl": NEMO_RL,
    "nemo-rl-crlf": NEMO_RL.replace("\n", "\r\n"),
    "verl": COLOURED,
    "both": NEMO_RL + COLOURED,
}
FORMS = ("nemo-rl", "verl", log_readers.ANY, log_readers.VERL_FILE)


def read(pieces: list[str], form: str) -> list[Event]:
    reader = log_readers.reader(form)
    return [event for piece in pieces for event in reader.feed(piece)] + reader.end()


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_reading_in_pieces_gives_the_same_events(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    bounds = [0, *cuts, len(text)]
    pieces = [text[start:end] for start, end in itertools.pairwise(bounds)]
    assert read(pieces, log_readers.ANY) == read([text], log_readers.ANY)


@pytest.mark.parametrize("name", TEXTS)
def test_reading_single_characters_gives_the_same_events(name: str) -> None:
    assert read(list(TEXTS[name]), log_readers.ANY) == read([TEXTS[name]], log_readers.ANY)


@pytest.mark.parametrize("name", thin(sorted(TEXTS), 2))
def test_a_log_may_be_truncated_at_any_byte(name: str) -> None:
    """The events are then the first ones of the whole; only the last line, which is cut, may say something else."""
    data = TEXTS[name].encode()
    whole = [event for event in read([TEXTS[name]], log_readers.ANY) if isinstance(event, Step)]
    for end in range(0, len(data), 7):
        decoded = codecs.getincrementaldecoder("utf-8")("replace").decode(data[:end])
        found = [event for event in read([decoded], log_readers.ANY) if isinstance(event, Step)]
        assert found[:-1] == whole[: max(len(found) - 1, 0)]
        assert [step.number for step in found] == [step.number for step in whole[: len(found)]]


# Python does not read so many digits, and makes no float of so many.
@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 400])
@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("nemo-rl", NEMO_RL.replace("Step 2/", "Step MANY/")),
        ("nemo-rl", NEMO_RL.replace("Step 2/2", "Step 2/MANY")),
        ("nemo-rl", logs.header(1, 9) + "Saving checkpoint for step MANY...\n"),
        ("nemo-rl", logs.header(1, 9) + "▶ Starting validation at step MANY...\n"),
        ("nemo-rl", "⏱️  Timing:\ntrain step MANY/9 trainer_v=1\n"),
        ("verl", logs.verl(1, logs.VERL).replace("step:1 ", "step:MANY ")),
        (log_readers.VERL_FILE, '{"step": MANY, "data": {"critic/score/mean": 1.0}}\n'),
        (log_readers.VERL_FILE, '{"step": 1, "data": {"critic/score/mean": MANY}}\n'),
    ],
)
def test_a_line_with_an_overlong_number_is_not_a_step(form: str, text: str, digits: str) -> None:
    text = text.replace("MANY", digits)
    assert digits in text
    numbers = [event.number for event in read([text], form) if isinstance(event, Step)]
    assert all(number < 10 for number in numbers)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=examples(150))
@given(
    lines=st.lists(st.one_of(st.text(), st.sampled_from([*NEMO_RL.split("\n"), *COLOURED.split("\n")])), max_size=30)
)
def test_no_input_raises_an_error(form: str, lines: list[str]) -> None:
    read(["\n".join(lines)], form)


@settings(max_examples=examples(100))
@given(data=st.binary(max_size=400))
def test_invalid_utf_8_raises_no_error(data: bytes) -> None:
    for form in FORMS:
        read([data.decode("utf-8", "replace")], form)


def test_a_line_without_an_end_uses_no_memory() -> None:
    reader = log_readers.LogReader()
    for _ in range(5):
        reader.feed("x" * LONGEST)
    assert len(reader.lines.rest) == LONGEST
    # A bar that is drawn for hours has no line end; what follows it is read.
    reader = log_readers.reader("verl")
    for _ in range(3):
        reader.feed("\r  1%|          | 1/9 [00:01<00:09]" * 40_000)
    assert [event for event in reader.feed("\r" + logs.verl(1, logs.VERL)) if isinstance(event, Step)]


def test_the_first_reader_to_find_a_step_reads_the_rest() -> None:
    reader = log_readers.reader(log_readers.ANY)
    reader.feed(logs.nemo_rl(steps=1))
    assert len(reader.readers) == 1  # type: ignore[attr-defined]
    assert [event for event in reader.feed(COLOURED) if isinstance(event, Step)] == []
