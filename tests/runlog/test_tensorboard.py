"""Event files of TensorBoard with what NeMo RL's monitor of the GPUs writes into them, and files that grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from grpo.runlog import events, polling
from grpo.runlog.shared import Step

MEMORY = "ray/node.{}.gpu.{}.mem_gb"


class Writer:
    """A file that two threads write as NeMo RL's do: the training, and the monitor, whose number is a second."""

    def __init__(self, folder: Path) -> None:
        self.file = EventFileWriter(str(folder))

    def put(self, number: int, moment: float, **scalars: float) -> None:
        for tag, value in scalars.items():
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            self.file.add_event(Event(step=number, wall_time=moment, summary=summary))
        self.file.flush()

    def step(self, number: int, moment: float) -> None:
        self.put(number, moment, **{"train/loss": 0.5, "train/reward": 0.25, "timing/train/total_step_time": 50.0})

    def reading(self, second: int, gpu_0: float, gpu_1: float = 1.0, *, node: int = 0) -> None:
        values = {MEMORY.format(node, 0): gpu_0, MEMORY.format(node, 1): gpu_1}
        host = {f"ray/node.{node}.mem_gb": 1000.0, f"ray/node.{node}.gpu.0.util": 99.0, "ray/ray_step": float(second)}
        self.put(second, float(second), **values, **host)


def steps_of(found: list[events.Found]) -> list[Step]:
    return [each.event for each in found if isinstance(each.event, Step)]


def read(path: Path) -> list[Step]:
    return [step for found in events.read(str(path), follow=False) for step in steps_of(found)]


def test_a_steps_memory_is_the_highest_reading_until_its_end(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.reading(10, 20.0, 60.5)
    writer.reading(20, 50.0)
    writer.reading(20, 40.0, 70.25, node=1)
    writer.step(1, 50.0)
    writer.reading(60, 30.0)
    writer.reading(100, 33.5)
    writer.step(2, 100.0)
    writer.step(3, 101.0)
    # Step 4 has not ended.
    writer.reading(110, 90.0)
    assert [(step.number, step.memory_gib) for step in read(tmp_path)] == [(1, 70.25), (2, 33.5), (3, None)]


def test_a_step_repeated_by_a_later_start_uses_that_starts_memory(tmp_path: Path) -> None:
    for name, memory in (("exp_001", 90.0), ("exp_002", 40.0)):
        writer = Writer(tmp_path / name)
        writer.reading(10, memory)
        writer.step(1, 50.0)
    assert [step.memory_gib for step in read(tmp_path)] == [40.0]


@pytest.fixture
def followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Writer, Iterator[list[events.Found]]]:
    monkeypatch.setattr(polling, "PAUSE_SECONDS", 0.0)
    return Writer(tmp_path), events.read(str(tmp_path), follow=True)


def test_a_monitor_reading_is_not_taken_for_a_step_while_following_a_run(
    followed: tuple[Writer, Iterator[list[events.Found]]],
) -> None:
    writer, looks = followed
    for second in range(10):
        writer.reading(second, 50.0)
    assert next(looks) == []
    for number in (1, 2, 3):
        writer.step(number, 50.0 * number)
    # The newest step counts when a second look finds it unchanged.
    assert [step.number for step in steps_of(next(looks))] == [1, 2]
    writer.put(3, 150.0, **{"train/grad_norm": 0.125})
    assert next(looks) == []
    (last,) = steps_of(next(looks))
    assert (last.number, last.grad_norm) == (3, 0.125)
