"""What the training image gives every process."""

from __future__ import annotations

CODE = "/opt/nemo-rl"
# Its own ENV lines.
ENVIRONMENT = {
    "PATH": "/opt/nemo_rl_venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
