"""Write findings as a JUnit report, which CI systems list as tests."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from postrender import masking
from postrender.finding import Finding, is_at_least

_SUITE = "grpo"


def write(findings: Sequence[Finding], fail_on: str) -> str:
    """Return one test case per finding; a finding below `fail_on` passes. Without findings there is one test case."""
    failed = [is_at_least([finding], fail_on) for finding in findings]
    counts = {"tests": str(len(findings) or 1), "failures": str(sum(failed)), "errors": "0", "skipped": "0"}
    root = ET.Element("testsuites", {"name": _SUITE, **counts})
    suite = ET.SubElement(root, "testsuite", {"name": _SUITE, **counts})
    for finding, is_failure in zip(findings, failed, strict=True):
        _case(suite, finding, is_failure)
    if not findings:
        ET.SubElement(suite, "testcase", {"classname": _SUITE, "name": "no findings", "time": "0"})
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _case(suite: ET.Element, finding: Finding, is_failure: bool) -> None:
    what, fix = masking.text(finding.what), masking.text(finding.fix)
    at, file = masking.text(str(finding.at)), masking.text(finding.at.file)
    where = {"file": file, **({"line": str(finding.at.line)} if finding.at.line else {})}
    # Two findings of a rule need different names: a report would count equal ones once.
    case = ET.SubElement(suite, "testcase", {"classname": finding.rule, "name": f"{at}: {what}", "time": "0", **where})
    also = "".join(f"also: {masking.text(f'{place} {note}')}\n" for place, note in finding.also)
    text = f"{at}: {what}\n{also}why: {finding.why}\nfix: {fix}\n"
    if is_failure:
        ET.SubElement(case, "failure", {"type": finding.severity, "message": what}).text = text
    else:
        ET.SubElement(case, "system-out").text = f"{finding.severity}: {text}"
