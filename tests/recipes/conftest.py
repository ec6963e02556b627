"""Each configuration of each recipe, rendered once."""

from __future__ import annotations

import pytest

from grpo.helm.engines import Engine
from tests.recipes.rendered import Configurations


@pytest.fixture(scope="session")
def configurations(helm: Engine) -> Configurations:
    """Return the configurations by (recipe, version, accelerator)."""
    return Configurations(helm)
