"""The registry finds every problem by itself, in an order that does not depend on anything but the ids."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from grpo.problems import index, registry
from grpo.problems.cases import cases
from grpo.problems.frameworks.nemo_rl import TOPIC
from grpo.problems.images import objects as images
from grpo.problems.topic import DefinitionError
from grpo.values.config import RunConfig
from postrender.problem import CHART, CLUSTER, FAILURE, LOG, OBJECTS, VALUES, Fails
from postrender.registry import RegistryError, problems_of, rules_in
from tests.conftest import ROOT

PROBLEMS = ROOT / "grpo/problems"
GATE_FOLDER = ROOT / "postrender/gate"
# Every stream is judged by these before grpo-post-render passes it on.
GATE = {rule.id for rule in rules_in("postrender.gate")}


def test_every_problem_defined_in_the_sources_is_registered() -> None:
    text = "".join(path.read_text() for folder in (PROBLEMS, GATE_FOLDER) for path in folder.rglob("*.py"))
    ids = set(re.findall(r'\bProblem\(\s*"([a-z-]+/[a-z0-9-]+)",', text))
    assert len(ids) > 150
    assert ids <= {rule.id for rule in registry.rules(OBJECTS, CHART)}
    names = re.findall(r"^@TOPIC\.problem\(.*?^def (\w+)\(", text, re.MULTILINE | re.DOTALL)
    found = [rule.id.partition("/")[2] for rule in registry.rules(VALUES)]
    assert len(names) > 150
    assert {name.strip("_").replace("_", "-") for name in names} <= {*found}
    assert {*re.findall(r'\bfailure\(\s*"([a-z-]+)",', text)} == {each.id for each in registry.rules(FAILURE)}
    assert {*re.findall(r'@probe\(\s*"([a-z-]+)",', text)} == {each.id for each in registry.rules(CLUSTER)}


def test_rules_are_ordered_by_target_and_id() -> None:
    ids = [rule.id for rule in index.rules()]
    assert ids == [rule.id for target in (VALUES, OBJECTS, CHART, LOG) for rule in registry.rules(target)]
    for target in (VALUES, OBJECTS, CHART, LOG):
        assert [rule.id for rule in registry.rules(target)] == sorted(rule.id for rule in registry.rules(target))
    everything = [each.id for each in index.everything()]
    assert len(set(everything)) == len(everything)
    assert all(re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", each) for each in ids)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the registry read the modules again."""
    monkeypatch.setattr(registry, "_of_target", registry._of_target.__wrapped__)


@pytest.mark.usefixtures("unread")
def test_a_duplicate_problem_id_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    one = images.RULES[0]
    monkeypatch.setattr(images, "TWICE", one._replace(title="another"), raising=False)
    with pytest.raises(RegistryError, match=f"two problems have the id {one.id}"):
        registry.rules.__wrapped__(OBJECTS)


@pytest.mark.usefixtures("unread")
def test_a_problem_in_a_module_of_a_different_target_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = images.RULES[0]._replace(id="pods/strange", target=VALUES)
    monkeypatch.setattr(images, "STRANGE", strange, raising=False)
    with pytest.raises(RegistryError, match=r"pods/strange, a problem of values, is in a module objects"):
        registry.rules.__wrapped__(OBJECTS)


def test_the_gate_rules_are_among_the_object_rules() -> None:
    assert {"secrets/literal-token", "pods/duplicate-merge-key", "stream/object-twice"} <= GATE
    assert {*rules_in("postrender.gate")} <= {*registry.rules(OBJECTS)}


def test_the_gate_loads_only_its_own_rules() -> None:
    code = "import sys; from postrender import pipeline; from postrender import registry; "
    code += "registry.rules_in('postrender.gate'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    loaded = {name for name in done.stdout.split() if name.startswith("grpo")}
    assert not loaded


def test_cases_are_stored_next_to_their_problems_module() -> None:
    for target in (VALUES, OBJECTS, CHART, LOG):
        for module in registry.modules(target):
            table = (module.__name__.replace(".", "/")) + ".cases.yaml"
            for problem in problems_of(module):
                assert {case.table for case in cases().get(problem.id, ())} <= {table}, problem.id


def test_every_problem_listed_as_earlier_exists() -> None:
    ids = {each.id for each in index.everything()}
    for each in index.everything():
        assert {*each.earlier} <= ids, each.id


def test_a_problem_without_a_reason_says_what_is_missing() -> None:
    def check(run: RunConfig) -> None:
        """the title

        Fix: do this
        """

    with pytest.raises(DefinitionError, match=r"^nemo-rl/check needs a reason \(Why:; SILENT gives none\)$"):
        TOPIC.problem("a.key", source="file.py:1 at v1.0.0", fails=Fails.SILENT)(check)
    with pytest.raises(DefinitionError, match=r"^nemo-rl/x needs a title and a reason .* and a Fix:$"):
        TOPIC.make("x", "a.key", check, title="", fix="", source="file.py:1 at v1.0.0")
