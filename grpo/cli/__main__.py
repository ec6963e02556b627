"""Run `python -m grpo.cli` as `grpo`."""

from __future__ import annotations

from grpo.cli.main import program

program()
