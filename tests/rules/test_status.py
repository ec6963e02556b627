"""rules/status.yaml says of every fact which rules say it, or why none does; the README states the count."""

from __future__ import annotations

import re

import pytest
import yaml

from postrender.rules.charts import RULES as OF_CHARTS
from postrender.rules.every import RULES as OF_VALUES
from postrender.rules.objects import rules
from tests.conftest import ROOT

STATUS: dict[str, dict[str, str]] = yaml.safe_load((ROOT / "postrender/rules/status.yaml").read_text("utf-8"))
KNOWN = {rule.id for rule in (*OF_VALUES, *rules(), *OF_CHARTS)}
WHY = re.compile(r"(done by [a-z -]+|not checkable offline|not yet|not in a version that we run|no mistake): \S")


def is_done(text: str) -> bool:
    """Say whether an entry names rules, and not a reason."""
    return all(word in KNOWN for word in text.split())


@pytest.mark.parametrize("domain", STATUS)
def test_an_entry_names_rules_that_exist_or_says_why_there_is_none(domain: str) -> None:
    for fact, text in STATUS[domain].items():
        assert is_done(text) or WHY.match(text), f"{domain} {fact}: {text}"


@pytest.mark.parametrize("framework", ["nemo-rl", "verl"])
def test_the_facts_that_rules_claim_are_those_of_the_list(framework: str) -> None:
    claimed: dict[str, list[str]] = {}
    for rule in OF_VALUES:
        for fact in rule.fact.split() if rule.framework in ("", framework) else ():
            claimed.setdefault(fact, []).append(rule.id)
    listed = {fact: text.split() for fact, text in STATUS[framework].items() if is_done(text)}
    assert {fact: sorted(rules) for fact, rules in claimed.items()} == {
        fact: sorted(text) for fact, text in listed.items()
    }


def test_every_rule_is_in_the_list() -> None:
    named = {word for facts in STATUS.values() for text in facts.values() if is_done(text) for word in text.split()}
    assert sorted(KNOWN - named) == []


def test_the_readme_states_the_count() -> None:
    texts = [text for facts in STATUS.values() for text in facts.values()]
    done = sum(is_done(text) for text in texts)
    by_chart = sum(text.startswith("done by") for text in texts)
    later = sum(text.startswith("not yet") for text in texts)
    print(f"{len(texts)} facts: {done} have rules, {by_chart} the charts see to, {later} are not done yet")
    readme = (ROOT / "README.md").read_text("utf-8")
    stated = re.search(r"(\d+) rules for (\d+) of (\d+) facts", readme)
    assert stated, "the README states no count"
    assert tuple(map(int, stated.groups())) == (len(KNOWN), done, len(texts))
