"""Do many things in two processes, where that is worth it and the system can; the caller sees no difference.

Both take the next job from one pipe, so that neither waits while there is work. What the second one finds comes back as
plain data; what it does not bring back, for whatever reason, the first one does itself: so an error is raised where it
would be without a second process.
"""

from __future__ import annotations

import marshal
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Final

    from postrender.progress import Progress

    Work = Callable[[int], Any]

# A job's number is one byte.
MOST: Final = 250
# A second process is worth its start for a stream of so many bytes.
LARGE: Final = 256 * 1024


def run(
    work: Work, jobs: int, progress: Progress, *, alone: bool, before: Callable[[], object] | None = None
) -> list[Any]:
    """Return what `work` returns, plain data, for each number below `jobs`; these are at most MOST.

    One process does it all with `alone`, and where the system has one processor or cannot fork. `before` is done in
    this process when the other one has started.
    """
    try:
        found = None if alone or not _can_help() else _together(work, jobs, progress, before)
        if found is None:
            return [_told(work, job, jobs, progress) for job in range(jobs)]
        return [found[job] if job in found else work(job) for job in range(jobs)]
    finally:
        progress.end()


def _can_help() -> bool:
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return hasattr(os, "fork") and len(processors) > 1


def _together(work: Work, jobs: int, progress: Progress, before: Callable[[], object] | None) -> dict[int, Any] | None:
    """Return what was found by job; None where the system has no room for a second process."""
    try:
        queue, results, helper = _start(work, jobs)
    except OSError:
        return None
    found = None
    try:
        if before:
            before()
        found = {job: _told(work, job, jobs, progress) for job in _taken(queue)}
        found.update(_brought(results))
    finally:
        if found is None:
            # After an error nobody needs what is left. (To load this takes as long as to read a small stream.)
            import signal

            os.kill(helper, signal.SIGKILL)
        os.close(queue)
        os.close(results)
        os.waitpid(helper, 0)
    return found


def _told(work: Work, job: int, jobs: int, progress: Progress) -> Any:  # noqa: ANN401 (what the work returns)
    progress.step(job, jobs)
    return work(job)


def _start(work: Work, jobs: int) -> tuple[int, int, int]:
    """Start the second process; return the pipe with the jobs, that with its results, and its number."""
    queue, numbers = os.pipe()
    os.write(numbers, bytes(range(jobs)))
    os.close(numbers)
    results, answer = os.pipe()
    first = os.getpid()
    try:
        helper = os.fork()
    except OSError:
        for each in (queue, results, answer):
            os.close(each)
        raise
    if helper:
        os.close(answer)
        return queue, results, helper
    try:
        os.close(results)
        # Without the first process there is nobody to work for.
        data = marshal.dumps([(job, work(job)) for job in _taken(queue) if os.getppid() == first])
        with open(answer, "wb") as pipe:
            pipe.write(data)
    finally:
        # Whatever happened: the first process tells it, and nothing else of it must run twice.
        os._exit(0)


def _taken(queue: int) -> Iterator[int]:
    while number := os.read(queue, 1):
        yield number[0]


def _brought(results: int) -> list[tuple[int, Any]]:
    with open(results, "rb", closefd=False) as pipe:
        data = pipe.read()
    try:
        found: list[tuple[int, Any]] = marshal.loads(data)  # noqa: S302 (our own process wrote it)
    except (EOFError, ValueError, TypeError):
        return []
    return found
