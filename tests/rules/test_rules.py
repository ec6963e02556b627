"""Each rule finds exactly the marked lines of its bad manifests, and nothing in its good ones."""

from __future__ import annotations

import base64
import copy
import re
from pathlib import Path
from typing import Any

import pytest

from grpo.check.objects import check
from grpo.manifests.loader import read
from grpo.rules import registry
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
from tests.rules.test_samples import places

HERE = Path(__file__).parent
RULES = registry.rules("objects")
BY_ID = {rule.id: rule for rule in RULES}
FILES = sorted(path.relative_to(HERE) for name in BY_ID for path in HERE.glob(f"{name}/*.yaml"))
BAD = [file for file in FILES if file.name.startswith("bad")]
GOOD = [file for file in FILES if file.name.startswith("good")]
IN_GATE = {rule.id for rule in rules_in("postrender.gate")}
# A key of W&B has no shape of its own: the name in front of it decides.
SECRETS = {**EXAMPLES, "forty": "a1b2" * 10}
PLACE = re.compile(rf"<(base64:|rest:|)({'|'.join(SECRETS)})>")
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
    return cluster.wiring_of(merge.load([str(ROOT / f"values/accelerators/{first[1]}.yaml"), str(more)]))


def findings(file: Path, folder: Path) -> list[Finding]:
    """Judge a fixture; only findings of its own rule count."""
    text = text_of(file)
    documents = read({str(file): text.encode()})
    return [each for each in check(documents, wiring_of(text, folder), KINDS) if each.rule == rule_of(file)]


@pytest.mark.parametrize(
    "file", [pytest.param(file, marks=[] if file.name == "bad.yaml" else pytest.mark.full) for file in BAD], ids=str
)
def test_a_rule_finds_the_marked_lines(file: Path, tmp_path: Path) -> None:
    lines = enumerate(text_of(file).splitlines(), 1)
    marked = [(number, match[1] or "") for number, line in lines if (match := MARK.search(line))]
    found = findings(file, tmp_path)
    assert [each.at.line for each in found] == [number for number, _ in marked]
    assert marked
    for each, (number, words) in zip(found, marked, strict=True):
        assert words in each.what, f"{file}:{number}"
        assert each.at.col > 0


@pytest.mark.full
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
                assert not [each.what for each in found if "crashed" in each.what], (above, last, odd)


@pytest.mark.parametrize("file", [file for file in BAD if file.parent.as_posix() in IN_GATE], ids=str)
def test_the_gate_says_the_same_of_the_objects_that_it_judges(file: Path, tmp_path: Path) -> None:
    """It wires first, which adds what lacks, and judges pods of wired objects only."""
    text = text_of(file)
    wiring = wiring_of(text, tmp_path) or wiring_of("# values: b200\n", tmp_path)
    assert wiring
    result = Pipeline(text.encode(), wiring, Options(policy=KEEP), gate=True).run()
    refused = [each.at.line for each in result.refusals if each.rule == rule_of(file)]
    marked = [number for number, line in enumerate(text.splitlines(), 1) if MARK.search(line)]
    if file.parts[0] in ("secrets", "stream"):
        assert sorted(refused) == marked
    else:
        assert {*refused} <= {*marked}


@pytest.mark.parametrize("file", thin(GOOD, 3), ids=str)
def test_a_rule_finds_nothing_in_what_is_good(file: Path, tmp_path: Path) -> None:
    assert [f"{each.at}: {each.what}" for each in findings(file, tmp_path)] == []


def test_a_fixture_is_good_or_bad_and_of_a_rule() -> None:
    for file in FILES:
        assert re.fullmatch(r"(good|bad)(-[2-9])?\.yaml", file.name), file
        assert rule_of(file) in BY_ID, file
        assert file.name.startswith("bad") or not MARK.search(text_of(file)), file


def test_a_rule_has_fixtures_and_says_what_why_and_what_to_do() -> None:
    for rule in RULES:
        folder = HERE / rule.id
        assert {"good.yaml", "bad.yaml"} <= {path.name for path in folder.iterdir()}, rule.id
        for text in (rule.title, rule.why, rule.fix):
            assert 15 < len(text) <= 120, rule.id
            assert text[-1] not in ".!", rule.id
        assert rule.fix[0].islower(), rule.id
        assert rule.severity in ("error", "warning", "info"), rule.id
        assert re.match(r"https://[a-z0-9.-]+/\S+$|\S+ at \S+$", rule.source), rule.id
