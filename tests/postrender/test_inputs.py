"""The values that wiring follows from are read as Helm merges them, and judged as the charts' schema judges them."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from grpo.helm.engines import Embedded
from postrender import facts, paths
from postrender.errors import InputError, RenderError
from postrender.values import merge
from postrender.wiring import inputs
from tests.conftest import ROOT, thin

PROFILES = sorted((ROOT / "values/accelerators").glob("*.yaml"))
RECIPES = sorted((ROOT / "values/recipes").glob("*.yaml"))
SCHEMA = facts.load("wiring.json")
SITE = str(ROOT / "tests/site.yaml")


@pytest.mark.parametrize("profile", PROFILES, ids=[path.stem for path in PROFILES])
@pytest.mark.parametrize("recipe", thin(RECIPES, 4), ids=[path.stem for path in RECIPES])
def test_every_stack_is_read_like_the_full_reader(profile: Any, recipe: Any, tmp_path: Path) -> None:
    files = [str(profile), str(recipe), SITE]
    of_profile = merge.load(files[:1]).as_helm_merges()
    if "network" not in of_profile and "multiNetwork" in of_profile["accelerator"].get("refuses", {}):
        # A machine that has no network for pods: its site says so.
        (tmp_path / "none.yaml").write_text("network: {mode: none}\n")
        files.append(str(tmp_path / "none.yaml"))
    defaults = merge.load([paths.defaults("raycluster")]).as_helm_merges()
    whole = merge.without_nulls(merge.overlay(defaults, merge.load(files).as_helm_merges()))
    assert inputs.load(files) == {name: whole[name] for name in SCHEMA["properties"]}


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))


GOOD = inputs.load([str(PROFILES[0]), str(RECIPES[0]), SITE])
WRONG: tuple[Any, ...] = (None, 1, "x", True, [], {}, {"unknown": 1})


@pytest.mark.parametrize("path", thin([(path,) for path in _leaves(GOOD)], 4), ids=".".join)
def test_schema_mismatches_agree_with_a_real_validator(path: tuple[str, ...]) -> None:
    judge = jsonschema_rs.Draft7Validator(SCHEMA)
    for wrong, remove in itertools.product(WRONG, (False, True)):
        tree = copy.deepcopy(GOOD)
        holder = tree
        for key in path[:-1]:
            holder = holder[key]
        if remove:
            del holder[path[-1]]
        else:
            holder[path[-1]] = wrong
        assert (inputs.first_mismatch(tree, SCHEMA) is None) == judge.is_valid(tree), (path, wrong, remove)


def test_two_profiles_are_rejected() -> None:
    with pytest.raises(InputError, match="a second accelerator profile"):
        inputs.load([str(PROFILES[0]), str(PROFILES[1])])


def test_two_machines_with_the_same_gpu_are_rejected() -> None:
    first, second = (str(paths.accelerator(name)) for name in ("eks-h200", "coreweave-h200"))
    with pytest.raises(InputError, match=r"is for h200 \(p5en.48xlarge\), this file for h200 \(gd-8xh200ib-i128\)"):
        inputs.load([first, second])


def test_a_users_file_may_repeat_the_profiles_name(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("accelerator: {name: h200, worker: {cpu: '100'}}\n")
    assert inputs.load([str(paths.accelerator("eks-h200")), str(own)])


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        # Not only a newline ends a line, and braces go on at the margin.
        (b"job: {}\raccelerator: {sharedMemory: 9Gi}\nnetwork: {}\n", "accelerator.sharedMemory", "9Gi"),
        (b"job: {}\xc2\x85accelerator: {sharedMemory: 9Gi}\n", "accelerator.sharedMemory", "9Gi"),
        (b"job:\n  a: &x 1\nstack: {name: s, labels: {\njob: x\n}}\n", "stack.labels", {"job": "x"}),
        (b"job: 1.0e+3\nstack: {labels: {a: b}}\n", "stack.labels", {"a": "b"}),
    ],
)
def test_a_skipped_section_never_hides_the_section_after_it(text: bytes, path: str, value: Any, tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_bytes(text)
    found: Any = inputs.load([str(PROFILES[0]), SITE, str(file)])
    for key in path.split("."):
        found = found[key]
    assert found == value


@pytest.mark.parametrize("text", [b"job:\n  a: 1\njob:\n  b: 1\n", b"job: {\n", b"job: \xff\n", b"job: 'a\0b'\n"])
def test_a_section_that_wiring_does_not_need_must_be_valid_too(text: bytes, tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_bytes(text)
    with pytest.raises(InputError) as error:
        inputs.load([str(PROFILES[0]), SITE, str(file)])
    assert error.value.at is not None
    assert error.value.at.file == str(file)


def test_files_are_merged_before_the_defaults_are_applied(tmp_path: Path) -> None:
    """Helm fills in the defaults of the chart last: what an earlier file deletes and a later one gives has them all."""
    (tmp_path / "less.yaml").write_text("tracking: null\n")
    (tmp_path / "more.yaml").write_text("tracking: {wandb: {enabled: true}}\n")
    profile, less, more = str(PROFILES[0]), str(tmp_path / "less.yaml"), str(tmp_path / "more.yaml")
    assert inputs.load([profile, SITE, less, more]) == inputs.load([profile, SITE, more])


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("# nothing\n")
    assert inputs.load([str(PROFILES[0]), str(RECIPES[0]), SITE, str(tmp_path / "none.yaml")]) == GOOD


@pytest.mark.parametrize(
    ("profile", "more", "text"),
    [
        ("eks-h100", "platform: {capacity: {kind: spot}}", "how GKE nodes are bought, but platform.kind is kubernetes"),
        ("eks-h100", "platform: {capacity: {placementPolicy: near}}", "how GKE nodes are bought"),
        ("b200", "platform: {capacity: {kind: reservation}}", "platform.capacity.reservation is not given"),
        ("b200", "platform: {capacity: {reservation: ours}}", "kind is on-demand, but .*reservation is ours"),
        (
            "b200",
            "platform: {kind: gke-autopilot, capacity: {kind: reservation, reservation: r/reservationBlocks/b}}",
            "a pod on Autopilot cannot select a block",
        ),
        (
            "b200",
            "platform: {kind: kubernetes}",
            "platform.kind kubernetes does not work on b200, because it is a mach",
        ),
        ("gb200", "platform: {capacity: {kind: spot}}", "platform.capacity.kind spot does not work on gb200, because"),
        ("coreweave-h100", "network: {mode: multiNetwork}", "has no accelerator.interfaces"),
        ("coreweave-h100", "network: {mode: dranet}", "network.mode dranet does not work on h100, because CoreWeave"),
    ],
)
def test_unsupported_platform_features_are_rejected_like_in_the_charts(
    profile: str, more: str, text: str, tmp_path: Path, helm: Embedded
) -> None:
    """Pods that are wired for it would wait, or train over TCP."""
    file = tmp_path / "more.yaml"
    file.write_text(f"{more}\nstorage: {{data: {{gcsfuse: null, existingClaim: {{name: c}}}}}}\n")
    files = [str(ROOT / f"values/accelerators/{profile}.yaml"), str(RECIPES[0]), SITE, str(file)]
    with pytest.raises(InputError, match=text) as error:
        inputs.load(files)
    assert (error.value.at and error.value.at.file) == str(file)
    assert error.value.fix
    with pytest.raises(RenderError, match=r"does not work on|network\.mode|platform\.capacity"):
        helm.render(str(ROOT / "charts/raycluster"), files)


def test_the_schema_has_no_pattern_except_the_one_for_names() -> None:
    text = (ROOT / "schemas/generated/wiring.json").read_text(encoding="utf-8")
    assert {*re.findall(r'"pattern": ?"([^"]*)"', text)} == {inputs.NAME.pattern}
