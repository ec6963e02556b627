"""Make the plugin through which Helm 4 starts the post-renderer: it takes no program as post-renderer, as Helm 3 does.

A plugin is a folder with a plugin.yaml. Ours starts the Python that made it, found by no search.
"""

from __future__ import annotations

import os
import shlex
import sys

from postrender import __version__, usage
from postrender.errors import EXIT_CLEAN, OutputError, UsageError
from postrender.failures import EngineError, InstallationError, OutputRefusedError
from postrender.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "grpo-post-render"
_METADATA = "plugin.yaml"
_MARK = "# Made by `grpo helm-plugin`, which replaces it; changes are lost.\n"
_HAS_SHELL = os.name == "posix"
_ARGUMENTS = "--post-renderer-args --values --post-renderer-args FILE"
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
    from postrender.start import post_render

    post_render()
except ImportError as error:
    print("|\\n  {name}: cannot be loaded by", sys.executable + ":", str(error).replace("\\n", " "))
    print("    fix: install grpo-charts there again, then: grpo helm-plugin dir, or install")
"""


def files(python: str, root: str) -> dict[str, str]:
    """Return the files of the plugin for one Python and the folder that holds this package."""
    code = _CODE.format(root=ascii(root), name=NAME)
    # Helm finds the plugin as soon as there is its metadata, so that comes last.
    return {"run.sh": _SCRIPT.format(python=shlex.quote(python), code=shlex.quote(code)), _METADATA: _PLUGIN}


def _root() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def default_folder() -> str:
    """Return the folder for plugins of this Python: another one never changes what a running Helm is about to start."""
    import hashlib

    # The commands of one environment start it by several names (python, python3).
    identity = "\0".join((sys.prefix, os.path.realpath(sys.executable), _root()))
    own = hashlib.sha256(os.fsencode(identity)).hexdigest()[:12]
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):
        data = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, "grpo-charts", "helm-plugins", own)


def _is_ours(folder: str) -> bool:
    """Say whether a folder was made here, or is what an interrupted run left of one."""
    if not os.path.isdir(folder):
        return not os.path.lexists(folder)
    try:
        with open(os.path.join(folder, _METADATA), "rb") as file:
            return file.read().startswith(_MARK.encode())
    except FileNotFoundError:
        return all(name == "run.sh" or name.startswith(".") for name in os.listdir(folder))


def _put(path: str, data: bytes) -> bool:
    """Write a file whole or not at all, and only where it differs; say whether it was written."""
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == data:
                return False
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name}.{os.getpid()}")
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)
    return True


def _refuse(directory: str) -> None:
    """Raise the error of a folder, or of a system, that a plugin cannot be for."""
    if not _HAS_SHELL:
        raise InstallationError(
            "the plugin needs /bin/sh, which this system does not have",
            fix="use a pipe: helm template RELEASE CHART | grpo-post-render --values FILE",
        )
    for character in _NOT_LETTERS:
        if character in directory:
            message = f"{directory!r} holds {character!r}, which Helm does not read as a letter in HELM_PLUGINS"
            raise UsageError(f"grpo helm-plugin: {message}", fix="name another folder")


def make(directory: str) -> bool:
    """Make the plugin in a folder for plugins, or renew it; say whether anything had to be written.

    Raises UsageError for a folder that Helm cannot read, OutputRefusedError where another's plugin has our name,
    OutputError where the system refuses, and InstallationError where there is no shell.
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
        texts = files(sys.executable, _root())
        written = [_put(os.path.join(folder, name), os.fsencode(text)) for name, text in texts.items()]
    except OSError as error:
        raise OutputError(
            f"{error.filename or folder}: cannot be written: {error.strerror}",
            fix="name another folder: grpo helm-plugin dir DIRECTORY",
        ) from error
    return any(written)


def _dir(options: Options, words: Sequence[str]) -> int:
    if options.has("helm"):
        raise options.wrong("--helm belongs to install")
    if "" in words:
        raise options.wrong("the folder has no name")
    directory = os.path.abspath(words[0]) if words else default_folder()
    if make(directory):
        sys.stderr.write(f"made {os.path.join(directory, NAME)}\n")
    sys.stdout.write(f"{directory}\n")
    return EXIT_CLEAN


def _program() -> str:
    """Return what Helm 3 takes as a post-renderer: the name where the shell finds it, else the path."""
    from shutil import which

    beside = os.path.join(os.path.dirname(sys.executable), NAME)
    return NAME if which(NAME) or not os.path.exists(beside) else shlex.quote(beside)


def _install(options: Options) -> int:
    from shutil import which

    from postrender import helm

    path = options.last("helm") or which("helm")
    if not path:
        raise EngineError("no helm executable is on PATH", fix="name it with --helm PATH, or use: grpo helm-plugin dir")
    binary = helm.Binary(path)
    if binary.version.startswith("v3."):
        sys.stdout.write(usage.HELM_3.format(version=binary.version, program=_program(), arguments=_ARGUMENTS))
        return EXIT_CLEAN
    first = binary.plugin_folders().split(os.pathsep)[0]
    if not first:
        raise UsageError(
            "grpo helm-plugin: helm looks for plugins nowhere, as HELM_PLUGINS is empty", fix="unset HELM_PLUGINS"
        )
    folder = os.path.join(os.path.abspath(first), NAME)
    done = f"wrote {folder}" if make(os.path.dirname(folder)) else f"{folder} is up to date"
    sys.stdout.write(usage.HELM_4.format(done=done, version=binary.version, name=NAME, arguments=_ARGUMENTS))
    return EXIT_CLEAN


def main(argv: Sequence[str]) -> int:
    """Run `grpo helm-plugin`; return its exit code. Raises UsageError, and what `make` and Helm raise."""
    options = Options("helm-plugin", argv, with_value=("helm",))
    if options.has("help"):
        sys.stdout.write(usage.PLUGIN_HELP)
        return EXIT_CLEAN
    if not options.words:
        raise options.wrong("dir or install is needed")
    if options.has("values"):
        raise options.wrong("takes no values files: they are arguments of the post-renderer")
    command, *words = options.words
    surplus = words[1:] if command == "dir" else words
    if command not in ("dir", "install") or surplus:
        raise options.wrong(f"{(surplus or [command])[0]!r} was not expected")
    return _dir(options, words) if command == "dir" else _install(options)
