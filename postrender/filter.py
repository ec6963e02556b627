"""The post-renderer `grpo-post-render`: wires a rendered stream by the values, and refuses one that is unsafe.

Helm starts this program for every install and upgrade: modules that take long to load are imported where they are
needed, and neither `re` nor `json` nor a YAML library with positions is, while all is well.
"""

from __future__ import annotations

import os
import sys

from postrender import stream
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from postrender.rewrite import Refusal, Result

_NAME = "grpo-post-render"
_FIX = f"see {_NAME} --help"
_VALUED = ("values", "report", "on-conflict", "select", "pod-template-path")
_FLAGS = ("no-gate", "init-containers")
_FUNCTION = b"apiVersion: config.kubernetes.io/"


class Settings:
    """Hold the command line, or what a function of kustomize is configured with."""

    def __init__(self) -> None:
        self.values: list[str] = []
        self.report = ""
        # Without one a conflict is an error.
        self.policy = ""
        self.select: set[tuple[str, str]] = set()
        self.templates: dict[str, tuple[str, ...]] = {}
        self.gate = True
        self.init_containers = False

    def take(self, option: str, value: str) -> None:
        """Set one option; raise UsageError for a value that it cannot have."""
        if option == "values":
            self.values.append(value)
        elif option == "report":
            self.report = value
        elif option == "on-conflict":
            from postrender.transforms import POLICIES

            if value not in POLICIES:
                raise UsageError(f"--on-conflict is {value!r}, expected one of {', '.join(POLICIES)}", fix=_FIX)
            self.policy = value
        elif option == "select":
            kind, _, name = value.partition("/")
            if not kind or not name:
                raise UsageError(f"--select is {value!r}, expected KIND/NAME", fix="--select raycluster/my-cluster")
            self.select.add((kind.lower(), name))
        else:
            kind, _, path = value.partition("=")
            if not kind or not path.strip("."):
                raise UsageError(f"--{option} is {value!r}, expected KIND=PATH", fix=f"--{option} MyJob=spec.template")
            self.templates[kind] = (*self.templates.get(kind, ()), path.strip("."))


def _settings(argv: Sequence[str]) -> Settings:
    settings, words = Settings(), [*argv]
    while words:
        word = words.pop(0)
        option, has_value, value = word.removeprefix("--").partition("=")
        if word in ("--no-gate", "--init-containers"):
            settings.gate &= word != "--no-gate"
            settings.init_containers |= word == "--init-containers"
        elif not word.startswith("--") or option not in _VALUED:
            raise UsageError(
                f"{word!r} was not expected", fix=_FIX if word != "-f" else "give files with --values FILE"
            )
        elif has_value:
            settings.take(option, value)
        elif words:
            settings.take(option, words.pop(0))
        else:
            raise UsageError(f"{word} needs a value", fix=_FIX)
    return settings


def _configure(settings: Settings, data: bytes) -> None:
    """Take what a function of kustomize is configured with: the `spec` of its functionConfig, named as the options.

    Kustomize alone sends one document that begins like this. In a stream of Helm's it would be the chart that speaks,
    and a chart must not switch off the gate.
    """
    if os.environ.get("HELM_PLUGIN_NAME") or not data.startswith(_FUNCTION):
        return
    documents = list(stream.split(data))
    if len(documents) > 1:
        return
    from postrender import pods

    (document,) = documents
    config = pods.mapping(pods.mapping(document.parse(document.text(), plain=False)).get("functionConfig"))
    for option, value in pods.mapping(config.get("spec")).items():
        if option in _FLAGS:
            if not isinstance(value, bool):
                raise UsageError(f"functionConfig.spec.{option}: expected true or false", fix=_FIX)
            settings.gate &= not (value and option == "no-gate")
            settings.init_containers |= value and option == "init-containers"
        elif option in _VALUED:
            for each in value if isinstance(value, list) else [value]:
                settings.take(option, str(each))
        else:
            raise UsageError(f"functionConfig.spec.{option} was not expected", fix=_FIX)


def _rewrite(settings: Settings, data: bytes) -> Result:
    from postrender import stackvalues
    from postrender.rewrite import Rewriter
    from postrender.transforms import FAIL
    from postrender.wire import Options
    from postrender.wiring import Wiring

    _configure(settings, data)
    settings.values = settings.values or [path for path in os.environ.get("GRPO_VALUES", "").split(os.pathsep) if path]
    if not settings.values:
        raise UsageError(
            "no values files: what the pods need stands in them",
            fix="give --values values/accelerators/b200.yaml --values site.yaml, or the paths in GRPO_VALUES",
        )
    options = Options(
        policy=settings.policy or FAIL,
        select=frozenset(settings.select),
        templates=settings.templates,
        init_containers=settings.init_containers,
    )
    wiring = Wiring(stackvalues.load(settings.values))
    return Rewriter(data, wiring, options, gate=settings.gate).run()


