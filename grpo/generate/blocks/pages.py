"""Fill the blocks in pages: `<!-- NAME: ARGUMENT -->text<!-- end -->`, with or without the argument.

A one-line block is placed within a line, a multi-line block between blank lines. Everything outside the blocks is
written by hand. `texts.py` defines the names.
"""

from __future__ import annotations

import re

from grpo.generate.blocks.texts import WRITERS, Facts
from grpo.generate.sources import SourceError

PAGES = ("README.md", "SKILL.md", "docs/*.md", "docs/howto/*.md", "examples/*/README.md")
_START = rf"<!-- ({'|'.join(WRITERS)})(?:: ([^<>]+?))? -->"
_END = "<!-- end -->"
_BLOCK = re.compile(rf"{_START}.*?(?:{_END}|\Z)", re.DOTALL)


def render(facts: Facts) -> dict[str, str]:
    """Return the text of each page that has a block, by its path; raise SourceError if a block is invalid."""
    paths = sorted(path for pattern in PAGES for path in facts.root.glob(pattern))
    texts = {path.relative_to(facts.root).as_posix(): path.read_text("utf-8") for path in paths}
    return {page: filled(page, text, facts) for page, text in texts.items() if re.search(f"{_START}|{_END}", text)}


def filled(page: str, text: str, facts: Facts) -> str:
    """Return a page's text with its blocks regenerated."""
    counts = len(re.findall(_START, text)), len(_BLOCK.findall(text)), text.count(_END)
    if len({*counts}) > 1:
        raise SourceError(f"{page}: {counts[0]} starts and {counts[2]} ends of blocks ({', '.join(WRITERS)})")
    return _BLOCK.sub(lambda block: _written(page, block, facts), text)


def _written(page: str, block: re.Match[str], facts: Facts) -> str:
    name, argument = block[1], block[2] or ""
    start = block[0].partition("-->")[0] + "-->"
    try:
        text = WRITERS[name](facts, argument)
    except (KeyError, ValueError, OSError) as error:
        raise SourceError(f"{page}: {start}: {error!r}") from error
    if "\n" in text:
        return f"{start}\n\n{text}\n\n{_END}"
    if block.string[block.start() - 1 : block.start()] in ("", "\n"):
        raise SourceError(f"{page}: {start} begins a line, which Markdown then takes for HTML: move a word before it")
    return f"{start}{text}{_END}"
