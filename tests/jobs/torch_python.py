"""The Python of tools/torch.sh, in which programs of jobs/ meet the image's libraries."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .harness import ROOT


def torch_python() -> Path:
    """Return that Python; without it the test is skipped, or fails where CI asks for all tools."""
    python = ROOT / ".tools/torch/bin/python"
    if python.exists():
        return python
    message = "there is no torch here, so this was not tested: tools/torch.sh"
    if os.environ.get("GRPO_REQUIRE_TOOLS"):
        pytest.fail(message)
    pytest.skip(message)
