"""Judge samples of a run's data against its values."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from grpo.lint.data import amounts, lengths, readers, samples, types
from grpo.lint.data.lengths import Limit
from grpo.lint.data.readers import TRAIN, VALIDATION, Reader, Source
from grpo.lint.data.row_fault import RowFault
from grpo.lint.data.samples import Row, Sample, UnjudgedError
from grpo.lint.linter import described_run
from grpo.lint.locate import ValueLocator
from grpo.problems.topic import whole
from grpo.values.config import RunConfig
from grpo.values.reference_errors import UnknownError
from postrender import spelling
from postrender.counting import counted
from postrender.errors import InputError, Location
from postrender.finding import ERROR, WARNING, Finding
from postrender.values.merge import Values

_NO_RUN = "the values describe no run of a known framework and version"
_ALL = "give all files of the stack: accelerator profile, recipe and your own"


class Verdict(NamedTuple):
    """The findings, the number of rows judged, what was not judged, and the samples that were not judged at all."""

    findings: list[Finding]
    rows: int
    partly: list[str]
    unjudged: list[str]


def judge(values: Values, given: Sequence[tuple[str, str]]) -> Verdict:
    """Judge data files, each with its role; raise InputError or UnreadableError if a file is not a data file."""
    run, locator = described_run(values), ValueLocator.of(values)
    found, partly, unjudged = list[Finding](), list[str](), list[str]()
    judged: dict[tuple[str, str], tuple[Sample, Reader]] = {}
    for role, file in given:
        try:
            if run is None:
                raise UnjudgedError(_NO_RUN, _ALL)
            sample = samples.read(role, file)
            chosen = readers.choose(run, sample)
            if same := judged.get((role, chosen[0].file)):
                raise _given_twice(sample, *same)
            sample = sample.filled([*dict.fromkeys(name for reader in chosen for name in reader.used)])
        except UnjudgedError as error:
            unjudged.append(f"{role}={file} ({error})")
            found.append(_not_judged(file, error))
        except UnknownError as error:
            unjudged.append(f"{role}={file} (only the running job knows {error})")
            found.append(
                _not_judged(file, UnjudgedError(f"only the running job knows {error}", "write the value itself"))
            )
        else:
            most = lengths.limit(run)
            told = [finding for reader in chosen for finding in _findings(sample, reader, locator, most)]
            partly += _lengths(sample, chosen[0], most)
            # Two sections may say the same.
            found += (each for place, each in enumerate(told) if each not in told[:place])
            # All sections name the same file.
            found += (misspelt := [*_another_name(sample, chosen[0])])
            if _stem(file) != _stem(chosen[0].file) and not misspelt:
                partly.append(f"whether {file} is {os.path.basename(chosen[0].file)} of the run")
            elif role == TRAIN:
                of_rows, unknown = _of_rows(run, sample, locator)
                found, partly = [*found, *of_rows], [*partly, *unknown]
            partly += (each for reader in chosen for each in reader.unread)
            if sample.is_cut:
                partly.append(f"the rows of {file} after the first {len(sample.rows) + len(sample.faulty):,}")
            judged[role, chosen[0].file] = (sample, chosen[0])
    found += _duplicates([*judged.values()])
    rows = sum(len(sample.rows) + len(sample.faulty) for sample, _ in judged.values())
    return Verdict(found, rows, [*dict.fromkeys(partly)], unjudged)


def _given_twice(sample: Sample, other: Sample, reader: Reader) -> InputError:
    what = f"{other.role}={other.file} is given for {reader.file} of the run, but so is this file"
    return InputError(what, at=Location(sample.file), fix="give one file for each file that the run reads")


def _stem(file: str) -> str:
    """Return a file's name without its extension: the same data is JSON lines for one task and Parquet for another."""
    return os.path.splitext(os.path.basename(file))[0]


def _another_name(sample: Sample, reader: Reader) -> Iterator[Finding]:
    """Report a sample whose name is similar to, but not the same as, that of the file that the run reads."""
    given, read = os.path.basename(sample.file), os.path.basename(reader.file)
    if _stem(given) != _stem(read) and spelling.meant(_stem(given), [_stem(read)], is_value=True):
        yield Finding(
            f"this file is called {given}, and the run reads {reader.file}: did you mean the same file?",
            Location(sample.file),
            rule="data/another-name",
            severity=WARNING,
            why="the run ends at set-up if no such file is on the volume: every pod has started",
            fix=f"correct the name in the values, or call the file {read} on the volume",
        )


def _not_judged(file: str, error: UnjudgedError) -> Finding:
    why = "no row of it has been compared with the run"
    what = f"not judged, because {error}"
    return Finding(what, Location(file), rule="checks/could-not-run", why=why, fix=error.fix)


