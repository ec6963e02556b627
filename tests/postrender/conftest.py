"""Settings of the property tests."""

from __future__ import annotations

from hypothesis import settings

# A slow moment of the machine is no bug; what must be fast has its own assertion.
settings.register_profile("grpo", deadline=None)
settings.load_profile("grpo")
