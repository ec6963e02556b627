"""The post-renderer `grpo-post-render`: copies a rendered stream byte for byte, unless it contains a secret.

Only the standard library is imported, and little of it: Helm starts this program for every install and upgrade.
"""

from __future__ import annotations

import os
import sys

from postrender import tokens
from postrender.errors import EXIT_CANNOT_RUN, EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERRUPTED, EXIT_USAGE, GrpoError

_HELP = """\
usage: helm install … --post-renderer grpo-post-render      (Helm 3; Helm 4 takes the name of a plugin)
       helm template … | grpo-post-render

Copies the rendered manifests from stdin to stdout, byte for byte, and refuses a stream that contains what looks like a
secret: then nothing is written to stdout, the place and the kind of the secret go to stderr, and the exit code is 1.

This version changes no document: wiring charts that are not ours is not part of it.
"""


def refusals(data: bytes) -> list[str]:
    """Return one line for every secret in a stream: document, line, kind; never the secret itself."""
    # Latin-1 maps every byte to one character: any stream can be searched, and its lines are counted as they stand.
    text = data.decode("latin-1")
    lines = text.split("\n")
    found = []
    for token in tokens.find(text):
        before = lines[: token.line - 1]
        document = sum(line.startswith("---") for line in before if line) + (not text.startswith("---"))
        source = next((line for line in reversed(before) if line.startswith(("# Source: ", "---"))), "")
        name = f" ({source[10:].strip()})" if source.startswith("# Source: ") else ""
        found.append(f"document {document}{name}, line {token.line}: looks like a secret of the kind {token.shape}")
    return found


def _refuse(found: list[str]) -> int:
    message = "\n".join(
        [
            "grpo-post-render: refused, nothing was passed on",
            *(f"  {line}" for line in found),
            "  fix: revoke it, put the new one into a Kubernetes Secret and refer to that by name",
            "",
        ]
    )
    sys.stderr.write(message)
    if not os.environ.get("HELM_PLUGIN_NAME"):
        return EXIT_FINDINGS
    # Helm 4 drops what a plugin writes to stderr. A document that is a bare text makes Helm fail, with the text in
    # its own message; that needs exit code 0, as otherwise Helm does not look at the output.
    sys.stdout.write("|\n" + "".join(f"  {line}\n" for line in message.splitlines()))
    return EXIT_CLEAN


def _copy() -> int:
    data = sys.stdin.buffer.read()
    found = refusals(data)
    if found:
        return _refuse(found)
    # A stream of our own: under PYTHONUNBUFFERED sys.stdout may write a part only and say nothing.
    with open(sys.stdout.fileno(), "wb", closefd=False) as out:
        out.write(data)
    return EXIT_CLEAN


def main(argv: list[str] | None = None) -> int:
    """Run the filter; return 0, 1 for a refused stream, 2 for a wrong argument, 3 where it could not run."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments and arguments[0] in ("-h", "--help"):
        sys.stdout.write(_HELP)
        return EXIT_CLEAN
    # Python has no stream where the shell has closed one (<&-).
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        return EXIT_CANNOT_RUN
    try:
        if arguments:
            found = tokens.mask(repr(arguments[0]))
            sys.stderr.write(f"grpo-post-render: no argument was expected, found {found}; see --help\n")
            return EXIT_USAGE
        return _copy()
    except (GrpoError, OSError) as error:
        sys.stderr.write(f"grpo-post-render: {error}\n")
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
