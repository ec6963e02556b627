"""docs/howto/doctor.md: its example is what the command says of a planted fault."""

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


def test_the_example_is_real_output_of_the_command(plants: list[dict[str, Any]]) -> None:
    (shown,) = pages.blocks(PAGE, "text")
    found = re.match(r"fail +(?P<check>\S+): (?P<text>.*)\n +value: my-site\.yaml:\S+ (?P<value>\S+)\n", shown)
    assert found
    (row,) = (row for row in plants if row["text"] == found["text"])
    assert (found["check"], found["value"]) == (row["check"], row["value"])
