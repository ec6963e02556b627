"""The README says what is: its commands run, its example is real output, its tables list what there is."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.helm.engines import Rendered
from grpo.start import next_steps
from grpo.start.interview import Interview
from tests.conftest import LAYERS, ROOT, SITE
from tests.docs import pages
from tests.docs.test_pages import TASKS

README = (ROOT / "README.md").read_text(encoding="utf-8")
LINES = README.splitlines()


def test_the_readme_is_short_and_shows_a_result_early() -> None:
    """A newcomer reads two screens."""
    assert len(LINES) <= 120
    assert LINES.index("make demo") < 30


def test_the_example_is_real_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The finding is what grpo lint prints for such a file."""
    (shown,) = [block for block in pages.blocks(README, "text") if block.startswith("my-site.yaml")]
    found = re.search(r"my-site\.yaml:(\d+):", shown)
    assert found
    text = SITE.read_text(encoding="utf-8") + "\njob:\n  config:\n    policy:\n      train_global_batch_size: 768\n"
    (tmp_path / "my-site.yaml").write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "values", tmp_path / "values")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lint", *files_of_the_install_block()]) == 1
    line = text.splitlines().index("      train_global_batch_size: 768") + 1
    assert capsys.readouterr().out.split("\n\n")[0].replace(str(line), found[1]) == shown.rstrip("\n")


def files_of_the_install_block() -> list[str]:
    """Return the -f options of the block that installs the stack."""
    found = re.search(r"\$ F=\((.*)\)", README)
    assert found
    return found[1].split()


@pytest.mark.parametrize("layer", LAYERS)
def test_the_install_block_renders(layer: str, render_text: Callable[..., Rendered]) -> None:
    """The four commands name charts and files that exist and that render together."""
    assert f"charts/{layer} " in README
    names = [name for name in files_of_the_install_block() if name != "-f"]
    files = [SITE if name == "my-site.yaml" else ROOT / name for name in names]
    assert render_text(layer, files=files).manifest


def test_the_release_names_match_the_site_file_written_by_init() -> None:
    """`grpo status` looks for the releases that init names, in the namespace of the stack."""
    (line,) = re.findall(r"^\$ grpo init (--.*)$", README, re.MULTILINE)
    words = shlex.split(line, comments=True)
    given = {"project": "acme-rl", "project-number": "482915073164", "bucket": "acme-rl-runs"}
    given |= {flag.removeprefix("--"): value for flag, value in zip(words[::2], words[1::2], strict=True)}
    interview = Interview(given, None)
    interview.run()
    named = re.findall(r"^\$ helm install +(\S+) +charts/(\S+) .*--namespace rl\b", README, re.MULTILINE)
    assert {layer: release for release, layer in named} == next_steps.releases(interview.answers)


def test_the_command_in_the_gitops_block_writes_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command runs as it stands, and says how many objects each layer has."""
    found = re.search(r"\$ grpo (render .* --output-dir .*)", README)
    assert found
    shutil.copytree(ROOT / "values", tmp_path / "values")
    shutil.copy(SITE, tmp_path / "my-site.yaml")
    monkeypatch.chdir(tmp_path)
    assert cli.main(found[1].replace('"${F[@]}"', " ".join(files_of_the_install_block())).split()) == 0
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()[:4]] == [
        f"deploy/{layer}" for layer in LAYERS
    ]


def first_cells(text: str) -> list[str]:
    """Return the code in the first cell of each row of the tables in a text."""
    return re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)


def test_the_tables_list_exactly_the_existing_charts_and_tasks() -> None:
    """Each chart and task has its row, and no row is left over."""
    assert first_cells(README) == [*LAYERS]
    page = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    assert sorted(first_cells(page)) == sorted(TASKS)
