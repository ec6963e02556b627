"""The command `grpo check`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from grpo.check import request
from grpo.check.helm_chart import Given
from grpo.cli import options
from grpo.cli.command import Command, examples, wrong
from grpo.cli.judging import judging, kinds
from grpo.cli.output import Report, tell
from grpo.manifests import crds
from grpo.values.set_arguments import Argument
from postrender.counting import counted
from postrender.errors import GrpoError


@click.command(
    cls=Command,
    options_metavar="FILE|DIR|CHART|-... [-f VALUES ...] [OPTIONS]",
    epilog=examples(
        "grpo check rendered.yaml manifests/",
        "grpo check my-raycluster.yaml -f my-values.yaml",
        "grpo check charts/my-chart -f my-values.yaml",
        "helm template … | grpo-post-render --values FILE … | grpo check -f FILE … -",
    ),
)
@click.argument("words", nargs=-1, type=options.FILE, metavar="")
@options.values(envvar="GRPO_VALUES")
@options.set_values
@options.accelerator
@options.helm
@options.namespace("Namespace in which a chart is rendered. Default: default.")
@options.kube_version("Kubernetes version of the objects and of the charts' capabilities. Default: 1.35 for objects.")
@click.option(
    "--crds",
    "definitions",
    multiple=True,
    type=options.FILE,
    metavar="FILE|DIR|cluster",
    help="Definitions of more kinds: from a file, from all files of a folder, or from the cluster of kubectl.",
)
@click.option(
    "--apart",
    is_flag=True,
    help="The files and folders are for several clusters: the same object may be in two of them.",
)
@judging
def check(
    words: Sequence[str],
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    helm: str | None,
    namespace: str | None,
    kube_version: str | None,
    definitions: Sequence[str],
    report: Report,
    *,
    apart: bool,
) -> int:
    """Judge manifests and charts of any kind.

    To judge a stack, use grpo lint.

    Manifests are a FILE, all .yaml, .yml and .json files in a folder DIR and its subfolders, or - for stdin.
    A CHART is any chart: a folder with a Chart.yaml, or a package (.tgz).

    The rules cover all pods of all objects; grpo rules lists them. They include the rules by which the post-renderer
    rejects a stream. Rules about the stack's machine need values files. With values files, the RayCluster that their
    job looks for (stack.names.cluster) is compared with what the job expects: volumes, GPU nodes, image, variables,
    shared memory.

    The files in one folder are installed together, as are the objects in one file: no object may occur twice among
    them. The FILEs and DIRs of one command are for one cluster: no two of them may contain the same namespaced object,
    unless --apart is given. Folders below one DIR may be for several clusters. A chart is rendered twice, with its own
    values and the files given with -f; a difference between the two renders is a finding, which shows no values. A
    values file with only checks.ignore is not passed to charts, because a chart's schema may reject it.

    Helm 3 does not pass hooks to a post-renderer: check its output with the last example.

    To accept a finding, add its rule to checks.ignore in the values, with the reason.
    """
    given = options.with_profile(files, accelerator)
    if not words:
        fix = "grpo check FILE, grpo check CHART -f VALUES, or helm template … | grpo check -"
        fix = "grpo lint -f … judges values and what they render to" if given else fix
        raise wrong("nothing to check: no manifests and no chart", fix=fix)
    schemas = kinds(kube_version)
    try:
        crds.add(schemas, definitions)
        wanted = Given(given, arguments, namespace or "default", kube_version)
        found, count, missing = request.judge(words, wanted, schemas, helm, apart=apart)
    except GrpoError as error:
        # A finding in the chart's files may be the reason why it cannot be rendered.
        report.tell(error, words[0], report.of(getattr(error, "findings", ())))
        raise
    findings = report.of(found)
    code = report.deliver(findings)
    unknown = [f"not judged: {each}" for each in missing]
    clean = f"clean: {counted(count, 'manifest')}{'' if report.of_all_rules else ' (selected rules only)'}"
    lines = unknown if findings else [clean, *unknown]
    tell(f"{'; '.join(lines)}\n" if lines else "")
    tell(report.left_out(found))
    return code
