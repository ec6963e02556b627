"""Score samples with a stack's rewards, in a separate process, and report what the scores show."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from grpo.helm import local
from grpo.problems.rewards import values_own_code as own_code
from grpo.rewards import rows
from grpo.rewards.files import PROGRAM, RewardFiles
from grpo.rewards.samples import RIGHT, WRONG, Sample
from grpo.rewards.scored import Record, Scored
from postrender import json_text, output_file
from postrender.counting import counted

_ASKED: Final = ("ground_truth", "response", "data_source", "extra_info")
# A result has a few hundred letters.
_MOST: Final = 64 * 1024 * 1024
# The variables that Python and libraries need; others may hold tokens.
_PLAIN: Final = re.compile("PATH|HOME|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|PYTHON.*|VIRTUAL_ENV|LD_LIBRARY_PATH|CUDA_.*")


class Trial(NamedTuple):
    """The result: the rewards with weight and bounds, the bounds of the sum, the samples, and what went wrong.

    `own` names the rewards that are the user's files. `error` says why the rewards could not be loaded or did not
    finish. `exchanged` has the scores of the user's rewards for the first samples with the two texts exchanged.
    `foreign` names the run's data if the answers are made up, for a question that is not from that data.
    """

    rewards: list[Record]
    bounds: list[float] | None
    scored: list[Scored]
    own: Sequence[str] = ()
    error: str = ""
    exchanged: Mapping[str, Sequence[float]] = MappingProxyType({})
    foreign: str = ""

    @property
    def is_of_rows(self) -> bool:
        """Return whether the samples are rows of the run's data."""
        return any(each.sample.row is not None for each in self.scored)

    def unjudged(self) -> str:
        """Say of how many rows no right answer is known; an empty text if of none."""
        known = {each.sample.row.row for each in self.scored if each.sample.row and not each.sample.row.is_right}
        if not known:
            return ""
        return (
            f"whether a right answer is told from a wrong one, for what {counted(len(known), 'row')}"
            f" {'expects' if len(known) == 1 else 'expect'} is no short text: give answers with --sample FILE"
        )

    def problems(self) -> Iterator[str]:
        """Yield what must be corrected: an error, and each exception raised by a reward."""
        if self.error:
            yield self.error
        if not self.foreign:
            yield from self._failures()

    def _refusals(self) -> Sequence[str]:
        """Return the exceptions by which a function refuses a data source, where that of the run is not known."""
        is_known = any(each.sample.data_source for each in self.scored)
        return () if is_known else ("NotImplementedError", "ValueError", "KeyError")

    def _failures(self, *but: str) -> Iterator[str]:
        """Yield each exception raised by a reward; failures of several data rows at one place are reported once."""
        found: dict[tuple[str, ...], list[str]] = {}
        for each in self.scored:
            for failure in [one for one in each.failures if one["type"] not in but]:
                place = f"{failure['place']}: " if failure["place"] else ""
                told = f"{failure['type']}: {failure['message']}"
                sample = each.sample
                what = (sample.name,) if sample.row is None else (failure["type"], str(failure["place"]))
                text = f"{place}reward {failure['reward']} fails on sample {sample.name} and scores 0.0: {told}"
                found.setdefault((failure["reward"], *what), []).append(text)
        for texts in found.values():
            yield texts[0] + (f", as on {counted(len(texts) - 1, 'other sample')}" if texts[1:] else "")

    def warnings(self) -> Iterator[str]:
        """Yield what would keep training from learning anything, and wrong bounds."""
        if self.foreign:
            yield (
                f"the answers are to a question of GSM8K, and the run trains on {self.foreign}: no score here says"
                " whether a right answer of these data is told from a wrong one. Give its rows with --data train=FILE,"
                " or answers with --sample FILE"
            )
            yield from (f"{each} (a made-up answer)" for each in self._failures(*self._refusals()))
        elif self.is_of_rows:
            yield from rows.warnings(self.scored)
        else:
            yield from self._of_totals()
        yield from self._of_rewards()

    def _of_totals(self) -> Iterator[str]:
        by_name = {each.sample.name: each for each in self.scored}
        right, wrong = by_name.get(RIGHT), by_name.get(WRONG)
        totals = {each.score for each in self.scored}
        if len(self.scored) > 1 and len(totals) == 1:
            yield f"every sample has the same score, {totals.pop():g}: from such answers the model learns nothing"
        elif right and wrong and right.score == wrong.score:
            yield f"the right and the wrong answer have the same score, {right.score:g}: no reward judges the answer"

    def _of_rewards(self) -> Iterator[str]:
        for reward in self.rewards:
            name, (low, high) = reward["name"], reward["bounds"] or (-math.inf, math.inf)
            for each in self.scored:
                if not low <= each.parts[name] <= high:
                    what = f"reward {name} gives {each.parts[name]:g} to sample {each.sample.name}"
                    yield f"{what}, and its BOUNDS are {low:g} and {high:g}"
                    break
        for name in self.own:
            # A built-in length or format may well be equal for all of them.
            scores = {each.parts[name] for each in self.scored}
            is_known = not self.foreign and (not self.is_of_rows or [*rows.pairs(self.scored)])
            if is_known and len(self.scored) > 1 and len(self.rewards) > 1 and len(scores) == 1:
                yield f"reward {name} gives {scores.pop():g} to every sample"
            pairs = ((each.sample.name, each.turned[name]) for each in self.scored if name in each.turned)
            for sample, pair in [*pairs][:1]:
                what = f"reward {name} returns {pair} for sample {sample}, a flag in the place of the score"
                yield f"{what}: the pair looks exchanged: it is (score, correct)"
        for name, found in self.exchanged.items():
            if (at := self._swapped(name, found)) is not None:
                sample, own = self.scored[at].sample.name, self.scored[at].parts[name]
                what = f"reward {name} gives {own:g} to sample {sample}, and {found[at]:g} with the two texts exchanged"
                yield f"{what}: the arguments look swapped: the function is called as reward(ground_truth, response)"

    def _swapped(self, name: str, exchanged: Sequence[float]) -> int | None:
        """Return a sample showing that a reward tells answers apart only with its arguments exchanged, or None."""
        first = self.scored[: len(exchanged)]
        names, given = [each.sample.name for each in first], [each.parts[name] for each in first]
        # A reward of the length or the form of a response gives the exchanged right and wrong answers the same score.
        if RIGHT in names and WRONG in names:
            right, wrong = names.index(RIGHT), names.index(WRONG)
            tells = given[right] > given[wrong] or exchanged[right] <= exchanged[wrong]
            return None if tells or exchanged[right] <= given[right] else right
        best = max(range(len(first)), key=lambda at: exchanged[at], default=0)
        tells = len({*given}) != 1 or len({*exchanged}) == 1
        return None if tells or exchanged[best] <= given[best] else best