def _lengths(sample: Sample, reader: Reader, most: Limit | None) -> Iterator[str]:
    """Yield a note that the longest row may be too long, because no tokenizer has counted its tokens."""
    asked = [(len(text), row) for row in sample.rows if (text := reader.question(row.values)) and most]
    if most and asked:
        length, row = max(asked, key=lambda each: each[0])
        text = reader.question(row.values) or ""
        if most.may_be_longer(text):
            at = f"{row.at.file}:{row.at.line}" if not row.label else f"{row.at.file} {row.label}"
            yield f"lengths in tokens (the question of {at} has {length:,} letters, {most.key} is {most.tokens:,})"


def _findings(sample: Sample, reader: Reader, locator: ValueLocator, most: Limit | None) -> Iterator[Finding]:
    for at, reason in sample.faulty[:1]:
        others = len(sample.faulty) - 1
        more = f", as {counted(others, 'other line')}" if others else ""
        yield Finding(
            f"this line {reason}{more}",
            at,
            rule="data/not-a-row",
            why="the framework reads the whole file when it starts, and ends at such a line",
            fix="write one JSON object a line",
            secret=True,
        )
    for problem in reader.of_columns(sample.columns):
        yield _finding(problem, sample.rows[0].at, "", locator)
    # Task prepare-data and the columns of Parquet have types of their own.
    if not sample.names and not isinstance(reader, Source):
        for problem, row in types.problems(sample, reader.used):
            place = problem._replace(keys=(reader.place,))
            yield _finding(place, row.at, "", locator)
    # The fix may be that of a row.
    same: dict[tuple[str, str], list[tuple[RowFault, Row]]] = {}
    for row in sample.rows:
        asked = reader.question(row.values) or ""
        for problem in (*reader.of_row(row.values), *(most.problems(asked) if most else ())):
            same.setdefault((problem.rule, problem.what), []).append((problem, row))
    for each in same.values():
        problem, row = each[0]
        share = f": {len(each):,} of {counted(len(sample.rows), 'row')}"
        found = _finding(problem, row.at, f"{share}, {row.label} first" if row.label else share, locator)
        few = not problem.ends and 2 * len(each) < len(sample.rows)
        yield found._replace(severity=WARNING) if few else found


def _of_rows(run: RunConfig, sample: Sample, locator: ValueLocator) -> tuple[list[Finding], list[str]]:
    """Return what is wrong with the number of rows, and which checks of it were not possible."""
    try:
        problems = [*amounts.problems(run, sample)]
    except UnknownError as error:
        return [], [f"whether {sample.file} has enough rows (only the running job knows {error})"]
    return [_finding(each, Location(sample.file), "", locator) for each in problems], []


def _finding(problem: RowFault, at: Location, share: str, locator: ValueLocator) -> Finding:
    """Return a finding at a row, with the key of the values that the row contradicts."""
    key = next((path for each in problem.keys if (path := locator.path(whole(each)))), None)
    place, _ = locator.place([whole(each) for each in problem.keys])
    return Finding(
        f"{problem.what}{share}",
        at,
        rule=problem.rule,
        severity=WARNING if problem.is_doubtful else ERROR,
        why=problem.why,
        fix=problem.fix,
        also=[(place, ".".join(map(str, key)) if key else whole(problem.keys[0]))],
        # Rows may be long, and hold what is not for a log.
        secret=True,
    )


def _duplicates(judged: Sequence[tuple[Sample, Reader]]) -> Iterator[Finding]:
    """Find validation rows that the run also trains on."""
    seen: dict[str, Location] = {}
    for sample, reader in judged:
        for row in sample.rows if sample.role == TRAIN else ():
            if question := reader.question(row.values):
                seen.setdefault(question, row.at)
    for sample, reader in judged:
        if sample.role == VALIDATION:
            yield from _in_training(sample, reader, seen)


def _in_training(validation: Sample, reader: Reader, seen: dict[str, Location]) -> Iterator[Finding]:
    same = [(row, seen[asked]) for row in validation.rows if (asked := reader.question(row.values)) in seen]
    if same:
        row, at = same[0]
        count = f"{len(same):,} of {counted(len(validation.rows), 'row')}"
        where = f", {row.label} first" if row.label else ""
        yield Finding(
            f"the run trains on this row of the validation: {count}{where}",
            row.at,
            rule="data/validation-in-training",
            severity=WARNING,
            why="the accuracy of the validation rises with what the model has memorized",
            fix=f"remove these rows from {at.file} or from {validation.file}",
            also=[(at, "the same question")],
            secret=True,
        )
