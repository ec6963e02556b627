"""The command `grpo helm-plugin`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

import click

from grpo.cli import options, plugin
from grpo.cli.command import CommandGroup, examples, wrong
from grpo.helm import engines
from postrender.errors import EXIT_CLEAN, EngineError

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
remove it:
  helm plugin uninstall {name}
While this plugin is installed, Helm 3 of the same user loads no plugins: it reads the same folder and does not
understand plugins of Helm 4. If you use both versions, use grpo helm-plugin dir.
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
    """Create the plugin that Helm 4 uses to start the post-renderer.

    Helm 3 needs no plugin: it starts the program itself.
    """


@helm_plugin.command("dir", epilog=examples('export HELM_PLUGINS="$(grpo helm-plugin dir):$(helm env HELM_PLUGINS)"'))
@click.argument("directory", required=False, type=options.FILE)
def dir_(directory: str | None) -> int:
    """Create the plugin in a separate folder, and print the folder.

    Add the folder to HELM_PLUGINS for one command or one CI job; nothing else changes. A plugin that another grpo
    installation created is replaced.

    DIRECTORY is the folder for plugins. Default: a folder for this Python below ~/.local/share/grpo-charts.
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
    """Create the plugin in the folder where helm looks for plugins.

    To remove it: helm plugin uninstall grpo-post-render
    """
    path = helm or shutil.which("helm")
    if not path:
        raise EngineError("no helm executable is on PATH", fix="give it with --helm PATH, or use: grpo helm-plugin dir")
    binary = engines.Binary(path)
    if binary.version.startswith("v3."):
        sys.stdout.write(_HELM_3.format(version=binary.version, program=_program(), arguments=_ARGUMENTS))
        return EXIT_CLEAN
    first = binary.plugin_folders().split(os.pathsep)[0]
    if not first:
        raise wrong("helm has no plugin folder, because HELM_PLUGINS is empty", fix="unset HELM_PLUGINS")
    folder = os.path.join(os.path.abspath(first), plugin.NAME)
    done = f"wrote {folder}" if plugin.make(os.path.dirname(folder)) else f"{folder} is up to date"
    sys.stdout.write(_HELM_4.format(done=done, version=binary.version, name=plugin.NAME, arguments=_ARGUMENTS))
    return EXIT_CLEAN


def _program() -> str:
    """Return the value of --post-renderer for Helm 3: the program's name if it is on PATH, or else its path."""
    beside = os.path.join(os.path.dirname(sys.executable), plugin.NAME)
    return plugin.NAME if shutil.which(plugin.NAME) or not os.path.exists(beside) else shlex.quote(beside)
