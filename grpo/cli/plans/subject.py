"""The run that `grpo plan` plans: from a stack's values, or from a configuration without our charts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from grpo.cli import options
from grpo.cli.command import wrong
from grpo.helm.stack import Stack
from grpo.lint import unjudged
from grpo.lint.data import counting
from grpo.lint.linter import described_run, judge_values
from grpo.lint.locate import ValueLocator
from grpo.plan.advice.changes import Change
from grpo.problems import registry
from grpo.problems.judge_run import judge_run
from grpo.problems.topic import whole
from grpo.values import catalogue, models
from grpo.values.config import RunConfig
from grpo.values.frameworks import configuration
from grpo.values.set_arguments import Argument
from postrender import paths
from postrender.errors import InputError
from postrender.finding import ERROR, Finding
from postrender.problem import VALUES
from postrender.types import Path
from postrender.yaml import reader

# The plan itself says what the rules about memory say; the others are about names, which change no size.
_IRRELEVANT = ("memory/", "values/placeholder", "values/no-site")


class Subject(NamedTuple):
    """A run, the errors in its values, and its stack, or None if it has no stack; then no error has a place."""

    run: RunConfig
    errors: Sequence[Finding]
    stack: Stack | None

    def is_sound(self, changed: RunConfig) -> bool:
        """Return whether a changed run has exactly the same errors as the original run, or fewer."""
        return _broken(changed) <= _broken_before(self.run)

    def edits(self, change: Change) -> Mapping[Path, Any]:
        """Return a change as values, by their paths in the values files."""
        if self.stack is None:
            raise wrong(
                "--fix writes values files", fix="give them with -f, or write the change into your configuration"
            )
        locator = ValueLocator.of(self.stack.values)
        return {locator.target(whole(key)): value for key, value in change.edits.items()}


def _broken(run: RunConfig) -> set[tuple[str, str]]:
    """Return the rules about the framework and the run that a run violates, each with its message."""
    rules = [rule for rule in registry.rules(VALUES) if not rule.id.startswith(_IRRELEVANT)]
    return {(rule.id, finding.what) for rule, finding in judge_run(run, rules) if rule.severity == ERROR}


@lru_cache(maxsize=1)
def _broken_before(run: RunConfig) -> set[tuple[str, str]]:
    """Return the rules that a run violates before any change, as the baseline for its changes."""
    return _broken(run)


def of_stack(
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    model_config: str | None,
    data: Sequence[tuple[str, str]] = (),
) -> Subject:
    """Return the run of a stack; raise InputError if its values describe none, or for data that cannot be counted."""
    stack = options.stack(files, accelerator, arguments)
    if model_config:
        models.add(unjudged.model_name(stack.values), model_config)
    run = described_run(stack.values)
    if run is None:
        fix = "give the profile of a machine, and a recipe; grpo lint says what is missing"
        raise InputError("the values describe no run on a machine", fix=fix)
    if useless := counting.use(run, data):
        sys.stderr.write(f"not counted: {useless}\n")
    return Subject(run, _errors(judge_values(stack.values)), stack)


def _errors(findings: Sequence[Finding]) -> list[Finding]:
    return [each for each in findings if each.severity == ERROR and not each.rule.startswith(_IRRELEVANT)]


class Own(NamedTuple):
    """A configuration in the framework's own format: its file, its overrides, and the number of nodes."""

    framework: str
    version: str | None
    file: str | None
    overrides: Sequence[str]
    nodes: int | None
    gpu_memory: float | None


def of_configuration(own: Own, accelerator: str | None, model_config: str | None) -> Subject:
    """Return a configuration's run on a machine; raise UsageError or InputError if arguments or file are invalid."""
    known = catalogue.versions(own.framework)
    version = own.version or catalogue.newest(own.framework)
    if version not in known:
        message = f"{own.framework} {version} is not known, expected one of {', '.join(known)}"
        raise wrong(message, near=version, known=known)
    if (accelerator is None) == (own.gpu_memory is None):
        fix = "--accelerator h200, or --gpu-memory 80 for a GPU without a profile"
        raise wrong("a configuration needs a machine: either --accelerator or --gpu-memory", fix=fix)
    if accelerator:
        machine = reader.load_values(paths.accelerator(accelerator)).plain()["accelerator"]
    else:
        machine = {"name": f"of {own.gpu_memory:g} GB", "gpuMemoryGigabytes": own.gpu_memory, "gpusPerNode": 8}
    run = configuration.run_of(own.framework, version, own.file, own.overrides, machine, own.nodes)
    if model_config:
        models.add(unjudged.name_in(run), model_config)
    # Other rules are about our charts.
    broken = sorted(each for each in _broken(run) if each[0].startswith(f"{own.framework}/"))
    return Subject(run, [Finding(what, rule=rule) for rule, what in broken], None)
