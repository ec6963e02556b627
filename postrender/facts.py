"""Read the facts in schemas/generated/, which `make generate` writes as JSON from their YAML sources."""

from __future__ import annotations

import json
import os
from typing import Any

from postrender import paths
from postrender.errors import InstallationError


def path(name: str) -> str:
    """Return the path of a generated file or folder, such as `models.json`."""
    return os.path.join(paths.data_root(), "schemas", "generated", name)


def load(name: str) -> Any:  # noqa: ANN401 (JSON of any shape)
    """Return a generated file's content; raise InstallationError if it is missing or damaged."""
    file = path(name)
    try:
        with open(file, "rb") as stream:
            return json.load(stream)
    except (OSError, ValueError) as error:
        fix = "install grpo-charts again, or run: make generate"
        raise InstallationError(f"a generated file cannot be read: {file}", fix=fix) from error
