"""Write findings as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from grpo.report.scope import Scope
from postrender import masking
from postrender.finding import Finding


def write(findings: Sequence[Finding], scope: Scope | None = None) -> str:
    """Return the report: one object with the list `findings`, plus `judged` and `notJudged` if the scope is known."""
    tree = {"findings": entries(findings), **(scope.tree() if scope else {})}
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def entries(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return an object for each finding."""
    return [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "file": masking.text(finding.at.file),
            "line": finding.at.line,
            "col": finding.at.col,
            "what": masking.text(finding.what),
            "why": finding.why,
            "fix": masking.text(finding.fix),
            "also": [
                {"file": masking.text(at.file), "line": at.line, "col": at.col, "note": masking.text(note)}
                for at, note in finding.also
            ],
        }
        for finding in findings
    ]


def plain(value: object) -> object:
    """Return a value that JSON can represent: NaN and infinity become strings."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
