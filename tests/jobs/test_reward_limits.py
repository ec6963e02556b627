"""A judgement that takes too long scores 0, is told, and stops neither the run nor the next judgement."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import thin
from tests.programs import PROGRAMS

from .patience import LIMIT, patience  # noqa: F401 - a fixture of all tests here
from .reward_clock import Clock

answers, builtins, limits, rewards = (
    importlib.import_module(f"reward{name}") for name in ("_answers", "_builtins", "_limits", "s")
)

CATASTROPHE, HARMLESS = "a" * 40 + "!", "aaaa"
PATTERN = "^(a+)+$"
# More seconds than a test waits for anything.
LONG = 10 * LIMIT
needs_math = pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="math-verify is not installed")


def loaded(folder: Path, told: list[str], text: str = "", **entry: Any) -> Any:
    (folder / "rewards").mkdir()
    (folder / "rewards/mine.py").write_text(text)
    (folder / "rewards.json").write_text(json.dumps({"mine": {"weight": 1, **entry}}))
    return rewards.load(folder, told.append)


def in_main_thread(call: Callable[[], Any]) -> Any:
    return call()


def in_other_thread(call: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


Place = Callable[[Callable[[], Any]], Any]
EVERYWHERE = pytest.mark.parametrize("place", [in_main_thread, in_other_thread])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- questions to another process


@EVERYWHERE
def test_a_never_ending_pattern_match_scores_zero(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    judge = loaded(tmp_path, told, builtin="format", kwargs={"pattern": PATTERN})
    with monkeypatch.context() as patch:
        patch.setattr(limits, "SECONDS", 0.1)
        assert place(lambda: judge("", CATASTROPHE)) == (0.0, False, {"mine": 0.0})
    assert place(lambda: judge("", HARMLESS)).score == 1.0
    assert place(lambda: judge("", "b")).score == 0.0
    (text,) = told
    assert text.startswith("reward mine failed once and scored 0.0 instead; the last time: OutOfTimeError: ")
    assert "the search for the pattern did not end within 0.1 s" in text


@needs_math
@pytest.mark.parametrize("tower", thin(["9^{9^{9^9}}", "10^{10^{10}}", "(10^9)!"], 3))
def test_an_expression_too_large_to_evaluate_raises(tower: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert builtins.exact_answer(r"\sqrt{8}", r"<answer>2\sqrt{2}</answer>") == (1.0, True)
    assert builtins.exact_answer("x^2+1", "<answer>x^2-1</answer>") == (0.0, False)
    monkeypatch.setattr(limits, "SECONDS", 0.1)
    with pytest.raises(limits.OutOfTimeError, match=r"the comparison of two expressions did not end within 0\.1 s"):
        answers.equal("5", tower)


@needs_math
@pytest.mark.full
def test_math_verify_can_be_called_from_any_thread_and_restarts_after_dying() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda n: answers.equal(f"x+{n}", f"{n}+x"), range(20)))
    limits.are_equal.child.send_signal(signal.SIGKILL)
    limits.are_equal.child.wait()
    with pytest.raises(limits.OutOfTimeError, match="ended its process"):
        answers.equal("x+1", "1+x")
    assert answers.equal("x+1", "1+x") is True


def test_without_math_verify_strings_are_compared_and_one_warning_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "math_verify.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    judge = limits.Judge("equal")
    monkeypatch.setattr(limits, "are_equal", judge)
    assert [answers.equal("x+1", answer) for answer in ("1+x", "x+1", "2+x")] == [False, True, False]
    assert capsys.readouterr().out.count("math-verify is not installed") == 1
    assert judge.child is None


class Silent:
    """Stands in for select.poll: no answer comes."""

    def register(self, *given: Any) -> None:
        pass

    def poll(self, milliseconds: float) -> list[Any]:
        deadline = time.monotonic() + LONG
        while time.monotonic() < deadline:
            time.sleep(0.01)
        return []


@EVERYWHERE
def test_a_timed_out_question_leaves_no_answer_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next question would get it: rewards that are wrong until the end of the run."""
    assert limits.is_found("a", "a")
    with monkeypatch.context() as patch:
        patch.setattr(limits, "threading", Clock(lambda frame: frame.f_code is Silent.poll.__code__))
        patch.setattr(limits, "select", SimpleNamespace(poll=Silent, POLLIN=select.POLLIN))
        with pytest.raises(limits.OutOfTimeError):
            place(lambda: limits.within(0.5, limits.is_found, "b", "x"))
    assert [limits.is_found("b", text) for text in ("b", "x", "b")] == [True, False, True]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


