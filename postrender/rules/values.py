"""Rules over values: what a run's configuration says, judged before anything is rendered.

A check gets the run and returns what is wrong, or None. It may ask for values that only the running job knows: then the
rule has nothing to say. Which line of which file a finding stands at is worked out elsewhere, from its keys.
"""

from __future__ import annotations

from postrender.finding import ERROR, WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Final

    from postrender.effective import Effective

    Verdict = str | Iterable["Said"] | None
    Check = Callable[[Effective], Verdict]
    Test = Callable[[Effective], str | None]

__all__ = ["ERROR", "WARNING", "Book", "Said", "ValuesRule"]

# The keys of job.config are named without this in front.
CONFIG: Final = "job.config."
# In front of a key that stands elsewhere in the values.
ROOT: Final = "="


class Said:
    """One thing that a rule says: `keys` are where, best first, `proposed` a value that mends it, by its key."""

    __slots__ = ("fix", "keys", "proposed", "what")

    def __init__(
        self, what: str, *, keys: Iterable[str] = (), fix: str = "", proposed: Mapping[str, Any] | None = None
    ) -> None:
        self.what = what
        self.keys = tuple(map(whole, keys))
        self.fix = fix
        self.proposed = {whole(key): value for key, value in (proposed or {}).items()}


def whole(key: str) -> str:
    """Return a key with its path from the root of the values."""
    return key[1:] if key[:1] == ROOT else f"{CONFIG}{key}"


class ValuesRule:
    """Say what is judged and why.

    `fact` is the entry in rules/status.yaml; `since` and `before` are the versions of the framework that it holds for.
    """

    __slots__ = (
        "before",
        "check",
        "fact",
        "fix",
        "framework",
        "id",
        "keys",
        "severity",
        "since",
        "source",
        "title",
        "why",
    )

    def __init__(
        self,
        id: str,  # noqa: A002 (what the field calls it)
        *,
        fact: str,
        severity: str,
        title: str,
        why: str,
        fix: str,
        source: str,
        framework: str,
        keys: tuple[str, ...],
        since: str,
        before: str,
        check: Check,
    ) -> None:
        self.id = id
        self.fact = fact
        self.severity = severity
        self.title = title
        self.why = why
        self.fix = fix
        self.source = source
        self.framework = framework
        self.keys = keys
        self.since = since
        self.before = before
        self.check = check

    def applies(self, run: Effective) -> bool:
        """Say whether the rule holds for a run's framework and its version."""
        if self.framework and self.framework != run.framework:
            return False
        return (not self.since or run.since(self.since)) and not (self.before and run.since(self.before))


class Book:
    """Collect the rules of one framework in one module; an empty framework means every one."""

    def __init__(self, domain: str, framework: str, origin: str) -> None:
        self._domain = domain
        self._framework = framework
        self._origin = origin
        self.rules: list[ValuesRule] = []

    def rule(
        self,
        slug: str,
        fact: str,
        keys: str,
        *,
        title: str,
        why: str,
        fix: str,
        source: str,
        severity: str = ERROR,
        since: str = "",
        before: str = "",
    ) -> Callable[[Check], Check]:
        """Return a decorator that makes a rule of a check; `keys` are separated by blanks, the one to edit first."""

        def add(check: Check) -> Check:
            self.rules.append(
                ValuesRule(
                    f"{self._domain}/{slug}",
                    fact=fact,
                    severity=severity,
                    title=title,
                    why=why,
                    fix=fix,
                    source=f"{self._origin}{source}",
                    framework=self._framework,
                    keys=tuple(map(whole, keys.split())),
                    since=since,
                    before=before,
                    check=check,
                )
            )
            return check

        return add


def shown(value: object) -> str:
    """Write a value as YAML does; text in quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def one_of(path: str, allowed: Iterable[object]) -> Test:
    """Return a check that a value is one of a list; a key that is not there is for others to tell."""
    words = tuple(allowed)

    def check(run: Effective) -> str | None:
        if not run.has(path):
            return None
        value = run.at(path)
        if any(value == word and isinstance(value, bool) == isinstance(word, bool) for word in words):
            return None
        return f"{path} is {shown(value)}, expected one of {', '.join(map(shown, words))}"

    return check


def excludes(first: str, second: str) -> Test:
    """Return a check that two switches are not on together."""

    def check(run: Effective) -> str | None:
        return f"{first} and {second} are both on" if run.on(first) and run.on(second) else None

    return check


def requires(first: str, second: str) -> Test:
    """Return a check that a switch is on where another one is."""

    def check(run: Effective) -> str | None:
        return f"{first} is on, and {second} is off" if run.on(first) and not run.on(second) else None

    return check


def within(path: str, *, above: float | None = None, least: float | None = None, most: float | None = None) -> Test:
    """Return a check that a number lies in a range; null and what is no number are for others to tell."""

    def check(run: Effective) -> str | None:
        value = run.number(path)
        if above is not None and value <= above:
            return f"{path} is {shown(value)}, expected more than {shown(above)}"
        if least is not None and value < least:
            return f"{path} is {shown(value)}, expected {shown(least)} or more"
        if most is not None and value > most:
            return f"{path} is {shown(value)}, expected {shown(most)} or less"
        return None

    return check
