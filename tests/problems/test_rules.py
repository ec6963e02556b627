"""Each problem of objects is found at exactly the marked lines of its bad cases, and nowhere in its good ones."""

from __future__ import annotations

import base64
import copy
import re
from pathlib import Path
from typing import Any

import pytest

from grpo.check.objects import check
from grpo.manifests.loader import read
from grpo.problems import registry
from grpo.problems.cases import Case
from grpo.values import job_cluster as cluster
from postrender.finding import Finding
from postrender.gate.manifests import Item, Manifests
from postrender.judge import judge
from postrender.manifests import pods
from postrender.pipeline import Pipeline
from postrender.registry import rules_in
from postrender.values import merge
from postrender.wiring.apply import Options
from postrender.wiring.plan import Wiring
from postrender.wiring.transforms import KEEP
from tests.conftest import KINDS, ROOT, thin
from tests.postrender.test_secrets import EXAMPLES
from tests.problems import tables
from tests.problems.test_samples import places

RULES = registry.rules("objects")
BY_ID = {rule.id: rule for rule in RULES}
TABLES = tables.of_target("objects")
CASES = [case for found in TABLES.values() for case in found]
IN_GATE = {rule.id for rule in rules_in("postrender.gate")}
# A key of W&B has no shape of its own: the name in front of it decides.
SECRETS = {**EXAMPLES, "forty": "a1b2" * 10}
PLACE = re.compile(rf"<(base64:|rest:|)({'|'.join(SECRETS)})>")


def text_of(case: Case) -> str:
    """Return a case with the secrets put in: `<shape>`; in base64 where `base64:` is before it, or only its rest."""

    def secret(match: re.Match[str]) -> str:
        value = SECRETS[match[2]]
        if match[1] == "base64:":
            return base64.b64encode(value.encode()).decode()
        return value[2:] if match[1] else value

    return PLACE.sub(secret, case.text)


def wiring_of(text: str, folder: Path) -> Wiring | None:
    """Return the wiring that the first line names: `# values: PROFILE {more values}`."""
    first = re.match(r"# values: (\S+)(?: (\{.*\}))?\n", text)
    if first is None:
        return None
    more = folder / "more.yaml"
    more.write_text(first[2] or "{}", encoding="utf-8")
    return cluster.wiring_of(merge.load([str(ROOT / f"values/accelerators/{first[1]}.yaml"), str(more)]))


def findings(case: Case, folder: Path) -> list[Finding]:
    """Judge a case; only findings of its own problem count."""
    text = text_of(case)
    documents = read({case.name: text.encode()})
    return [each for each in check(documents, wiring_of(text, folder), KINDS) if each.rule == case.id]


def assert_found(case: Case, folder: Path) -> None:
    """Assert that the marked lines of a bad case are found."""
    marked = tables.marks(text_of(case))
    found = findings(case, folder)
    assert [each.at.line for each in found] == [number for number, _ in marked]
    assert marked
    for each, (number, words) in zip(found, marked, strict=True):
        assert words in each.what, number
        assert each.at.col > 0


def assert_clean(case: Case, folder: Path) -> None:
    assert [f"{each.at}: {each.what}" for each in findings(case, folder)] == []


def assert_unbroken(case: Case, folder: Path) -> None:
    """Assert that the check of a case's problem does not break down, whatever one place of the case holds."""
    text = text_of(case)
    wiring = wiring_of(text, folder)
    objects = [document.plain for document in read({case.name: text.encode()})]
    for number, whole in enumerate(objects):
        for *above, last in places(whole):
            for odd in ([], {}, "x", 1.5, [["a"]], {"a": []}):
                changed = copy.deepcopy(whole)
                inner: Any = changed
                for part in above:
                    inner = inner[part]
                inner[last] = odd
                given = [*objects[:number], changed, *objects[number + 1 :]]
                items = [Item(at, (), each, pods.pods(each)) for at, each in enumerate(given)]
                found = judge(Manifests(items, [""] * len(given), wiring), [BY_ID[case.id]])
                assert not [each.what for each in found if "crashed" in each.what], (above, last, odd)


def assert_same_in_gate(case: Case, folder: Path) -> None:
    """Assert that the gate says the same; it wires first, which adds what lacks, and judges wired objects only."""
    text = text_of(case)
    wiring = wiring_of(text, folder) or wiring_of("# values: b200\n", folder)
    assert wiring
    result = Pipeline(text.encode(), wiring, Options(policy=KEEP), gate=True).run()
    refused = [each.at.line for each in result.refusals if each.rule == case.id]
    marked = [number for number, _ in tables.marks(text)]
    if case.id.startswith(("secrets/", "stream/")):
        assert sorted(refused) == marked
    else:
        assert {*refused} <= {*marked}


@pytest.mark.parametrize("table", TABLES)
def test_a_problem_is_found_at_the_marked_lines_of_its_first_case(table: str, tmp_path: Path) -> None:
    tables.judge_each(tables.first(TABLES[table]), lambda case: assert_found(case, tmp_path))


@pytest.mark.full
@pytest.mark.parametrize("table", TABLES)
def test_a_problem_is_found_at_the_marked_lines_of_all_cases(table: str, tmp_path: Path) -> None:
    further = [case for case in TABLES[table] if case.bad and case.name != "bad"]
    tables.judge_each(further, lambda case: assert_found(case, tmp_path))


@pytest.mark.full
@pytest.mark.parametrize("table", TABLES)
def test_no_check_crashes_on_odd_objects(table: str, tmp_path: Path) -> None:
    """What the API server would refuse must not hide what else is wrong."""
    some = [case for case in TABLES[table] if not re.search(r"-[2-9]", case.name)]
    tables.judge_each(some, lambda case: assert_unbroken(case, tmp_path))


def test_the_gate_agrees_with_the_rules_on_the_objects_that_it_judges(tmp_path: Path) -> None:
    some = [case for case in CASES if case.bad and case.id in IN_GATE]
    assert len(some) > 30
    tables.judge_each(some, lambda case: assert_same_in_gate(case, tmp_path))


@pytest.mark.parametrize("table", thin([*TABLES], 3))
def test_nothing_is_found_in_good_examples(table: str, tmp_path: Path) -> None:
    tables.judge_each([case for case in TABLES[table] if not case.bad], lambda case: assert_clean(case, tmp_path))


def test_a_problem_has_cases_a_title_a_reason_and_a_fix() -> None:
    for case in CASES:
        assert re.fullmatch(r"(good|bad)(-[2-9])?", case.name), case
        assert case.bad or not tables.marks(case.text), case
    for rule in RULES:
        assert {"good", "bad"} <= {case.name for case in CASES if case.id == rule.id}, rule.id
        for text in (rule.title, rule.why, rule.fix):
            assert 15 < len(text) <= 120, rule.id
            assert text[-1] not in ".!", rule.id
        assert rule.fix[0].islower(), rule.id
        assert rule.severity in ("error", "warning", "info"), rule.id
        assert re.match(r"https://[a-z0-9.-]+/\S+$|\S+ at \S+$", rule.source), rule.id
