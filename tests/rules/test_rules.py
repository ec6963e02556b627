"""Each rule finds exactly the marked lines of its bad manifests, and nothing in its good ones."""

from __future__ import annotations

import base64
import copy
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from postrender import pods, schema, stackvalues
from postrender.check import check
from postrender.documents import read
from postrender.finding import ERROR, Finding
from postrender.judge import judge
from postrender.rewrite import Rewriter
from postrender.rules import Item, Manifests, Rule, charts, every, gate, job
from postrender.rules.objects import rules
from postrender.rules.stream import placeholder
from postrender.transforms import KEEP
from postrender.wire import Options
from postrender.wiring import Wiring
from tests.conftest import KINDS, ROOT
from tests.postrender.test_tokens import EXAMPLES
from tests.rules.test_samples import places

HERE = Path(__file__).parent
BY_ID = {rule.id: rule for rule in rules()}
FILES = sorted(path.relative_to(HERE) for name in BY_ID for path in HERE.glob(f"{name}/*.yaml"))
BAD = [file for file in FILES if file.name.startswith("bad")]
GOOD = [file for file in FILES if file.name.startswith("good")]
IN_GATE = {rule.id for rule in gate.RULES}
# A key of W&B has no shape of its own: the name in front of it decides.
SECRETS = {**EXAMPLES, "forty": "a1b2" * 10}
PLACE = re.compile(rf"<(base64:|rest:|)({'|'.join(SECRETS)})>")
# Longer than every limit from which on rules look in another way.
LONG = (
    b"""\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: long
  annotations:
    a: |
"""
    + b"      some words\n" * 15_000
)
MARK = re.compile(r"# <- finding(?:: (.*))?$")


def rule_of(file: Path) -> str:
    """Return the id of the rule that a fixture is for."""
    return file.parent.as_posix()


def text_of(file: Path) -> str:
    """Return a fixture with the secrets put in: `<shape>`; in base64 where `base64:` is before it, or only its rest."""

    def secret(match: re.Match[str]) -> str:
        value = SECRETS[match[2]]
        if match[1] == "base64:":
            return base64.b64encode(value.encode()).decode()
        return value[2:] if match[1] else value

    return PLACE.sub(secret, (HERE / file).read_text(encoding="utf-8"))


def wiring_of(text: str, folder: Path) -> Wiring | None:
    """Return the wiring that the first line names: `# values: PROFILE {more values}`."""
    first = re.match(r"# values: (\S+)(?: (\{.*\}))?\n", text)
    if first is None:
        return None
    more = folder / "more.yaml"
    more.write_text(first[2] or "{}", encoding="utf-8")
    return Wiring(stackvalues.load([str(ROOT / f"values/accelerators/{first[1]}.yaml"), str(more)]))


def findings(file: Path, folder: Path) -> list[Finding]:
    """Judge a fixture; only findings of its own rule count."""
    text = text_of(file)
    documents = read({str(file): text.encode()})
    return [each for each in check(documents, wiring_of(text, folder), KINDS) if each.rule == rule_of(file)]


@pytest.mark.parametrize("file", BAD, ids=str)
def test_a_rule_finds_the_marked_lines(file: Path, tmp_path: Path) -> None:
    lines = enumerate(text_of(file).splitlines(), 1)
    marked = [(number, match[1] or "") for number, line in lines if (match := MARK.search(line))]
    found = findings(file, tmp_path)
    assert [each.at.line for each in found] == [number for number, _ in marked]
    assert marked
    for each, (number, words) in zip(found, marked, strict=True):
        assert words in each.what, f"{file}:{number}"
        assert each.at.col > 0


@pytest.mark.parametrize("file", BAD, ids=str)
def test_a_rule_finds_the_same_in_a_long_stream(file: Path, tmp_path: Path) -> None:
    """Long streams are searched in other ways, and nothing is left unloaded for them."""
    text = text_of(file)
    streams = {str(file): text.encode(), "long.yaml": LONG}
    found = check(read(streams), wiring_of(text, tmp_path), KINDS)
    lines = [number for number, line in enumerate(text.splitlines(), 1) if MARK.search(line)]
    assert [each.at.line for each in found if each.rule == rule_of(file) and each.at.file == str(file)] == lines
    assert [each.what for each in found if each.at.file == "long.yaml" and each.severity == ERROR] == []


