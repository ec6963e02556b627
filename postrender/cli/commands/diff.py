"""The command `grpo diff`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from postrender import paths
from postrender.cli import options
from postrender.cli.command import Command, examples, wrong
from postrender.cli.judging import explaining
from postrender.errors import EXIT_CLEAN
from postrender.helm import engines
from postrender.manifests.diff import as_json, as_text, compare
from postrender.values.set_arguments import Argument


@click.command(
    cls=Command,
    options_metavar="--accelerator NAME --accelerator NAME -f FILE ... [OPTIONS]",
    epilog=examples("grpo diff --accelerator b200 --accelerator h200 -f my-recipe.yaml -f my-site.yaml"),
)
@click.option(
    "--accelerator",
    "accelerators",
    multiple=True,
    metavar="NAME",
    shell_complete=options.completing(paths.accelerators),
    help="Accelerator profile to compare. Give two or more.",
)
@options.values()
@options.set_values
@options.helm
@options.namespace("Namespace of the releases. Default: default.")
@options.kube_version()
@options.output_format("text", "json")
def diff(
    accelerators: Sequence[str],
    files: Sequence[str],
    arguments: Sequence[Argument],
    helm: str | None,
    namespace: str | None,
    kube_version: str | None,
    form: str,
) -> int:
    """Show how the rendered stack differs between accelerators.

    Differences are not findings: the exit code is 0.
    """
    sides = [*dict.fromkeys(accelerators)]
    if len(sides) < 2:
        fix = f"grpo diff --accelerator A --accelerator B -f …, of {', '.join(paths.accelerators())}"
        raise wrong("two accelerators are needed", fix=fix)
    stacks = {side: options.stack(files, side, arguments) for side in sides}
    layers = {}
    with engines.choose(helm) as engine:
        for layer in paths.LAYERS:
            sides_of_layer = {}
            for side, stack in stacks.items():
                with explaining(stack):
                    rendered = stack.render(engine, layer, namespace=namespace or "default", kube_version=kube_version)
                sides_of_layer[side] = rendered.documents
            layers[layer] = compare(sides_of_layer)
        sys.stderr.write(f"rendered with {engine.name}\n")
    sys.stdout.write(as_json(layers) if form == "json" else as_text(layers, sides))
    return EXIT_CLEAN
