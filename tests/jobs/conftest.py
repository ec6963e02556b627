from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()
