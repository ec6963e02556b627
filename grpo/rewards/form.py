"""The format of an answer: what the prompt asks for, what the data source has, and what the rewards look for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

# A prompt that ends in "Answer:" asks for nothing: the response goes on from there.
_ASKS: Final = {
    "answer": re.compile("<answer>"),
    "boxed": re.compile(r"\\boxed"),
    "####": re.compile("####"),
    "Answer:": re.compile(r"(?<![\w<])Answer:\s*\S"),
}
_READS: Final = {
    "####": re.compile("####"),
    "boxed": re.compile("boxed"),
    "answer": re.compile("answer>"),
    "Answer:": re.compile("Answer"),
}
# What verl's judges read: verl/utils/reward_score/__init__.py at 0.9.1, and gsm8k.py, math_reward.py, math_dapo.py.
_OF_SOURCE: Final = (
    ("####", re.compile("openai/gsm8k")),
    ("boxed", re.compile("lighteval/MATH|DigitalLearningGmbH/MATH-lighteval|HuggingFaceH4/MATH-500|numina_.*")),
    ("Answer:", re.compile("math_dapo.*|math|aime.*")),
)
PROMPT, SOURCE, REWARDS, NOTHING = "prompt", "source", "rewards", ""


class Form:
    """The tags of a reward `format`, and the marker of an answer; `of` says what asks for it."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]], prompt: str) -> None:
        """Take the format that the built-in rewards look for; the prompt says what rewards of one's own expect."""
        kwargs = {str(each.get("builtin")): each.get("kwargs") or {} for each in entries.values()}
        shape, exact = kwargs.get("format", {}), kwargs.get("exact_answer", {})
        self.think = str(shape.get("think_tag") or exact.get("think_tag") or "think")
        self.answer = str(shape.get("answer_tag") or exact.get("answer_tag") or "answer")
        self.thinks = "format" in kwargs or f"<{self.think}>" in prompt
        self._known = exact.get("markers") or ("answer", "boxed", "####")
        self._has_builtin = "exact_answer" in kwargs or "format" in kwargs
        self._asked = [*self._of_prompt(prompt)]
        tagged = "format" in kwargs and "answer" in self._known
        named = [marker for marker in self._known if marker in self._asked]
        self.marks = ["answer" if tagged else str([*named, *self._known][0])]
        self.of = PROMPT if named else REWARDS

    def for_row(self, source: object, texts: Sequence[str]) -> Form:
        """Take the format of a row's prompt, else that of its data source, else that of the user's own rewards."""
        of_source = next((mark for mark, names in _OF_SOURCE if names.fullmatch(str(source))), "")
        read = next((mark for mark, sign in _READS.items() for text in texts if sign.search(text)), "")
        if self._asked:
            # One who asks for both wants a box within the tags, or after the word.
            outer = [mark for mark in self._asked if mark in ("answer", "Answer:")]
            self.marks = [outer[0], "boxed"] if outer and "boxed" in self._asked else self._asked[:1]
            self.of = PROMPT
        elif not self._has_builtin:
            self.marks = [of_source or read or self.marks[0]]
            self.of = SOURCE if of_source else REWARDS if read else NOTHING
        return self

    def _of_prompt(self, prompt: str) -> Iterator[str]:
        for mark, sign in _ASKS.items():
            if f"<{self.answer}>" in prompt if mark == "answer" else sign.search(prompt):
                yield mark

    def whole(self, answer: str, thought: str) -> str:
        """Return an answer as asked for, after a thought."""
        last = answer
        for mark in reversed(self.marks):
            last = self._marked(mark, last)
        return f"<{self.think}>{thought}</{self.think}>\n{last}" if self.thinks else f"{thought}\n{last}"

    def _marked(self, mark: str, answer: str) -> str:
        marked = {"boxed": rf"\boxed{{{answer}}}", "####": f"#### {answer}", "Answer:": f"Answer: {answer}"}
        return marked.get(mark, f"<{self.answer}>{answer}</{self.answer}>")

    def broken(self, answer: str, thought: str) -> str:
        """Return the answer with nothing closed, or without a mark."""
        marked = {"boxed": rf"\boxed{{{answer}", "####": f"The answer is {answer}.", "Answer:": f"It is {answer}."}
        last = marked.get(self.marks[0], f"<{self.answer}>{answer}")
        return f"<{self.think}>{thought}\n{last}" if self.thinks else f"{thought}\n{last}"
