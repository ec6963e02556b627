"""Create the plugin that Helm 4 uses to run the post-renderer: unlike Helm 3, Helm 4 does not accept a program.

A plugin is a folder with a plugin.yaml. Ours starts the Python that created it, by its path and without a search.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys

import postrender
from postrender import __version__, output_file
from postrender.errors import InstallationError, OutputError, OutputRefusedError, UsageError

NAME = "grpo-post-render"
_METADATA = "plugin.yaml"
_MARK = "# Made by `grpo helm-plugin`, which replaces it; changes are lost.\n"
_HAS_SHELL = os.name == "posix"
# Helm reads each folder of HELM_PLUGINS as a pattern, and the list as parted by this character.
_NOT_LETTERS = f"{os.pathsep}*?[\\"

# Helm splits the command at blanks before it fills in variables, but not the arguments. A shell in between reads paths
# with blanks, and can tell that the Python has gone: Helm 4 hides what a plugin writes to stderr, and shows a document
# that is a bare text, after exit code 0.
_PLUGIN = f"""\
{_MARK}apiVersion: v1
type: postrenderer/v1
name: {NAME}
version: {__version__}
runtime: subprocess
runtimeConfig:
  platformCommand:
    - command: /bin/sh
      args: ["${{HELM_PLUGIN_DIR}}/run.sh"]
"""
_SCRIPT = f"""\
{_MARK}python={{python}}
if [ ! -x "$python" ]; then
  printf '|\\n  {NAME}: %s\\n    %s\\n' "the Python of this plugin is gone: $python" \\
    'fix: make it anew with the grpo that is there now: grpo helm-plugin dir, or install'
  exit 0
fi
exec "$python" -E -P -c {{code}} "$@"
"""
# Variables of Python are for the programs that they were set for, and no file of the working directory is loaded (-E
# -P). A checkout that is not installed is found by its path.
_CODE = """\
import sys
root = {root}
if root not in sys.path:
    sys.path.insert(0, root)
try:
    from postrender.main import main

    sys.exit(main())
except ImportError as error:
    print("|\\n  {name}: cannot be loaded by", sys.executable + ":", str(error).replace("\\n", " "))
    print("    fix: install grpo-charts there again, then: grpo helm-plugin dir, or install")
else:
    sys.exit(main())
"""


def files(python: str, root: str) -> dict[str, str]:
    """Return the plugin's files for one Python and the folder that contains this package."""
    code = _CODE.format(root=ascii(root), name=NAME)
    # Helm finds the plugin as soon as there is its metadata, so that comes last.
    return {"run.sh": _SCRIPT.format(python=shlex.quote(python), code=shlex.quote(code)), _METADATA: _PLUGIN}


def _root() -> str:
    """Return the folder that contains this package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(postrender.__file__)))


def default_folder() -> str:
    """Return this Python's own plugin folder: no other Python can change what a running Helm is about to start."""
    # The commands of one environment start it by several names (python, python3).
    identity = "\0".join((sys.prefix, os.path.realpath(sys.executable), _root()))
    own = hashlib.sha256(os.fsencode(identity)).hexdigest()[:12]
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        data = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, "grpo-charts", "helm-plugins", own)


def _is_ours(folder: str) -> bool:
    """Return whether a folder was created by this module, or is left over from an interrupted run of it."""
    if not os.path.isdir(folder):
        return not os.path.lexists(folder)
    try:
        with open(os.path.join(folder, _METADATA), "rb") as file:
            return file.read().startswith(_MARK.encode())
    except FileNotFoundError:
        return all(name == "run.sh" or name.startswith(".") for name in os.listdir(folder))


def _refuse(directory: str) -> None:
    """Raise an error if the plugin cannot be installed in this folder or on this system."""
    if not _HAS_SHELL:
        raise InstallationError(
            "the plugin needs /bin/sh, which this system does not have",
            fix="use a pipe: helm template RELEASE CHART | grpo-post-render --values FILE",
        )
    for character in _NOT_LETTERS:
        if character in directory:
            message = f"{directory!r} contains {character!r}, which has a special meaning in HELM_PLUGINS"
            raise UsageError(f"grpo helm-plugin: {message}", fix="name another folder")


def make(directory: str) -> bool:
    """Create or update the plugin in a plugin folder; return whether anything had to be written.

    Raises UsageError if Helm cannot read the folder, OutputRefusedError if another program's plugin has our name,
    OutputError if the system refuses to write, and InstallationError if there is no shell.
    """
    _refuse(directory)
    folder = os.path.join(directory, NAME)
    try:
        if not _is_ours(folder):
            message = f"{folder}: not made by grpo helm-plugin, so nothing in it is touched"
            raise OutputRefusedError(message, fix="move it away")
        if os.path.islink(folder):
            os.unlink(folder)
        os.makedirs(folder, exist_ok=True)
        written = [
            output_file.replace_if_changed(os.path.join(folder, name), os.fsencode(text))
            for name, text in files(sys.executable, _root()).items()
        ]
    except OSError as error:
        raise OutputError(
            f"{error.filename or folder}: cannot be written: {error.strerror}",
            fix="name another folder: grpo helm-plugin dir DIRECTORY",
        ) from error
    return any(written)
