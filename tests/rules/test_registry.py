"""The registry finds every rule by itself, in an order that does not depend on anything but the ids."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from grpo.rules import index, registry
from grpo.rules.objects.pods import images
from postrender.problem import CHART, LOG, OBJECTS, VALUES
from postrender.registry import rules_in
from tests.conftest import ROOT

RULES = ROOT / "grpo/rules"
_GATE = ROOT / "postrender/gate"
# Every stream is judged by these before grpo-post-render passes it on.
GATE = {rule.id for rule in rules_in("postrender.gate")}


def test_every_rule_that_the_sources_define_is_found() -> None:
    text = "".join(path.read_text() for folder in (RULES, _GATE) for path in folder.rglob("*.py"))
    ids = set(re.findall(r'\bProblem\(\s*"([a-z-]+/[a-z0-9-]+)",', text))
    assert len(ids) > 150
    assert ids <= {rule.id for rule in registry.rules(OBJECTS, CHART)}
    names = re.findall(r"^@TOPIC\.problem\(.*?^def (\w+)\(", text, re.MULTILINE | re.DOTALL)
    found = [rule.id.partition("/")[2] for rule in registry.rules(VALUES)]
    assert len(names) > 150
    assert {name.strip("_").replace("_", "-") for name in names} <= {*found}


def test_rules_are_in_the_order_of_targets_and_ids() -> None:
    ids = [rule.id for rule in index.rules()]
    assert ids == [rule.id for target in (VALUES, OBJECTS, CHART, LOG) for rule in registry.rules(target)]
    for target in (VALUES, OBJECTS, CHART, LOG):
        assert [rule.id for rule in registry.rules(target)] == sorted(rule.id for rule in registry.rules(target))
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+", each) for each in ids)


def test_a_second_rule_of_an_id_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    one = images.RULES[0]
    monkeypatch.setattr(images, "TWICE", one._replace(title="another"), raising=False)
    with pytest.raises(registry.RegistryError, match=f"two rules have the id {one.id}"):
        rules_in.__wrapped__("grpo.rules.objects.pods")


def test_a_rule_in_the_folder_of_another_target_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    strange = images.RULES[0]._replace(id="pods/strange", target=VALUES)
    monkeypatch.setattr(images, "STRANGE", strange, raising=False)
    rules_in.cache_clear()
    with pytest.raises(registry.RegistryError, match=r"pods/strange, a rule over values, is in grpo\.rules\."):
        registry.rules.__wrapped__(OBJECTS)
    rules_in.cache_clear()


def test_the_gate_is_a_part_of_what_is_checked() -> None:
    assert {"secrets/literal-token", "pods/duplicate-merge-key", "stream/object-twice"} <= GATE
    assert {*rules_in("postrender.gate")} <= {*registry.rules(OBJECTS)}


def test_the_gate_loads_no_rules_but_its_own() -> None:
    code = "import sys; from postrender import pipeline; from postrender import registry; "
    code += "registry.rules_in('postrender.gate'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    loaded = {name for name in done.stdout.split() if name.startswith("grpo")}
    assert not loaded


def test_a_rule_is_in_the_folder_that_its_id_names() -> None:
    """But in the gate, whose rules are from many domains and have a module each."""
    for rule in index.rules():
        domain, slug = rule.id.replace("-", "_").split("/")
        folder = {VALUES: f"values.{domain}", OBJECTS: f"objects.{domain}", CHART: "chart", LOG: "log"}[rule.target]
        in_gate = rule.id in GATE and any(_GATE.rglob(f"{slug}.py"))
        assert in_gate or rule in rules_in(f"grpo.rules.{folder}"), rule.id


@pytest.mark.parametrize(
    "folder", [path for path in [RULES, _GATE, *RULES.rglob("*"), *_GATE.rglob("*")] if path.is_dir()], ids=str
)
def test_a_folder_can_be_overlooked(folder: Path) -> None:
    """It has at most twelve modules."""
    assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= 12
