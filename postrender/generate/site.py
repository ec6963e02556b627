"""Assemble the pages of the documentation site: `python -m postrender.generate.site FOLDER`.

The folder mirrors the repository, so that a link between two pages holds in both. Pages for each rule and for each
section of the values are generated. `make docs` builds the site from the folder.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from postrender.generate import reference, rulepages, sources
from postrender.generate.sources import ROOT

# Pages that Git has, by pattern, and folders of files that they link to.
PAGES = ("docs/**/*.md", "charts/*/README.md", "CONTRIBUTING.md", "CHANGELOG.md")
LINKED = ("examples", "schemas", "values")
_MENU = {
    "Start": ("docs/README", "docs/tutorial", "docs/recipes", "docs/options", "docs/glossary"),
    "How to": ("docs/howto/*", "docs/gitops"),
    "Reference": ("docs/values", "docs/rules"),
    "Project": ("CONTRIBUTING", "CHANGELOG"),
}


def pages(root: Path) -> dict[str, str]:
    """Return the text of every page of the site by its path; index.md is the README."""
    written = {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for pattern in PAGES
        for path in sorted(root.glob(pattern))
    }
    values = reference.pages(sources.load(root))
    written["docs/values.md"] += "\n" + _menu("", (path.removeprefix("docs/").removesuffix(".md") for path in values))
    written["docs/rules.md"] += "\n" + rulepages.tables()
    charts = tuple(path.removesuffix(".md") for path in written if path.startswith("charts/"))
    menus = "\n".join(_menu(caption, entries) for caption, entries in [*_MENU.items(), ("Charts", charts)] if entries)
    index = f"{(root / 'README.md').read_text('utf-8')}\n{menus}"
    return {"index.md": index, **written, **values, **rulepages.pages(root)}


def _menu(caption: str, entries: Iterable[str]) -> str:
    """Return a table of contents; without a caption it is shown on the page, else only in the menu at the side."""
    options = [f":caption: {caption}", ":hidden:"] if caption else [":titlesonly:"]
    return "\n".join(["```{toctree}", ":glob:", *options, "", *entries, "```"]) + "\n"


def write(root: Path, folder: Path) -> None:
    """Write the pages into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in pages(root).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    for name in LINKED:
        shutil.copytree(root / name, folder / name)


def main() -> int:
    """Write the pages into the folder that the command line names."""
    if len(sys.argv) != 2:
        print("usage: python -m postrender.generate.site FOLDER", file=sys.stderr)
        return 2
    write(ROOT, Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
