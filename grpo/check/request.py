"""Check manifests and charts; drop the findings that the values accept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from grpo.check import helm_charts, kustomizations, shared_runs, stacks
from grpo.check.helm_chart import Given
from grpo.check.objects import check, twice
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


class Judged(NamedTuple):
    """The findings that the values do not accept, the number of manifests, and in words what was not judged."""

    findings: list[Finding]
    manifests: int
    missing: list[str]


def judge(words: Sequence[str], given: Given, known: Kinds, helm: str | None, *, apart: bool = False) -> Judged:
    """Check the manifests and charts that `words` name; those are for several clusters if they are `apart`.

    Raises GrpoError where something cannot be read or rendered.
    """
    values = _values(given)
    if values is None:
        return _judge_words(words, given, None, known, helm, apart=apart)
    found = _judge_words(words, given, _wiring(words, values), known, helm, apart=apart)
    accepted = Ignores(values)
    # The given manifests may be only a part of those that the exception is for.
    findings = [*accepted.left(found.findings), *accepted.useless_of_objects(INFO)]
    return Judged(findings, found.manifests, [*of_nodes(values), *found.missing])


def _values(given: Given) -> Values | None:
    if not given.files and not given.arguments:
        return None
    return set_arguments.apply(merge.load(given.files), given.arguments)


def _judge_words(
    words: Sequence[str], given: Given, wiring: Wiring | None, known: Kinds, helm: str | None, *, apart: bool
) -> Judged:
    """Check charts first, then manifests."""
    charts = [word for word in dict.fromkeys(words) if paths.is_chart(word)]
    others = [word for word in words if word not in charts]
    if not charts:
        return _judge_manifests(others, wiring, known, apart=apart)
    findings, count = helm_charts.judge_charts(charts, given, wiring, known, helm)
    found = _judge_manifests(others, wiring, known, apart=apart) if others else Judged([], 0, [])
    return Judged([*findings, *found.findings], count + found.manifests, found.missing)


def _judge_manifests(words: Sequence[str], wiring: Wiring | None, known: Kinds, *, apart: bool) -> Judged:
    given = streams(words)
    read_of = {word: [read(each) for each in each_of] for word, each_of in given.items()}
    together = [documents for each in read_of.values() for documents in each]
    count = sum(map(len, together))
    if not count:
        # A command before the pipe has failed, or the path is wrong.
        names = ", ".join(name for each_of in given.values() for each in each_of for name in each)
        raise InputError(f"no Kubernetes objects in {names}", fix="give rendered manifests")
    for documents in together:
        crds.add_from(known, documents, crds.missing(known, documents))
    found = [finding for documents in together for finding in check(documents, wiring, known)]
    found += [finding for documents in together for finding in kustomizations.judge(documents)]
    found += shared_runs.judge(together)
    missing = stacks.left_out(together, wiring)
    if not apart:
        found += twice([[each for documents in each_of for each in documents] for each_of in read_of.values()])
        for word, each_of in read_of.items():
            missing += stacks.not_compared(word, each_of)
    return Judged(found, count, missing)


def _wiring(words: Sequence[str], values: Values) -> Wiring | None:
    """Return the values' wiring, or None for values that do not describe a stack."""
    try:
        return wiring_of(values)
    except InputError:
        if all(map(paths.is_chart, words)):
            return None
        raise
