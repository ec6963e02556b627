"""The command line `grpo`, a function a command. Each command's modules are imported when it runs."""

from __future__ import annotations

import sys

from postrender import __version__, usage
from postrender.errors import (
    EXIT_CANNOT_RUN,
    EXIT_CLEAN,
    EXIT_FINDINGS,
    EXIT_INTERRUPTED,
    NO_MEMORY,
    GrpoError,
    UsageError,
)
from postrender.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn, TextIO

    from postrender.helm import Rendered

_MANY_OBJECTS = 2_000_000
_RENDERING = ("accelerator", "helm", "namespace", "kube-version")


def _lint(argv: list[str]) -> int:
    from postrender import lintmain

    return lintmain.main(argv)


def _check(argv: list[str]) -> int:
    from postrender import checkmain

    return checkmain.main(argv)


def _layers(options: Options) -> tuple[str, ...]:
    """Return the one layer that is asked for, or none for all of them."""
    from postrender import paths

    layer, *more = options.words or ["all"]
    options.refuse_words(more)
    if layer == "all":
        if options.has("release"):
            fix = "name the layer: grpo render LAYER …"
            raise UsageError(f"{options.command}: --release names one release", fix=fix)
        return ()
    if layer not in paths.LAYERS:
        listed = ", ".join(paths.LAYERS)
        raise options.wrong(f"no layer is called {layer!r}, expected one of {listed}", near=layer, known=paths.LAYERS)
    return (layer,)


def _name(options: Options, option: str) -> str | None:
    """Return a name that Kubernetes or Helm takes; the embedded Helm would render any text."""
    import re

    name = options.last(option)
    if name is not None and not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
        raise options.wrong(f"--{option} is {name!r}, expected lower-case letters, digits and -, at most 63")
    return name


def _render(argv: list[str]) -> int:
    options = Options("render", argv, with_value=(*_RENDERING, "release", "output-dir"), flags=("notes",))
    if options.has("help"):
        sys.stdout.write(usage.RENDER_HELP)
        return EXIT_CLEAN
    from postrender import helm, paths
    from postrender.stack import Stack

    asked = _layers(options)
    if options.last("output-dir") == "":
        raise options.wrong("--output-dir is empty, expected a folder")
    stack = Stack.load(options.files(), accelerator=options.last("accelerator"))
    layers = asked or stack.layers()
    with helm.choose(options.last("helm")) as engine:
        rendered = {
            layer: stack.render(
                engine,
                layer,
                release=_name(options, "release"),
                namespace=_name(options, "namespace") or "default",
                kube_version=options.last("kube-version"),
                notes=options.has("notes"),
            )
            for layer in layers
        }
        left = [] if asked else [layer for layer in paths.LAYERS if layer not in layers]
        _deliver(rendered, options.last("output-dir"), left)
        for layer in left:
            sys.stderr.write(f"{layer} is left out: job.cluster.mode is ephemeral, the job brings its own cluster\n")
        if options.has("notes") and not any(each.notes for each in rendered.values()):
            sys.stderr.write("no notes: Helm 3 renders them on a cluster only; give a Helm 4 with --helm\n")
        sys.stderr.write(f"rendered with {engine.name}\n")
    return EXIT_CLEAN


def _deliver(rendered: dict[str, Rendered], directory: str | None, left: list[str]) -> None:
    """Print the manifests, or write them into a folder; notes and what was done go to stderr."""
    if directory is None:
        # All or nothing: half a stream must not reach the program behind a pipe.
        sys.stdout.write("".join(each.manifest for each in rendered.values()))
    else:
        from postrender import manifests

        for folder in manifests.write(directory, rendered, left):
            sys.stderr.write(f"{folder}\n")
    for layer, each in rendered.items():
        if each.notes:
            sys.stderr.write(f"notes of {layer}:\n{each.notes}\n")


def _sides(options: Options) -> list[str]:
    sides = list(dict.fromkeys(options.all("accelerator")))
    if len(sides) < 2:
        from postrender import paths

        raise UsageError(
            f"{options.command}: two accelerators are needed",
            fix=f"grpo diff --accelerator A --accelerator B -f …, of {', '.join(paths.accelerators())}",
        )
    return sides


def _diff(argv: list[str]) -> int:
    options = Options("diff", argv, with_value=(*_RENDERING, "format"))
    if options.has("help"):
        sys.stdout.write(usage.DIFF_HELP)
        return EXIT_CLEAN
    from postrender import diff, helm, paths
    from postrender.stack import Stack

    options.refuse_words(options.words)
    form = options.choice("format", ("text", "json"))
    sides = _sides(options)
    stacks = {side: Stack.load(options.files(), accelerator=side) for side in sides}
    namespace, version = _name(options, "namespace") or "default", options.last("kube-version")
    layers = {}
    with helm.choose(options.last("helm")) as engine:
        for layer in paths.LAYERS:
            sides_of_layer = {
                side: stack.render(engine, layer, namespace=namespace, kube_version=version).documents
                for side, stack in stacks.items()
            }
            layers[layer] = diff.compare(sides_of_layer)
        sys.stderr.write(f"rendered with {engine.name}\n")
    sys.stdout.write(diff.as_json(layers) if form == "json" else diff.as_text(layers, sides))
    return EXIT_CLEAN


def _rules(argv: list[str]) -> int:
    from postrender import rulebook

    return rulebook.main(argv)


