"""The program `grpo-post-render`: wire a rendered stream from the values, and refuse an unsafe stream.

Helm starts it for every install and upgrade. It imports neither click nor rich nor jsonschema_rs.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from postrender import secrets
from postrender.errors import (
    EXIT_CANNOT_RUN,
    EXIT_CLEAN,
    EXIT_FINDINGS,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    NO_MEMORY,
    GrpoError,
    InputError,
    OutputError,
    UsageError,
)
from postrender.manifests import pods
from postrender.pipeline import Pipeline
from postrender.report import text as report_text
from postrender.wiring import apply, inputs
from postrender.wiring.plan import Wiring
from postrender.wiring.transforms import FAIL, POLICIES
from postrender.yaml import stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from postrender.finding import Finding
    from postrender.pipeline import Result

_NAME = "grpo-post-render"
_FIX = f"see {_NAME} --help"
_USAGE = f"""\
helm install ... --post-renderer {_NAME} --post-renderer-args --values --post-renderer-args FILE ...
       helm template ... | {_NAME} --values FILE ... [options]"""
_DESCRIPTION = """\
Wire the pods of a rendered stream of any chart from the values files of a stack: network interfaces, NCCL settings,
driver folders, shared memory, node placement, secrets by reference. A pod is wired if it takes all GPUs of a node of
the profile; pods of a Ray cluster get the secrets. Every other document passes byte for byte. A stream that is unsafe
to install is refused: nothing is written to stdout, and the reasons go to stderr.

An object with the annotation grpo-charts/wiring: skip is not changed."""
_EPILOG = """\
Helm 4 takes the name of a plugin instead of a program: grpo helm-plugin install

Exit codes: 0 passed, 1 refused, 2 wrong command line or input, 3 could not run.

Examples:
  helm template my-release my-chart | grpo-post-render --values values/accelerators/b200.yaml --values my-site.yaml
  GRPO_VALUES=values/accelerators/b200.yaml:my-site.yaml helm install my-release my-chart \\
    --post-renderer grpo-post-render"""
# The line width of --help.
_WIDTH = 100
_FUNCTION = b"apiVersion: config.kubernetes.io/"


class Settings(argparse.Namespace):
    """The options of the command line, or of a kustomize function."""

    values: list[str]
    report: str
    on_conflict: str
    select: list[tuple[str, str]]
    templates: list[tuple[str, str]]
    no_gate: bool
    init_containers: bool


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        _NAME,
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=functools.partial(argparse.RawDescriptionHelpFormatter, width=_WIDTH),
        allow_abbrev=False,
        exit_on_error=False,
    )
    add = parser.add_argument
    add(
        "--values",
        metavar="FILE",
        action="append",
        default=[],
        help="values file; repeat it for each file, later files win, as with helm (or GRPO_VALUES=FILE:FILE)",
    )
    add(
        "--on-conflict",
        metavar="WHAT",
        type=_policy,
        default=FAIL,
        help="what to do with an existing value that differs: fail (default), keep or replace",
    )
    add(
        "--select",
        metavar="KIND/NAME",
        type=_selected,
        action="append",
        default=[],
        help="wire only this object; may be given more than once",
    )
    add(
        "--pod-template-path",
        metavar="KIND=PATH",
        dest="templates",
        type=_template,
        action="append",
        default=[],
        help="path of the pod template in another kind: MPIJob=spec.mpiReplicaSpecs.*.template",
    )
    add("--init-containers", action="store_true", help="also give the secrets to init containers")
    add("--no-gate", action="store_true", help="wire without judging the stream")
    add("--report", metavar="FILE", default="", help="write what was wired, skipped and refused as JSON")
    return parser


def _policy(value: str) -> str:
    if value not in POLICIES:
        raise UsageError(f"--on-conflict is {value!r}, expected one of {', '.join(POLICIES)}", fix=_FIX)
    return value


def _selected(value: str) -> tuple[str, str]:
    kind, _, name = value.partition("/")
    if not kind or not name:
        raise UsageError(f"--select is {value!r}, expected KIND/NAME", fix="--select raycluster/my-cluster")
    return kind.lower(), name


def _template(value: str) -> tuple[str, str]:
    kind, _, path = value.partition("=")
    if not kind or not path.strip("."):
        option = "--pod-template-path"
        raise UsageError(f"{option} is {value!r}, expected KIND=PATH", fix=f"{option} MyJob=spec.template")
    return kind, path.strip(".")


def _settings(words: Sequence[str], settings: Settings | None = None) -> Settings:
    """Parse options and add them to settings; raise UsageError for a wrong option."""
    try:
        found, surplus = _parser().parse_known_args(words, settings or Settings())
    except argparse.ArgumentError as error:
        problem = "needs a value" if "expected" in error.message else "takes no value"
        raise UsageError(f"{error.argument_name} {problem}", fix=_FIX) from error
    for word in surplus:
        fix = "give files with --values FILE" if word == "-f" else _FIX
        raise UsageError(f"{word!r} was not expected", fix=fix)
    return found


def _configure(settings: Settings, data: bytes) -> Settings:
    """Add the configuration of a kustomize function: the `spec` of its functionConfig, whose keys are option names.

    Only kustomize sends a single document that starts with _FUNCTION. In a stream from Helm the chart would set it, and
    a chart must not switch off the gate.
    """
    if os.environ.get("HELM_PLUGIN_NAME") or not data.startswith(_FUNCTION):
        return settings
    documents = list(stream.split(data))
    if len(documents) > 1:
        return settings
    (document,) = documents
    config = pods.mapping(pods.mapping(document.parse()).get("functionConfig"))
    return _settings([*_words(pods.mapping(config.get("spec")))], settings)


def _words(spec: dict[str, Any]) -> Iterator[str]:
    """Yield a function's configuration as command line options."""
    for option, value in spec.items():
        if option in ("no-gate", "init-containers"):
            if not isinstance(value, bool):
                raise UsageError(f"functionConfig.spec.{option}: expected true or false", fix=_FIX)
            if value:
                yield f"--{option}"
        elif option in ("values", "report", "on-conflict", "select", "pod-template-path"):
            yield from (f"--{option}={each}" for each in (value if isinstance(value, list) else [value]))
        else:
            raise UsageError(f"functionConfig.spec.{option} was not expected", fix=_FIX)