SEARCHES = f"""
import os, reward_limits, signal, threading, time

def seconds(pid):
    "Return the processor time of a process, much if it has ended."
    try:
        fields = open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()
    except OSError:
        return 9
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

reward_limits.SECONDS = {LIMIT}
threading.Thread(target=reward_limits.is_found, args=({PATTERN!r}, {CATASTROPHE!r}), daemon=True).start()
while reward_limits.is_found.child is None:
    time.sleep(0.01)
pid = reward_limits.is_found.child.pid
while seconds(pid) < 0.5:
    time.sleep(0.01)
print(pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.full
def test_a_pattern_search_does_not_block_other_threads_and_ends_with_its_parent(tmp_path: Path) -> None:
    text = PROGRAMS["reward_limits"].read_text(encoding="utf-8").replace("SECONDS = 4.0", "SECONDS = 0.5")
    assert "SECONDS = 0.5" in text
    (tmp_path / "reward_limits.py").write_text(text)
    words = [sys.executable, "-c", SEARCHES]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    until(lambda: not runs(int(ended.stdout)))


# -- files of one's own


def hang(text: str, patch: pytest.MonkeyPatch) -> tuple[Clock, int]:
    """Let the time of mine.py be over at the lines that say so; return the clock and the last of these lines."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# hangs")]
    clock = Clock(lambda frame: frame.f_code.co_filename.endswith("/mine.py") and frame.f_lineno in lines)
    patch.setattr(limits, "threading", clock)
    return clock, lines[-1]


def own(body: str) -> str:
    """Return a file of one's own, with the code of its reward."""
    head = f"import reward_limits, signal, time\nSECONDS = 0.3\nEND = time.monotonic() + {LONG}\n"
    return (
        f"{head}def reward(truth, response):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n    return 0.5, True\n"
    )


HANGING = {
    "computes": "if truth == 'hang':\n    while time.monotonic() < END: pass  # hangs",
    "waits": f"if truth == 'hang':\n    time.sleep({LONG})  # hangs",
    "hides its exceptions": """
        while truth == 'hang' and time.monotonic() < END:
            try:
                while time.monotonic() < END: pass  # hangs
            except Exception: pass
    """,
}


