"""Find the final answer in a response, and decide whether it equals the ground truth.

This module compares numbers and texts. math-verify compares everything else, in a separate process: it stops long
computations with a signal, and frameworks call rewards in threads, which cannot receive signals.
`python3 reward_answers.py` is that process: it reads a JSON list [truth, answer] per line, and answers 1 or 0.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
from fractions import Fraction
from typing import Any

MARKERS = ("boxed", "answer", "####")
# Longer answers are not computed; sympy's time grows faster than the length of the text.
LONGEST = 500
# math-verify stops each of its two steps after 5 s. This timeout is for what its signals cannot interrupt.
PATIENCE = 30.0
NUMBER = re.compile(r"[-+]?(\d+|\d{1,3}(,\d{3})+)?(\.\d+)?")
RATIO = re.compile(r"[-+]?\d+/\d+")


def last_boxed(text: str) -> tuple[int, str] | None:
    r"""Return the end and the content of the last complete \boxed{…}."""
    found, opened = None, list[int]()
    for brace in re.finditer(r"\\boxed\s*\{|\\[{}]|[{}]", text):
        if brace[0] == "}":
            start = opened.pop() if opened else 0
            found = (brace.end(), text[start : brace.start()]) if start else found
        elif brace[0].endswith("{") and brace[0] != r"\{":
            opened.append(brace.end() if len(brace[0]) > 1 else 0)
    return found


def last_tagged(text: str, tag: str) -> tuple[int, str] | None:
    end = text.rfind(f"</{tag}>")
    start = text.rfind(f"<{tag}>", 0, max(end, 0))
    return (end, text[start + len(tag) + 2 : end]) if start >= 0 else None


def last_hashes(text: str) -> tuple[int, str] | None:
    start = text.rfind("####") + 4
    return (start, text[start:].split("\n", 1)[0]) if start >= 4 else None


def find_answer(text: str, markers: tuple[str, ...] = MARKERS, tag: str = "answer") -> str | None:
    r"""Return the text in the last marker: \boxed{…}, <tag>…</tag> or the rest of a line after ####.

    A marker inside another one is resolved too: <answer>\boxed{72}</answer> is 72. None: no complete marker.
    """
    finders = {"boxed": last_boxed, "answer": lambda part: last_tagged(part, tag), "####": last_hashes}
    answer: str | None = None
    part = text
    # A longer text is not an answer, so markers inside it are ignored.
    while answer is None or len(answer) <= LONGEST:
        found = [hit for marker in markers if (hit := finders[marker](part))]
        if not found:
            break
        answer = part = max(found)[1]
    return answer


def plain(text: str) -> str:
    """Return an answer without the characters that often surround one, such as $ and *."""
    text = re.sub(r"\\[$,!()\[\]]|\$", "", text).replace(r"\%", "%")
    return " ".join(text.strip(" \t\r\n*`").rstrip(".*`").split()).casefold()


def number(text: str) -> Fraction | None:
    if len(text) > 100 or not text:
        return None
    if NUMBER.fullmatch(text) and text[-1].isdigit():
        return Fraction(text.replace(",", ""))
    with contextlib.suppress(ZeroDivisionError):
        return Fraction(text) if RATIO.fullmatch(text) else None
    return None


def equal(truth: str, answer: str, mathematics: bool = True) -> bool:
    """Return whether an answer equals the truth: as text, as number, then, with `mathematics`, as expression.

    Without math-verify, two expressions are equal only if they are written in the same way.
    """
    left, right = plain(truth), plain(answer)
    if not left:
        raise ValueError("the ground truth is empty")
    if left == right:
        return True
    ours, theirs = number(left), number(right)
    if ours is not None and theirs is not None and (ours == theirs or "/" not in left + right):
        return ours == theirs
    # A truth without a digit, a sign or an operator is a word, with nothing to compute.
    if not right or not mathematics or max(len(truth), len(answer)) > LONGEST or re.fullmatch(r"[^\W\d_]{2,}", left):
        return False
    return ask_math_verify(truth, answer)


class Verifier:
    """math-verify in a child process, one question at a time."""

    def __init__(self) -> None:
        self.lock, self.owner, self.missing = threading.Lock(), 0, False
        self.child: Any = None

    def start(self) -> Any:
        words = [sys.executable, os.path.abspath(__file__)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self.child, self.owner = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=nowhere), os.getpid()
        return self.child

    def stop(self) -> None:
        if self.child and self.owner == os.getpid():
            self.child.kill()
            self.child.communicate()
        self.child = None

    def ask(self, question: str) -> str:
        """Return the answer line, empty if the child has ended or does not answer in time."""
        # A forked process must not share its parent's pipes.
        child = self.child if self.child and self.owner == os.getpid() else self.start()
        with contextlib.suppress(OSError):
            child.stdin.write(question.encode() + b"\n")
            child.stdin.flush()
            if select.select([child.stdout], [], [], PATIENCE)[0]:
                return str(child.stdout.readline().decode().strip())
        return ""

    def __call__(self, truth: str, answer: str) -> bool:
        with self.lock:
            if self.missing:
                return False
            verdict = self.ask(json.dumps([truth, answer]))
            if verdict not in ("0", "1"):
                self.stop()
            if verdict == "missing":
                self.missing = True
                print("grpo: math-verify is not installed: answers are compared as numbers and texts only", flush=True)
            return verdict == "1"


ask_math_verify = Verifier()


def serve() -> None:
    """Answer questions until the input ends."""
    import logging

    # Output of the libraries must not be mistaken for an answer.
    replies, sys.stdout = sys.stdout, sys.stderr
    try:
        from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
    except ImportError:
        print("missing", file=replies, flush=True)
        return
    logging.disable()
    kinds = [LatexExtractionConfig(), ExprExtractionConfig()]
    for line in sys.stdin:
        try:
            truth, answer = (parse(rf"\boxed{{{text}}}", kinds) for text in json.loads(line))
            verdict = bool(truth) and bool(answer) and verify(truth, answer)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # math-verify's TimeoutException is not an Exception
            verdict = False
        print(int(verdict), file=replies, flush=True)


if __name__ == "__main__":
    serve()
