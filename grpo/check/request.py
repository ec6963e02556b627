"""Check manifests and charts; drop the findings that the values accept."""

from __future__ import annotations

from collections.abc import Sequence

from grpo.check import helm_charts
from grpo.check.helm_chart import Given
from grpo.check.objects import check
from grpo.lint.ignores import Ignores
from grpo.lint.unjudged import of_nodes
from grpo.manifests import crds
from grpo.manifests.loader import read, streams
from grpo.values import set_arguments
from grpo.values.job_cluster import wiring_of
from postrender import paths
from postrender.errors import InputError
from postrender.finding import INFO, Finding
from postrender.manifests.schemas import Kinds
from postrender.values import merge
from postrender.values.merge import Values
from postrender.wiring.plan import Wiring


def judge(words: Sequence[str], given: Given, known: Kinds, helm: str | None) -> tuple[list[Finding], int]:
    """Check the manifests and charts that `words` name.

    Returns the findings that the values do not accept, and the number of manifests. Raises GrpoError where something
    cannot be read or rendered.
    """
    values = _values(given)
    if values is None:
        return _judge_words(words, given, None, known, helm)
    findings, count = _judge_words(words, given, _wiring(words, values), known, helm)
    accepted = Ignores(values)
    # The given manifests may be only a part of those that the exception is for.
    return [*accepted.left(findings), *accepted.useless_of_objects(INFO)], count


def unjudged(given: Given) -> list[str]:
    """Return what the values leave unknown about their machine, in words."""
    values = _values(given)
    return [*of_nodes(values)] if values else []


def _values(given: Given) -> Values | None:
    if not given.files and not given.arguments:
        return None
    return set_arguments.apply(merge.load(given.files), given.arguments)


def _judge_words(
    words: Sequence[str], given: Given, wiring: Wiring | None, known: Kinds, helm: str | None
) -> tuple[list[Finding], int]:
    """Check charts first, then manifests."""
    charts = [word for word in dict.fromkeys(words) if paths.is_chart(word)]
    others = [word for word in words if word not in charts]
    if not charts:
        return _judge_manifests(others, wiring, known)
    findings, count = helm_charts.judge_charts(charts, given, wiring, known, helm)
    found, more = _judge_manifests(others, wiring, known) if others else ([], 0)
    return [*findings, *found], count + more


def _judge_manifests(words: Sequence[str], wiring: Wiring | None, known: Kinds) -> tuple[list[Finding], int]:
    given = streams(words)
    together = [read(each) for each in given]
    count = sum(map(len, together))
    if not count:
        # A command before the pipe has failed, or the path is wrong.
        names = ", ".join(name for each in given for name in each)
        raise InputError(f"no Kubernetes objects in {names}", fix="give rendered manifests")
    for documents in together:
        crds.add_from(known, documents, crds.missing(known, documents))
    return [finding for documents in together for finding in check(documents, wiring, known)], count


def _wiring(words: Sequence[str], values: Values) -> Wiring | None:
    """Return the wiring of the values; None for values that are not of a stack."""
    try:
        return wiring_of(values)
    except InputError:
        if all(map(paths.is_chart, words)):
            return None
        raise
