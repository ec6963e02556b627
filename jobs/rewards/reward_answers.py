"""Find the final answer in a response, and decide whether it equals the ground truth.

This module compares numbers and texts. math-verify compares everything else, with a time limit (reward_limits.py).
"""

from __future__ import annotations

import re

import reward_limits
from reward_numbers import LONGEST, clean, read, same

MARKERS = ("boxed", "answer", "####")
_BOX = re.compile(
    r"\\(?:boxed|fbox)\s*\{|\\[{}]|[{}]"
    r"|\\(?:boxed|fbox)\s+(?P<bare>[-+]?[$\u20ac\u00a3]?[\d.][^\s{}$\\<]*)"
)
_WORDS = re.compile(r"[^\W\d_]{2,}(?:[\s,.'-]+[^\W\d_]+)*")
_MATHEMATICS = re.compile(r"\\.*|(?:arc)?(?:cos|sin|tan)|cot|csc|exp|ln|log|max|min|mod|pi|sec|sqrt")


def last_boxed(text: str) -> tuple[int, str] | None:
    r"""Return the end and the content of the last complete \boxed{…} or \boxed 72."""
    found, opened = None, list[int]()
    for brace in _BOX.finditer(text):
        if brace["bare"]:
            found = (brace.end(), brace["bare"])
        elif brace[0] == "}":
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


def after_thoughts(text: str, tag: str) -> str:
    """Return what follows the last </tag>; an empty text if the thoughts never end."""
    rest = text.rpartition(f"</{tag}>")[2]
    return "" if f"<{tag}>" in rest else rest


def find_answer(
    text: str, markers: tuple[str, ...] = MARKERS, tag: str = "answer", think_tag: str = "think"
) -> str | None:
    r"""Return the text in the last marker: \boxed{…}, <tag>…</tag> or the rest of a line after ####.

    Nested markers are resolved too: <answer>\boxed{72}</answer> is 72. A marker inside the thoughts is not an
    answer. None: no complete marker.
    """
    finders = {"boxed": last_boxed, "answer": lambda part: last_tagged(part, tag), "####": last_hashes}
    answer: str | None = None
    part = after_thoughts(text, think_tag)
    # A longer text is not an answer, so markers inside it are ignored.
    while answer is None or len(answer) <= LONGEST:
        found = [hit for marker in markers if (hit := finders[marker](part))]
        if not found:
            break
        answer = part = max(found)[1]
    return answer


def is_prose(text: str) -> bool:
    r"""Return whether a text contains words: sqrt(2) and \frac{1}{2} do not."""
    return any(not _MATHEMATICS.fullmatch(word) for word in re.findall(r"\\?[^\W\d_]{2,}", text))


def is_unsolved(text: str) -> bool:
    """Return whether a text is an equation with more than a variable on its left: 2x + 5 = 72."""
    sides = [re.sub(r"\\[A-Za-z]+", "", side).strip() for side in text.split("=")[:-1]]
    return any(len(side) > 1 and re.search("[A-Za-z]", side) for side in sides)


def equal(truth: str, answer: str, mathematics: bool = True) -> bool:
    """Return whether an answer equals the truth: as text, as a number, then, with `mathematics`, as an expression.

    Without math-verify, two expressions are equal only if they are written identically.
    """
    left, right = clean(truth), clean(answer)
    if not left:
        raise ValueError("the ground truth is empty")
    if left.casefold() == right.casefold():
        return True
    ours, theirs = read(left), read(right)
    # A fraction may also equal a rounded number: math-verify compares six digits.
    if ours and theirs and (same(ours, theirs) or "/" not in left + right):
        return same(ours, theirs)
    # math-verify would take one of the numbers in a sentence, and there is nothing to compute in words.
    if not right or not mathematics or (ours and (is_prose(right) or is_unsolved(right))) or _WORDS.fullmatch(left):
        return False
    return max(len(truth), len(answer)) <= LONGEST and reward_limits.are_equal(truth, answer)