def _dead_values(argv: list[str]) -> int:
    options = Options("dead-values", argv, with_value=("helm", "format"))
    if options.has("help"):
        sys.stdout.write(usage.DEAD_HELP)
        return EXIT_CLEAN
    from postrender import deadvalues, helm
    from postrender.progress import Progress

    if len(options.words) != 1:
        raise UsageError(f"{options.command}: one chart is needed", fix="grpo dead-values CHART -f FILE …")
    form = options.choice("format", ("text", "json"))
    with helm.choose(options.last("helm")) as engine:
        result = deadvalues.find(engine, options.words[0], options.all("values"), progress=Progress("values").step)
        sys.stderr.write(f"rendered with {engine.name}\n")
    sys.stdout.write(deadvalues.as_json(result) if form == "json" else deadvalues.as_text(result))
    return EXIT_FINDINGS if result.nothing else EXIT_CLEAN


def _values(argv: list[str]) -> int:
    options = Options("values", argv, with_value=())
    if options.has("help"):
        sys.stdout.write(usage.VALUES_HELP)
        return EXIT_CLEAN
    from postrender import manual

    options.refuse_words(options.words[1:])
    sys.stdout.write(manual.reference(*options.words))
    return EXIT_CLEAN


def _checkpoints(argv: list[str]) -> int:
    from postrender import runs

    return runs.checkpoints(argv)


def _samples(argv: list[str]) -> int:
    from postrender import runs

    return runs.samples(argv)


def _helm_plugin(argv: list[str]) -> int:
    from postrender import plugin

    return plugin.main(argv)


def _version(argv: list[str]) -> int:
    if argv:
        raise UsageError(f"grpo version: no argument was expected, found {argv[0]!r}")
    from postrender import helm, yamlfast

    try:
        with helm.choose() as engine:
            rendering = engine.name
    except GrpoError as error:
        rendering = f"nothing: {error.message}"
    python = ".".join(map(str, sys.version_info[:3]))
    reading = "the compiled reader" if yamlfast.is_compiled() else "py-yaml12 (the compiled reader is not installed)"
    print(f"grpo {__version__}\npython {python}\nrenders with {rendering}\nreads plain YAML with {reading}")
    return EXIT_CLEAN


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "lint": _lint,
    "check": _check,
    "render": _render,
    "diff": _diff,
    "dead-values": _dead_values,
    "rules": _rules,
    "values": _values,
    "checkpoints": _checkpoints,
    "samples": _samples,
    "helm-plugin": _helm_plugin,
    "version": _version,
}


def _unknown(word: str) -> UsageError:
    import difflib

    close = difflib.get_close_matches(word, _COMMANDS, n=1, cutoff=0.5)
    fix = f"did you mean grpo {close[0]}?" if close else f"the commands are {', '.join(_COMMANDS)}"
    return UsageError(f"grpo: no command is called {word!r}", fix=fix)


def run(argv: list[str]) -> int:
    """Run one command and return its exit code; raise GrpoError for everything that a user can mend."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage.HELP)
        return EXIT_CLEAN
    if argv[0] == "--version":
        return _version(argv[1:])
    if argv[0] not in _COMMANDS:
        raise _unknown(argv[0])
    return _COMMANDS[argv[0]](argv[1:])


def _complain(error: GrpoError) -> None:
    """Print an error, with the line of the file that it is about; a secret in either is masked."""
    from postrender import report, tokens

    place = f"{error.at}: " if error.at else ""
    fix = f"  fix: {error.fix}\n" if error.fix else ""
    source = report.excerpt(error.at) if error.at and not error.secret else ""
    sys.stderr.write(report.visible(tokens.mask(f"{place}{error.message}\n{source}{fix}")))


def _give_up(stream: TextIO) -> None:
    """Send what is still buffered nowhere: at exit Python would try to write it again, and complain."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say_broken(error: OSError) -> int:
    import errno

    _give_up(sys.stdout)
    of_output = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
    try:
        said = "the output cannot be written" if of_output else "could not run"
        sys.stderr.write(f"grpo: {said}: {error.strerror}\n")
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr)
    return EXIT_CANNOT_RUN


def main(argv: list[str] | None = None) -> int:
    """Run `grpo`; return the exit code of the command, or of the error that ended it."""
    # Python has no stream where the shell has closed one (>&-).
    if sys.stdout is None or sys.stderr is None:
        return EXIT_CANNOT_RUN
    for stream in (sys.stdout, sys.stderr):
        # Manifests are UTF-8 whatever the locale is.
        getattr(stream, "reconfigure", lambda **_: None)(encoding="utf-8", errors="backslashreplace")
    try:
        code = run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except GrpoError as error:
        _complain(error)
        return error.exit_code
    except BrokenPipeError:
        # The reader has enough, as with `grpo render | head`.
        _give_up(sys.stdout)
        return EXIT_CLEAN
    except OSError as error:
        return _say_broken(error)
    except MemoryError:
        sys.stderr.write(f"grpo: {NO_MEMORY}\n")
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code


def start() -> NoReturn:
    """Run as a program of its own, and end at once: what Python does at its end takes as long as a small command."""
    import gc
    import os

    # Most of what a command makes lives to its end: looking for what does not takes longer than it is worth.
    gc.set_threshold(_MANY_OBJECTS)
    code = main()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        code = EXIT_CANNOT_RUN
    os._exit(code)


if __name__ == "__main__":
    start()
