"""Write findings as SARIF 2.1.0, which code hosts show beside the lines of a change."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from grpo.problems import index
from grpo.report.scope import Scope
from postrender import __version__, masking
from postrender.errors import Location
from postrender.finding import ERROR, INFO, WARNING, Finding
from postrender.problem import Problem

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {ERROR: "error", WARNING: "warning", INFO: "note"}


def write(findings: Sequence[Finding], scope: Scope | None = None) -> str:
    """Return a log with one run; it lists only the rules with findings."""
    by_id = {each.id: each for each in index.everything()}
    rules = list(dict.fromkeys(finding.rule for finding in findings))
    driver = {
        "name": "grpo-charts",
        "semanticVersion": __version__,
        "rules": [_rule(by_id[name]) if name in by_id else {"id": name} for name in rules],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        # Columns count characters, not bytes.
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, rules.index(finding.rule)) for finding in findings],
    }
    if scope:
        run["invocations"] = [_invocation(scope, succeeded="checks/could-not-run" not in rules)]
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _invocation(scope: Scope, *, succeeded: bool) -> dict[str, Any]:
    """Report what was not judged as SARIF's notifications about the tool's configuration."""
    notes = [{"level": "note", "message": {"text": masking.text(f"not judged: {each}")}} for each in scope.missing]
    return {"executionSuccessful": succeeded, "toolConfigurationNotifications": notes}


def _rule(rule: Problem) -> dict[str, Any]:
    source = f" (source: {rule.source})" if rule.source else ""
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.title}: {rule.why}"},
        "help": {"text": f"{rule.fix}{source}"},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(finding: Finding, number: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": number,
        "level": _LEVELS[finding.severity],
        "message": {"text": masking.text(f"{finding.what}\nwhy: {finding.why}\nfix: {finding.fix}")},
        "locations": [{"physicalLocation": _physical(finding.at)}],
    }
    if finding.also:
        result["relatedLocations"] = [
            {"id": count, "physicalLocation": _physical(at), "message": {"text": masking.text(key)}}
            for count, (at, key) in enumerate(finding.also, 1)
        ]
    return result


def _physical(at: Location) -> dict[str, Any]:
    """Return a SARIF location; for an entire file it is line 1, because GitHub rejects a log without a line."""
    file = at.in_repository()
    path = quote(masking.text(file).replace(os.sep, "/"), errors="replace")
    artifact = {"uri": f"file://{path}"} if os.path.isabs(file) else {"uri": path, "uriBaseId": "%SRCROOT%"}
    region = {"startLine": at.line or 1}
    if at.line and at.col:
        region["startColumn"] = at.col
    return {"artifactLocation": artifact, "region": region}
