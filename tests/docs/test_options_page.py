"""Every block of docs/options.md lints clean and renders in the charts that it is for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.helm.engines import Rendered
from grpo.lint import linter
from tests.conftest import LAYERS, ROOT, SITE, stack_files, thin

PAGE = (ROOT / "docs/options.md").read_text(encoding="utf-8")
# The file that people copy has a volume more.
SITES = (SITE, ROOT / "values/examples/site.yaml")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("site", thin(SITES, 2), ids=lambda site: site.parent.name)
@pytest.mark.parametrize("block", thin(BLOCKS, 18), ids=lambda block: "-".join(re.findall(r"[a-z]+", block)[:4]))
def test_each_block_works_as_the_last_values_file(
    block: str, site: Path, render_text: Callable[..., Rendered], tmp_path: Path
) -> None:
    """As the last file of a stack, in all four charts, and it changes what is rendered or said."""
    file = tmp_path / "site.yaml"
    file.write_text(block, encoding="utf-8")
    stack = [*stack_files()[:-1], site]
    files = [*stack, file]
    found = linter.lint([str(path) for path in files])
    # The page names a bucket as the example site file does.
    assert [finding.what for finding in found if finding.rule != "values/placeholder"] == []
    before = [render_text(layer, files=stack) for layer in LAYERS]
    after = [render_text(layer, files=files) for layer in LAYERS]
    assert [(one.manifest, one.notes) for one in before] != [(one.manifest, one.notes) for one in after]


def test_the_block_pattern_finds_the_blocks_on_the_page() -> None:
    """The pattern above finds them."""
    assert len(BLOCKS) >= 12
