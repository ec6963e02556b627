"""The program `grpo-post-render`: wire a rendered stream from the values, and reject an unsafe stream.

Helm starts it for every install and upgrade. It imports neither click nor rich nor jsonschema_rs.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, TextIO

from postrender import accepted, masking, output_file, visible
from postrender import options as post_render_options
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
from postrender.options import FIX, NAME, Settings
from postrender.pipeline import Pipeline
from postrender.values import merge
from postrender.wiring import apply, inputs
from postrender.wiring.plan import Wiring
from postrender.yaml import stream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postrender.errors import Location
    from postrender.finding import Finding
    from postrender.pipeline import Result

# The name of a document that Helm has made from a template.
_FROM_TEMPLATE = re.compile(r"document \d+ \(from ")
# With what a report begins.
_MARK = f'{{\n  "annotation": "{apply.STAMP}",\n'.encode()


def _process(settings: Settings, data: bytes) -> Result:
    settings = post_render_options.configure(settings, data)
    settings.values = settings.values or [path for path in os.environ.get("GRPO_VALUES", "").split(os.pathsep) if path]
    if not settings.values:
        raise UsageError(
            "no values files: they say what the pods need",
            fix="give --values values/accelerators/NAME.yaml --values site.yaml, or the paths in GRPO_VALUES",
        )
    templates: dict[str, tuple[str, ...]] = {}
    for kind, path in settings.templates:
        templates[kind] = (*templates.get(kind, ()), path)
    options = apply.Options(
        policy=settings.on_conflict,
        select=frozenset(settings.select),
        templates=templates,
        init_containers=settings.init_containers,
        allow_unwired=settings.allow_unwired,
    )
    values = merge.load(settings.values)
    ignored = {name: str(reason) for name, reason in accepted.given(values.effective()).items() if reason}
    wiring = Wiring(inputs.sections(values))
    return Pipeline(data, wiring, options, gate=not settings.no_gate, ignored=ignored).run()


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
    refusals = [{**_told(each), "fix": each.fix} for each in result.refusals]
    passed = [{**_told(each), "reason": reason} for each, reason in result.accepted]
    warned = [{**_told(each), "fix": each.fix} for each in result.warnings]
    judged = {"refused": refusals, "accepted": passed, "warned": warned}
    return {"annotation": apply.STAMP, "objects": wired, "added": added, **judged}


def _told(finding: Finding) -> dict[str, Any]:
    return {"rule": finding.rule, "at": finding.at.file, "line": finding.at.line, "what": finding.what}


def _complain(lines: Sequence[str], code: int) -> int:
    """Report why the stream was rejected, where this Helm version shows it to the user; return the exit code."""
    message = visible.text(masking.text(visible.lines(lines)))
    sys.stderr.write(message)
    # Other plugins that run Helm set their own name here.
    if os.environ.get("HELM_PLUGIN_NAME") != NAME:
        return code
    # Helm 4 discards a plugin's stderr. A document that is a plain text makes Helm fail with that text in its message.
    # This needs exit code 0: otherwise Helm does not read the output.
    sys.stdout.write("|\n" + "".join(f"  {line}\n" for line in message.splitlines()))
    return EXIT_CLEAN


def _place(at: Location) -> str:
    """Describe a location: line numbers refer to the stream, even if the document names a template."""
    return f"{at} of the stream" if at.line and _FROM_TEMPLATE.match(at.file) else str(at)


def _refuse(refusals: Sequence[Finding]) -> int:
    lines = [f"{NAME}: refused, nothing was written"]
    for each in refusals:
        lines.append(f"  {_of(each)}")
    lines += [f"  fix: {fix}" for fix in dict.fromkeys(each.fix for each in refusals)]
    return _complain(lines, EXIT_FINDINGS)


def _report_skipped(result: Result) -> None:
    """Report the GPU pods that were not wired; Helm discards this report, but shows their annotation."""
    for document, each in result.wired:
        for _, reason in each.unwired():
            what = f"{each.kind} {each.name}: {reason}: not wired"
            sys.stderr.write(visible.lines([f"{NAME}: {document.name}: {what}"]))


def _report_passed(result: Result) -> None:
    """Report warnings, and the findings that the values accept, each with its reason; Helm discards this report."""
    lines = [f"warning: {_of(each)}; fix: {each.fix}" for each in result.warnings]
    lines += [f"{_of(each)}: accepted by checks.ignore: {reason}" for each, reason in result.accepted]
    sys.stderr.write(visible.text(masking.text(visible.lines([f"{NAME}: {line}" for line in lines]))))


def _of(finding: Finding) -> str:
    return f"{_place(finding.at)}: {finding.what} [{finding.rule}]"


def _run(words: Sequence[str]) -> int:
    if words and words[0] in ("-h", "--help"):
        sys.stdout.write(post_render_options.help_text())
        return EXIT_CLEAN
    settings = post_render_options.parse(words)
    if sys.stdin is None:
        raise UsageError("cannot read the stream: stdin is closed", fix=FIX)
    data = sys.stdin.buffer.read(stream.MAX_BYTES + 1)
    if len(data) > stream.MAX_BYTES:
        limit = stream.MAX_BYTES // (1024 * 1024)
        raise InputError(f"the stream is larger than {limit} MiB", fix="render one chart at a time")
    result = _process(settings, data)
    if settings.report:
        report = json.dumps(masking.clean(_report(result)), indent=2, ensure_ascii=False) + "\n"
        output_file.write(settings.report, report.encode(), mark=_MARK, inputs=settings.values)
    if result.refusals:
        return _refuse(result.refusals)
    _report_passed(result)
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

    Returns 0, 1 if the stream was rejected, 2 if the command line or the input is wrong, 3 if it could not run.
    """
    # A stream is None if the shell closed it (>&-).
    if sys.stderr is None:
        return EXIT_CANNOT_RUN
    if sys.stdout is None:
        sys.stderr.write(f"{NAME}: cannot write: stdout is closed\n")
        return EXIT_CANNOT_RUN
    with visible.streams():
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
        # The message was written for commands with other options.
        lines = [f"{NAME}: {f'{_place(error.at)}: ' if error.at else ''}{error.message}", f"  fix: {error.fix}"]
        lines = [
            line.replace("check the path", "check the path after --values, or in GRPO_VALUES")
            for line in (lines if error.fix else lines[:1])
        ]
        return _complain(lines, EXIT_USAGE if error.exit_code == EXIT_USAGE else EXIT_CANNOT_RUN)
    except OSError as error:
        return _complain([f"{NAME}: {error}"], EXIT_CANNOT_RUN)
    except MemoryError:
        return _complain([f"{NAME}: {NO_MEMORY}"], EXIT_CANNOT_RUN)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _discard(out: TextIO) -> None:
    """Discard buffered output: at exit Python would try to write it again and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())


if __name__ == "__main__":
    sys.exit(main())
