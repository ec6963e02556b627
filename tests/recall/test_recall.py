"""lint refuses what the real frameworks refuse, and nothing else: measured against their recorded verdicts.

The verdicts come from tests/recall/measure.py, which needs the source trees. This test needs neither trees nor Helm. By
default it takes a sample of each version; `make recall`, or -m recall, takes all of it.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.conftest import thin
from tests.recall import floor, generated, reasons, scores, shipped, verdicts
from tests.recall.mutations import ACCEPTED, REFUSED, VERSIONS, mutations
from tests.recall.scores import CAUGHT, FALSE, MISSED
from tests.recipes.test_sources import sources

EVERY = [(framework, version) for framework, known in VERSIONS.items() for version in known]
SAMPLE, SEED = 8, 7
KNOWN = {
    # For GB200, whose vLLM refuses blocks of 16 with the heads of this model: the same recipe of v0.6.0 asks for 32.
    "v0.5.0": {"grpo-gemma3-1b-it-1n4g-fsdp2tp1": ["nemo-rl/flashinfer-block-size"]},
    # Its data is /path/to/validation.jsonl, which a reader is to replace.
    "v0.7.0": {"grpo-nanov3-30BA3B-2n8g-megatron_generation-async-gym": ["job/path-not-mounted"]},
}


def compare(framework: str, version: str, folder: Path, only: set[str] | None = None) -> None:
    """Compare what lint does now with the floor, both ways: a gain is written down as a loss would be."""
    found = scores.scores(framework, version, folder, only)
    print(scores.table({f"{framework} {version}": found}))
    for outcome in (MISSED, FALSE):
        now = {row.name for row in found if row.outcome == outcome}
        known = floor.known(framework, version, outcome) & {row.name for row in found}
        assert sorted(now - known) == [], f"new: {outcome}. The rule that changed is wrong, or the floor is"
        assert sorted(known - now) == [], f"no longer {outcome}: run python -m tests.recall.measure --floor"


@pytest.mark.parametrize(("framework", "version"), thin(EVERY, 4))
def test_sampled_verdicts_agree_with_the_real_program(framework: str, version: str, tmp_path: Path) -> None:
    """As many that it refuses as that it accepts, the same ones each time."""
    found, chance = verdicts.read(framework, version), random.Random(SEED)  # noqa: S311 - a choice, no secret
    refused = [name for name, (code, _) in found.items() if code]
    accepted = [name for name, (code, _) in found.items() if not code]
    compare(framework, version, tmp_path, {*chance.sample(refused, SAMPLE), *chance.sample(accepted, SAMPLE)})


@pytest.mark.recall
@pytest.mark.parametrize(("framework", "version"), EVERY)
def test_all_verdicts_agree_with_the_real_program(framework: str, version: str, tmp_path: Path) -> None:
    """Every mutation; prints how many are caught."""
    compare(framework, version, tmp_path)


@pytest.mark.parametrize(("framework", "version"), EVERY)
def test_the_recorded_verdicts_belong_to_the_current_mutations(framework: str, version: str) -> None:
    """At least 300, each named once, and a good part of them on either side."""
    names = [change.id for change in mutations(framework, version)]
    found = verdicts.read(framework, version)
    assert len(names) >= 300
    assert sorted(names) == sorted(found), "run tests/recall/measure.py with the source tree of this version again"
    refused = sum(1 for code, _ in found.values() if code)
    assert min(refused, len(found) - refused) >= 75


@pytest.mark.parametrize(("framework", "version"), EVERY)
def test_the_facts_match_what_the_programs_do(framework: str, version: str) -> None:
    """Where the judge can see it, it decides as the table says: otherwise the fact is wrong, or the table."""
    found = verdicts.read(framework, version)
    surprises = [
        change.id for change in mutations(framework, version) if verdicts.is_surprise(change, found[change.id])
    ]
    assert surprises == []


@pytest.mark.recall
@pytest.mark.parametrize("version", VERSIONS["nemo-rl"])
def test_the_shipped_recipes_pass(version: str, tmp_path: Path) -> None:
    """Those of them, that is, which the framework itself takes on the machines they name."""
    found = shipped.errors(sources(version), version, tmp_path)
    verdict = verdicts.read("nemo-rl-shipped", version)
    assert sorted(found) == sorted(verdict)
    assert {name: rules for name, rules in found.items() if rules and not verdict[name][0]} == KNOWN.get(version, {})


def test_each_mutation_states_its_expected_result() -> None:
    """Most of them are one change with one consequence; the rest are pairs and silent mistakes."""
    for framework, version in EVERY:
        plain = [change for change in mutations(framework, version) if change.expected in (ACCEPTED, REFUSED)]
        assert len(plain) >= 250, f"{framework} {version}"


def test_every_known_miss_has_a_reason() -> None:
    """A known miss without a reason is a forgotten one."""
    reasons = floor.why()
    for version, outcomes in floor.read().items():
        for outcome, groups in outcomes.items():
            for key in groups or {}:
                assert reasons[outcome].get(key, "").strip(), f"{version}: {outcome} {key}"


def test_only_the_rule_known_for_a_fact_counts_as_a_catch() -> None:
    """An error about something else is no catch, once it is known which rule says the fact."""
    change = next(one for one in mutations("nemo-rl", "v0.7.0") if one.fact == "B1" and one.expected == REFUSED)
    known = {"B1": {"nemo-rl/rows"}}
    assert scores.score(change, (9, "B1"), ["nemo-rl/rows", "a/b"], known).outcome == CAUGHT
    assert scores.score(change, (9, "B1"), ["a/b"], known).outcome == MISSED
    assert scores.score(change, (9, "K9"), ["a/b"], known).outcome == CAUGHT
    assert scores.score(change, (9, "B1"), [], known).outcome == MISSED
    assert scores.score(change, (0, "accepted"), ["a/b"], known).outcome == FALSE


@pytest.mark.parametrize("framework", sorted(generated.NEWEST))
def test_each_change_accepted_at_setup_quotes_a_source_line(framework: str) -> None:
    version = generated.NEWEST[framework]
    accepted = [name for name, (code, _) in verdicts.read(f"{framework}-generated", version).items() if not code]
    quoted = verdicts.quoted(framework, version)
    assert [*quoted] == accepted
    assert {word for word, _ in quoted.values()} <= {*verdicts.GPU}
    bare = [name for name, (word, line) in quoted.items() if word == verdicts.FAILS and not re.search(r"\.py\b", line)]
    assert bare == []


@pytest.mark.full
@pytest.mark.parametrize("framework", sorted(generated.NEWEST))
def test_nine_tenths_of_the_failing_generated_changes_are_caught(framework: str, tmp_path: Path) -> None:
    """Nobody chose these changes by what lint knows; the real set-up code has judged them, and for GPUs its lines."""
    version = generated.NEWEST[framework]
    found, quoted = verdicts.read(f"{framework}-generated", version), verdicts.quoted(framework, version)
    changes = generated.mutations(framework)
    assert [change.id for change in changes] == [*found], "run tests/recall/measure.py --generated again"
    refused = [change for change in changes if found[change.id][0] and found[change.id][1] != reasons.CHART]
    missed = [change.id for change in refused if not scores.errors(change, framework, version, tmp_path)]
    print(f"{framework} {version}: {len(changes)} changes, {len(refused)} refused, {len(missed)} missed: {missed}")
    assert len(refused) >= 50
    assert len(missed) <= len(refused) / 10
    for outcome in (verdicts.FAILS, verdicts.USELESS):
        late = [change for change in changes if quoted.get(change.id, ("",))[0] == outcome]
        is_useless = outcome == verdicts.USELESS
        left = [each.id for each in late if not scores.errors(each, framework, version, tmp_path, lesser=is_useless)]
        print(f"{len(late)} {outcome} later, {len(left)} missed: {left}")
        refused, missed = [*refused, *late], [*missed, *left]
    assert len(missed) <= len(refused) / 10
