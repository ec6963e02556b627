"""Lines with planted secrets, and ordinary lines: the corpus by which masking is judged.

The files hold shapes, not values: the values are filled in here, so that no scanner of a code host takes them for real.
"""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
LETTERS = string.ascii_letters + string.digits
ALPHABETS = {
    "a": LETTERS,
    "l": string.ascii_lowercase + string.digits,
    "h": string.digits + "abcdef",
    "d": string.digits,
    "u": string.ascii_uppercase + "234567",
    "b": LETTERS + "+/",
    "w": LETTERS + "_-",
}
FILLED = re.compile(r"\{([alhdubw])(\d+)\}")
MARKED = re.compile("⟦([^⟧]*)⟧")

LONGEST_LEFT = 5


@dataclass(frozen=True)
class Line:
    """One line of a text, with the secrets that stand in it."""

    text: str
    secrets: tuple[str, ...]

    def leaks_in(self, shown: str) -> bool:
        """Whether six characters in a row of a secret, or a whole shorter one, are left in ``shown``."""
        return any(piece in shown for secret in self.secrets for piece in pieces(secret))


def pieces(secret: str) -> list[str]:
    width = min(LONGEST_LEFT + 1, len(secret))
    return [secret[start : start + width] for start in range(len(secret) - width + 1)]


def filled(template: str, place: str) -> str:
    """Fill the placeholders of a line with random characters, always the same ones at the same place."""
    draw = random.Random(f"{place} {template}")  # noqa: S311 (made-up values need no entropy)
    return FILLED.sub(lambda hole: "".join(draw.choices(ALPHABETS[hole[1]], k=int(hole[2]))), template)


def parsed(template: str, place: str) -> Line:
    line = filled(template, place)
    return Line(MARKED.sub(r"\1", line), tuple(MARKED.findall(line)))


def scenes(name: str) -> list[list[Line]]:
    """Read a file of lines: one list for each text; a line with "~" is an empty one."""
    read: list[list[Line]] = [[]]
    for line in (HERE / name).read_text(encoding="utf-8").splitlines():
        if not line:
            read.append([])
        elif not line.startswith("# "):
            read[-1].append(parsed("" if line == "~" else line, f"{len(read)}.{len(read[-1])}"))
    return [scene for scene in read if scene]


PLANTED = scenes("planted_secrets.txt")
ORDINARY = scenes("ordinary_lines.txt")
