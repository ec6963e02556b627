"""docs/howto/doctor.md: how many faults were planted, and its example is what the command says of one of them."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.docs import pages

PAGE = (ROOT / "docs/howto/doctor.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def plants() -> list[dict[str, Any]]:
    """The rows that tests/e2e/test_doctor.py plants."""
    return list(yaml.safe_load((ROOT / "tests/e2e/faults.yaml").read_text(encoding="utf-8"))["plants"])


def test_the_page_counts_the_rows(plants: list[dict[str, Any]]) -> None:
    assert re.findall(r"Each of (\d+) faults", PAGE) == [str(len(plants))]


def test_the_example_names_the_value_that_the_command_names(plants: list[dict[str, Any]]) -> None:
    """And its place in a copy of the example of a site file."""
    (shown,) = pages.blocks(PAGE, "text")
    found = re.match(r"fail +(?P<check>\S+): (?P<text>.*)\n +value: my-site\.yaml:(?P<at>\S+) (?P<value>\S+)\n", shown)
    assert found
    (row,) = (row for row in plants if row["text"] == found["text"])
    assert (found["check"], found["value"]) == (row["check"], row["value"])
    lines = (ROOT / "values/examples/site.yaml").read_text(encoding="utf-8").splitlines()
    line, column = map(int, found["at"].split(":"))
    assert lines[line - 1][column - 1 :].startswith(f"{row['value'].rpartition('.')[2]}: ")