@EVERYWHERE
@pytest.mark.parametrize("kind", HANGING)
def test_a_users_reward_file_has_its_own_time_limit(
    place: Place, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    text = own(HANGING[kind])
    judge = loaded(tmp_path, told, text, file="mine.py")
    clock, line = hang(text, monkeypatch)
    before, threads = signal.getsignal(signal.SIGALRM), {*threading.enumerate()}
    assert place(lambda: judge("hang", "x")) == (0.0, False, {"mine": 0.0})
    assert place(lambda: judge("72", "x")) == (0.5, True, {"mine": 0.5})
    (said,) = told
    assert f"OutOfTimeError: it did not end within 0.3 s (at mine.py:{line})" in said
    assert "; a file that needs longer says SECONDS = 0.6 (" in said
    assert {*clock.waits} == {0.3}
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    if kind != "waits":
        until(lambda: {*threading.enumerate()} <= threads)


@EVERYWHERE
def test_a_time_limit_is_enforced_in_real_time(place: Place, tmp_path: Path) -> None:
    told: list[str] = []
    text = own("while time.monotonic() < END: pass").replace("SECONDS = 0.3", "SECONDS = 0.1")
    judge = loaded(tmp_path, told, text, file="mine.py")
    assert place(lambda: judge("72", "x")) == (0.0, False, {"mine": 0.0})
    assert "OutOfTimeError: it did not end within 0.1 s (at " in told[0]


ALARMS = {
    "clears it": "signal.alarm(0)",
    "has a limit within": "reward_limits.within(5, int)",
    "sets a handler for a moment": "signal.signal(signal.SIGALRM, signal.signal(signal.SIGALRM, signal.SIG_IGN))",
    # The time is over meanwhile: the bell waits until the handler is ours again.
    "has a handler when the time is over": """
        taken = []
        before = signal.signal(signal.SIGALRM, lambda *given: taken.append(given))
        while len(reward_limits.threading.waits) < 2: pass  # hangs
        signal.signal(signal.SIGALRM, before)
        assert taken == [] and reward_limits.threading.waits[:2] == [0.3, 0.02]
    """,
}


@pytest.mark.parametrize("kind", ALARMS)
def test_a_library_that_uses_the_alarm_signal_is_limited_too(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as parse() of math-verify, which clears the alarm of the process."""
    told: list[str] = []
    text = own(f"{textwrap.dedent(ALARMS[kind])}\ntime.sleep({LONG})  # hangs")
    judge = loaded(tmp_path, told, text, file="mine.py")
    _, line = hang(text, monkeypatch)
    assert judge("72", "x").score == 0.0
    assert f"it did not end within 0.3 s (at mine.py:{line})" in told[0]


class Paused:
    """Stands in for the module signal: the time is over as soon as the handler is there, as if after a pause."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(signal, name)

    def signal(self, number: int, handler: Any) -> Any:
        before = signal.signal(number, handler)
        self.pause()
        return before

    def pause(self) -> None:
        """Wait until the bell has rung."""
        while len(self.clock.waits) < 2:
            time.sleep(0.001)


def test_a_pause_before_the_function_starts_leaves_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would end whatever runs later."""

    def waits() -> None:
        time.sleep(LONG)

    clock = Clock(lambda frame: frame.f_code in (Paused.pause.__code__, waits.__code__))
    monkeypatch.setattr(limits, "threading", clock)
    monkeypatch.setattr(limits, "signal", Paused(clock))
    before = signal.getsignal(signal.SIGALRM)
    try:
        with pytest.raises(limits.OutOfTimeError):
            limits.within(0.3, waits)
        assert signal.getsignal(signal.SIGALRM) is before
    finally:
        signal.signal(signal.SIGALRM, before)


@EVERYWHERE
def test_a_reward_may_clean_up_after_its_time_limit(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    text = own(f"""
        try:
            while time.monotonic() < END: time.sleep(0.01)  # hangs
        finally:
            time.sleep(0.01)
            open({str(tmp_path / "clean")!r}, "w").close()
    """)
    judge = loaded(tmp_path, told, text, file="mine.py")
    clock, line = hang(text, monkeypatch)
    assert place(lambda: judge("72", "x")).score == 0.0
    until((tmp_path / "clean").exists)
    assert f"(at mine.py:{line})" in told[0]
    assert {*clock.waits} == {0.3}


def test_a_rewards_cleanup_has_a_time_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    text = own(f"""
        try:
            time.sleep({LONG})  # hangs
        finally:
            time.sleep({LONG})  # hangs
    """)
    judge = loaded(tmp_path, told, text, file="mine.py")
    clock, line = hang(text, monkeypatch)
    assert judge("72", "x").score == 0.0
    assert f"(at mine.py:{line})" in told[0]
    assert clock.waits == [0.3] * 3


WAITS = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import reward_limits
for _ in range(8):
    threading.Thread(target=os.read, args=(os.pipe()[0], 1), daemon=True).start()
reward_limits.within(0.5, time.sleep, 600)
"""


def rings_soon(process: subprocess.Popen[str]) -> bool:
    """Return whether all threads of WAITS are there: the main one, those that read, and the bell."""
    return process.poll() is not None or len(os.listdir(f"/proc/{process.pid}/task")) == 10


@pytest.mark.full
def test_a_process_paused_at_its_time_limit_continues() -> None:
    """The kernel then gives the signal to a thread that does not wait: most times, so there are several processes."""
    words = [sys.executable, "-c", WAITS, str(PROGRAMS["reward_limits"].parent)]
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(subprocess.Popen(words, stderr=subprocess.PIPE, text=True)) for _ in range(6)]
        for process in processes:
            stack.callback(process.kill)
        for process in processes:
            until(lambda process=process: rings_soon(process))
            process.send_signal(signal.SIGSTOP)
        time.sleep(0.7)
        for process in processes:
            process.send_signal(signal.SIGCONT)
        for process in processes:
            _, error = process.communicate(timeout=LIMIT)
            assert "reward_limits.OutOfTimeError: it did not end within 0.5 s" in error


@EVERYWHERE
def test_a_users_exception_is_still_reported_with_its_line(place: Place, tmp_path: Path) -> None:
    told: list[str] = []
    judge = loaded(tmp_path, told, "def reward(truth, response):\n    return 1 / 0\n", file="mine.py")
    assert place(lambda: judge("72", "x")).score == 0.0
    assert "ZeroDivisionError: division by zero (mine.py:2)" in told[0]


def test_a_rewards_own_signals_still_work_in_the_main_thread(tmp_path: Path) -> None:
    text = (
        "import signal\n"
        "def reward(truth, response):\n"
        "    before = signal.signal(signal.SIGALRM, lambda *given: None)\n"
        "    signal.alarm(5)\n"
        "    signal.alarm(0)\n"
        "    signal.signal(signal.SIGALRM, before)\n"
        "    return 1.0, True\n"
    )
    told: list[str] = []
    assert loaded(tmp_path, told, text, file="mine.py")("72", "x").score == 1.0
    assert told == []
