"""Each kind of mistake in a values file gives one finding at the line to edit, with what, why and fix."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grpo.lint import linter, messages
from grpo.report import formats
from postrender.errors import InputError, Location
from postrender.finding import Finding
from postrender.yaml import reader
from tests.conftest import ACCELERATORS, PROFILES, RECIPES, stack_files
from tests.postrender.test_secrets import EXAMPLES

_FILE = Path(__file__).with_name("lint_cases.yaml")
CASES: dict[str, dict[str, Any]] = reader.load_values(_FILE).plain()


def text_of(case: str) -> str:
    """Return the file of a case, with the secrets put in."""
    text: str = CASES[case]["file"]
    for shape, secret in EXAMPLES.items():
        text = text.replace(f"<{shape}>", secret)
    return text


def check(tmp_path: Path, text: str, *, stack: bool = True) -> list[Finding]:
    """Lint the stack of the project, with one more file over it."""
    file = tmp_path / "more.yaml"
    file.write_text(text, encoding="utf-8")
    found = linter.lint([*(map(str, stack_files()) if stack else ()), str(file)])
    # The cases have made-up keys of the framework; the rules over these have tests of their own.
    return [one for one in found if one.rule.startswith("values/")]


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_reported_at_its_line(case: str, tmp_path: Path) -> None:
    expected = CASES[case]["findings"]
    found = check(tmp_path, text_of(case))
    assert [f"{one.at.line}:{one.at.col} {one.rule}" for one in found] == [
        f"{line.split(' | ')[0].replace(' ', ' values/')}" for line in expected
    ]
    page = formats.write(found, "text")
    for one, line in zip(found, expected, strict=True):
        _, what, fix = line.split(" | ")
        assert one.at.file == str(tmp_path / "more.yaml")
        assert what in formats.write([one], "text")
        assert fix in one.fix
        assert one.why
    assert not any(
        secret in page + formats.write(found, "json") + formats.write(found, "github") for secret in EXAMPLES.values()
    )


def test_the_schema_is_parsed_once_for_all_findings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4,000 misspelt keys took 40 s."""
    work = Counter[str]()

    def counted(module: ModuleType, name: str) -> None:
        function = getattr(module, name)

        def count(*words: Any, **named: Any) -> Any:
            work[name] += 1
            return function(*words, **named)

        monkeypatch.setattr(module, name, count)

    counted(json, "loads")
    counted(messages, "_paths")
    file = tmp_path / "own.yaml"
    counts = []
    for number in (3, 300):
        work.clear()
        file.write_text("".join(f"key{each}: 1\n" for each in range(number)))
        found = linter.lint([*map(str, stack_files()), str(file)])
        assert [one.rule for one in found].count("values/unknown-key") == number
        counts.append(work["loads"] + work["_paths"])
    assert counts[1] <= counts[0]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_every_profile_passes_with_every_recipe(accelerator: str, recipe: str) -> None:
    assert linter.lint(list(map(str, stack_files(accelerator, recipe)))) == []


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "stack: {name: a}\n", "accelerator: {}\n", "accelerator: {name: null}\n"]
)
def test_a_missing_profile_is_one_finding_and_comes_first(text: str, tmp_path: Path) -> None:
    found = check(tmp_path, text, stack=False)
    assert found[0].rule == "values/no-accelerator"
    assert "none of the values files says which machines" in found[0].what
    assert f"--accelerator NAME (there are: {', '.join(PROFILES)})" in found[0].fix
    assert str(found[0].at) == str(tmp_path / "more.yaml")
    assert not any("accelerator." in one.what for one in found if one.rule == "values/missing-key")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "images: {training: {repository: registry.example/team/nemo, arm64: true}}",
        "job: {config: {grpo: {max_num_steps: 3}}}",
    ],
)
def test_a_missing_recipe_is_one_finding_too(tmp_path: Path, text: str) -> None:
    profile, recipe, site = map(str, stack_files())
    own = tmp_path / "mine.yaml"
    own.write_text(text)
    (one,) = linter.lint([profile, site, str(own)])
    assert one.rule == "values/no-recipe"
    assert Path(recipe).name in one.fix


def test_an_incomplete_recipe_still_counts_as_a_recipe(tmp_path: Path) -> None:
    profile, _, site = map(str, stack_files())
    own = tmp_path / "mine.yaml"
    own.write_text("job: {version: v0.7.0}\n")
    found = linter.lint([profile, site, str(own)])
    assert {each.rule for each in found} == {"values/missing-key"}


