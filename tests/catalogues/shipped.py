"""Load each GRPO configuration of a NeMo RL source tree with the tree's own code. A program: shipped.py TREE.

Prints {"path below the tree": the resolved configuration, or what the code says against it}.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.recipes.nemo_rl import enter, resolved


def main(tree: Path) -> dict[str, Any]:
    """Return what each file comes to that has a section grpo once it is merged."""
    enter(tree)
    found: dict[str, Any] = {}
    files = sorted((tree / "examples").rglob("*.yaml"))
    for name in {name for file in files for name in re.findall(r"oc\.env:(\w+)", file.read_text("utf-8"))}:
        os.environ.setdefault(name, "/somewhere")
    for file in files:
        try:
            config = resolved(file)
        except Exception as error:
            config = f"{type(error).__name__}: {error}" if "\ngrpo:" in file.read_text("utf-8") else None
        if isinstance(config, str) or (isinstance(config, dict) and "grpo" in config):
            found[str(file.relative_to(tree))] = config
    return found


if __name__ == "__main__":
    # What the tree prints on import must not stand in the JSON.
    output, sys.stdout = sys.stdout, sys.stderr
    json.dump(main(Path(sys.argv[1])), output, default=str)
