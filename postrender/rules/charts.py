"""All rules over charts, which `grpo check` asks where it is given one."""

from __future__ import annotations

from postrender.rules.chart import (
    default_not_applied,
    drafts,
    number_in_exponent,
    pattern_not_re2,
    references,
    renders_differ,
    strictness,
    subcharts,
    values_file,
)

RULES = (
    renders_differ.RULE,
    number_in_exponent.RULE,
    *strictness.RULES,
    pattern_not_re2.RULE,
    *references.RULES,
    *drafts.RULES,
    default_not_applied.RULE,
    *subcharts.RULES,
    *values_file.RULES,
)