@pytest.mark.parametrize(
    ("job", "fixes"),
    [
        ("framework: verl, version: 0.8.0", ("docker.io/verlai/verl", "vllm020.dev1", "2.55.1")),
        ("version: v0.5.0", ("nvcr.io/nvidia/nemo-rl", "v0.5.0", "2.49.2")),
    ],
)
def test_a_missing_image_finding_suggests_the_one_for_the_framework_and_version(
    job: str, fixes: Sequence[str], tmp_path: Path
) -> None:
    profile, _, site = map(str, stack_files())
    own = tmp_path / "mine.yaml"
    own.write_text(f"job: {{name: mine, {job}}}\n")
    found = [each.fix for each in linter.lint([profile, site, str(own)]) if each.rule == "values/missing-key"]
    assert sorted(fix.rpartition(": ")[2].partition("}")[0] for fix in found) == sorted(fixes)


def test_a_missing_recipe_finding_suggests_one_for_the_framework(tmp_path: Path) -> None:
    profile, _, site = map(str, stack_files())
    own = tmp_path / "mine.yaml"
    own.write_text("job: {framework: verl}\n")
    (one,) = linter.lint([profile, site, str(own)])
    assert "verl.yaml" in one.fix
    assert "gemma" not in one.fix


def test_two_profiles_are_reported_as_mixing_two_machines() -> None:
    files = [str(stack_files(name)[0]) for name in ACCELERATORS[:2]]
    with pytest.raises(InputError, match=r"a second accelerator profile: .*b200\.yaml is for b200, this .* h200"):
        linter.lint([*files, *map(str, stack_files()[1:])])
    assert linter.lint([files[0], *map(str, stack_files())]) == []


def test_a_required_key_set_by_no_file_is_reported_in_the_users_last_file(
    tmp_path: Path,
) -> None:
    profile, recipe, _ = map(str, stack_files())
    own = tmp_path / "mine.yaml"
    own.write_text("huggingface: {}\n")
    for order in ([profile, recipe, str(own)], [profile, str(own), recipe]):
        (found,) = linter.lint(order)
        assert found.what.startswith("stack.name is missing")
        assert found.at.file == str(own)
        assert found.why.startswith("Name of the stack")
        assert found.fix == f"write stack: {{name: my-run}} in {own}"
    own.write_text("huggingface: {}\nstack:\n  labels: {team: rl}\n")
    (found,) = linter.lint([profile, recipe, str(own)])
    assert (found.at.file, found.at.line) == (str(own), 2)


def test_a_users_recipe_without_a_run_name_is_reported(tmp_path: Path) -> None:
    profile, recipe, site = map(str, stack_files())
    own = tmp_path / "recipe.yaml"
    text = Path(recipe).read_text("utf-8")
    own.write_text(text.replace("\n  name: gemma3-gsm8k\n", "\n"), "utf-8")
    (found,) = linter.lint([profile, str(own), site])
    assert found.what.startswith("job.name is missing")
    assert (found.at.file, found.at.line) == (str(own), text.splitlines().index("job:") + 1)
    assert found.fix == f"write job: {{name: my-run}} in {own}"


def test_a_missing_site_file_is_one_finding_that_points_at_no_packaged_file() -> None:
    profile, recipe, _ = map(str, stack_files())
    (found,) = linter.lint([profile, recipe])
    assert (found.rule, found.at.line) == ("values/no-site", 0)
    assert "none sets stack.name" in found.what
    assert "copy values/examples/site.yaml" in found.fix


@pytest.mark.parametrize(
    ("packaged", "written", "meant"),
    [("accelerator", "acelerator", "accelerator"), ("recipe", "imags", "images"), ("recipe", "jbo", "job")],
)
def test_a_misspelt_section_is_the_only_finding(packaged: str, written: str, meant: str, tmp_path: Path) -> None:
    profile, recipe, site = stack_files()
    own = tmp_path / "own.yaml"
    source = profile if packaged == "accelerator" else recipe
    own.write_text(source.read_text("utf-8").replace(f"\n{meant}:\n", f"\n{written}:\n"))
    files = [str(own) if file == source else str(file) for file in (profile, recipe, site)]
    (found,) = linter.lint(files)
    assert (found.rule, found.fix) == ("values/unknown-key", f"did you mean {meant}?")


