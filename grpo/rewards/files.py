"""The folder from which a run loads its rewards, as the grpo-job chart creates it (`grpo.rewards`)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from grpo.values import set_arguments
from grpo.values.set_arguments import Argument
from postrender import output_file, paths, textfile
from postrender.errors import InputError, InstallationError
from postrender.types import Json
from postrender.values.merge import Values

# As in schemas/values/job.yaml.
NAME: Final = re.compile("[a-z][a-z0-9_]{0,38}")
PROGRAM: Final = "try_rewards.py"
_PROGRAMS: Final = (
    "rewards/rewards.py",
    *(f"rewards/reward_{name}.py" for name in ("answers", "builtins", "limits", "numbers")),
    f"inspection/{PROGRAM}",
)


class RewardFiles:
    """A stack's rewards: entries by name, and the texts of the user's files.

    Raises InputError if the schema rejects a name, because files are named after it.
    """

    def __init__(self, values: Values, arguments: Sequence[Argument]) -> None:
        self._values = values
        self._arguments = arguments
        given = _map(_map(values.effective().get("job")).get("rewards"))
        for name in given:
            if not NAME.fullmatch(name):
                raise InputError(
                    f"{name!r} cannot be the name of a reward",
                    at=values.at(("job", "rewards", name)),
                    fix="a letter, then letters, digits and _, all lower-case, at most 39",
                )
        self.entries = {name: _entry(name, _map(reward)) for name, reward in given.items()}
        self.texts = {
            f"{name}.py": str(_map(reward)["file"]) for name, reward in given.items() if "file" in _map(reward)
        }

    @property
    def own(self) -> list[str]:
        """Return the names of the rewards that are the user's files."""
        return [name for name, entry in self.entries.items() if "file" in entry]

    def write(self, folder: str) -> None:
        """Write the reward programs and the rewards into an empty folder."""
        for name in _PROGRAMS:
            path = os.path.join(paths.data_root(), "jobs", name)
            if not os.path.isfile(path):
                raise InstallationError(f"{path} is missing", fix="install grpo-charts again, or run from a checkout")
            with open(path, "rb") as program:
                output_file.create(os.path.join(folder, os.path.basename(name)), program.read())
        os.mkdir(os.path.join(folder, "rewards"))
        texts = {f"rewards/{name}": text for name, text in self.texts.items()}
        for name, text in {**texts, "rewards.json": json.dumps(self.entries)}.items():
            output_file.create(os.path.join(folder, name), text.encode())

    def placed(self, message: str) -> str:
        """Return a program's message with locations that the user knows: polite.py:5, my-site.yaml:14."""
        found = re.match(r"reward ([\w-]+): ", message)
        if found and found[1] in self.entries:
            return f"{self._values.at(('job', 'rewards', found[1]))}: {message}"
        return re.sub(r"\b([\w-]+\.py):(\d+)", self._replaced, message)

    def _replaced(self, found: re.Match[str]) -> str:
        return self.place(found[1], int(found[2])) if found[1] in self.texts else found[0]

    def place(self, name: str, line: int) -> str:
        """Return the location of a line in a reward file: in a --set-file file, or in a values file."""
        reward = name.removesuffix(".py")
        node = self._values.node(("job", "rewards", reward, "file"))
        if node is None:
            return f"{name}:{line}"
        at = node.at
        if set_arguments.is_place(at.file):
            texts = [text for flag, text in self._arguments if f"<{flag}>" == at.file]
            path = texts[at.line - 1][at.col - 1 :].partition("=")[2].partition(",")[0]
            return f"{path}:{line}" if at.file == f"<{set_arguments.FILE}>" else f"job.rewards.{reward}.file:{line}"
        source = textfile.read_bytes(at.file).decode("utf-8", "replace").split("\n")
        # The text of a literal block begins on the next line.
        if source[at.line - 1][at.col - 1 :].startswith("|"):
            return f"{at.file}:{at.line + line}"
        return f"{at.file}:{at.line} (line {line} of the text)"


def _entry(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    entry = {"weight": given.get("weight", 1), "kwargs": given.get("kwargs") or {}}
    if "builtin" in given:
        entry["builtin"] = given["builtin"]
    if "file" in given:
        entry["file"] = f"{name}.py"
    return entry


def _map(value: Json) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
