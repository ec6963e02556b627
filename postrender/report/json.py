"""Write findings as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from postrender import secrets
from postrender.finding import Finding


def write(findings: Sequence[Finding]) -> str:
    """Return the report: one object with the list `findings`."""
    entries = [
        {
            "rule": finding.rule,
            "severity": finding.severity,
            "file": secrets.mask(finding.at.file),
            "line": finding.at.line,
            "col": finding.at.col,
            "what": secrets.mask(finding.what),
            "why": finding.why,
            "fix": secrets.mask(finding.fix),
        }
        for finding in findings
    ]
    return json.dumps({"findings": entries}, indent=2, ensure_ascii=False) + "\n"
