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
# Bytes in front of a result that say how long it is, and how many bytes of results may wait.
_SIZE: Final = 8
_ROOM: Final = 1024 * 1024
# Second processes that are about to end.
_helpers: list[int] = []
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
    _take_away()
    try:
        queue, results, helper = _start(work, jobs)
    except OSError:
        return None
    found: dict[int, Any] = {}
    done = False
    try:
        if before:
            before()
        for job in _taken(queue):
            found[job] = _told(work, job, jobs, progress)
            # To take what the other one has found is work too: done at the end, it would be done by one.
            found.update(_brought(results, wait=False))
        found.update(_brought(results, wait=True))
        done = True
    finally:
        if not done:
            # After an error nobody needs what is left. (To load this takes as long as to read a small stream.)
            _kill(helper)
        os.close(queue)
        os.close(results)
        _helpers.append(helper)
        if not done:
            _take_away()
    return found


def _kill(helper: int) -> None:
    import signal

    try:
        os.kill(helper, signal.SIGKILL)
    except ProcessLookupError:
        # It has ended, and where the caller ignores the ends of children nothing is left of it.
        return


def _take_away() -> None:
    """Take second processes away that have nothing more to do; where the caller ignores their ends, the system does.

    To wait for the last one takes as long as to read a small stream, and it ends by itself.
    """
    while _helpers:
        try:
            os.waitpid(_helpers.pop(), 0)
        except ChildProcessError:
            continue


def _told(work: Work, job: int, jobs: int, progress: Progress) -> Any:  # noqa: ANN401 (what the work returns)
    progress.step(job, jobs)
    return work(job)


def _start(work: Work, jobs: int) -> tuple[int, int, int]:
    """Start the second process; return the pipe with the jobs, that with its results, and its number."""
    queue, numbers = os.pipe()
    os.write(numbers, bytes(range(jobs)))
    os.close(numbers)
    results, answer = os.pipe()
    _widen(answer)
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
        _help(work, queue, answer, first)
    finally:
        # Whatever happened: the first process tells it, and nothing else of it must run twice.
        os._exit(0)


def _widen(pipe: int) -> None:
    """Make room for several results in a pipe, where the system lets us, so that nobody waits for its reader."""
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _ROOM)
    except (ImportError, AttributeError, OSError):
        # Slower, and right.
        return


def _help(work: Work, queue: int, answer: int, first: int) -> None:
    """Do jobs as the second process, and write each result behind its size."""
    kept = []
    with open(answer, "wb") as pipe:
        for job in _taken(queue):
            # Without the first process there is nobody to work for.
            if os.getppid() != first:
                return
            found = work(job)
            # This process ends soon: to free a result takes longer than to keep it.
            kept.append(found)
            data = marshal.dumps((job, found))
            pipe.write(len(data).to_bytes(_SIZE, "big") + data)
            pipe.flush()


def _taken(queue: int) -> Iterator[int]:
    while number := os.read(queue, 1):
        yield number[0]


def _brought(results: int, *, wait: bool) -> Iterator[tuple[int, Any]]:
    """Yield the results that have come, or with `wait` all that are still to come."""
    while True:
        os.set_blocking(results, wait)
        try:
            head = os.read(results, _SIZE)
        except BlockingIOError:
            return
        # What has begun to come comes whole, and soon.
        os.set_blocking(results, True)
        head += _read(results, _SIZE - len(head)) if head else b""
        data = _read(results, int.from_bytes(head, "big"))
        try:
            yield marshal.loads(data)  # noqa: S302 (our own process wrote it)
        except (EOFError, ValueError, TypeError):
            # The second process has come to its end, in the middle of a result or not.
            return


def _read(pipe: int, size: int) -> bytes:
    """Return so many bytes, or what there is before the end."""
    parts: list[bytes] = []
    while size and (part := os.read(pipe, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
