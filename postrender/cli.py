"""The command line: `grpo lint | render | diff | version`. Each command's modules are imported when it runs."""

from __future__ import annotations

import argparse
import sys

from postrender import __version__
from postrender.errors import EXIT_CANNOT_RUN, EXIT_CLEAN, EXIT_FINDINGS, GrpoError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Never

_HELP = """\
usage: grpo COMMAND …

  lint     judge values files: what Helm would refuse, misread or ignore, with the line to edit
  render   print what the charts render to, with a helm executable or the Helm inside helm-python-sdk
  diff     show how the rendered stack differs between accelerators
  version  print the version

`grpo COMMAND --help` shows the options of a command.
Exit codes: 0 clean, 1 findings, 2 wrong command line or input, 3 could not run.
"""

# What a shell reports for a program that Ctrl-C ended: 128 + SIGINT.
_INTERRUPTED = 130


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Format help to a fixed width: asking for the terminal's width imports compression libraries on every start."""
    return argparse.HelpFormatter(prog, width=100)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Never:
        raise UsageError(f"{self.prog}: {message}", fix=f"see {self.prog} --help")


def _parser(command: str, about: str) -> _Parser:
    parser = _Parser(prog=f"grpo {command}", description=about, allow_abbrev=False, formatter_class=_formatter)
    parser.add_argument(
        "-f",
        "--values",
        action="append",
        default=[],
        metavar="FILE",
        dest="files",
        help="a values file; give it once a file, later ones win, as with helm",
    )
    return parser


def _add_rendering(parser: _Parser) -> None:
    parser.add_argument("--helm", metavar="PATH", help="helm executable; else helm on PATH, else the embedded one")
    parser.add_argument("--namespace", default="default", help="namespace of the releases (default: default)")
    parser.add_argument("--kube-version", metavar="VERSION", help="Kubernetes version that the charts see")


def _files(files: list[str], accelerators: Sequence[str | None], command: str) -> None:
    if not files and not any(accelerators):
        raise UsageError(
            f"grpo {command}: no values file is given",
            fix=f"grpo {command} -f values/accelerators/b200.yaml -f RECIPE.yaml -f SITE.yaml",
        )
    for name in files:
        if "," in name:
            raise UsageError(f"grpo {command}: {name!r} has a comma in it", fix="give each file its own -f")


def _lint(argv: list[str]) -> int:
    from postrender import lint, paths, report

    parser = _parser("lint", "Judge values files without rendering them.")
    parser.add_argument("--accelerator", metavar="NAME", help="put the profile of this accelerator before the files")
    parser.add_argument("--format", choices=report.FORMATS, default="text", help="form of the report (default: text)")
    options = parser.parse_args(argv)
    _files(options.files, [options.accelerator], "lint")
    profile = [paths.accelerator(options.accelerator)] if options.accelerator else []
    files = [*profile, *options.files]
    findings = lint.lint(files)
    sys.stdout.write(report.write(findings, options.format))
    if findings:
        return EXIT_FINDINGS
    sys.stderr.write(f"clean: {len(files)} values file{'s' if len(files) > 1 else ''}\n")
    return EXIT_CLEAN


def _render(argv: list[str]) -> int:
    from postrender import helm, paths
    from postrender.stack import Stack

    parser = _parser("render", "Print the manifests of one layer, or of all in the order of installation.")
    parser.add_argument("layer", nargs="?", choices=[*paths.LAYERS, "all"], default="all", help="default: all")
    parser.add_argument("--accelerator", metavar="NAME", help="put the profile of this accelerator before the files")
    parser.add_argument("--release", metavar="NAME", help="name of the release (default: the layer's name)")
    parser.add_argument(
        "--notes", action="store_true", help="print the notes of the charts on stderr (not with Helm 3)"
    )
    _add_rendering(parser)
    options = parser.parse_args(argv)
    _files(options.files, [options.accelerator], "render")
    if options.release and options.layer == "all":
        raise UsageError("grpo render: --release names one release", fix="name the layer: grpo render LAYER …")
    stack = Stack.load(options.files, accelerator=options.accelerator)
    with helm.choose(options.helm) as engine:
        for layer in paths.LAYERS if options.layer == "all" else (options.layer,):
            rendered = stack.render(
                engine,
                layer,
                release=options.release,
                namespace=options.namespace,
                kube_version=options.kube_version,
                notes=options.notes,
            )
            sys.stdout.write(rendered.manifest)
            if rendered.notes:
                sys.stderr.write(f"notes of {layer}:\n{rendered.notes}\n")
        sys.stderr.write(f"rendered with {engine.name}\n")
    return EXIT_CLEAN


def _diff(argv: list[str]) -> int:
    from postrender import diff, helm, paths
    from postrender.stack import Stack

    parser = _parser("diff", "Show how the rendered stack differs between accelerators; exit code 0 either way.")
    parser.add_argument("--accelerator", metavar="NAME", action="append", default=[], help="give it twice or more")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="form of the report (default: text)")
    _add_rendering(parser)
    options = parser.parse_args(argv)
    sides = list(dict.fromkeys(options.accelerator))
    if len(sides) < 2:
        raise UsageError(
            "grpo diff: two accelerators are needed",
            fix=f"grpo diff --accelerator A --accelerator B -f …, of {', '.join(paths.accelerators())}",
        )
    _files(options.files, sides, "diff")
    stacks = {side: Stack.load(options.files, accelerator=side) for side in sides}
    layers = {}
    with helm.choose(options.helm) as engine:
        for layer in paths.LAYERS:
            layers[layer] = diff.compare(
                {
                    side: stack.render(
                        engine, layer, namespace=options.namespace, kube_version=options.kube_version
                    ).documents
                    for side, stack in stacks.items()
                }
            )
        sys.stderr.write(f"rendered with {engine.name}\n")
    sys.stdout.write(diff.as_json(layers) if options.format == "json" else diff.as_text(layers, sides))
    return EXIT_CLEAN


def _version(argv: list[str]) -> int:
    if argv:
        raise UsageError(f"grpo version: no argument was expected, found {argv[0]!r}")
    print(f"grpo {__version__}")
    return EXIT_CLEAN


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "lint": _lint,
    "render": _render,
    "diff": _diff,
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
        sys.stdout.write(_HELP)
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
    source = report.excerpt(error.at) if error.at else ""
    fix = f"  fix: {error.fix}\n" if error.fix else ""
    sys.stderr.write(tokens.mask(f"{place}{error.message}\n{source}{fix}"))


def _give_up_stdout() -> None:
    """Send what is still buffered nowhere: at exit Python would try to write it again, and complain."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv: list[str] | None = None) -> int:
    """Run `grpo`; return the exit code of the command, or of the error that ended it."""
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
        _give_up_stdout()
        return EXIT_CLEAN
    except OSError as error:
        _give_up_stdout()
        sys.stderr.write(f"grpo: the output cannot be written: {error.strerror}\n")
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
