"""The command `grpo helm-plugin`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

import click

from postrender.cli import options, plugin
from postrender.cli.command import CommandGroup, examples, wrong
from postrender.errors import EXIT_CLEAN, EngineError
from postrender.helm import engines

_ARGUMENTS = "--post-renderer-args --values --post-renderer-args FILE"
_HELM_3 = """\
nothing was written: helm {version} starts the program itself and needs no plugin
use it:
  helm install RELEASE CHART --post-renderer {program} {arguments}
"""
_HELM_4 = """\
{done}, for helm {version}
use it:
  helm install RELEASE CHART --post-renderer {name} {arguments}
take it away:
  helm plugin uninstall {name}
Helm 3 of this user loads none of its plugins while this one is there: it reads the same folder and knows no such
plugins. With both, use grpo helm-plugin dir.
"""


@click.group(
    cls=CommandGroup,
    no_args_is_help=False,
    epilog=examples(
        'HELM_PLUGINS="$(grpo helm-plugin dir):$(helm env HELM_PLUGINS)" helm install RELEASE CHART \\',
        f"  --post-renderer grpo-post-render {_ARGUMENTS}",
    ),
)
def helm_plugin() -> None:
    """Make the plugin through which Helm 4 starts the post-renderer.

    Helm 3 needs no plugin: it starts programs.
    """


@helm_plugin.command("dir", epilog=examples('export HELM_PLUGINS="$(grpo helm-plugin dir):$(helm env HELM_PLUGINS)"'))
@click.argument("directory", required=False, type=options.FILE)
def dir_(directory: str | None) -> int:
    """Make the plugin in a folder of its own, and print the folder.

    The folder goes into HELM_PLUGINS, so that one command, or one job of CI, has the plugin and nothing else changes.
    A plugin that is not that of this grpo is renewed.

    DIRECTORY is a folder for plugins; without it, there is one for this Python below ~/.local/share/grpo-charts.
    """
    if directory == "":
        raise wrong("the folder has no name")
    folder = os.path.abspath(directory) if directory else plugin.default_folder()
    if plugin.make(folder):
        sys.stderr.write(f"made {os.path.join(folder, plugin.NAME)}\n")
    sys.stdout.write(f"{folder}\n")
    return EXIT_CLEAN


@helm_plugin.command(epilog=examples("grpo helm-plugin install", "helm plugin uninstall grpo-post-render"))
@click.option("--helm", type=options.FILE, metavar="PATH", help="Helm executable. Default: helm on PATH.")
def install(helm: str | None) -> int:
    """Make the plugin where helm looks for plugins.

    To remove it: helm plugin uninstall grpo-post-render
    """
    path = helm or shutil.which("helm")
    if not path:
        raise EngineError("no helm executable is on PATH", fix="name it with --helm PATH, or use: grpo helm-plugin dir")
    binary = engines.Binary(path)
    if binary.version.startswith("v3."):
        sys.stdout.write(_HELM_3.format(version=binary.version, program=_program(), arguments=_ARGUMENTS))
        return EXIT_CLEAN
    first = binary.plugin_folders().split(os.pathsep)[0]
    if not first:
        raise wrong("helm looks for plugins nowhere, as HELM_PLUGINS is empty", fix="unset HELM_PLUGINS")
    folder = os.path.join(os.path.abspath(first), plugin.NAME)
    done = f"wrote {folder}" if plugin.make(os.path.dirname(folder)) else f"{folder} is up to date"
    sys.stdout.write(_HELM_4.format(done=done, version=binary.version, name=plugin.NAME, arguments=_ARGUMENTS))
    return EXIT_CLEAN


def _program() -> str:
    """Return what Helm 3 takes as a post-renderer: the name where the shell finds it, else the path."""
    beside = os.path.join(os.path.dirname(sys.executable), plugin.NAME)
    return plugin.NAME if shutil.which(plugin.NAME) or not os.path.exists(beside) else shlex.quote(beside)