def score(files: RewardFiles, samples: Sequence[Sample], seconds: float, given: Sequence[str] = ()) -> Trial:
    """Score samples with the rewards, which may be the user's code; stop after the time limit.

    `given` names environment variables that the rewards get in addition to those in _PLAIN.
    """
    with tempfile.TemporaryDirectory(prefix="grpo-rewards-") as folder:
        files.write(folder)
        asked = [{key: value for key, value in each._asdict().items() if key in _ASKED} for each in samples]
        output_file.create(os.path.join(folder, "samples.json"), json.dumps(asked, default=str).encode())
        plain = {name: value for name, value in os.environ.items() if name in given or _PLAIN.fullmatch(name)}
        code = local.run(os.path.join(folder, PROGRAM), [folder], folder, seconds, plain)
        lines = _lines(os.path.join(folder, "results.jsonl"))
    head, results = (lines[0], lines[1:]) if lines else ({}, [])
    try:
        scored = [_scored(sample, result, files) for sample, result in zip(samples, results, strict=False)]
        exchanged = results[len(samples)]["exchanged"] if len(results) > len(samples) else {}
    except (LookupError, TypeError, AttributeError):
        return Trial([], None, [], error="a reward has written over the results, so no score is known")
    if "error" in head:
        hint = ": libraries of the image are needed here too" if "ModuleNotFoundError" in head["error"] else ""
        if any(map(own_code.is_name, files.texts.values())):
            hint = ": the text is only the name of a file; give its content by --set-file"
        return Trial([], None, [], error=f"{files.placed(head['error'])}{hint}")
    error = ""
    if code is None:
        at = f"scoring sample {samples[len(scored)].name}" if head and len(scored) < len(samples) else "loading"
        at = "scoring once more, with the texts exchanged" if len(scored) == len(samples) else at
        error = f"the rewards did not end within {seconds:g} s: {at}"
    elif code or len(scored) < len(samples):
        at = (
            f"at sample {samples[len(scored)].name}"
            if head and len(scored) < len(samples)
            else "before the first sample"
        )
        error = f"the process of the rewards ended with {code} {at}: see its output above"
    return Trial(head.get("rewards", []), head.get("bounds"), scored, files.own, error, exchanged)


def _scored(sample: Sample, result: Record, files: RewardFiles) -> Scored:
    failures = [
        {**each, "place": files.place(each["file"], each["line"]) if each["file"] else ""}
        for each in result["failures"]
    ]
    return Scored(sample, result["score"], result["correct"], result["parts"], failures, result["turned"])


def _lines(path: str) -> list[Record]:
    """Return the results so far; the last line may be incomplete, and a reward may have written lines of its own."""
    try:
        # A reward may have put a pipe or a link there.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return []
    with open(descriptor, encoding="utf-8", errors="replace") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return []
        lines = file.read(_MOST).split("\n")[:-1]
    found = []
    with contextlib.suppress(ValueError):
        for line in lines:
            found.append(json_text.loads(line))
    return found
