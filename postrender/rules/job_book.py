"""The rules over what every job asks of its cluster, in the order of `grpo rules`."""

from __future__ import annotations

from postrender.rules import job
from postrender.rules.job import refused, variables

RULES = (*job.RULES, *refused.RULES, *variables.RULES)
