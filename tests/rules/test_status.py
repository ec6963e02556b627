"""Facts: a rule says which facts it checks, and rules/status.yaml why no rule checks the others."""

from __future__ import annotations

import re

import pytest
import yaml

from grpo.rules import index
from tests.conftest import ROOT

STATUS: dict[str, dict[str, str]] = yaml.safe_load((ROOT / "grpo/rules/status.yaml").read_text("utf-8"))
WHY = re.compile(r"(done by [a-z -]+|not checkable offline|not yet|not in a version that we run|no mistake): \S")
LISTS = {"clouds", "gke", "helm", "kuberay", "nemo-rl", "observability", "schemas", "verl"}


@pytest.mark.parametrize("name", STATUS)
def test_a_fact_without_a_rule_has_a_reason(name: str) -> None:
    assert name in LISTS
    for fact, reason in STATUS[name].items():
        assert WHY.match(reason), f"{name} {fact}: {reason}"


def test_a_rule_says_which_facts_it_checks() -> None:
    assert [rule.id for rule in index.rules() if not rule.fact.split()] == []
    for fact in {fact for rule in index.rules() for fact in rule.fact.split()}:
        name, _, of = fact.partition("/")
        assert name in LISTS, fact
        assert of, fact
        assert of not in STATUS.get(name, {}), f"{fact} has a rule, and rules/status.yaml says why it has none"