@pytest.mark.parametrize("file", [file for file in FILES if not re.search(r"-[2-9]", file.name)], ids=str)
def test_a_rule_does_not_break_down_over_what_is_odd(file: Path, tmp_path: Path) -> None:
    """Whatever one place holds: what the API server would refuse must not hide what else is wrong."""
    text, rule = text_of(file), BY_ID[rule_of(file)]
    wiring = wiring_of(text, tmp_path)
    objects = [document.plain for document in read({str(file): text.encode()})]
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
                found = judge(Manifests(items, [""] * len(given), wiring), [rule])
                assert not [hit.what for _, hit in found if "broke down" in hit.what], (above, last, odd)


@pytest.mark.parametrize("file", [file for file in BAD if file.parent.as_posix() in IN_GATE], ids=str)
def test_the_gate_says_the_same_of_the_objects_that_it_judges(file: Path, tmp_path: Path) -> None:
    """It wires first, which adds what lacks, and judges pods of wired objects only."""
    text = text_of(file)
    wiring = wiring_of(text, tmp_path) or wiring_of("# values: b200\n", tmp_path)
    assert wiring
    result = Rewriter(text.encode(), wiring, Options(policy=KEEP), gate=True).run()
    refused = [each.at.line for each in result.refusals if each.rule == rule_of(file)]
    marked = [number for number, line in enumerate(text.splitlines(), 1) if MARK.search(line)]
    if file.parts[0] in ("secrets", "stream"):
        assert sorted(refused) == marked
    else:
        assert {*refused} <= {*marked}


@pytest.mark.parametrize("file", GOOD, ids=str)
def test_a_rule_finds_nothing_in_what_is_good(file: Path, tmp_path: Path) -> None:
    assert [f"{each.at}: {each.what}" for each in findings(file, tmp_path)] == []


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_fixture_is_good_or_bad_and_of_a_rule(file: Path) -> None:
    assert re.fullmatch(r"(good|bad)(-[2-9])?\.yaml", file.name)
    assert rule_of(file) in BY_ID
    assert file.name.startswith("bad") or not MARK.search(text_of(file))


@pytest.mark.parametrize("rule", rules(), ids=list(BY_ID))
def test_a_rule_has_fixtures_and_says_what_why_and_what_to_do(rule: Rule) -> None:
    folder = HERE / rule.id
    assert {"good.yaml", "bad.yaml"} <= {path.name for path in folder.iterdir()}
    for text in (rule.title, rule.why, rule.fix):
        assert 15 < len(text) <= 120
        assert text[-1] not in ".!"
    assert rule.title[0].islower() or rule.title.startswith("NCCL")
    assert rule.fix[0].islower()
    assert rule.severity in ("error", "warning", "info")
    assert re.match(r"https://[a-z0-9.-]+/\S+$|\S+ at \S+$", rule.source)


def modules() -> Iterator[tuple[str, object]]:
    """Yield the modules of rules with their paths below the package."""
    for path in sorted((ROOT / "postrender/rules").glob("*/*.py")):
        if path.name != "__init__.py":
            dotted = path.relative_to(ROOT / "postrender/rules").with_suffix("").as_posix()
            yield dotted, importlib.import_module(f"postrender.rules.{dotted.replace('/', '.')}")


def test_a_module_holds_one_rule_of_its_name_or_the_rules_of_a_topic() -> None:
    found = []
    for path, module in modules():
        one, several = getattr(module, "RULE", None), getattr(module, "RULES", ())
        assert bool(one) != bool(several), path
        if one:
            assert one.id == path.replace("_", "-")
        assert {rule.id.split("/")[0] for rule in (one, *several) if rule} == {path.split("/")[0].replace("_", "-")}
        found += [rule.id for rule in (one, *several) if rule]
    of_values = {rule.id for rule in every.RULES} - {rule.id for rule in job.RULES}
    assert sorted(found) == sorted([*BY_ID, *of_values, *(rule.id for rule in charts.RULES)])
    assert len(BY_ID) == len(rules())


def test_the_gate_is_a_part_of_what_is_checked() -> None:
    assert rules()[: len(gate.RULES)] == gate.RULES
    assert not any(rule.id.startswith(("ray/", "kueue/")) for rule in gate.RULES)


def test_both_searches_for_placeholders_take_the_same_texts() -> None:
    long = schema.finder(placeholder._ANY)
    for sign in (*placeholder._SIGNS, *placeholder._WORDS, "ChangeMe", "YOUR-", "Your-", "$", "{", "your", "words"):
        assert long(f"a {sign} b") == placeholder._may_hold(f"a {sign} b"), sign
