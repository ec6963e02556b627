"""Run many queries at once, and wait for all answers until a shared deadline."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from grpo.deadline import Deadline
from grpo.live.client import RefusedError

Answer = TypeVar("Answer")


class Queries:
    """Queries that run at once; `open` holds those without an answer."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self._came: queue.SimpleQueue[tuple[str, Callable[[], None]]] = queue.SimpleQueue()

    def ask(self, name: str, call: Callable[[], Answer], take: Callable[[Answer | RefusedError], None]) -> None:
        """Start a query; `answers` later passes its answer, or the RefusedError that the call raises, to `take`."""

        def wait() -> None:
            try:
                answer: Answer | RefusedError = call()
            except RefusedError as refusal:
                answer = refusal
            self._came.put((name, lambda: take(answer)))

        self.open.append(name)
        # As a daemon: an answer that never comes must not keep the program.
        threading.Thread(target=wait, daemon=True).start()

    def answers(self, deadline: Deadline) -> Iterator[str]:
        """Take each answer as it arrives and yield its name, until all have arrived or the deadline has passed."""
        with contextlib.suppress(queue.Empty):
            while self.open:
                name, take = self._came.get(timeout=deadline.left)
                take()
                self.open.remove(name)
                yield name
