"""Every id that a finding may have, with what is said about it; for `grpo rules`, `--select`, reports and the pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from postrender.errors import UsageError
from postrender.finding import ERROR
from postrender.rules import charts, every, job, objects

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postrender.rules import Rule
    from postrender.rules.chartfile import ChartRule
    from postrender.rules.values import ValuesRule

# So many words are named that may be meant.
_NEAR = 3
VALUES, OBJECTS, CHARTS = "values", "objects", "charts"


@dataclass(frozen=True)
class Known:
    """Say what a rule is about; `judges` is values, objects or charts, `framework` empty where it is about none.

    `since` and `before` are the versions of the framework that it holds for, empty where there is no such end. Without
    a source it is a check that comes with the reading of values: why and fix follow from what was found.
    """

    id: str
    severity: str
    title: str
    why: str = ""
    fix: str = ""
    source: str = ""
    judges: str = VALUES
    framework: str = ""
    since: str = ""
    before: str = ""

    @property
    def domain(self) -> str:
        """Return the first part of the id."""
        return self.id.partition("/")[0]

    @property
    def command(self) -> str:
        """Return the command that judges by it."""
        return "grpo lint" if self.judges == VALUES else "grpo check"

    @property
    def versions(self) -> str:
        """Return framework and versions in words; an empty text where it is about no framework."""
        start = f" {self.since}" if self.since else ""
        and_later = " and later" if self.since and not self.before else ""
        return f"{self.framework}{start}{and_later}" + (f" before {self.before}" if self.before else "")


READING = tuple(
    Known(f"{domain}/{slug}", ERROR, title)
    for domain, slug, title in (
        ("values", "no-accelerator", "one of the files is an accelerator profile"),
        ("values", "no-recipe", "one of the files is a recipe"),
        ("values", "unknown-key", "every key is one that a chart knows"),
        ("values", "missing-key", "every key that has no default is set"),
        ("values", "wrong-type", "every value has the type of its key"),
        ("values", "wrong-value", "every value is one that its key takes"),
        ("values", "wrong-prefix", "the sections stand at the top of the file, not under values:"),
        ("values", "dotted-key", "sections are nested, not written with dots"),
        ("values", "boolean-key", "no key is one that Helm reads as true or false"),
        ("values", "inexact-number", "no number has more digits than Helm keeps"),
        ("values", "token", "no file has a secret in it, not even in a comment"),
        ("values", "version-of-another-framework", "job.version is a version of job.framework"),
        ("values", "refused-by-chart", "no chart refuses the values when it renders"),
        ("values", "covered-by-overlay", "no value of job.config is covered by an overlay of job.configFor"),
        ("checks", "could-not-run", "every file can be read, and every chart can be rendered"),
        ("checks", "ignored-nothing", "every entry of checks.ignore accepts a finding"),
    )
)


def always() -> set[str]:
    """Return the ids of what cannot be accepted: how values are read, and what a chart refuses all the same."""
    return {each.id for each in READING} | {rule.id for rule in every.RULES if rule.why == job.REFUSED}


def rules() -> list[Known]:
    """Return every rule: those over values, then those over objects, then those over charts."""
    over_objects = [_other(rule, OBJECTS) for rule in objects.rules()]
    return [*map(_over_values, every.RULES), *over_objects, *(_other(rule, CHARTS) for rule in charts.RULES)]


def everything() -> list[Known]:
    """Return every id that a finding may have, in the order in which they are judged."""
    return [*READING, *rules()]


def _over_values(rule: ValuesRule) -> Known:
    return Known(
        rule.id,
        rule.severity,
        rule.title,
        rule.why,
        rule.fix,
        rule.source,
        VALUES,
        rule.framework,
        rule.since,
        rule.before,
    )


def _other(rule: Rule | ChartRule, judges: str) -> Known:
    return Known(rule.id, rule.severity, rule.title, rule.why, rule.fix, rule.source, judges)


def called(words: Sequence[str], command: str) -> list[Known]:
    """Return what ids and domains name; raise UsageError for a word that is neither, with those that are near."""
    listed = everything()
    for word in words:
        if not any(word in (each.id, each.domain) for each in listed):
            raise UsageError(f"{command}: no rule or domain is called {word!r}", fix=_nearest(word, listed))
    return [each for each in listed if each.id in words or each.domain in words]


def _nearest(word: str, listed: Sequence[Known]) -> str:
    import difflib

    by_word = {each.id.partition("/")[2]: each.id for each in listed}
    by_word |= {name: name for each in listed for name in (each.domain, each.id)}
    begun = {of for name, of in by_word.items() if word and name.startswith(word)}
    shortest = sorted(begun, key=lambda each: (len(each), each))[:_NEAR]
    close = shortest or [by_word[name] for name in difflib.get_close_matches(word, by_word, n=_NEAR, cutoff=0.6)]
    return f"did you mean {' or '.join(dict.fromkeys(close))}?" if close else "grpo rules lists them"
