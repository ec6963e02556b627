"""Run every worker of NeMo RL with the interpreter at hand, where the image has an environment for each kind."""

from __future__ import annotations

import sys
from typing import Any


def change(registry: Any) -> None:
    """Change nemo_rl.distributed.ray_actor_environment_registry."""
    interpreters = registry.ACTOR_ENVIRONMENT_REGISTRY
    interpreters.update(dict.fromkeys(interpreters, sys.executable))
