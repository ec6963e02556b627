"""All rules over values, in the order of `grpo rules`; lint loads those of one framework alone."""

from __future__ import annotations

from postrender.rules import job_book, nemo_rl_book, verl_book

RULES = (*job_book.RULES, *nemo_rl_book.RULES, *verl_book.RULES)
