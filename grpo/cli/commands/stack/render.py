"""The command `grpo render`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from grpo.cli import options, output
from grpo.cli.command import Command, examples, wrong
from grpo.cli.judging import explaining, of_charts, refuse_secrets
from grpo.helm import commands as helm_commands
from grpo.helm import engines
from grpo.helm.engines import Rendered
from grpo.helm.stack import Stack, installs_network
from grpo.manifests import export, folds
from grpo.terminal.watched import is_watched
from grpo.values.set_arguments import Argument
from postrender import paths
from postrender.errors import EXIT_CLEAN
from postrender.values import merge

_ALL = "all"


def _layer(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Accept only a layer or `all`."""
    if value not in (_ALL, *paths.LAYERS):
        message = f"there is no layer {value!r}, expected one of {', '.join(paths.LAYERS)}"
        raise wrong(message, near=value, known=paths.LAYERS)
    return value


@click.command(
    cls=Command,
    options_metavar="[LAYER] -f FILE ... [OPTIONS]",
    epilog=examples(
        "grpo render --accelerator b200 -f values/recipes/gemma3-27b-gsm8k.yaml -f my-site.yaml",
        "grpo render grpo-job --accelerator b200 -f my-values.yaml --release my-run -n rl",
        "grpo render --accelerator b200 -f my-values.yaml --output-dir deploy",
        "grpo render all --accelerator b200 -f my-values.yaml -n rl --commands",
    ),
)
@click.argument(
    "layer",
    default=_ALL,
    metavar="",
    callback=_layer,
    shell_complete=options.completing(lambda: (*paths.LAYERS, _ALL)),
)
@options.values()
@options.set_values
@options.accelerator
@options.helm
@options.namespace("Namespace of the releases. Default: default.")
@options.kube_version()
@click.option(
    "--release",
    metavar="NAME",
    callback=options.kubernetes_name,
    help="Name of the release. Default: STACK-network, STACK-storage, STACK-ray, and JOB or JOB-TASK.",
)
@click.option("--notes", is_flag=True, help="Print the notes of the charts on stderr. Helm 3 cannot.")
@click.option(
    "--output-dir",
    type=options.OUTPUT,
    metavar="DIR",
    help="Write DIR/LAYER/KIND-NAME.yaml and a kustomization.yaml instead of printing. Of the files in it, only stale "
    "ones of an earlier run are removed. Nothing is written if it would be refused where the old files are applied.",
)
@click.option(
    "--fold/--full",
    default=None,
    help="Fold the programs and the lock of the run, or print every line. Default: fold on a terminal only.",
)
@click.option(
    "--programs",
    "programs_dir",
    type=options.OUTPUT,
    metavar="DIR",
    help="Write the programs that the RayJob carries, packed, into this new folder instead of printing manifests.",
)
@click.option(
    "--commands", is_flag=True, help="Print the helm commands that install or upgrade the layers; render nothing."
)
def render(
    layer: str,
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    helm: str | None,
    namespace: str | None,
    kube_version: str | None,
    release: str | None,
    output_dir: str | None,
    programs_dir: str | None,
    *,
    notes: bool,
    fold: bool | None,
    commands: bool,
) -> int:
    """Print the charts' manifests.

    LAYER is network, storage, raycluster, grpo-job or all (the default): all four in installation order, without
    raycluster if job.cluster.mode is ephemeral.

    On a terminal, each program that comes with the charts and the run's lock are folded into one line. A pipe and a
    file get every line, and so does --output-dir. Folded manifests cannot be applied.

    The charts are rendered with a helm executable, or with the Helm in helm-python-sdk. They are the charts that grpo
    init --vendor has copied beside the values files, or else those that come with grpo.

    With --commands it instead prints a helm command for each layer, with these files, to paste into a shell. The
    commands install or upgrade a layer; network is installed once per cluster, and skipped if it creates nothing. grpo
    itself installs nothing.
    """
    if release and layer == _ALL:
        raise wrong("--release names one release", fix="name the layer: grpo render LAYER …")
    if output_dir == "":
        raise wrong("--output-dir is empty, expected a folder")
    if output_dir and fold:
        raise wrong("--output-dir writes every line, so --fold has no effect", fix="leave out --fold")
    if programs_dir is not None and (output_dir or fold is not None or commands):
        raise wrong("--programs writes programs, not manifests", fix="leave out the options of the manifests")
    stack = options.stack(files, accelerator, arguments)
    layers = stack.layers() if layer == _ALL else (layer,)
    left_out = [each for each in paths.LAYERS if each not in layers] if layer == _ALL else []
    if commands:
        if output_dir or notes or kube_version or fold is not None:
            raise wrong("--commands prints commands, not manifests", fix="leave out the options of the manifests")
        if layer == _ALL and not installs_network(merge.over_defaults(stack.values)):
            layers = tuple(each for each in layers if each != "network")
            sys.stderr.write("network is left out: with this network.mode it creates nothing\n")
        _print_commands(stack, layers, helm, release, namespace)
        _tell_left_out(left_out)
        return EXIT_CLEAN
    with engines.choose(helm) as engine, explaining(stack):
        rendered = {
            each: stack.render(
                engine,
                each,
                release=release,
                namespace=namespace or "default",
                kube_version=kube_version,
                notes=notes,
            )
            for each in layers
        }
        if programs_dir is not None:
            for name in export.write_programs(programs_dir, rendered):
                sys.stdout.write(f"{os.path.join(programs_dir, name)}\n")
            return EXIT_CLEAN
        if output_dir is None:
            _print(rendered, fold=is_watched(sys.stdout) if fold is None else fold)
        else:
            written = export.write(output_dir, rendered, left_out)
            for folder in written:
                sys.stderr.write(f"{folder}\n")
            for ending in (each for folder in written for each in folder.endings):
                sys.stderr.write(f"{ending.object}: {ending.why}\n  fix: {ending.fix}\n")
            for path in export.others(output_dir, rendered):
                sys.stderr.write(f"{path}: not written by grpo render\n")
        for each, result in rendered.items():
            if result.notes:
                sys.stderr.write(f"notes of {each}:\n{result.notes}\n")
        _tell_left_out(left_out)
        if notes and not any(each.notes for each in rendered.values()):
            sys.stderr.write("no notes: Helm 3 renders them only with a cluster; give a Helm 4 with --helm\n")
        sys.stderr.write(f"rendered with {engine.name}{of_charts(stack)}\n")
    return EXIT_CLEAN


def _print_commands(
    stack: Stack, layers: Sequence[str], helm: str | None, release: str | None, namespace: str | None
) -> None:
    refuse_secrets(stack)
    # Only its version counts, so that no embedded Helm is started, and none has to be there.
    engine = engines.choose(helm)
    lines = helm_commands.install(stack, layers, engine, program=helm, release=release, namespace=namespace)
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _tell_left_out(layers: Sequence[str]) -> None:
    for each in layers:
        sys.stderr.write(f"{each} is left out: job.cluster.mode is ephemeral, so the job creates its own cluster\n")


def _print(rendered: dict[str, Rendered], *, fold: bool) -> None:
    """Write everything at once: a program that reads the pipe must not receive a partial stream."""
    text = "".join(each.manifest for each in rendered.values())
    if not fold:
        output.write_document(text)
        return
    folded, hidden = folds.fold_manifest(text)
    output.write_document(folded)
    if hidden:
        sys.stderr.write(f"{hidden} lines of programs and of the lock are folded: --full prints them\n")
