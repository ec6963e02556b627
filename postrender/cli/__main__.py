"""Run `python -m postrender.cli` as `grpo`."""

from __future__ import annotations

import sys

from postrender.cli.main import main

sys.exit(main())
