"""Time limits: a judgement that takes too long raises OutOfTimeError, in any thread.

Frameworks call rewards in threads, which receive no signals, and a regular expression blocks all threads. Therefore
patterns and expressions are judged in a child process, which can be killed. `python3 reward_limits.py KIND` is that
process: it prints ready (or missing, without math-verify), then reads a JSON list of two texts per line and answers
1 or 0. KIND pattern: whether the pattern is found in the text; KIND equal: whether math-verify considers the two
equal.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

# A judgement takes milliseconds. Less than the 5 s of math-verify, which then calls the answer wrong and says nothing.
SECONDS = 4.0
# The child imports its libraries first, perhaps from a slow disk.
START_SECONDS = 60.0


class OutOfTimeError(BaseException):
    """A judgement took too long; not an Exception, so that the code that it ends does not catch it."""


class Judge:
    """A child process that judges one pair of texts at a time, for all threads in this process."""

    def __init__(self, kind: str) -> None:
        self.kind, self.lock, self.owner, self.missing = kind, threading.Lock(), 0, False
        self.child: Any = None

    def start(self) -> None:
        words = [sys.executable, os.path.abspath(__file__), self.kind]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self.child, self.owner = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=nowhere), os.getpid()
        if self.line(START_SECONDS) == "missing":
            self.missing = True
            self.stop()
            print("grpo: math-verify is not installed: answers are compared as numbers and texts only", flush=True)

    def stop(self) -> None:
        child, self.child = self.child, None
        if child and self.owner == os.getpid():
            child.kill()
            child.communicate()

    def line(self, seconds: float) -> str:
        """Return the child's next line; stop the child if no line arrives in time, or if it has ended."""
        output = select.poll()  # select() refuses the descriptors of a process with many open files
        output.register(self.child.stdout, select.POLLIN)
        late = not output.poll(1000 * seconds)
        line = b"" if late else self.child.stdout.readline()
        if not line:
            self.stop()
            what = {"pattern": "the search for the pattern", "equal": "the comparison of two expressions"}[self.kind]
            raise OutOfTimeError(f"{what} " + (f"did not end within {seconds:g} s" if late else "ended its process"))
        return str(line.decode().strip())

    def __call__(self, first: str, second: str) -> bool:
        with self.lock:
            try:
                return self.ask(first, second)
            except BaseException:
                # Whoever asks next must not get the answer to this question.
                self.stop()
                raise

    def ask(self, first: str, second: str) -> bool:
        # A forked process must not share its parent's pipes.
        if not self.missing and (self.child is None or self.owner != os.getpid()):
            self.start()
        if self.missing:
            return False
        with contextlib.suppress(BrokenPipeError):
            self.child.stdin.write(json.dumps([first, second]).encode() + b"\n")
            self.child.stdin.flush()
        return self.line(SECONDS) == "1"


is_found, are_equal = Judge("pattern"), Judge("equal")


def within(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a user's function in this process, where its libraries and its state are.

    In the main thread a signal ends the function. In another thread it runs in a thread of its own, which is abandoned
    if the exception does not reach it. A function that catches OutOfTimeError and continues has no limit.
    """
    limit = in_main_thread if threading.current_thread() is threading.main_thread() else in_thread
    return limit(seconds, function, *arguments)


def out_of_time(seconds: float, frame: FrameType | None) -> OutOfTimeError:
    place = f" (at {os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno})" if frame else ""
    longer = f"a file that needs longer says SECONDS = {2 * seconds:g}"
    return OutOfTimeError(f"it did not end within {seconds:g} s{place}; {longer}")


def in_main_thread(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    runs, over, thread = False, threading.Event(), threading.get_ident()

    def end(number: int, frame: FrameType | None) -> None:
        if runs:
            raise out_of_time(seconds, frame)

    def ring() -> None:
        """Send the signal when the time is up. A timer would be cleared by a library that uses the alarm."""
        wait = seconds
        while not over.wait(wait):
            # The handler of such a library would take the signal for its own.
            ours = signal.getsignal(signal.SIGALRM) is end
            if ours:
                signal.pthread_kill(thread, signal.SIGALRM)
            # The function's own end may take as long again.
            wait = max(seconds, 0.1) if ours else 0.02

    bell = threading.Thread(target=ring, daemon=True)
    bell.start()
    before = signal.signal(signal.SIGALRM, end)
    try:
        try:
            runs = True
            return function(*arguments)
        finally:
            runs = False
    finally:
        over.set()
        bell.join()
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


def in_thread(seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
    values, errors = list[Any](), list[BaseException]()

    def work() -> None:
        try:
            values.append(function(*arguments))
        except BaseException as error:  # the caller's thread raises it
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        late = out_of_time(seconds, sys._current_frames().get(thread.ident or 0))
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(OutOfTimeError))
        raise late
    if errors:
        raise errors[0]
    return values[0]


def pattern_judge() -> Callable[[str, str], bool]:
    return lambda pattern, text: re.search(pattern, text, re.DOTALL) is not None  # pattern of the user, within a limit


def equal_judge() -> Callable[[str, str], bool]:
    import logging

    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    logging.disable()
    kinds = [LatexExtractionConfig(), ExprExtractionConfig()]

    def judge(truth: str, answer: str) -> bool:
        left, right = (parse(rf"\boxed{{{text}}}", kinds) for text in (truth, answer))
        return bool(left) and bool(right) and bool(verify(left, right))

    judge("x+1", "1+x")  # the first comparison is slow
    return judge


def serve(kind: str) -> None:
    """Answer questions until the input ends."""
    # Output of the libraries must not be mistaken for an answer.
    replies, sys.stdout = sys.stdout, sys.stderr
    try:
        judge = {"pattern": pattern_judge, "equal": equal_judge}[kind]()
    except ImportError:
        print("missing", file=replies, flush=True)
        return
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        # Without a handler this signal ends the process: also a search whose parent was killed meanwhile.
        signal.setitimer(signal.ITIMER_PROF, 2 * SECONDS)
        try:
            verdict = judge(*json.loads(line))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # math-verify's TimeoutException is not an Exception
            verdict = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(int(verdict), file=replies, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
