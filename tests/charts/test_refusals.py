"""Whatever the charts refuse, `grpo lint` says at the value that causes it, once, and with what to write.

tests/charts/refusals/*.yaml hold a case for each `fail` of the templates:

says    what the charts say; … stands for any text
by      the layers that refuse
at      the key at whose place the one error of lint stands; none where a whole file is missing
rule    the rule of that error, where it is not the chart's refusal itself
stack   profile, recipe and framework of the stack, where they are not those of `stack_files`
values  the file that is given last. The words TOKEN, DIGITS and LONG are replaced, see `WORDS`
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from grpo.check import rendered
from grpo.check.rendered import Target
from grpo.helm.engines import Embedded
from grpo.helm.stack import Stack
from grpo.lint.linter import can_render, judge_values
from grpo.lint.locate import parts
from postrender.errors import Location, RenderError
from postrender.finding import ERROR, Finding
from postrender.values.merge import Values
from tests.charts.test_templates import FILES, code
from tests.conftest import KINDS, ROOT, SITE, thin

# What looks like a secret is put together here, so that no scanner of repositories finds one.
WORDS = {"TOKEN": "hf_" + "Zq9" * 12, "DIGITS": "0a1b2c3d" * 5, "LONG": "y" * 100_000}
LITERAL = r'"(?:[^"\\]|\\.)*"'
REFUSAL = r"(?:\bfail|\| required)\b"
MESSAGE = re.compile(rf"{REFUSAL} \(?(?:printf )?\(?(?:print )?({LITERAL}(?:\s+{LITERAL})*)")
# What no values can cause: a helper called with too few arguments, a file of the chart that is missing, text that the
# charts write and cannot read, or the cluster, which lint does not ask (test_operator.py). What the schema has refused
# (test_entrypoint.py).
INTERNAL = re.compile(
    r" takes \(list | would not read as one word\. |^common\.name: | is missing from the chart$| is not YAML: "
    r"|in this cluster are"
)


@dataclass(frozen=True)
class Case:
    """Values that a chart refuses."""

    name: str
    says: str
    by: list[str]
    values: str
    at: str | None = None
    rule: str = "values/refused-by-chart"
    stack: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Return the message of the chart, which ends with the id of the problem that lint finds."""
        return self.says if self.rule == "values/refused-by-chart" else f"{self.says} [{self.rule}]"

    def load(self, folder: Path) -> Stack:
        """Return the stack, with the values in a file of the folder."""
        chosen = {"profile": "b200", "recipe": "gemma3-27b-gsm8k", **self.stack}
        folders = {"accelerators": "profile", "recipes": "recipe", "frameworks": "framework"}
        named = [(place, chosen.get(key)) for place, key in folders.items()]
        files = [ROOT / f"values/{place}/{name}.yaml" for place, name in named if name]
        own = folder / "more.yaml"
        own.write_text(replaced(self.values), encoding="utf-8")
        return Stack.load([str(file) for file in (*files, SITE, own)])


def cases() -> Iterator[Case]:
    for file in sorted((ROOT / "tests/charts/refusals").glob("*.yaml")):
        for number, given in enumerate(yaml.safe_load(file.read_text(encoding="utf-8")), 1):
            yield Case(name=f"{file.stem}-{number}", **given)


CASES = list(cases())


def replaced(text: str) -> str:
    """Return a text with WORDS replaced."""
    return re.sub("|".join(WORDS), lambda word: WORDS[word[0]], text)


def pattern(text: str, hole: str) -> str:
    """Return an expression for a text in which `hole` stands for anything."""
    return ".*".join(map(re.escape, re.split(hole, text)))


def messages() -> Iterator[str]:
    """Yield the formats of the messages with which templates refuse values."""
    for path in FILES:
        found = MESSAGE.findall(code(path))
        assert len(found) == len(re.findall(REFUSAL, code(path))), f"{path}: a message that is not written out"
        texts = ("".join(json.loads(each) for each in re.findall(LITERAL, literals)) for literals in found)
        yield from (text for text in texts if not INTERNAL.search(text))


def test_every_fail_in_the_charts_has_a_case() -> None:
    """A `fail` without a case may stand at no value; a case without a `fail` says what no chart says any more."""
    known = {each: re.compile(pattern(each, "%[dqsv]"), re.DOTALL) for each in messages()}
    reached = set()
    for case in CASES:
        fits = [each for each, expression in known.items() if expression.fullmatch(case.text)]
        assert fits, f"{case.name}: no template says this"
        # A message such as `%s.%s: the charts set %s themselves` fits others too: the most text counts.
        reached.add(max(fits, key=lambda each: len(re.sub("%.", "", each))))
    assert [each for each in known if each not in reached] == []


def places(values: Values, at: str) -> list[Location]:
    """Return the places of a key and of its value, which a file sets."""
    path = tuple(int(part) if part.isdigit() else part for part in parts(replaced(at)))
    node = values.node(path)
    assert node, at
    return [node.key_at, node.at]


def refusals(stack: Stack, helm: Embedded) -> Iterator[tuple[str, str]]:
    """Yield the layers that refuse a stack, with Helm's words."""
    for layer in stack.layers():
        try:
            stack.render(helm, layer)
        except RenderError as error:
            yield layer, error.message


def errors(stack: Stack, helm: Embedded) -> list[Finding]:
    """Return the errors of `grpo lint`."""
    found = judge_values(stack.values)
    if can_render(found):
        found = [*found, *rendered.judge(stack, helm, KINDS, Target(), found).findings]
    return [each for each in found if each.severity == ERROR]


@pytest.mark.parametrize("case", thin(CASES, 40), ids=lambda case: case.name)
def test_each_refusal_gives_one_finding_at_its_value(case: Case, helm: Embedded, tmp_path: Path) -> None:
    stack = case.load(tmp_path)
    said = dict(refusals(stack, helm))
    assert sorted(said) == sorted(case.by)
    for message in said.values():
        assert re.search(rf": {pattern(case.text, '…')}\Z", message), message
    (finding,) = errors(stack, helm)
    assert (finding.rule, finding.secret) == (case.rule, case.rule == "values/token")
    if case.at is None:
        assert finding.at == Location(stack.files[0])
    else:
        assert finding.at in places(stack.values, case.at)
        assert finding.at.line * finding.at.col > 0
    told = f"{finding.what}\n{finding.fix}"
    assert not [words for words in ("execution error at", "templates/", "keys in the message") if words in told]
    assert " " in finding.what, "the key alone does not say what is wrong"
    assert finding.fix
