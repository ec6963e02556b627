"""Write findings in one of several formats."""

from __future__ import annotations

from collections.abc import Sequence

from grpo.report import github, json, junit, sarif, text
from grpo.report.scope import Scope
from postrender import visible
from postrender.finding import ERROR, Finding

FORMATS = ("text", "json", "github", "sarif", "junit")


def write(findings: Sequence[Finding], form: str, fail_on: str = ERROR, scope: Scope | None = None) -> str:
    """Return the report in one of FORMATS, ending with a newline; the text report is empty without findings.

    `fail_on` is the lowest severity that makes the exit code 1; JUnit counts such findings as failures. Only JSON and
    SARIF include `scope`.
    """
    if form == "json":
        return json.write(findings, scope)
    if form == "sarif":
        return sarif.write(findings, scope)
    if form == "junit":
        return visible.text(junit.write(findings, fail_on))
    if form == "github":
        return github.write(findings)
    return text.write(findings, fail_on)
