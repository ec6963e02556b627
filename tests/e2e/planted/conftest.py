"""The cluster that the planted failures of a session share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import suite
from ray_site import Site

pytest_plugins = ["choice"]


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """A running cluster."""
    found = Site(Path(os.environ[suite.INSIDE]))
    try:
        found.start()
        yield found
    finally:
        found.programs.stop()
