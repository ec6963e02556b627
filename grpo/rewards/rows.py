"""What the scores of answers to the rows of the user's data show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from grpo.rewards import form
from grpo.rewards.samples import EXPECTED, WRONG
from grpo.rewards.scored import Scored
from postrender.counting import counted

_MOST: Final = 24
_ASKED: Final = {
    form.PROMPT: "which is written as the prompt of its row asks",
    form.SOURCE: "which is written as verl's own reward for its data_source wants it, for its prompt names no mark",
    form.REWARDS: "whose mark is one that the rewards name, for the prompt of its row names none",
    form.NOTHING: (
        "a guess, because the prompt of its row names no mark that is known here: give answers with --sample FILE"
    ),
}


def shown(response: object) -> str:
    """Return the end of a response, where its answer stands, in one line."""
    words = " ".join(str(response).split())
    last = " ".join(str(response).rstrip().rpartition("\n")[2].split())
    if len(last) > _MOST:
        return f"…{last[-_MOST:]}"
    return last if last == words else f"… {last}"


def pairs(scored: Sequence[Scored]) -> Iterator[tuple[Scored, Scored]]:
    """Yield the right and the wrong answer of each row that has both, but for those on which a reward fails."""
    by_row: dict[str, dict[str, Scored]] = {}
    for each in scored:
        if each.sample.row and not each.failures:
            by_row.setdefault(each.sample.row.row, {})[each.sample.row.name] = each
    for found in by_row.values():
        if EXPECTED in found and WRONG in found:
            yield found[EXPECTED], found[WRONG]


def warnings(scored: Sequence[Scored]) -> Iterator[str]:
    """Yield that a right answer is not told from a wrong one."""
    known = [*pairs(scored)]
    totals = {each.score for each in scored}
    if known and len(totals) == 1:
        yield f"every sample has the same score, {totals.pop():g}: from such answers the model learns nothing"
    equal = [right for right, wrong in known if right.score == wrong.score]
    less = [right for right, wrong in known if right.score < wrong.score]
    for found, what in (
        (equal, "the right and the wrong answer have the same score"),
        (less, "the right answer has a lower score than the wrong one"),
    ):
        first = found[0] if found else None
        if first and (row := first.sample.row):
            yield (
                f"{what} on {len(found)} of {counted(len(known), 'row')}, {row.row} first ({first.score:g}): no reward"
                f' judges the answer "{shown(first.sample.response)}", {_ASKED[row.form_of]}'
            )
