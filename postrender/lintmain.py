"""The command `grpo lint`."""

from __future__ import annotations

import sys

from postrender import lint, paths, usage, verdict
from postrender.errors import EXIT_CLEAN, GrpoError, UsageError
from postrender.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_VALUED = ("accelerator", "explain", *verdict.OPTIONS)


def main(argv: Sequence[str]) -> int:
    """Run `grpo lint`; return its exit code. Raises GrpoError for everything that a user can mend."""
    options = Options("lint", argv, with_value=_VALUED, flags=("fix", "yes"))
    if options.has("help"):
        sys.stdout.write(usage.LINT_HELP)
        return EXIT_CLEAN
    options.refuse_words(options.words)
    if options.has("explain"):
        from postrender import rulebook

        sys.stdout.write(rulebook.explained(options.all("explain"), options.command))
        return EXIT_CLEAN
    if options.has("yes") and not options.has("fix"):
        raise UsageError(f"{options.command}: --yes answers the question of --fix", fix="grpo lint --fix --yes -f …")
    wanted = verdict.Wanted(options)
    try:
        return _judged(options, wanted)
    except GrpoError as error:
        wanted.tell(error)
        raise


def _judged(options: Options, wanted: verdict.Wanted) -> int:
    """Judge the files, mend them where that is asked for, and print the report; return the exit code."""
    files = options.files()
    accelerator = options.last("accelerator")
    if accelerator is not None:
        files = [paths.accelerator(accelerator), *files]
    findings = wanted.of(lint.lint(files))
    if options.has("fix"):
        from postrender import fix

        if fix.apply(findings, files, yes=options.has("yes")):
            findings = wanted.of(lint.lint(files))
    code = wanted.deliver(findings)
    if not findings:
        sys.stderr.write(f"clean: {len(files)} values file{'s' if len(files) > 1 else ''}\n")
    return code
