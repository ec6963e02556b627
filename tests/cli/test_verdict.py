"""Which findings a command tells, in which form, and with which exit code it ends."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from postrender import cli, report, textio
from tests.conftest import SITE, stack_files

Run = Callable[..., tuple[int, str, str]]
PROFILE, RECIPE, _ = map(str, stack_files())
STACK = ["-f", PROFILE, "-f", RECIPE, "-f", str(SITE), "-f", "more.yaml"]
# An error and a warning of rules over values.
MIXED = """\
job:
  config:
    grpo: {val_period: 10, val_batch_size: 300, max_num_steps: 100}
    checkpointing: {save_period: 15}
"""
DUPLICATE = """\
apiVersion: v1
kind: Pod
metadata: {name: pod}
spec: {containers: [{name: main, image: "a:1", env: [{name: A}, {name: A}]}]}
"""
TWICE = "pods/duplicate-merge-key"


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in an empty folder, without a helm executable on PATH; return exit code, stdout, stderr."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "_lines", {})
    monkeypatch.setattr(textio, "_streams", {})
    Path("more.yaml").write_text(MIXED)
    Path("pod.yaml").write_text(DUPLICATE)

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(list(words))
        return code, *capsys.readouterr()

    return run


def rules(out: str) -> list[tuple[str, str]]:
    """Return the ids and severities in a JSON report."""
    return [(each["rule"], each["severity"]) for each in json.loads(out)["findings"]]


def parsed(out: str) -> ET.Element:
    """Return a JUnit report."""
    return ET.fromstring(out)  # noqa: S314 - written by us


def test_only_findings_that_are_bad_enough_fail_and_all_are_told(grpo: Run) -> None:
    _, out, _ = grpo("lint", *STACK, "--format", "json")
    found = dict(rules(out))
    assert {"error", "warning"} == set(found.values())
    lesser = next(name for name, severity in found.items() if severity == "warning")
    expected = {"error": 0, "warning": 1, "info": 1}
    for fail_on, code in expected.items():
        assert grpo("lint", *STACK, "--select", lesser, "--fail-on", fail_on)[0] == code
        assert grpo("lint", *STACK, "--fail-on", fail_on)[0] == 1
    code, out, err = grpo("lint", *STACK, "--select", lesser)
    assert (code, err) == (0, "")
    assert out.endswith("\n1 finding (1 warning)\n")
    code, out, _ = grpo("lint", *STACK, "--select", lesser, "--format", "junit")
    assert (code, parsed(out).get("failures")) == (0, "0")
    code, out, _ = grpo("lint", *STACK, "--select", lesser, "--format", "junit", "--fail-on", "warning")
    assert (code, parsed(out).get("failures")) == (1, "1")


def test_select_takes_ids_and_domains(grpo: Run) -> None:
    Path("more.yaml").write_text(MIXED + "zork: 1\n")
    _, out, _ = grpo("lint", *STACK, "--format", "json")
    every = rules(out)
    assert ("values/unknown-key", "error") in every
    _, out, _ = grpo("lint", *STACK, "--format", "json", "--select", "nemo-rl")
    assert rules(out) == [each for each in every if each[0].startswith("nemo-rl/")] != every
    words = ["--select", "values/token,nodes", "--select", "values/unknown-key"]
    _, out, _ = grpo("lint", *STACK, "--format", "json", *words)
    assert rules(out) == [("values/unknown-key", "error")]
    assert grpo("lint", *STACK, "--select", "nodes") == (0, "", "clean: 4 values files\n")
    assert grpo("check", "pod.yaml", "--select", "nodes") == (0, "", "clean: 1 manifest\n")
    assert grpo("check", "pod.yaml", "--select", "pods")[0] == 1


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("--select nemorl/top-k", "did you mean nemo-rl/top-k"),
        ("--select topk", "did you mean nemo-rl/top-k"),
        ("--select nemo-rl,", "grpo rules lists them"),
        ("--select", "see grpo lint --help"),
        ("--fail-on warn", "did you mean warning?"),
        ("--yes", "grpo lint --fix --yes"),
    ],
)
def test_a_word_that_is_no_rule_or_severity_is_wrong_usage(grpo: Run, words: str, fix: str) -> None:
    code, out, err = grpo("lint", *STACK, *words.split())
    assert (code, out) == (2, "")
    assert f"\n  fix: {fix}" in err


def test_check_gives_findings_the_severity_of_their_rule(grpo: Run) -> None:
    _, out, _ = grpo("check", "pod.yaml", "--format", "json")
    assert rules(out) == [(TWICE, "error")]


def test_check_honours_what_the_values_accept(grpo: Run) -> None:
    files = ["-f", PROFILE, "-f", "more.yaml"]
    Path("more.yaml").write_text(f"checks: {{ignore: {{{TWICE}: it is a test}}}}\n")
    assert grpo("check", "pod.yaml", *files) == (0, "", "clean: 1 manifest\n")
    # Of values that are no exception any more, and of rules over values, nothing is said here.
    Path("more.yaml").write_text(f"checks: {{ignore: {{{TWICE}: null, nemo-rl/top-k: a reason}}}}\n")
    code, out, _ = grpo("check", "pod.yaml", *files, "--format", "json")
    assert (code, rules(out)) == (1, [(TWICE, "error")])


def test_an_exception_that_meets_nothing_is_told_by_the_command_that_judges_its_kind(grpo: Run) -> None:
    Path("more.yaml").write_text(
        "checks:\n  ignore:\n"
        f"    {TWICE}: a reason\n    nemo-rl/top-k: a reason\n    zork/zork: a reason\n    values/token: a reason\n"
    )
    code, out, _ = grpo("lint", *STACK)
    assert code == 1
    said = [line.partition("  [")[0] for line in out.splitlines() if "[checks/ignored-nothing]" in line]
    of_values = [
        "more.yaml:4:5: nemo-rl/top-k finds nothing here",
        "more.yaml:5:5: no rule is called zork/zork",
        "more.yaml:6:5: values/token cannot be accepted",
    ]
    assert said == of_values
    code, out, _ = grpo("check", *STACK)
    assert code == 1
    said = [line.partition("  [")[0] for line in out.splitlines() if "[checks/ignored-nothing]" in line]
    assert said == [*of_values, f"more.yaml:3:5: {TWICE} finds nothing here"]


def test_manifests_that_are_named_may_be_a_part_of_what_an_exception_is_for(grpo: Run) -> None:
    Path("more.yaml").write_text("checks: {ignore: {nodes/another-accelerator: a reason}}\n")
    Path("pod.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    code, out, _ = grpo("check", "pod.yaml", "-f", PROFILE, "-f", "more.yaml", "--format", "json")
    assert (code, rules(out)) == (0, [("checks/ignored-nothing", "info")])
    assert grpo("check", "pod.yaml", "-f", PROFILE, "-f", "more.yaml", "--fail-on", "info")[0] == 1


def test_check_without_manifests_judges_the_values_first(grpo: Run) -> None:
    more = "ray: {head: {initContainers: {warm: {image: a:1, env: [{name: A}, {name: A}]}}}}\n"
    Path("more.yaml").write_text(MIXED + more)
    _, out, _ = grpo("lint", *STACK, "--format", "json")
    of_values = rules(out)
    assert len(of_values) > 1
    code, out, err = grpo("check", *STACK, "--format", "json")
    assert (code, rules(out)) == (1, [*of_values, (TWICE, "error")])
    assert err.startswith("rendered with ")
    # With manifests they are what is asked for.
    _, out, _ = grpo("check", "pod.yaml", *STACK, "--format", "json")
    assert rules(out) == [(TWICE, "error")]


@pytest.mark.parametrize(
    ("more", "found", "error"),
    [
        ("zork: 1\n", "values/unknown-key", "zork"),
        ("accelerator: {name: null}\n", "values/no-accelerator", "accelerator"),
    ],
)
def test_findings_and_a_failed_render_do_not_hide_each_other(grpo: Run, more: str, found: str, error: str) -> None:
    Path("more.yaml").write_text(more)
    code, out, err = grpo("check", *STACK)
    assert code == 2
    assert f"[{found}]" in out
    assert error in err
    code, out, _ = grpo("check", *STACK, "--format", "sarif")
    assert (code, found in {each["ruleId"] for each in json.loads(out)["runs"][0]["results"]}) == (2, True)


def test_what_a_chart_refuses_is_a_finding_at_the_value_that_it_names(grpo: Run) -> None:
    Path("more.yaml").write_text("job:\n  nodes: 64\n")
    code, out, _ = grpo("check", *STACK, "--format", "json")
    found = {each["rule"]: each for each in json.loads(out)["findings"]}
    assert code == 1
    refused = found["values/refused-by-chart"]
    assert (refused["file"], refused["line"]) == ("more.yaml", 2)
    assert "job.nodes is 64" in refused["what"]
    assert found["job/more-nodes-than-cluster"]["line"] == 2


def test_reports_of_clean_values_are_whole(grpo: Run) -> None:
    files = STACK[:-2]
    code, out, err = grpo("lint", *files, "--format", "sarif")
    assert (code, json.loads(out)["runs"][0]["results"], err) == (0, [], "clean: 3 values files\n")
    code, out, _ = grpo("lint", *files, "--format", "junit")
    assert (code, len(list(parsed(out).iter("testcase")))) == (0, 1)


def test_what_a_chart_refuses_cannot_be_accepted(grpo: Run) -> None:
    Path("more.yaml").write_text("job: {nodes: 64}\nchecks: {ignore: {job/more-nodes-than-cluster: we have more}}\n")
    code, out, _ = grpo("lint", *STACK, "--format", "json")
    assert code == 1
    assert [name for name, _ in rules(out)] == ["job/more-nodes-than-cluster", "checks/ignored-nothing"]
    assert "cannot be accepted" in out
