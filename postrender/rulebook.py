"""`grpo rules`: what is judged, why, and what to do."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from postrender import paths, textio, usage
from postrender.errors import EXIT_CLEAN
from postrender.options import Options
from postrender.rules import known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postrender.rules.known import Known


def main(argv: Sequence[str]) -> int:
    """Run `grpo rules`; return its exit code. Raises UsageError for a word that is no rule and no domain."""
    options = Options("rules", argv, with_value=("format",))
    if options.has("help"):
        sys.stdout.write(usage.RULES_HELP)
        return EXIT_CLEAN
    form = options.choice("format", ("text", "json"))
    listed = known.called(options.words, options.command) if options.words else known.everything()
    if form == "json":
        sys.stdout.write(json.dumps({"rules": list(map(asdict, listed))}, indent=2, ensure_ascii=False) + "\n")
    elif any("/" in word for word in options.words):
        sys.stdout.write(explained(options.words, options.command))
    else:
        sys.stdout.write(_table(listed))
    return EXIT_CLEAN


def explained(words: Sequence[str], command: str) -> str:
    """Return all there is to say about each rule that is named; raise UsageError as known.called does."""
    return "\n".join(map(_page, known.called(words, command)))


def _table(listed: Sequence[Known]) -> str:
    width = max(len(each.id) for each in listed)
    lines = (
        f"{each.id:<{width}}  {each.severity:<7}  {each.title}" + (f"  ({each.versions})" if each.versions else "")
        for each in listed
    )
    return "\n".join(lines) + "\n"


def _page(rule: Known) -> str:
    parts = {
        "why": rule.why or "stands with each finding",
        "fix": rule.fix or "stands with each finding",
        "for": rule.versions,
        "source": rule.source,
        "judged by": rule.command,
        "accept it": f'checks: {{ignore: {{{rule.id}: "the reason"}}}}'
        if rule.source and rule.id not in known.always()
        else "",
    }
    lines = [f"  {name}: {text}\n" for name, text in parts.items() if text]
    return f"{rule.id}  ({rule.severity})\n  {rule.title}\n" + "".join(lines) + _examples(rule)


def _examples(rule: Known) -> str:
    """Return the examples, which a checkout has and a wheel has not."""
    shown = []
    for name in ("bad", "good"):
        path = paths.example(rule.id, name)
        if path:
            text = textio.read_bytes(path).decode("utf-8")
            shown += [f"\n{name}:\n", *(f"  {line}\n" if line else "\n" for line in text.splitlines())]
    return "".join(shown)
