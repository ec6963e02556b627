"""Run `python -m postrender.cli` as `grpo`."""

from __future__ import annotations

from postrender.cli.main import program

program()
