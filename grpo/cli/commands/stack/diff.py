"""The command `grpo diff`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

import click

from grpo.cli import options
from grpo.cli.command import Command, examples, wrong
from grpo.cli.judging import explaining, of_charts
from grpo.helm import engines
from grpo.helm.stack import Stack
from grpo.manifests import export, rendered_files
from grpo.manifests.diff import Objects, as_json, as_text, compare, ended, locked
from grpo.manifests.rendered_files import RenderedFiles
from grpo.values import machine_names
from grpo.values.set_arguments import Argument
from postrender import masking, paths, textfile
from postrender.errors import EXIT_CLEAN, EXIT_FINDINGS

_LEFT, _RIGHT = "left", "right"
_LOCKED = "locked"


@click.command(
    cls=Command,
    options_metavar="[--accelerator NAME ...] [-f FILE ...] [--left FILE ...] [--right FILE ...] [OPTIONS]",
    epilog=examples(
        "grpo diff --accelerator b200 --accelerator h200 -f my-recipe.yaml -f my-site.yaml",
        "grpo diff --accelerator b200 -f my-recipe.yaml --left site-a.yaml --right site-b.yaml",
        "grpo diff --accelerator b200 -f my-recipe.yaml -f my-site.yaml --right autopilot.yaml",
        "grpo diff --accelerator b200 -f my-recipe.yaml -f my-site.yaml --left deploy --fail-on locked",
    ),
)
@click.option(
    "--accelerator",
    "accelerators",
    multiple=True,
    metavar="NAME",
    shell_complete=options.completing(paths.accelerators),
    help="Accelerator profile. Give two or more to compare them; with --left or --right, one for both or one for each.",
)
@options.values()
@click.option(
    "--left",
    multiple=True,
    type=options.FILE,
    metavar="FILE",
    help="Values file of the left side, after those of -f. Repeatable. Or what grpo render wrote: a folder or a file.",
)
@click.option("--right", multiple=True, type=options.FILE, metavar="FILE", help="The same for the right side.")
@options.set_values
@options.helm
@options.namespace("Namespace of the releases. Default: that of the rendered side, else default.")
@options.kube_version()
@options.output_format("text", "json")
@options.one_of(
    "--fail-on", choices=(_LOCKED,), help="Exit with 1 if the right side is refused where the left one is applied."
)
@click.option("--full", is_flag=True, help="Show every line of programs, the lock and new objects, and no line cut.")
def diff(
    accelerators: Sequence[str],
    files: Sequence[str],
    left: Sequence[str],
    right: Sequence[str],
    arguments: Sequence[Argument],
    helm: str | None,
    namespace: str | None,
    kube_version: str | None,
    form: str,
    fail_on: str | None,
    *,
    full: bool,
) -> int:
    """Show how the rendered stack differs between two sides.

    The sides are accelerators, values files, or earlier output of grpo render. All sides get the files given with -f
    and the --set arguments. A side without files of its own has only these.

    Programs that come with the charts, a run's lock, and an object missing from one side are each summarized in one
    line; --full shows all lines.

    Some fields can never change in a cluster, such as a run's lock and a volume's bucket. If the second side differs
    from the first one in such a field, the API server rejects it. The charts reject a run whose attempt is older than
    the existing one, as after a revert, or which cannot resume from the existing steps. The last lines name these cases
    and say what to do. They also name changes that are accepted but end a run, or make it start at step 0.

    Differences are not findings: the exit code is 0. With --fail-on locked it is 1 if something is rejected.
    """
    accelerators = [*map(machine_names.profile, accelerators)]
    sides = (
        _two_sides(accelerators, files, left, right, arguments)
        if left or right
        else _accelerators(accelerators, files, arguments)
    )
    before = [each for each in sides.values() if isinstance(each, RenderedFiles)]
    namespace = namespace or next((each.namespace for each in before if each.namespace), "default")
    objects: dict[str, Mapping[str, Objects]] = _layers_of(before, sides)
    stacks = {side: each for side, each in sides.items() if isinstance(each, Stack)}
    if stacks:
        objects |= _rendered(stacks, helm, namespace, kube_version)
    compared = _comparable({side: objects[side] for side in sides}, before)
    found = {layer: compare(each, full=full) for layer, each in compared.items()}
    refused = locked(compared)
    ending = ended(compared, is_there=isinstance(next(iter(sides.values())), RenderedFiles))
    text = as_json(found, refused, ending) if form == "json" else as_text(found, [*sides], refused, ending, full=full)
    sys.stdout.write(masking.text(text))
    return EXIT_FINDINGS if refused and fail_on else EXIT_CLEAN


def _layers_of(
    before: Sequence[RenderedFiles], sides: Mapping[str, Stack | RenderedFiles]
) -> dict[str, Mapping[str, Objects]]:
    """Return the layers of the rendered sides; in a folder of several stacks, layers are named by both folders."""
    several = next((each for each in before if len(each.folders) > 1), None)
    read = {side: each for side, each in sides.items() if isinstance(each, RenderedFiles)}
    if several is None:
        return {side: each.layers for side, each in read.items()}
    if len(read) < len(sides):
        shown = ", ".join(os.path.join(several.path, each) for each in several.folders)
        raise wrong(f"{several.path} holds several stacks, and the values are of one", fix=f"name its folder: {shown}")
    return {
        side: {
            os.path.join(folder, layer): items
            for folder, layers in each.stacks.items()
            for layer, items in layers.items()
        }
        for side, each in read.items()
    }


def _rendered(
    stacks: Mapping[str, Stack], helm: str | None, namespace: str, kube_version: str | None
) -> dict[str, Mapping[str, Objects]]:
    """Render the stacks of the given sides: side → layer → objects."""
    objects: dict[str, Mapping[str, Objects]] = {}
    with engines.choose(helm) as engine:
        for side, stack in stacks.items():
            with explaining(stack):
                objects[side] = {
                    layer: stack.render(engine, layer, namespace=namespace, kube_version=kube_version).documents
                    if layer in stack.layers()
                    else ()
                    for layer in paths.LAYERS
                }
        used = "".join(dict.fromkeys(map(of_charts, stacks.values())))
        sys.stderr.write(f"rendered with {engine.name}{used}, namespace {namespace}\n")
    return objects


def _accelerators(
    accelerators: Sequence[str], files: Sequence[str], arguments: Sequence[Argument]
) -> dict[str, Stack | RenderedFiles]:
    """Return one stack per accelerator."""
    names = [*dict.fromkeys(accelerators)]
    if len(names) < 2:
        known = ", ".join(paths.accelerators())
        fix = f"grpo diff --accelerator A --accelerator B -f …, of {known}; or --left and --right with values files"
        raise wrong("there are no two sides to compare", fix=fix)
    return {name: options.stack(files, name, arguments) for name in names}


def _two_sides(
    accelerators: Sequence[str],
    files: Sequence[str],
    left: Sequence[str],
    right: Sequence[str],
    arguments: Sequence[Argument],
) -> dict[str, Stack | RenderedFiles]:
    """Return the left and the right side; raise UsageError if the files do not go together."""
    if len(accelerators) > 2:
        raise wrong(f"--accelerator is given {len(accelerators)} times", fix="give one for both sides, or one for each")
    sides: dict[str, Stack | RenderedFiles] = {}
    for name, own, accelerator in zip(
        (_LEFT, _RIGHT), (left, right), (accelerators[:1], accelerators[-1:]), strict=True
    ):
        for path in own:
            _refuse_empty(name, path)
        if any(map(rendered_files.is_rendered, own)):
            if len(own) > 1:
                raise wrong(f"--{name} {own[0]} stands alone: what was rendered takes no values", fix="give one")
            sides[name] = rendered_files.read(own[0])
        else:
            sides[name] = options.stack([*files, *own], next(iter(accelerator), None), arguments)
    rendered = [name for name, side in sides.items() if isinstance(side, RenderedFiles)]
    if rendered and len(accelerators) > 1:
        raise wrong(f"--{rendered[0]} was rendered before and takes no --accelerator", fix="give one")
    if len(rendered) == 2 and (files or accelerators or arguments):
        raise wrong("both sides were rendered before and take no values", fix="leave out -f, --accelerator and --set")
    return sides


def _refuse_empty(side: str, path: str) -> None:
    """Raise UsageError if a file is empty: the command that wrote it has failed, and no side would differ."""
    if not os.path.isdir(path) and not textfile.read_bytes(path).strip():
        fix = "correct the command that writes it; its message is above, or behind 2>/dev/null"
        raise wrong(f"--{side} {path} is empty: neither manifests nor values", fix=fix)


def _comparable(
    sides: Mapping[str, Mapping[str, Objects]], before: Sequence[RenderedFiles]
) -> dict[str, dict[str, Objects]]:
    """Return layer → side → objects, skipping layers that a rendered side lacks; list the skipped layers on stderr."""
    found = dict.fromkeys(layer for each in sides.values() for layer in each)
    layers = dict.fromkeys([*(layer for layer in paths.LAYERS if layer in found), *found])
    # A stack that a folder of several does not have is new there, or gone.
    for each in before if all(layer in (*paths.LAYERS, rendered_files.OTHER) for layer in layers) else ():
        for layer in [layer for layer in layers if layer not in each.layers]:
            del layers[layer]
            sys.stderr.write(f"{layer} is not compared: {each.path} has nothing of it\n")
    without_tests = bool(before) and not all(each.has_tests for each in before)
    if without_tests:
        sys.stderr.write("hooks of Helm are not compared: grpo render --output-dir leaves them out\n")
    return {
        layer: {
            side: [item for item in each.get(layer, ()) if not (without_tests and export.is_hook(item))]
            for side, each in sides.items()
        }
        for layer in layers
    }
