"""The command `grpo check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from postrender.check import request
from postrender.cli import options
from postrender.cli.command import Command, examples, wrong
from postrender.cli.judging import judging
from postrender.cli.output import Report
from postrender.errors import GrpoError
from postrender.finding import Finding
from postrender.lint import refusals
from postrender.lint.linter import lint
from postrender.manifests import crds
from postrender.manifests import schemas as manifests_schemas
from postrender.manifests.schemas import Kinds


@click.command(
    cls=Command,
    options_metavar="[FILE|DIR|CHART|-]... [-f VALUES ...] [OPTIONS]",
    epilog=examples(
        "grpo check rendered.yaml manifests/",
        "grpo check charts/my-chart -f my-values.yaml",
        "grpo check --accelerator b200 -f my-recipe.yaml -f my-site.yaml",
        "helm template … | grpo-post-render --values FILE … | grpo check -f FILE … -",
    ),
)
@click.argument("words", nargs=-1, type=options.FILE, metavar="")
@options.values(envvar="GRPO_VALUES")
@options.accelerator
@options.helm
@options.kube_version("Kubernetes version of the objects and of the charts' capabilities. Default: 1.35 for objects.")
@click.option(
    "--crds",
    "definitions",
    multiple=True,
    type=options.FILE,
    metavar="FILE|DIR|cluster",
    help="Definitions of more kinds: from a file, from all files of a folder, or from the cluster of kubectl.",
)
@judging
def check(
    words: Sequence[str],
    files: Sequence[str],
    accelerator: str | None,
    helm: str | None,
    kube_version: str | None,
    definitions: Sequence[str],
    report: Report,
) -> int:
    """Judge manifests and charts, or what values render to.

    Manifests are a FILE, all .yaml, .yml and .json files of a folder DIR and of the folders below it, or - for stdin.
    A CHART is any chart: a folder with a Chart.yaml, or a package (.tgz).

    The rules judge all pods of all objects; grpo rules lists the rules. They include the rules by which the
    post-renderer refuses a stream. Rules about the stack's machine need values files. Without manifests and charts,
    grpo check judges the values as grpo lint does, and then the rendered layers.

    The files of one folder are installed together, as are the objects of one file: an object must not occur twice in
    them. A chart is rendered twice, with its own values and the files given with -f; a difference between the two
    renders is a finding, which shows no values. A values file with only checks.ignore is not passed to charts, because
    a chart's schema may refuse it.

    Helm 3 does not pass hooks to a post-renderer: check its output with the last example.

    To accept a finding, add its rule to checks.ignore of the values, with the reason.
    """
    given = options.with_profile(files, accelerator)
    if not given and not words:
        fix = "grpo check FILE, grpo check -f VALUES, or helm template … | grpo check -"
        raise wrong("nothing to check: no manifests and no values file", fix=fix)
    findings: list[Finding] = []
    try:
        schemas = _schemas(kube_version, definitions)
        findings = [] if words else report.of(lint(given))
        found, count = request.judge(words, given, schemas, helm=helm, kube_version=kube_version)
    except GrpoError as error:
        # A finding in the chart's files may be the reason why it cannot be rendered.
        findings += report.of(getattr(error, "findings", ()))
        if given and findings and refusals.is_reported(error, findings, given):
            report.deliver(findings)
            return error.exit_code
        # A finding in the values may be the reason of the error, so report both.
        report.tell(error, [*files, *words, "values"][0], findings)
        raise
    findings += report.of(refusals.without_reported(found, findings) if findings else found)
    code = report.deliver(findings)
    if not findings:
        sys.stderr.write(f"clean: {count} manifest{'' if count == 1 else 's'}\n")
    return code


def _schemas(version: str | None, definitions: Sequence[str]) -> Kinds:
    """Return the schemas of a Kubernetes version with the given definitions."""
    minor = manifests_schemas.DEFAULT if version is None else manifests_schemas.minor(version)
    if minor is None:
        listed = f"1.{manifests_schemas.VERSIONS[0]} to 1.{manifests_schemas.VERSIONS[-1]}"
        raise wrong(f"--kube-version is {version!r}, expected one of {listed}")
    found = Kinds(minor)
    crds.add(found, definitions)
    return found