def _process(settings: Settings, data: bytes) -> Result:
    settings = _configure(settings, data)
    settings.values = settings.values or [path for path in os.environ.get("GRPO_VALUES", "").split(os.pathsep) if path]
    if not settings.values:
        raise UsageError(
            "no values files: they say what the pods need",
            fix="give --values values/accelerators/b200.yaml --values site.yaml, or the paths in GRPO_VALUES",
        )
    templates: dict[str, tuple[str, ...]] = {}
    for kind, path in settings.templates:
        templates[kind] = (*templates.get(kind, ()), path)
    options = apply.Options(
        policy=settings.on_conflict,
        select=frozenset(settings.select),
        templates=templates,
        init_containers=settings.init_containers,
    )
    wiring = Wiring(inputs.load(settings.values))
    return Pipeline(data, wiring, options, gate=not settings.no_gate).run()


def _report(result: Result) -> dict[str, Any]:
    wired = [
        {
            "document": document.number,
            "source": document.source,
            "kind": each.kind,
            "name": each.name,
            "changed": each.changed,
            "pods": each.pods,
            "variables": each.variables,
            "skipped": each.skipped,
            "conflicts": each.conflicts,
        }
        for document, each in result.wired
    ]
    added = [{"kind": each["kind"], **each["metadata"]} for _, each in result.added]
    refusals = [
        {"rule": each.rule, "at": each.at.file, "line": each.at.line, "what": each.what, "fix": each.fix}
        for each in result.refusals
    ]
    return {"annotation": apply.STAMP, "objects": wired, "added": added, "refused": refusals}


def _write_report(path: str, report: dict[str, Any]) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(secrets.mask(json.dumps(report, indent=2, ensure_ascii=False)) + "\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}", fix="check the path of --report") from error


