"""A value of job.config that an overlay of an earlier file covers is a finding at the value, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Engine
from grpo.lint import linter
from grpo.report import formats
from postrender.finding import Finding
from postrender.yaml import reader
from tests.charts.test_grpo_job import plan
from tests.conftest import PROFILES, RECIPES, ROOT, stack_files, thin

RULE = "values/covered-by-overlay"
CASES: dict[str, dict[str, Any]] = reader.load_values(Path(__file__).with_name("overlay_conflict_cases.yaml")).plain()


def write(folder: Path, name: str, text: str) -> str:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return str(file)


def job(text: str) -> str:
    """Put lines below `job:`; the first of them is line 2."""
    return "job:\n" + "".join(f"  {line}\n" for line in text.splitlines())


def files_of(case: str, folder: Path) -> list[str]:
    """Write the two files of a case and return the whole stack."""
    both = [write(folder, f"{name}.yaml", job(CASES[case][name])) for name in ("earlier", "later")]
    return [*map(str, stack_files()), *both]


def covered(files: list[str]) -> list[Finding]:
    """Lint files, and let nothing but covered values be found; the keys of the cases are made up, so rules are left."""
    found = [one for one in linter.lint(files) if one.rule.startswith("values/")]
    assert {one.rule for one in found} <= {RULE}
    return found


def places(found: list[Finding]) -> list[str]:
    return [f"{Path(one.at.file).name}:{one.at.line}:{one.at.col}" for one in found]


@pytest.mark.parametrize("case", CASES)
def test_an_overridden_value_is_reported_at_its_line(case: str, tmp_path: Path) -> None:
    found = covered(files_of(case, tmp_path))
    expected = [line.replace("EARLIER", str(tmp_path / "earlier.yaml")) for line in CASES[case]["findings"]]
    assert places(found) == [f"later.yaml:{line.partition(' ')[0]}" for line in expected]
    for one, line in zip(found, expected, strict=True):
        head, what, fix = line.split(" | ")
        assert one.what.startswith(f"job.config.{head.partition(' ')[2]} is ")
        assert what in one.what
        assert fix in one.fix
        assert "job.configFor" in one.why


def leaves(tree: dict[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    found = {}
    for key, value in tree.items():
        below = leaves(value, (*path, key)) if isinstance(value, dict) else {".".join((*path, key)): value}
        found.update(below)
    return found


def same(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


@pytest.mark.parametrize("case", thin(list(CASES), 4))
def test_the_chart_drops_the_same_values(case: str, tmp_path: Path, helm: Engine) -> None:
    rendered = helm.render(str(ROOT / "charts/grpo-job"), files_of(case, tmp_path), release="x", namespace="y")
    used = leaves(plan(list(rendered.documents))["config"])
    wrote = leaves(yaml.safe_load(CASES[case]["later"])["config"])
    lost = [path for path, value in wrote.items() if not same(used.get(path, "gone"), value)]
    assert lost == [line.partition(" | ")[0].partition(" ")[2] for line in CASES[case]["findings"]]


@pytest.mark.parametrize(
    "later",
    [
        "configFor: {b200: {extra: {a: 8}}}\nconfig: {extra: {a: 4}}",
        # Whoever writes into the section knows of it: the rest of job.config.extra is for other versions.
        "configFor: {b200: {extra: {x: 8}}}\nconfig: {extra: {b: 4}}",
    ],
)
def test_an_overlay_in_the_same_file_is_treated_as_intended(later: str, tmp_path: Path) -> None:
    earlier = write(tmp_path, "earlier.yaml", job("configFor: {b200: {extra: {_override_: true, a: 16}}}"))
    assert covered([*map(str, stack_files()), earlier, write(tmp_path, "later.yaml", job(later))]) == []


def test_an_overlay_in_a_later_file_is_treated_as_intended(tmp_path: Path) -> None:
    value = write(tmp_path, "value.yaml", job("config: {extra: {a: 4}}"))
    overlay = write(tmp_path, "overlay.yaml", job("configFor: {b200: {extra: {a: 16}}}"))
    stack = [*map(str, stack_files())]
    assert covered([*stack, value, overlay]) == []
    assert places(covered([*stack, overlay, value])) == ["value.yaml:2:20"]
    assert covered([*stack, overlay, value, overlay]) == []
    assert places(covered([*stack, value, overlay, value])) == ["value.yaml:2:20"]


def test_the_file_whose_value_wins_is_named(tmp_path: Path) -> None:
    overlay = write(tmp_path, "overlay.yaml", job("configFor: {b200: {extra: {a: 16}}}"))
    one = write(tmp_path, "one.yaml", job("config: {extra: {a: 4}}"))
    two = write(tmp_path, "two.yaml", job("config:\n  extra:\n    a: 5"))
    assert places(covered([*map(str, stack_files()), overlay, one, two])) == ["two.yaml:4:7"]


def test_a_site_file_cannot_override_a_micro_batch_set_by_the_recipes_overlay(tmp_path: Path) -> None:
    text = "config:\n  actor_rollout_ref:\n    actor:\n      ppo_micro_batch_size_per_gpu: 4"
    site = write(tmp_path, "my-site.yaml", job(text))
    recipe = "qwen2.5-32b-gsm8k-verl"
    files = [str(file) for file in stack_files("h200", recipe)]
    (one,) = covered([*files, site])
    assert (one.at.file, one.at.line, one.at.col, one.rule) == (site, 5, 9, RULE)
    lines = Path(files[1]).read_text(encoding="utf-8").splitlines()
    line = lines.index("          ppo_micro_batch_size_per_gpu: 16") + 1
    assert f"is 4 here, and the job runs with 16, which job.configFor.h200 sets in {files[1]}:{line}" in one.what
    assert one.fix == "write it under job.configFor.h200"
    assert covered([*map(str, stack_files("b200", recipe)), site]) == []


def test_custom_data_is_lost_with_an_older_version(tmp_path: Path) -> None:
    text = "config:\n  data:\n    train:\n      dataset_name: mine\n      split: all"
    site = write(tmp_path, "my-site.yaml", job(text))
    files = [str(file) for file in stack_files()]
    older = str(ROOT / "values/frameworks/nemo-rl-v0.5.0.yaml")
    found = covered([*files, older, site])
    assert places(found) == ["my-site.yaml:5:9", "my-site.yaml:6:9"]
    assert f"job.configFor.v0.5.0.data in {files[1]}:" in found[0].what
    assert "replaces all of job.config.data" in found[0].what
    assert covered([*files, site]) == []


@pytest.mark.parametrize("accelerator", thin(PROFILES, len(PROFILES)))
def test_no_recipe_overrides_values_that_init_writes(accelerator: str) -> None:
    for recipe in RECIPES:
        profile, recipe_file, site = map(str, stack_files(accelerator, recipe))
        framework = "verl" if "-verl" in recipe else "nemo-rl"
        for version in [None, *(ROOT / "values/frameworks").glob(f"{framework}-*.yaml")]:
            older = [str(version)] if version else []
            found = linter.lint([profile, recipe_file, *older, site])
            assert [str(one.at) for one in found if one.rule == RULE] == []


def test_a_secret_is_not_printed(tmp_path: Path) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
    overlay = write(tmp_path, "overlay.yaml", job(f"configFor: {{b200: {{extra: {{a: [{secret}], b: {secret}}}}}}}"))
    value = write(tmp_path, "value.yaml", job(f"config: {{extra: {{a: 1, b: [{'x' * 50}, {secret}]}}}}"))
    found = [one for one in linter.lint([*map(str, stack_files()), overlay, value]) if one.rule == RULE]
    assert len(found) == 2
    assert not any(secret[:9] in formats.write(found, form) for form in formats.FORMATS)
