"""Programs and the lock are folded for people; what a user wrote is not, and no fold hides a change."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from grpo.generate import programs
from grpo.helm.engines import Rendered
from grpo.manifests import folds
from postrender.errors import InputError
from postrender.yaml import reader
from tests.programs import PROGRAMS, carried

REWARDS = {"job": {"rewards": {"mine": {"file": "def mine(*a, **k):\n    return 0.5\n"}}}}
FOLD = re.compile(r"^… (\S+), (?:the lock of the run, )?(\d+ lines, sha256 [0-9a-f]{16})$", re.MULTILINE)


@pytest.fixture
def job(render_text: Callable[..., Rendered]) -> str:
    return render_text("grpo-job").manifest


@pytest.fixture
def cluster(render_text: Callable[..., Rendered]) -> str:
    return render_text("raycluster").manifest


def objects(text: str) -> dict[str, dict[str, Any]]:
    return {item["kind"]: item for item in reader.load_objects(text, "<text>")}


def test_programs_and_the_lock_are_folded(job: str, cluster: str) -> None:
    text, hidden = folds.fold_manifest(job)
    names = [name for name, _ in FOLD.findall(text)]
    assert names == ["spec.yaml", "programs"]
    assert hidden == job.count("\n") - text.count("\n") > 200
    programs = [name for name, _ in FOLD.findall(folds.fold_manifest(cluster)[0])]
    assert sorted(programs) == ["check_cluster.py", "check_idle.py", "pre_stop.py", "pre_stop.py", "probe.py"]


def test_everything_else_stays_byte_for_byte(job: str, cluster: str) -> None:
    for manifest in (job, cluster):
        for line in folds.fold_manifest(manifest)[0].splitlines():
            assert line.startswith("… ") or f"{line}\n" in manifest
    assert folds.fold_manifest("kind: Pod\nspec: {args: [x]}\n") == ("kind: Pod\nspec: {args: [x]}\n", 0)


def test_a_folded_manifest_cannot_be_applied(job: str, cluster: str) -> None:
    """A RayJob without its programs would end as a success."""
    for manifest in (job, cluster):
        folded = [text for text in re.split(r"(?m)^(?=---)", folds.fold_manifest(manifest)[0]) if "… " in text]
        assert folded
        for text in folded:
            with pytest.raises(InputError):
                reader.load_objects(text, "<text>")


def test_manifest_text_and_object_fold_to_the_same_digest(job: str, cluster: str) -> None:
    shown = {name: size for text in (job, cluster) for name, size in FOLD.findall(folds.fold_manifest(text)[0])}
    entrypoint = objects(job)["RayJob"]["spec"]["entrypoint"]
    assert shown.pop("programs").rpartition(" ")[2] == entrypoint.rpartition("sha256 ")[2][:16]
    found = {}
    for each in reader.load_objects(cluster + job, "<both>"):
        found |= folds.fold_object(each)["data"] if each["kind"] == "ConfigMap" else {}
    head = objects(cluster)["RayCluster"]["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    found["pre_stop.py"] = folds.Folded.of(head["lifecycle"]["preStop"]["exec"]["command"][3])
    assert {name: found[name].short for name in shown} == shown


def test_a_changed_program_changes_the_digest(job: str) -> None:
    before = objects(job)["RayJob"]["spec"]["entrypoint"]
    files = carried(before)
    after = before.replace(
        before.partition('$programs"\nQlpoO')[2].partition("GRPO_PROGRAMS")[0],
        programs.pack({**files, "runtime.py": "changed"}).removeprefix("QlpoO"),
    )
    one, two = (dict(folds.parts(text)) for text in (before, after))
    assert {name for name, part in two.items() if one[name] != part} == {"runtime.py"}


def test_user_files_are_not_folded(render_text: Callable[..., Rendered]) -> None:
    text, _ = folds.fold_manifest(render_text("grpo-job", REWARDS).manifest)
    assert "return 0.5" in text
    assert "… rewards" not in text


def test_an_entrypoint_splits_into_plan_and_programs(render_text: Callable[..., Rendered]) -> None:
    entrypoint = objects(render_text("grpo-job", REWARDS).manifest)["RayJob"]["spec"]["entrypoint"]
    parts = dict(folds.parts(entrypoint))
    assert parts["plan"]["attempt"] == 1
    assert re.fullmatch("sha256 [0-9a-f]{16}", parts["plan"]["digest"].short)
    assert parts["rewards/mine.py"] == REWARDS["job"]["rewards"]["mine"]["file"]
    assert isinstance(parts["trainer.py"], folds.Folded)
    assert isinstance(parts["rewards.py"], folds.Folded)
    assert '"mine"' in parts["rewards.json"]
    assert "\nset -eu\nexport GRPO_OWNER_LAPSE_SECONDS=" in parts["shell"]
    assert "\nexec 3<<'GRPO_PLAN'\nGRPO_PLAN\n" in parts["shell"]
    assert "QlpoO" not in parts["shell"]
    clear = dict(folds.parts(entrypoint, full=True))
    assert clear["__main__.py"] == programs.code(PROGRAMS["launch"].read_text("utf-8"))
    assert len(clear["plan"]["digest"]) == 64
    assert dict(folds.parts("python3 train.py")) == {}


def test_config_maps_of_other_owners_are_not_folded() -> None:
    for data in ({"spec.yaml": "a: 1\n"}, {"main.conf": "x\n"}, {}):
        item = {"kind": "ConfigMap", "data": data}
        assert folds.fold_object(item) == item
    text = "kind: ConfigMap\ndata:\n  spec.yaml: |\n    a: 1\n"
    assert folds.fold_manifest(text) == (text, 0)
