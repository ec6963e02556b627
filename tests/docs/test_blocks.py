"""The blocks of pages are written from the sources, and a block that cannot be is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grpo.generate import __main__ as generate
from grpo.generate.blocks import pages
from grpo.generate.blocks.texts import WRITERS, Facts
from grpo.generate.sources import ROOT, SourceError
from grpo.live.why import registry
from grpo.runlog.shared import SEVERITIES
from postrender.values import merge

FACTS = Facts(ROOT, {"job": {"lapseSeconds": 240, "share": 0.125}})


def text_of(block: str) -> str:
    """Return what is written into a block that stands in a line."""
    written = pages.filled("page.md", f"a line <!-- {block} -->old<!-- end -->\n", FACTS)
    return written.removeprefix(f"a line <!-- {block} -->").removesuffix("<!-- end -->\n")


def test_a_page_with_an_outdated_block_is_stale(tmp_path: Path) -> None:
    page = tmp_path / "docs/howto/page.md"
    page.parent.mkdir(parents=True)
    page.write_text("before <!-- default: job.lapseSeconds -->20<!-- end --> after\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("no block\n", encoding="utf-8")
    texts = pages.render(FACTS._replace(root=tmp_path))
    assert texts == {"docs/howto/page.md": "before <!-- default: job.lapseSeconds -->240<!-- end --> after\n"}
    assert generate.stale(tmp_path, texts) == [*texts]


def test_every_kind_of_block_is_used_on_some_page() -> None:
    text = "".join(pages.render(Facts(ROOT, merge.defaults())).values())
    assert [name for name in WRITERS if not re.search(rf"<!-- {name}(: [^>]+)? -->", text)] == []


def test_numbers_in_blocks_come_from_their_sources() -> None:
    assert text_of("default: job.lapseSeconds") == "240"
    assert text_of("percent: job.share") == "12.5 %"
    assert text_of("kubernetes: default") == "1.35"
    assert text_of("value: schemas/catalogues/verl/0.8.0.yaml version") == "0.8.0"


def test_the_causes_block_lists_every_cause_once() -> None:
    assert sorted(re.findall(r"`([a-z-]+)`", text_of("causes"))) == [cause.id for cause in registry.causes()]


def test_a_table_is_surrounded_by_blank_lines() -> None:
    """Else Markdown takes it for a part of the comment."""
    assert re.fullmatch(r"\n\n\|.*\|\n\n", text_of("versions"), re.DOTALL)


def test_the_signs_table_lists_every_sign_with_its_severity() -> None:
    text = (ROOT / "docs/howto/watch.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `([a-z-]+)` \| (error|warning) \|", text, re.MULTILINE)) == SEVERITIES


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a <!-- defualt: job.lapseSeconds -->1<!-- end -->", "0 starts and 1 ends of blocks"),
        ("a <!-- default: job.lapseSeconds -->1", "1 starts and 0 ends of blocks"),
        ("a <!-- causes -->, <!-- causes -->1<!-- end -->", "2 starts and 1 ends of blocks"),
        ("a <!-- causes -->1<!-- end --> 2<!-- end -->", "1 starts and 2 ends of blocks"),
        ("a <!-- default: job.lapse -->1<!-- end -->", "<!-- default: job.lapse -->: KeyError"),
        ("a <!-- learned: none.jsonl -->1<!-- end -->", "<!-- learned: none.jsonl -->: FileNotFoundError"),
        ("a\n<!-- default: job.lapseSeconds -->1<!-- end -->", "begins a line"),
        ("<!-- default: job.lapseSeconds -->1<!-- end -->", "begins a line"),
    ],
)
def test_an_invalid_block_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(text, encoding="utf-8")
    with pytest.raises(SourceError, match=re.escape(said)) as refused:
        pages.render(FACTS._replace(root=tmp_path))
    assert str(refused.value).startswith("README.md: ")