def _report(result: Result) -> dict[str, Any]:
    from postrender import wire

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
    return {"annotation": wire.STAMP, "objects": wired, "added": added, "refused": refusals}


def _write_report(path: str, report: dict[str, Any]) -> None:
    import json

    from postrender import tokens

    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(tokens.mask(json.dumps(report, indent=2, ensure_ascii=False)) + "\n")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}", fix="check the path of --report") from error


def _complain(lines: Sequence[str], code: int) -> int:
    """Say why nothing was passed on, where the user of this Helm can see it."""
    from postrender import report, tokens

    message = report.visible(tokens.mask("\n".join(lines))) + "\n"
    sys.stderr.write(message)
    # Other plugins, which run Helm themselves, leave their own name here.
    if os.environ.get("HELM_PLUGIN_NAME") != _NAME:
        return code
    # Helm 4 drops what a plugin writes to stderr. A document that is a bare text makes Helm fail, with the text in
    # its own message; that needs exit code 0, as otherwise Helm does not look at the output.
    sys.stdout.write("|\n" + "".join(f"  {line}\n" for line in message.splitlines()))
    return EXIT_CLEAN


def _refuse(refusals: Sequence[Refusal]) -> int:
    lines = [f"{_NAME}: refused, nothing was passed on"]
    for each in refusals:
        lines.append(f"  {each.at}: {each.what} [{each.rule}]")
    lines += [f"  fix: {fix}" for fix in dict.fromkeys(each.fix for each in refusals)]
    return _complain(lines, EXIT_FINDINGS)


def _tell_skipped(result: Result) -> None:
    """Say which pods with GPUs were not wired; Helm shows this to nobody, a pipe and a log do."""
    from postrender.wire import ALL

    for document, each in result.wired:
        for skipped in each.skipped:
            if skipped["pod"] != ALL:
                what = f"{each.kind} {each.name}: {skipped['pod'] or 'the pod'} {skipped['reason']}: not wired"
                sys.stderr.write(f"{_NAME}: {document.name}: {what}\n")


def _run(argv: Sequence[str]) -> int:
    settings = _settings(argv)
    if sys.stdin is None:
        raise UsageError("there is no stream to read: stdin is closed", fix=_FIX)
    data = sys.stdin.buffer.read(stream.MAX_BYTES + 1)
    if len(data) > stream.MAX_BYTES:
        limit = stream.MAX_BYTES // (1024 * 1024)
        raise InputError(f"the stream is larger than {limit} MiB", fix="render one chart at a time")
    result = _rewrite(settings, data)
    if settings.report:
        if os.path.realpath(settings.report) in map(os.path.realpath, settings.values):
            raise UsageError(f"--report {settings.report} is a values file", fix="give another path")
        _write_report(settings.report, _report(result))
    if result.refusals:
        return _refuse(result.refusals)
    _tell_skipped(result)
    _pass_on(result.parts)
    return EXIT_CLEAN


def _pass_on(parts: Sequence[bytes | memoryview]) -> None:
    try:
        # A stream of our own: under PYTHONUNBUFFERED sys.stdout may write a part only and say nothing.
        with open(sys.stdout.fileno(), "wb", closefd=False) as out:
            for part in parts:
                out.write(part)
    except OSError as error:
        what = f"the stream cannot be passed on whole: {error.strerror}"
        raise OutputError(what, fix="make room, or see why what reads it has ended") from error


def main(argv: list[str] | None = None) -> int:
    """Run the post-renderer.

    Returns 0, 1 for a refused stream, 2 for a wrong argument or a stream that is none, 3 where it could not run.
    """
    arguments = sys.argv[1:] if argv is None else argv
    # Python has no stream where the shell has closed one (>&-).
    if sys.stderr is None:
        return EXIT_CANNOT_RUN
    if sys.stdout is None:
        sys.stderr.write(f"{_NAME}: there is nowhere to write: stdout is closed\n")
        return EXIT_CANNOT_RUN
    if arguments and arguments[0] in ("-h", "--help"):
        from postrender.usage import POST_RENDER_HELP

        sys.stdout.write(POST_RENDER_HELP)
        return EXIT_CLEAN
    try:
        return _run(arguments)
    except GrpoError as error:
        # Values are given with -f elsewhere.
        lines = f"{_NAME}: {error}".replace("after -f", "after --values, or in GRPO_VALUES").splitlines()
        return _complain(lines, EXIT_USAGE if error.exit_code == EXIT_USAGE else EXIT_CANNOT_RUN)
    except OSError as error:
        return _complain([f"{_NAME}: {error}"], EXIT_CANNOT_RUN)
    except MemoryError:
        return _complain([f"{_NAME}: {NO_MEMORY}"], EXIT_CANNOT_RUN)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
