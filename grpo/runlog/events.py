"""The events in a log, a pipe or a run's directory, each with its source location."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import log_readers
from grpo.runlog import directory, forms, pieces, tensorboard, wandb_files
from postrender import textfile
from postrender.errors import InputError, Location
from steps import ENDED, Event, Phase, Step

STDIN: Final = "-"
_STDIN_NAME: Final = "<stdin>"
_TRACKERS: Final = {forms.TENSORBOARD: tensorboard.read, forms.WANDB: wandb_files.read}


class Found(NamedTuple):
    """An event and its place."""

    event: Event
    at: Location


def read(word: str, *, follow: bool) -> Iterator[list[Found]]:
    """Yield the events of a file, of a run's directory, or of stdin (`-`), as they are read.

    With `follow`, and from a pipe, an empty list means that nothing has arrived for a moment. Raises UnreadableError if
    the input cannot be read, and InputError if it has no steps.
    """
    if word == STDIN:
        return of_text(pieces.text(pieces.of_pipe(0)), _STDIN_NAME)
    textfile.refuse_outside(word)
    if os.path.isdir(word):
        return _of_directory(word, follow=follow)
    if tracker := _TRACKERS.get(forms.of_file(word, grows=follow)):
        return ([Found(each, Location(word)) for each in found] for found in tracker([word], follow=follow))
    return of_text(pieces.of_file(word, follow=follow), word, wait=follow)


def _of_directory(path: str, *, follow: bool) -> Iterator[list[Found]]:
    """Yield a run's events: from a tracker's files, else from its outputs, else from its samples."""
    *before, last = directory.outputs(path) or [""]
    if last and not directory.has_all_measures(path):
        for output in before:
            # An attempt that was stopped early has no steps.
            with contextlib.suppress(InputError):
                yield from of_text(pieces.of_file(output, follow=False), output)
        yield from of_text(pieces.of_file(last, follow=follow), last, wait=follow)
    else:
        yield from ([Found(*each) for each in found] for found in directory.read(path, follow=follow))


def of_text(text: Iterable[str], name: str, *, wait: bool = False) -> Iterator[list[Found]]:
    """Yield the events in a text; with `wait`, stop at the line that reports the end of training."""
    reader, seen, any_step = None, False, False
    for piece in text:
        if reader is None and piece:
            reader = log_readers.reader(forms.of_text(piece[: forms.HEAD_BYTES].encode(), name))
        found = reader.feed(piece) if reader else []
        seen, any_step = seen or bool(found), any_step or any(isinstance(each, Step) for each in found)
        yield [_found(each, name) for each in found]
        if wait and found and found[-1] == Phase(ENDED):
            break
    if reader is None and not wait:
        raise InputError("there is nothing in it", at=Location(name), fix="name the output of a training")
    last = reader.end() if reader else []
    yield [_found(each, name) for each in last]
    if not any_step and not any(isinstance(each, Step) for each in last):
        what = "it ends before its first step is complete" if seen else "it has no step of NeMo RL's GRPO or of verl"
        raise InputError(what, at=Location(name), fix="name the output of the driver: grpo logs, ray job logs")


def _found(event: Event, name: str) -> Found:
    return Found(event, Location(name, event.line if isinstance(event, Step) else 0))
