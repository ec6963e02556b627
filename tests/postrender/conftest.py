"""Settings of the property tests, and what several tests of readers need."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from postrender import yamlfast

# A slow moment of the machine is no bug; what must be fast has its own assertion.
settings.register_profile("grpo", deadline=None)
settings.load_profile("grpo")


@pytest.fixture(scope="session")
def compiled_reader() -> None:
    """Skip where the compiled reader is not installed, or fail where CI asks for all tools."""
    if yamlfast.is_compiled():
        return
    message = "the compiled reader is not installed, so this was not tested: make reader"
    if os.environ.get("GRPO_REQUIRE_TOOLS"):
        pytest.fail(message)
    pytest.skip(message)