def _complain(lines: Sequence[str], code: int) -> int:
    """Report why the stream was refused, where the user of this Helm version sees it; return the exit code."""
    message = report_text.visible(secrets.mask("\n".join(lines))) + "\n"
    sys.stderr.write(message)
    # Other plugins that run Helm set their own name here.
    if os.environ.get("HELM_PLUGIN_NAME") != _NAME:
        return code
    # Helm 4 discards a plugin's stderr. A document that is a plain text makes Helm fail with that text in its message.
    # This needs exit code 0: otherwise Helm does not read the output.
    sys.stdout.write("|\n" + "".join(f"  {line}\n" for line in message.splitlines()))
    return EXIT_CLEAN


def _refuse(refusals: Sequence[Finding]) -> int:
    lines = [f"{_NAME}: refused, nothing was written"]
    for each in refusals:
        lines.append(f"  {each.at}: {each.what} [{each.rule}]")
    lines += [f"  fix: {fix}" for fix in dict.fromkeys(each.fix for each in refusals)]
    return _complain(lines, EXIT_FINDINGS)


def _report_skipped(result: Result) -> None:
    """Report the pods with GPUs that were not wired; Helm discards this, a pipe shows it."""
    for document, each in result.wired:
        for skipped in each.skipped:
            if skipped["pod"] != apply.ALL:
                what = f"{each.kind} {each.name}: {skipped['pod'] or 'the pod'} {skipped['reason']}: not wired"
                sys.stderr.write(f"{_NAME}: {document.name}: {what}\n")


def _run(words: Sequence[str]) -> int:
    if words and words[0] in ("-h", "--help"):
        sys.stdout.write(_parser().format_help())
        return EXIT_CLEAN
    settings = _settings(words)
    if sys.stdin is None:
        raise UsageError("cannot read the stream: stdin is closed", fix=_FIX)
    data = sys.stdin.buffer.read(stream.MAX_BYTES + 1)
    if len(data) > stream.MAX_BYTES:
        limit = stream.MAX_BYTES // (1024 * 1024)
        raise InputError(f"the stream is larger than {limit} MiB", fix="render one chart at a time")
    result = _process(settings, data)
    if settings.report:
        if os.path.realpath(settings.report) in map(os.path.realpath, settings.values):
            raise UsageError(f"--report {settings.report} is a values file", fix="give another path")
        _write_report(settings.report, _report(result))
    if result.refusals:
        return _refuse(result.refusals)
    _report_skipped(result)
    _pass_on(result.parts)
    return EXIT_CLEAN


def _pass_on(parts: Sequence[bytes | memoryview]) -> None:
    try:
        # Under PYTHONUNBUFFERED, sys.stdout may silently write only a part, so use a stream of our own.
        with open(sys.stdout.fileno(), "wb", closefd=False) as out:
            for part in parts:
                out.write(part)
    except OSError as error:
        what = f"the stream cannot be written completely: {error.strerror}"
        raise OutputError(what, fix="free disk space, or check why the reading program ended") from error


def main(words: list[str] | None = None) -> int:
    """Run the post-renderer.

    Returns 0, 1 for a refused stream, 2 for a wrong command line or input, 3 if it could not run.
    """
    # A stream is None if the shell closed it (>&-).
    if sys.stderr is None:
        return EXIT_CANNOT_RUN
    if sys.stdout is None:
        sys.stderr.write(f"{_NAME}: cannot write: stdout is closed\n")
        return EXIT_CANNOT_RUN
    try:
        code = _guarded(sys.argv[1:] if words is None else words)
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        _discard(sys.stdout)
        _discard(sys.stderr)
        return EXIT_CANNOT_RUN
    return code


def _guarded(words: Sequence[str]) -> int:
    """Run with these arguments, report every error and return the exit code."""
    try:
        return _run(words)
    except GrpoError as error:
        # The message was written for commands that take values files with -f.
        lines = f"{_NAME}: {error}".replace("after -f", "after --values, or in GRPO_VALUES").splitlines()
        return _complain(lines, EXIT_USAGE if error.exit_code == EXIT_USAGE else EXIT_CANNOT_RUN)
    except OSError as error:
        return _complain([f"{_NAME}: {error}"], EXIT_CANNOT_RUN)
    except MemoryError:
        return _complain([f"{_NAME}: {NO_MEMORY}"], EXIT_CANNOT_RUN)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _discard(out: TextIO) -> None:
    """Discard buffered output: at exit Python would try to write it again and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


if __name__ == "__main__":
    sys.exit(main())
