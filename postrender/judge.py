"""Run rules over manifests; a rule that breaks down is a finding itself."""

from __future__ import annotations

from postrender.rules import Hit, Manifests, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def judge(manifests: Manifests, rules: Sequence[Rule]) -> list[tuple[Rule, Hit]]:
    """Return what the rules find, in the order of the documents."""
    found: list[tuple[Rule, Hit]] = []
    for rule in rules:
        try:
            found += [(rule, hit) for hit in rule.check(manifests)]
        except Exception as error:
            found.append((rule, Hit(0, f"the rule broke down: {type(error).__name__}: {error}; please report it")))
    return sorted(found, key=lambda each: each[1].document)
