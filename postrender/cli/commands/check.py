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
@options.kube_version("Kubernetes version that objects are for, and that the charts see. Default: 1.35 for objects.")
@click.option(
    "--crds",
    "definitions",
    multiple=True,
    type=options.FILE,
    metavar="FILE|DIR|cluster",
    help="Definitions of more kinds: of a file, of all files of a folder, or of the cluster of kubectl.",
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

    All pods of all objects are judged; grpo rules lists the rules. Among them are those by which the post-renderer
    refuses a stream. Without values files, the rules about the machine of the stack have nothing to compare with.
    Without manifests and charts, the values are judged as grpo lint does, and then what the layers render to.

    A file, and all files of one folder, are taken as installed together: there an object must not stand twice. A chart
    is rendered twice, with its own values and the files behind -f; what differs is a finding, and none of its values
    is shown. A values file with nothing but checks.ignore is given to no chart, because a chart's schema may refuse it.

    Helm 3 gives hooks to no post-renderer: judge its stream with the last of the examples.

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
        # What the files of a chart say may be why it cannot be rendered.
        findings += report.of(getattr(error, "findings", ()))
        if given and findings and refusals.is_reported(error, findings, given):
            report.deliver(findings)
            return error.exit_code
        # What is wrong with the values may be why they cannot be rendered: the reader needs both.
        report.tell(error, [*files, *words, "values"][0], findings)
        raise
    findings += report.of(refusals.without_reported(found, findings) if findings else found)
    code = report.deliver(findings)
    if not findings:
        sys.stderr.write(f"clean: {count} manifest{'' if count == 1 else 's'}\n")
    return code


def _schemas(version: str | None, definitions: Sequence[str]) -> Kinds:
    """Return the schemas of the Kubernetes version and the definitions that are asked for."""
    minor = manifests_schemas.DEFAULT if version is None else manifests_schemas.minor(version)
    if minor is None:
        listed = f"1.{manifests_schemas.VERSIONS[0]} to 1.{manifests_schemas.VERSIONS[-1]}"
        raise wrong(f"--kube-version is {version!r}, expected one of {listed}")
    found = Kinds(minor)
    crds.add(found, definitions)
    return found
