"""Write the 100 sums of two digits in the form of GSM8K's files: python3 make_questions.py FOLDER SEED.

All are for training, and 40 of them for validation too: the run shows that the parts work together, not that the model
generalizes.
"""

from __future__ import annotations

import json
import os
import random
import sys

VALIDATION = 40


def main(folder: str, seed: int) -> None:
    """Write train.jsonl and test.jsonl."""
    sums = [(left, right) for left in range(10) for right in range(10)]
    random.Random(seed).shuffle(sums)  # noqa: S311 - no secret
    lines = [
        json.dumps({"question": f"{left}+{right}", "answer": f"{left} and {right} are\n#### {left + right}"}) + "\n"
        for left, right in sums
    ]
    os.makedirs(folder, exist_ok=True)
    for name, rows in (("train", lines), ("test", lines[:VALIDATION])):
        with open(os.path.join(folder, f"{name}.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(rows)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
