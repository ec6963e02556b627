"""Score samples with the rewards in a folder, as the run does, and write the results.

usage: try_rewards.py FOLDER

FOLDER has rewards.py and its modules, rewards.json and rewards/ as in a run's folder, and samples.json: a list of
{"ground_truth": …, "response": …, "data_source": …, "extra_info": …}. results.jsonl gets one line per result:
{"rewards": […], "bounds": […]}, then {"score": …, "correct": …, "parts": {…}, "failures": […], "turned": {…}}
for each sample, where turned has, by reward, the pairs that look like (correct, score), then
{"exchanged": {NAME: […]}}: the scores of the user's rewards for the first samples with the response in place of the
ground truth. If a reward cannot be loaded, it is one {"error": …}.
It is written line by line, so that it shows which sample was being scored when a reward does not return.
Exit codes: 0 scored, 1 a reward cannot be loaded.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

# Samples that are scored once more, with the texts exchanged.
FIRST = 4


def frames(error: BaseException, folder: Path) -> list[tuple[str, int]]:
    """Return an error's traceback lines in the rewards' own files, the innermost one last."""
    found = traceback.extract_tb(error.__traceback__)
    own = folder / "rewards"
    return [(Path(each.filename).name, each.lineno or 0) for each in found if Path(each.filename).parent == own]


def failure(name: str, error: BaseException, folder: Path) -> dict[str, Any]:
    """Describe an exception raised by a reward."""
    own = frames(error, folder)
    file, line = own[-1] if own else ("", 0)
    return {"reward": name, "type": type(error).__name__, "message": str(error)[:500], "file": file, "line": line}


def exchanged(score: Any, reward: Any, sample: dict[str, Any]) -> float:
    """Return a reward's score if its two texts are exchanged."""
    truth, response = sample["ground_truth"], sample["response"]
    return float(score.judge(reward, response, truth if isinstance(truth, str) else str(truth))[0])


def noted(reward: Any, turned: dict[str, str]) -> Any:
    """Return a reward that records swapped results: the score is a flag, and the flag is a different number."""

    def function(*texts: Any) -> Any:
        verdict = reward.function(*texts)
        if isinstance(verdict, (tuple, list)) and len(verdict) == 2:
            score, flag = verdict
            is_number = isinstance(flag, (int, float)) and not isinstance(flag, bool)
            # (ok, int(ok)) means the same in both orders.
            if isinstance(score, bool) and is_number and score != flag:
                turned[reward.name] = f"({score}, {flag:g})"
        return verdict

    return reward if reward.of_verl else reward._replace(function=function)


def main(words: list[str]) -> int:
    folder = Path(words[0]).resolve()
    sys.path.insert(0, str(folder))
    import rewards

    failures: list[dict[str, Any]] = []
    turned: dict[str, str] = {}

    class Noting(rewards.Combination):
        """Score as the run does, and record every exception with its location."""

        def report(self, name: str, error: BaseException, example: str) -> None:
            failures.append(failure(name, error, folder))

    with open(folder / "results.jsonl", "w", encoding="utf-8") as results:

        def tell(result: dict[str, Any]) -> None:
            print(json.dumps(result), file=results, flush=True)

        try:
            score = Noting([noted(each, turned) for each in rewards.load(folder).rewards])
        except rewards.RewardError as error:
            tell({"error": str(error)})
            return 1
        listed = [{"name": each.name, "weight": each.weight, "bounds": each.bounds} for each in score.rewards]
        tell({"rewards": listed, "bounds": score.bounds()})
        asked, parts = json.loads((folder / "samples.json").read_text(encoding="utf-8")), list[dict[str, float]]()
        for sample in asked:
            result = score(*(sample[key] for key in ("ground_truth", "response", "data_source", "extra_info")))
            tell({**result._asdict(), "failures": failures[:], "turned": dict(turned)})
            failures.clear()
            turned.clear()
            parts.append(result.parts)
        entries = json.loads((folder / "rewards.json").read_text(encoding="utf-8"))
        # Only where a sample has no score: a reward may ask a server.
        doubted = [
            each
            for each in score.rewards
            if entries[each.name].get("file")
            and not each.of_verl
            and any(part[each.name] <= 0 for part in parts[:FIRST])
        ]
        tell({"exchanged": {each.name: [exchanged(score, each, one) for one in asked[:FIRST]] for each in doubted}})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
