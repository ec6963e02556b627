"""All rules over objects; the gate of the post-renderer runs the first of them alone."""

from __future__ import annotations

from postrender.rules import gate

RULES = gate.RULES
