"""A judgement that takes too long scores 0, is told, and stops neither the run nor the next judgement."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import thin

answers, limits, rewards = (importlib.import_module(f"reward{name}") for name in ("_answers", "_limits", "s"))

CATASTROPHE, HARMLESS = "a" * 40 + "!", "aaaa"
PATTERN = "^(a+)+$"
needs_math = pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="math-verify is not installed")


@pytest.fixture(autouse=True)
def no_child() -> Iterator[None]:
    yield
    limits.are_equal.stop()
    limits.is_found.stop()


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


EVERYWHERE = pytest.mark.parametrize("place", [in_main_thread, in_other_thread])


@EVERYWHERE
def test_a_pattern_that_does_not_end_scores_zero(
    place: Callable[[Callable[[], Any]], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    judge = loaded(tmp_path, told, builtin="format", kwargs={"pattern": PATTERN})
    monkeypatch.setattr(limits, "SECONDS", 1.0)
    started = time.monotonic()
    assert place(lambda: judge("", CATASTROPHE)) == (0.0, False, {"mine": 0.0})
    assert time.monotonic() - started < 20
    monkeypatch.setattr(limits, "SECONDS", 20.0)
    assert place(lambda: judge("", HARMLESS)).score == 1.0
    assert place(lambda: judge("", "b")).score == 0.0
    (text,) = told
    assert text.startswith("reward mine failed once and scored 0.0 instead; the last time: OutOfTimeError: ")
    assert "the search for the pattern did not end within 1 s" in text


@pytest.mark.full
def test_a_pattern_leaves_other_threads_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECONDS", 2.0)
    beats, ended = 0, threading.Event()

    def search() -> None:
        with pytest.raises(limits.OutOfTimeError):
            limits.is_found(PATTERN, CATASTROPHE)
        ended.set()

    threading.Thread(target=search).start()
    while not ended.wait(0.05):
        beats += 1
    assert beats > 10


@needs_math
@pytest.mark.parametrize("tower", thin(["9^{9^{9^9}}", "10^{10^{10}}", "(10^9)!"], 3))
def test_an_expression_that_cannot_be_computed_raises(tower: str, monkeypatch: pytest.MonkeyPatch) -> None:
    limits.are_equal.start()
    monkeypatch.setattr(limits, "SECONDS", 1.0)
    with pytest.raises(limits.OutOfTimeError, match="the comparison of two expressions did not end within 1 s"):
        answers.equal("5", tower)


@needs_math
@pytest.mark.full
def test_math_verify_is_asked_from_any_thread_and_comes_back_after_it_died() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda n: answers.equal(f"x+{n}", f"{n}+x"), range(20)))
    limits.are_equal.child.send_signal(signal.SIGKILL)
    limits.are_equal.child.wait()
    with pytest.raises(limits.OutOfTimeError, match="ended its process"):
        answers.equal("x+1", "1+x")
    assert answers.equal("x+1", "1+x") is True


def test_without_math_verify_texts_are_compared_and_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "math_verify.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    judge = limits.Judge("equal")
    monkeypatch.setattr(limits, "are_equal", judge)
    assert [answers.equal("x+1", answer) for answer in ("1+x", "x+1", "2+x")] == [False, True, False]
    assert capsys.readouterr().out.count("math-verify is not installed") == 1
    assert judge.child is None


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.full
def test_a_search_ends_although_its_parent_was_killed(tmp_path: Path) -> None:
    text = Path(limits.__file__).read_text(encoding="utf-8").replace("SECONDS = 4.0", "SECONDS = 1.0")
    assert "SECONDS = 1.0" in text
    (tmp_path / "reward_limits.py").write_text(text)
    program = (
        "import os, reward_limits, signal, threading, time\n"
        f"threading.Thread(target=reward_limits.is_found, args=({PATTERN!r}, {CATASTROPHE!r}), daemon=True).start()\n"
        "while reward_limits.is_found.child is None: time.sleep(0.01)\n"
        "print(reward_limits.is_found.child.pid, flush=True)\n"
        "time.sleep(0.5)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    words = [sys.executable, "-c", program]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    deadline = time.monotonic() + 60
    while runs(int(ended.stdout)):
        assert time.monotonic() < deadline
        time.sleep(0.1)


HANGING = {
    "computes": "while True: pass",
    "waits": "import time; time.sleep(600)",
    "hides its exceptions": """
        while True:
            try:
                while True: pass
            except Exception: pass
    """,
}


@EVERYWHERE
@pytest.mark.parametrize("kind", HANGING)
def test_a_file_of_ones_own_has_a_limit_of_its_own(
    place: Callable[[Callable[[], Any]], Any], kind: str, tmp_path: Path
) -> None:
    told: list[str] = []
    body = HANGING[kind] if "\n" in HANGING[kind] else f"        {HANGING[kind]}"
    text = f"SECONDS = 0.3\ndef reward(truth, response):\n    if truth == 'hang':\n{body}\n    return 0.5, True\n"
    judge = loaded(tmp_path, told, text, file="mine.py")
    before, threads = signal.getsignal(signal.SIGALRM), threading.active_count()
    assert place(lambda: judge("hang", "x")) == (0.0, False, {"mine": 0.0})
    assert place(lambda: judge("72", "x")) == (0.5, True, {"mine": 0.5})
    (said,) = told
    assert "OutOfTimeError: it did not end within 0.3 s (at mine.py:" in said
    assert "; a file that needs longer says SECONDS = 0.6 (" in said
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    if kind != "waits":
        deadline = time.monotonic() + 10
        while threading.active_count() > threads and time.monotonic() < deadline:
            time.sleep(0.01)
        assert threading.active_count() == threads


@EVERYWHERE
def test_a_question_whose_asker_ran_out_of_time_has_no_answer_left(place: Callable[[Callable[[], Any]], Any]) -> None:
    """The next question would get it: rewards that are wrong until the end of the run."""
    assert limits.is_found("a", "a")
    pid = limits.is_found.child.pid
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(limits.OutOfTimeError):
        place(lambda: limits.within(0.5, limits.is_found, "b", "x"))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    assert [limits.is_found("b", text) for text in ("b", "x", "b")] == [True, False, True]


ALARMS = {
    "clears it": "signal.alarm(0)",
    "has a limit within": "reward_limits.within(5, int)",
    "sets a handler for a moment": "signal.signal(signal.SIGALRM, signal.signal(signal.SIGALRM, signal.SIG_IGN))",
}


@pytest.mark.parametrize("kind", ALARMS)
def test_a_library_that_uses_the_alarm_has_a_limit_too(kind: str, tmp_path: Path) -> None:
    """Such as parse() of math-verify, which clears the alarm of the process."""
    told: list[str] = []
    body = f"    {ALARMS[kind]}\n    time.sleep(30)\n    return 1.0, True\n"
    text = f"import reward_limits, signal, time\nSECONDS = 0.3\ndef reward(truth, response):\n{body}"
    started = time.monotonic()
    assert loaded(tmp_path, told, text, file="mine.py")("72", "x").score == 0.0
    assert time.monotonic() - started < 20
    assert "it did not end within 0.3 s (at mine.py:5)" in told[0]


WAITS = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[1])
import reward_limits
for _ in range(8):
    threading.Thread(target=os.read, args=(os.pipe()[0], 1), daemon=True).start()
print("ready", flush=True)
reward_limits.within(1.0, time.sleep, 600)
"""