def test_a_mistake_corrected_by_a_later_file_is_not_reported(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("ray: {workers: {replicas: many}}\n")
    assert check(tmp_path, "ray: {workers: {replicas: 2}}\n") == []
    (one,) = linter.lint([*map(str, stack_files()), str(broken)])
    assert one.at.file == str(broken)
    files = [*map(str, stack_files()), str(broken), str(tmp_path / "more.yaml")]
    assert linter.lint(files) == []


def test_null_passes_inside_collections_and_below_the_configuration(tmp_path: Path) -> None:
    text = "storage: {data: null}\njob:\n  config: {grpo: null}\n  configFor: {b200: {x: null}}\n"
    assert check(tmp_path, text) == []


def test_passing_the_same_file_twice_reports_each_finding_once(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("zork: 1\n")
    assert len(linter.lint([*map(str, stack_files()), str(file), str(file)])) == 1


def test_a_file_that_is_not_a_values_file_stops_linting(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is given twice"):
        check(tmp_path, "a: 1\na: 2\n")


@pytest.mark.parametrize("form", formats.FORMATS)
def test_a_secret_recognisable_only_by_its_name_is_not_shown(form: str, tmp_path: Path) -> None:
    """A text in the place of a map: the message must not say which."""
    key = "a1b2" * 10
    text = f"job:\n  env:\n    WANDB_API_KEY: {key}\nray:\n  env:\n    DB_PASSWORD: hunter2word\n"
    (tmp_path / "more.yaml").write_text(text)
    found = linter.lint([*map(str, stack_files()), str(tmp_path / "more.yaml")])
    assert {"values/wrong-type", "values/token"} <= {one.rule for one in found}
    written = formats.write(found, form)
    assert key[:12] not in written
    assert "hunter2" not in written


@pytest.mark.parametrize("form", formats.FORMATS)
def test_a_password_in_a_url_or_after_a_name_is_not_shown(form: str, tmp_path: Path) -> None:
    """The schema refuses the address of the repository and printed it."""
    text = (
        "job:\n  code: {repository: 'https://me:hunter2word@git.example.org/team/code'}\n"
        "  env:\n    - name: DB_PASS\n      value: hunter2word\n"
        "ray:\n  env:\n    A: --token hunter2word\n    CLIENT_SECRET: hunter2word\n"
        "tracking: {mlflow: {trackingUri: 'http://me:hunter2word@host'}}\n"
    )
    (tmp_path / "more.yaml").write_text(text)
    found = linter.lint([*map(str, stack_files()), str(tmp_path / "more.yaml")])
    assert len(found) >= 5
    assert "hunter2" not in formats.write(found, form)


def test_an_excerpt_hides_a_value_whose_name_above_marks_it_as_secret(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("- name: DB_PASS\n  value: hunter2word\n")
    finding = Finding("it is wrong", Location(str(file), 2, 3), rule="values/x", why="w", fix="f")
    assert "2 |   value: <hidden>" in formats.write([finding], "text")


def test_related_places_name_the_keys_set_there(tmp_path: Path) -> None:
    file = tmp_path / "more.yaml"
    file.write_text(
        "job:\n  configFor:\n    b200:\n      grpo: {num_prompts_per_step: 7}\n"
        "    v0.7.0:\n      policy: {train_global_batch_size: 512}\n"
    )
    (one,) = (
        one for one in linter.lint([*map(str, stack_files()), str(file)]) if one.rule.endswith("rows-not-divisible")
    )
    assert (one.at.file, one.at.line) == (str(file), 6)
    assert [(at.line, key) for at, key in one.also if at.file == str(file)] == [
        (4, "job.configFor.b200.grpo.num_prompts_per_step")
    ]
    assert [key for at, key in one.also if at.file != str(file)] == ["job.config.grpo.num_generations_per_prompt"]


def test_a_conflict_with_a_packaged_recipe_is_reported_at_the_users_line(tmp_path: Path) -> None:
    """The recipe gives generation a node of its own; the user's cluster has one node."""
    file = tmp_path / "mine.yaml"
    file.write_text("ray:\n  workers:\n    replicas: 1\n")
    profile, recipe, site = stack_files("b200", "llama3.1-8b-math-gsm8k-noncolocated")
    (found,) = linter.lint([str(profile), str(recipe), str(site), str(file)])
    assert found.rule == "nemo-rl/generation-gpus-on-one-node"
    assert (found.at.file, found.at.line) == (str(file), 3)
    assert "job.config.policy.generation.colocated.resources.gpus_per_node" in [key for _, key in found.also]
