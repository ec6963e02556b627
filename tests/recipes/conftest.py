"""Each configuration of each recipe, rendered once."""

from __future__ import annotations

import pytest

from postrender.helm.engines import Engine
from tests.recipes.rendered import Config, every_configuration


@pytest.fixture(scope="session")
def configurations(helm: Engine) -> dict[tuple[str, str, str], Config]:
    """Return the configurations by (recipe, version, accelerator)."""
    return dict(every_configuration(helm))
