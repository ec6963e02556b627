"""Accept findings: `checks.ignore` in the values lists rule ids, each with a reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from grpo.problems import index, registry
from grpo.problems.judge_run import judge_run
from grpo.values.config import RunConfig
from postrender import accepted
from postrender.finding import ERROR, Finding
from postrender.problem import CHART, OBJECTS, VALUES
from postrender.values.merge import Values

# As in schemas/values/job.yaml.
_TASKS = ("train", "fetch", "prepare-data", "convert", "evaluate", "clean")
_WHY = "An unnecessary exception hides the next mistake of its kind."


class Ignores:
    """The ids that the values accept, and those that have accepted a finding so far."""

    def __init__(self, merged: Values) -> None:
        self._values = merged
        self._ids = {name for name, reason in accepted.given(merged.effective()).items() if reason}
        self._used: set[str] = set()
        self._never = index.never_ignored() if self._ids else set()

    def left(self, findings: Iterable[Finding]) -> list[Finding]:
        """Return the findings that are not accepted."""
        findings = list(findings)
        ids = self._ids - self._never
        self._used |= ids & {finding.rule for finding in findings}
        # What an accepted finding has covered is a problem of its own.
        return [
            finding._replace(covered_by=finding.covered_by - ids) if finding.covered_by else finding
            for finding in findings
            if finding.rule not in ids
        ]

    def useless_of_values(self, run: RunConfig | None = None) -> Iterator[Finding]:
        """Yield a finding for each id of a rule over values that accepted nothing, and for each unknown id.

        The same files are judged for each task of a run, so an id that accepts a finding in a task other than `run`'s
        is not reported.
        """
        if not self._ids:
            return
        for name in sorted(self._ids - self._used - _ids(OBJECTS, CHART)):
            if name in self._never:
                yield self._finding(name, ERROR, f"{name} cannot be accepted", "fix the finding, and remove the line")
            elif name in _ids(VALUES):
                if run is not None and _is_for_another(name, run):
                    continue
                yield self._nothing(name, ERROR)
            else:
                yield self._finding(name, ERROR, f"no rule is called {name}", "run grpo rules to list them")

    def useless_of_objects(self, severity: str) -> Iterator[Finding]:
        """Yield a finding for each id of a rule over objects or charts that accepted nothing.

        They are reported only with the training task, which has all of a stack's pods; its other tasks have some of
        them.
        """
        if self._ids and self._values.get("job.task") in (None, "train"):
            for name in sorted((self._ids - self._used) & _ids(OBJECTS, CHART)):
                yield self._nothing(name, severity)

    def _nothing(self, name: str, severity: str) -> Finding:
        return self._finding(name, severity, f"{name} finds nothing here", "remove the line")

    def _finding(self, name: str, severity: str, what: str, fix: str) -> Finding:
        at = self._values.at(("checks", "ignore", name))
        return Finding(what, at, rule="checks/ignored-nothing", why=_WHY, fix=fix, severity=severity)


def _is_for_another(name: str, run: RunConfig) -> bool:
    """Return whether a rule is for a different framework, or finds something in another of the run's tasks."""
    (rule,) = [each for each in registry.rules(VALUES) if each.id == name]
    if rule.framework and rule.framework != run.framework:
        return True
    others = [{"=job.task": task} for task in _TASKS if task != (run.value("job.task") or _TASKS[0])]
    if not run.trains:
        # These commands often change this, too.
        others += [{"=job.task": _TASKS[0], "=job.cluster.mode": mode} for mode in ("existing", "ephemeral")]
    return any(judge_run(run.changed(each), [rule]) for each in others)


def _ids(*targets: str) -> set[str]:
    return {rule.id for rule in registry.rules(*targets)}
