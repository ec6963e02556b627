"""Check the charts given on the command line: their files, and the objects that they render."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from grpo.check import helm_chart
from grpo.check.helm_chart import Given
from grpo.check.objects import checked
from grpo.helm import engines
from grpo.manifests import crds
from grpo.manifests.loader import read
from postrender.errors import InputError
from postrender.finding import Finding
from postrender.manifests.schemas import Kinds
from postrender.wiring.plan import Wiring
from postrender.yaml.reader import Node, load_values

# As schemas/values has it.
_SHORTEST = 3


def judge_charts(
    words: Sequence[str], given: Given, wiring: Wiring | None, known: Kinds, helm_path: str | None
) -> tuple[list[Finding], int]:
    """Check charts, each rendered separately with the values; return the findings and the number of manifests.

    Raises RefusedChartError, with the findings of all charts so far, if Helm rejects a chart.
    """
    findings: list[Finding] = []
    count, refused = 0, None
    given = given._replace(files=_of_helm(given.files))
    with engines.choose(helm_path) as engine:
        for word in words:
            chart = helm_chart.check(engine, word, given)
            documents = read({chart.name: chart.manifest.encode("utf-8")})
            if unknown := crds.missing(known, documents):
                crds.add_from(known, [*documents, *read(chart.definitions)], unknown)
            findings += chart.findings
            findings += [
                chart.moved(finding, document.text, finding.at.line - document.line)
                for finding, document, _ in checked(documents, wiring, known)
            ]
            count += len(documents)
            refused = refused or chart.error
        sys.stderr.write(f"rendered with {engine.name}\n")
    if refused:
        raise helm_chart.RefusedChartError(refused, findings)
    return findings, count


def _of_helm(files: Sequence[str]) -> list[str]:
    """Return the files to pass to Helm, without files that set only checks.ignore, which a strict schema would reject.

    Raises InputError if checks.ignore is malformed, because no schema validates such files.
    """
    return [file for file in files if not _has_exceptions_alone(load_values(file))]


def _has_exceptions_alone(root: Node) -> bool:
    checks = _map(root).get("checks") if len(_map(root)) == 1 else None
    ignore = _map(checks).get("ignore") if checks and len(_map(checks)) == 1 else None
    if ignore is None:
        return False
    reasons = [*_map(ignore).values()] if isinstance(ignore.value, dict) else [ignore]
    for reason in reasons:
        if not isinstance(reason.value, str) or len(reason.value) < _SHORTEST or reason is ignore:
            fix = "write the id of a rule and a reason: pods/moving-tag: our registry keeps this tag as it is"
            raise InputError("checks.ignore: expected a reason in words for each rule", at=reason.at, fix=fix)
    return True


def _map(node: Node) -> Mapping[str, Node]:
    return node.value if isinstance(node.value, dict) else {}