@pytest.mark.full
def test_a_process_that_was_paused_when_the_time_was_over_goes_on() -> None:
    """The kernel then gives the signal to a thread that does not wait: most times, so there are several processes."""
    words = [sys.executable, "-c", WAITS, str(Path(limits.__file__).parent)]
    pipe = subprocess.PIPE
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True)) for _ in range(6)
        ]
        for process in processes:
            stack.callback(process.kill)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        for process in processes:
            process.send_signal(signal.SIGCONT)
        for process in processes:
            _, error = process.communicate(timeout=30)
            assert "reward_limits.OutOfTimeError: it did not end within 1 s" in error


@pytest.mark.full
@EVERYWHERE
def test_a_reward_may_clean_up_after_its_time(place: Callable[[Callable[[], Any]], Any], tmp_path: Path) -> None:
    text = f"""
import time
from pathlib import Path
SECONDS = 2
def reward(truth, response):
    try:
        time.sleep(3 if truth == 'hang' else 0)
    finally:
        time.sleep(0.5)
        Path({str(tmp_path / "clean")!r}).touch()
"""
    told: list[str] = []
    assert place(lambda: loaded(tmp_path, told, text, file="mine.py")("hang", "x")).score == 0.0
    deadline = time.monotonic() + 30
    while not (tmp_path / "clean").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "(at mine.py:7)" in told[0]


@EVERYWHERE
def test_an_exception_of_ones_own_is_still_told_with_its_line(
    place: Callable[[Callable[[], Any]], Any], tmp_path: Path
) -> None:
    told: list[str] = []
    judge = loaded(tmp_path, told, "def reward(truth, response):\n    return 1 / 0\n", file="mine.py")
    assert place(lambda: judge("72", "x")).score == 0.0
    assert "ZeroDivisionError: division by zero (mine.py:2)" in told[0]


def test_signals_of_a_reward_still_work_in_the_main_thread(tmp_path: Path) -> None:
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
