"""Run rules over values and over manifests; a rule that breaks down is a finding itself."""

from __future__ import annotations

from postrender.errors import GrpoError
from postrender.rules import Hit, Manifests, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from postrender.effective import Effective
    from postrender.rules.values import Said, ValuesRule


# What is told of a configuration of which a section is no map.
_OF_SECTIONS = ("/wrong-type", "/unknown-key", "/derived-key-differs", "/dangling-reference", "/section-not-judged")


def judge(manifests: Manifests, rules: Iterable[Rule]) -> list[tuple[Rule, Hit]]:
    """Return what the rules find, in the order of the documents."""
    found: list[tuple[Rule, Hit]] = []
    for rule in rules:
        try:
            found += [(rule, hit) for hit in rule.check(manifests)]
        except GrpoError:
            # It says what the user gave that is wrong, and no rule can judge with it.
            raise
        except Exception as error:
            found.append((rule, Hit(0, f"the rule broke down: {type(error).__name__}: {error}; please report it")))
    return sorted(found, key=lambda each: each[1].document)


def judge_run(run: Effective, rules: Iterable[ValuesRule]) -> list[tuple[ValuesRule, Said]]:
    """Return what the rules say about a run, in the order of the rules."""
    chosen = [rule for rule in rules if rule.applies(run)]
    if not run.is_whole():
        # Of a section that is no map, whatever follows from it would be said too.
        chosen = [rule for rule in chosen if rule.id.endswith(_OF_SECTIONS)]
    return [(rule, said) for rule in chosen for said in _said(rule, run)]


def _said(rule: ValuesRule, run: Effective) -> list[Said]:
    # The post-renderer judges manifests alone, and has no time for more.
    from postrender.interpolation import UnknownError
    from postrender.rules.values import Said

    try:
        verdict = rule.check(run)
        found = [Said(verdict)] if isinstance(verdict, str) else list(verdict or ())
    except UnknownError:
        # What it needs is known to the running job alone, or another rule says that it is wrong.
        return []
    except Exception as error:
        return [Said(f"the rule broke down: {type(error).__name__}: {error}; please report it")]
    return found
