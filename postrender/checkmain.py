"""The command `grpo check`: judge manifests, rendered from values or read from files."""

from __future__ import annotations

import os
import sys

from postrender import crds, kinds, paths, schema, usage, verdict
from postrender.check import check
from postrender.documents import read, streams
from postrender.errors import EXIT_CLEAN, GrpoError, InputError, UsageError
from postrender.finding import ERROR, INFO
from postrender.kinds import Kinds
from postrender.options import Options
from postrender.rules import objects

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from postrender.documents import Document
    from postrender.finding import Finding
    from postrender.wiring import Wiring

# The process ends when these are judged: to free large ones takes as long as to judge them by a fifth of the rules.
_kept: list[list[Document]] = []
_VALUED = ("accelerator", "crds", "helm", "kube-version", *verdict.OPTIONS)


def _kinds(options: Options) -> Kinds:
    """Return the schemas of the Kubernetes version and the definitions that are asked for."""
    version = options.last("kube-version")
    minor = kinds.DEFAULT if version is None else kinds.minor(version)
    if minor is None:
        listed = f"1.{kinds.VERSIONS[0]} to 1.{kinds.VERSIONS[-1]}"
        raise options.wrong(f"--kube-version is {version!r}, expected one of {listed}")
    found = Kinds(minor)
    crds.add(found, options.all("crds"))
    return found


def _prepare() -> None:
    """Load what judges objects, so that a second process has it too."""
    objects.rules()
    schema.load()


def _judge_manifests(words: Sequence[str], wiring: Wiring | None, known: Kinds) -> tuple[list[Finding], int]:
    given = streams(words)
    together = _kept[:] = [read(each, before=_prepare) for each in given]
    count = sum(map(len, together))
    if not count:
        # A command in front of the pipe has failed, or the path is not the one that is meant.
        names = ", ".join(name for each in given for name in each)
        raise InputError(f"no Kubernetes objects in {names}", fix="give rendered manifests")
    for documents in together:
        _take_definitions(known, documents)
    return [finding for documents in together for finding in check(documents, wiring, known)], count


def _take_definitions(known: Kinds, documents: Sequence[Document]) -> None:
    """Judge objects by definitions that are installed with them, where no other ones were given."""
    asked = {kinds.kind_of(document.plain) for document in documents}
    crds.add_from(known, documents, {kind for kind in asked if known.entry(kind) is None})


def _judge_words(
    options: Options, files: Sequence[str], wiring: Wiring | None, known: Kinds
) -> tuple[list[Finding], int]:
    """Judge what the command line names: charts first, then manifests."""
    charts = [word for word in dict.fromkeys(options.words) if paths.is_chart(word)]
    others = [word for word in options.words if word not in charts]
    if not charts:
        return _judge_manifests(others, wiring, known)
    from postrender import checkcharts

    findings, count = checkcharts.judge_charts(options, charts, files, wiring, known, _take_definitions)
    found, more = _judge_manifests(others, wiring, known) if others else ([], 0)
    return [*findings, *found], count + more


def _wiring(options: Options, files: Sequence[str]) -> Wiring | None:
    """Return the wiring of the values; none where they are those of a chart that is not of a stack."""
    from postrender import stackvalues
    from postrender.wiring import Wiring

    try:
        return Wiring(stackvalues.load(files))
    except InputError:
        if options.words and all(map(paths.is_chart, options.words)):
            return None
        raise


def _judge_stack(options: Options, files: Sequence[str], known: Kinds) -> tuple[list[Finding], int]:
    """Return the findings of manifests, those that the values accept left out, and the number of manifests."""
    from postrender import checkvalues
    from postrender.ignores import Ignores
    from postrender.stack import Stack

    stack, wiring = Stack.load(files), _wiring(options, files)
    if options.words or wiring is None:
        findings, count = _judge_words(options, files, wiring, known)
    else:
        findings, count = checkvalues.judge_values(options, stack, wiring, known)
    accepted = Ignores(stack.values)
    # What is given may be a part of what the exception is for.
    severity = INFO if options.words else ERROR
    return [*accepted.left(findings), *accepted.useless_of_objects(severity)], count


def _lint(files: Sequence[str]) -> list[Finding]:
    from postrender import lint

    return lint.lint(files)


def _is_said(error: GrpoError, findings: Sequence[Finding], files: Sequence[str]) -> bool:
    from postrender import refusals

    return refusals.is_said(error, findings, files)


def _unsaid(found: Sequence[Finding], findings: Sequence[Finding]) -> Sequence[Finding]:
    from postrender import refusals

    return refusals.unsaid(found, findings)


def main(argv: Sequence[str]) -> int:
    """Run `grpo check`; return its exit code. Raises GrpoError for everything that a user can mend."""
    options = Options("check", argv, with_value=_VALUED)
    if options.has("help"):
        sys.stdout.write(usage.CHECK_HELP)
        return EXIT_CLEAN
    wanted = verdict.Wanted(options)
    accelerator = options.last("accelerator")
    given = options.all("values") or [path for path in os.environ.get("GRPO_VALUES", "").split(os.pathsep) if path]
    files = [*([paths.accelerator(accelerator)] if accelerator else []), *given]
    if not files and not options.words:
        fix = f"{options.command} FILE, {options.command} -f VALUES, or helm template … | {options.command} -"
        raise UsageError(f"{options.command}: nothing to check: no manifests and no values file", fix=fix)
    findings: list[Finding] = []
    try:
        known = _kinds(options)
        findings = [] if options.words else wanted.of(_lint(files))
        found, count = _judge_stack(options, files, known) if files else _judge_words(options, files, None, known)
    except GrpoError as error:
        # What the files of a chart say may be why it cannot be rendered.
        findings += wanted.of(getattr(error, "findings", ()))
        if files and findings and _is_said(error, findings, files):
            wanted.deliver(findings)
            return error.exit_code
        # What is wrong with the values may be why they cannot be rendered: the reader needs both.
        wanted.tell(error, findings)
        raise
    findings += wanted.of(_unsaid(found, findings) if findings else found)
    code = wanted.deliver(findings)
    if not findings:
        sys.stderr.write(f"clean: {count} manifest{'' if count == 1 else 's'}\n")
    return code
