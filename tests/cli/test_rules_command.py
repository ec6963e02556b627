"""`grpo rules` and `grpo explain` say what is judged: every rule, whole, and near names for a misspelt one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.lint import linter
from grpo.problems import cases, index, reading, registry
from grpo.problems.cases import Case
from postrender.finding import SEVERITIES
from postrender.problem import CLUSTER, FAILURE, Problem
from postrender.yaml import reader
from tests.conftest import ROOT, stack_files
from tests.postrender.test_secrets import EXAMPLES

Run = Callable[..., tuple[int, str, str]]
CASES = reader.load_values(ROOT / "tests/grpo/lint_cases.yaml").plain()


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line; return exit code, stdout, stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(list(words))
        return code, *capsys.readouterr()

    return run


def test_each_id_is_listed_once_with_severity_and_title(grpo: Run) -> None:
    code, out, err = grpo("rules")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in out.splitlines()}
    assert len(rows) == len(out.splitlines())
    for rule in registry.rules("values", "objects", "chart"):
        severity, title = rows[rule.id]
        assert severity == rule.severity
        assert title.startswith(rule.title)
    assert rows["nemo-rl/on-policy-batch"][1].endswith("(nemo-rl v0.5.0 and later)")
    assert "values/unknown-key" in rows


def test_every_check_made_while_reading_values_is_listed() -> None:
    """Those that the cases of lint make are found by their ids in the code as well."""
    listed = {each.id for each in reading.READING}
    for case in CASES.values():
        assert {f"values/{line.split(' | ')[0].split()[1]}" for line in case["findings"]} <= listed
    files = (path for name in ("grpo", "postrender") for path in (ROOT / name).rglob("*.py"))
    sources = "".join(path.read_text() for path in files if path.name != "reading.py")
    for each in reading.READING:
        assert f'"{each.id}"' in sources or f'"{each.id.partition("/")[2]}"' in sources


def test_every_possible_finding_id_is_explained(grpo: Run) -> None:
    listed = {each.id: each for each in index.everything()}
    for path in (path for name in ("grpo", "postrender") for path in (ROOT / name).rglob("*.py")):
        named = re.findall(r'(?:rule=|_RULE = )"([a-z-]+/[a-z-]+)"', path.read_text())
        assert {*named} <= {*listed}, path
    for each in listed.values():
        assert each.title, each.id
        assert each.why or each.target in (FAILURE, CLUSTER), each.id
        assert each.fix or each.target == CLUSTER, each.id
        assert bool(cases.case(each.id, "bad")) == bool(cases.case(each.id, "good")), each.id
    code, out, _ = grpo("explain", "values/token")
    assert code == 0
    assert "\n  why: values end up in Git, " in out
    assert "\nbad:\n  huggingface:\n" in out


@pytest.mark.parametrize(
    "case",
    [each for rule in reading.READING if rule.domain == "values" for each in cases.cases().get(rule.id, ())],
    ids=str,
)
def test_each_example_triggers_its_own_rule(case: Case, tmp_path: Path) -> None:
    text = "# " + EXAMPLES["huggingface"] + "\n" if str(case) == "values/token bad" else case.text
    file = tmp_path / "case.yaml"
    file.write_text(text)
    found = linter.lint([*map(str, stack_files("b200", "gemma3-27b-gsm8k")), str(file)])
    assert (case.id in {one.rule for one in found}) == case.bad


def test_json_output_has_every_field_of_a_rule(grpo: Run) -> None:
    code, out, _ = grpo("rules", "--format", "json")
    listed = json.loads(out)["rules"]
    assert (code, len(listed)) == (0, len(index.everything()))
    by_id = {each["id"]: each for each in listed}
    assert by_id["nemo-rl/on-policy-batch"] == {
        "id": "nemo-rl/on-policy-batch",
        "severity": "error",
        "title": "force_on_policy_ratio is on, but the global batch is not exactly a step's answers",
        "why": by_id["nemo-rl/on-policy-batch"]["why"],
        "fix": by_id["nemo-rl/on-policy-batch"]["fix"],
        "source": "nemo_rl/algorithms/grpo.py:430 at v0.7.0",
        "judges": "values",
        "framework": "nemo-rl",
        "since": "v0.5.0",
        "before": "",
        "stopsRun": "when the framework reads its configuration",
    }
    assert {each["severity"] for each in listed} <= {*SEVERITIES}
    assert {each["judges"] for each in listed} == {
        "values",
        "objects",
        "charts",
        "logs",
        "streams",
        "failures",
        "cluster",
    }


def test_a_domain_lists_its_rules(grpo: Run) -> None:
    code, out, _ = grpo("rules", "pods", "secrets")
    assert code == 0
    assert {line.split("/")[0] for line in out.splitlines()} == {"pods", "secrets"}
    _, out, _ = grpo("rules", "pods", "--format", "json")
    assert {each["id"].split("/")[0] for each in json.loads(out)["rules"]} == {"pods"}


@pytest.mark.parametrize("words", [["rules"], ["explain"]])
def test_a_rule_is_explained_with_its_examples(grpo: Run, words: list[str]) -> None:
    code, out, err = grpo(*words, "pods/duplicate-merge-key")
    rule = next(each for each in registry.rules("objects") if each.id == "pods/duplicate-merge-key")
    assert (code, err) == (0, "")
    assert out.startswith(f"{rule.id}  (error)\n  {rule.title}\n  why: {rule.why}\n  fix: {rule.fix}\n")
    assert f"\n  source: {rule.source}\n  judged by: grpo check and grpo-post-render\n" in out
    assert '\n  accept it: checks: {ignore: {pods/duplicate-merge-key: "the reason"}}  (grpo check only)\n' in out
    for name in ("bad", "good"):
        example = cases.case(rule.id, name)
        assert example
        assert f"\n{name}:\n  {example.text.splitlines()[0]}\n" in out


def test_causes_and_cluster_checks_are_explained(grpo: Run) -> None:
    code, out, _ = grpo("explain", "cuda-oom", "claims")
    assert code == 0
    cause, check = out.split("\n\n")
    assert cause.startswith("cuda-oom  (grpo why)\n  a GPU had too little memory for the training\n")
    assert "\n  may be found before the start by: memory/does-not-fit\n" in cause
    assert check.startswith("claims  (grpo doctor)\n  a volume claim of the pods is not bound\n")
    code, out, err = grpo("explain", "cuda-om")
    assert (code, out) == (2, "")
    assert err.startswith("grpo explain: nothing has the id or domain 'cuda-om'\n  fix: did you mean cuda-oom")


def test_a_rule_names_the_framework_versions_it_applies_to(grpo: Run) -> None:
    code, out, _ = grpo("rules", "nemo-rl/on-policy-batch")
    assert code == 0
    assert "\n  for: nemo-rl v0.5.0 and later\n" in out
    assert "\n  judged by: grpo lint\n" in out


@pytest.mark.parametrize(
    ("since", "before", "words"), [("", "", ""), ("v1", "v2", " v1 before v2"), ("", "v2", " before v2")]
)
def test_version_ranges_are_put_into_words(since: str, before: str, words: str) -> None:
    assert (
        Problem(
            "a/b", target="values", severity="error", title="t", framework="verl", since=since, before=before
        ).versions
        == f"verl{words}"
    )


@pytest.mark.parametrize("words", [["rules"], ["explain"]])
@pytest.mark.parametrize(
    ("word", "fix"),
    [
        ("nemo-rl/topk", "did you mean nemo-rl/top-k"),
        ("top-k", "did you mean nemo-rl/top-k"),
        ("nemo-rl/rows", "did you mean nemo-rl/rows-"),
        ("nemorl", "did you mean nemo-rl"),
        ("zzzzz", "run grpo rules to list them"),
    ],
)
def test_an_unknown_name_is_refused_with_similar_names(grpo: Run, words: list[str], word: str, fix: str) -> None:
    code, out, err = grpo(*words, word)
    assert (code, out) == (2, "")
    assert err.startswith(f"grpo {words[0]}: nothing has the id or domain {word!r}\n  fix: {fix}")
