"""Score samples with the rewards of a folder, as the run does, and write the results.

usage: try_rewards.py FOLDER

FOLDER has rewards.py and its modules, rewards.json and rewards/ as in the folder of a run, and samples.json: a list of
{"ground_truth": …, "response": …, "data_source": …, "extra_info": …}. results.jsonl gets a line for each thing that is
known: {"rewards": […], "bounds": […]}, then {"score": …, "correct": …, "parts": {…}, "failures": […]} for each sample,
or one {"error": …}. It is written line by line, so that it shows which sample was scored when a reward does not return.
Exit codes: 0 scored, 1 a reward cannot be loaded.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any


def frames(error: BaseException, folder: Path) -> list[tuple[str, int]]:
    """Return the lines of the rewards' own files on the way to an error, the innermost one last."""
    found = traceback.extract_tb(error.__traceback__)
    own = folder / "rewards"
    return [(Path(each.filename).name, each.lineno or 0) for each in found if Path(each.filename).parent == own]


def failure(name: str, error: BaseException, folder: Path) -> dict[str, Any]:
    """Describe an exception of a reward."""
    own = frames(error, folder)
    file, line = own[-1] if own else ("", 0)
    return {"reward": name, "type": type(error).__name__, "message": str(error)[:500], "file": file, "line": line}


def main(words: list[str]) -> int:
    folder = Path(words[0]).resolve()
    sys.path.insert(0, str(folder))
    import rewards

    failures: list[dict[str, Any]] = []

    class Noting(rewards.Combination):
        """Score as the run does, and note every exception with its place."""

        def report(self, name: str, error: BaseException, example: str) -> None:
            failures.append(failure(name, error, folder))

    with open(folder / "results.jsonl", "w", encoding="utf-8") as results:

        def tell(result: dict[str, Any]) -> None:
            print(json.dumps(result), file=results, flush=True)

        try:
            score = Noting(rewards.load(folder).rewards)
        except rewards.RewardError as error:
            tell({"error": str(error)})
            return 1
        listed = [{"name": each.name, "weight": each.weight, "bounds": each.bounds} for each in score.rewards]
        tell({"rewards": listed, "bounds": score.bounds()})
        for sample in json.loads((folder / "samples.json").read_text(encoding="utf-8")):
            result = score(*(sample[key] for key in ("ground_truth", "response", "data_source", "extra_info")))
            tell({**result._asdict(), "failures": failures[:]})
            failures.clear()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
