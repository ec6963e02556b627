"""Fill docs/tutorial.md.in with the names of a stack.

Usage: `python -m postrender.generate.tutorial -f FILE … > my-tutorial.md`.

The commands are computed from the charts' values files, so a name that changes there also changes on the page. Shell
variables of the page hold what is in no values file (region, zone, name of the GKE cluster).
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from postrender.errors import GrpoError
from postrender.generate import placeholders
from postrender.generate.sources import ROOT, SourceError

TEMPLATE, PAGE = "docs/tutorial.md.in", "docs/tutorial.md"
FILES = ("values/accelerators/b200.yaml", "values/recipes/gemma3-27b-gsm8k.yaml", placeholders.EXAMPLE)
WIDTH = 120


def render(root: Path = ROOT, files: Sequence[str] = FILES) -> str:
    """Return the page; raise SourceError if the page does not support the stack of these files."""
    template = (root / TEMPLATE).read_text("utf-8")
    found = placeholders.names(root, files)
    used = set(re.findall(r"\{\{(\w+)\}\}", template))
    if used != set(found):
        raise SourceError(f"{TEMPLATE}: unknown {sorted(used - set(found))}, never used {sorted(set(found) - used)}")
    return wrapped(re.sub(r"\{\{(\w+)\}\}", lambda match: found[match[1]], template))


def wrapped(page: str) -> str:
    """Wrap the paragraphs of the page again, because the lengths of names vary."""
    parts = re.split(r"(^```.*?^```\n)", page, flags=re.MULTILINE | re.DOTALL)
    for number in range(0, len(parts), 2):
        paragraphs = parts[number].split("\n\n")
        parts[number] = "\n\n".join(one if re.match(r"\s*(#|\||- |$)", one) else fill(one) for one in paragraphs)
    return "".join(parts)


def fill(paragraph: str) -> str:
    text = textwrap.fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)
    start = paragraph[: len(paragraph) - len(paragraph.lstrip("\n"))]
    return start + text.strip() + paragraph[len(paragraph.rstrip("\n")) :]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the page for the values files of the command line."""
    parser = argparse.ArgumentParser(prog="python -m postrender.generate.tutorial", description="print the tutorial")
    parser.add_argument("-f", "--values", action="append", required=True, help="a values file; later ones win")
    files = parser.parse_args(argv).values
    try:
        sys.stdout.write(render(ROOT, files))
    except GrpoError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
