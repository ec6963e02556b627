"""Which findings a command tells, in which form, and with which exit code it ends."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.report import formats
from grpo.report import text as report_text
from postrender import textfile
from tests.conftest import SITE, stack_files, thin

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
    report_text._source_lines.cache_clear()
    monkeypatch.setattr(textfile, "_streams", {})
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


def test_only_severe_enough_findings_fail_but_all_are_printed(grpo: Run) -> None:
    values = [*STACK, "--no-render"]
    _, out, _ = grpo("lint", *values, "--format", "json")
    found = dict(rules(out))
    assert {"error", "warning"} == set(found.values())
    lesser = next(name for name, severity in found.items() if severity == "warning")
    expected = {"error": 0, "warning": 1, "info": 1}
    for fail_on, code in expected.items():
        assert grpo("lint", *values, "--select", lesser, "--fail-on", fail_on)[0] == code
        assert grpo("lint", *values, "--fail-on", fail_on)[0] == 1
    code, out, err = grpo("lint", *STACK, "--select", lesser)
    assert (code, err.startswith("judged: 4 files, 4 charts, ")) == (0, True)
    assert "objects (selected rules only); not judged: " in err
    assert out.endswith("\n1 warning; the exit code is 0, and 1 with --fail-on warning\n")
    code, out, _ = grpo("lint", *values, "--select", lesser, "--format", "junit")
    assert (code, parsed(out).get("failures")) == (0, "0")
    code, out, _ = grpo("lint", *values, "--select", lesser, "--format", "junit", "--fail-on", "warning")
    assert (code, parsed(out).get("failures")) == (1, "1")


def test_select_accepts_ids_and_domains(grpo: Run) -> None:
    Path("more.yaml").write_text(MIXED + "zork: 1\n")
    _, out, _ = grpo("lint", *STACK, "--format", "json")
    every = rules(out)
    assert ("values/unknown-key", "error") in every
    _, out, _ = grpo("lint", *STACK, "--format", "json", "--select", "nemo-rl")
    assert rules(out) == [each for each in every if each[0].startswith("nemo-rl/")] != every
    words = ["--select", "values/token,nodes", "--select", "values/unknown-key"]
    _, out, _ = grpo("lint", *STACK, "--format", "json", *words)
    assert rules(out) == [("values/unknown-key", "error")]
    code, out, err = grpo("lint", *STACK, "--select", "nodes")
    assert (code, out, err.startswith("clean: 4 files, ")) == (0, "", True)
    told = "clean: 1 manifest (selected rules only)\nnot shown: 1 finding of other rules\n"
    assert grpo("check", "pod.yaml", "--select", "nodes") == (0, "", told)
    assert grpo("check", "pod.yaml", "--select", "pods")[0] == 1


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        ("--select nemorl/top-k", "did you mean nemo-rl/top-k"),
        ("--select topk", "did you mean nemo-rl/top-k"),
        ("--select nemo-rl,", "run grpo rules to list them"),
        ("--select", "see grpo lint --help"),
        ("--fail-on warn", "did you mean warning?"),
        ("--yes", "grpo lint --fix --yes"),
    ],
)
def test_an_unknown_rule_or_severity_is_a_usage_error(grpo: Run, words: str, fix: str) -> None:
    code, out, err = grpo("lint", *STACK, *words.split())
    assert (code, out) == (2, "")
    assert f"\n  fix: {fix}" in err


def test_check_gives_findings_the_severity_of_their_rule(grpo: Run) -> None:
    _, out, _ = grpo("check", "pod.yaml", "--format", "json")
    assert rules(out) == [(TWICE, "error")]


def test_check_honours_exceptions_in_the_values(grpo: Run) -> None:
    files = ["-f", PROFILE, "-f", "more.yaml"]
    Path("more.yaml").write_text(f"checks: {{ignore: {{{TWICE}: it is a test}}}}\n")
    assert grpo("check", "pod.yaml", *files) == (0, "", "clean: 1 manifest\n")
    # Of values that are no exception any more, and of rules over values, nothing is said here.
    Path("more.yaml").write_text(f"checks: {{ignore: {{{TWICE}: null, nemo-rl/top-k: a reason}}}}\n")
    code, out, _ = grpo("check", "pod.yaml", *files, "--format", "json")
    assert (code, rules(out)) == (1, [(TWICE, "error")])


def test_an_unused_exception_is_reported_by_the_command_that_runs_its_rule(grpo: Run) -> None:
    Path("more.yaml").write_text(
        "checks:\n  ignore:\n"
        f"    {TWICE}: a reason\n    nemo-rl/top-k: a reason\n    zork/zork: a reason\n    values/token: a reason\n"
    )
    code, out, _ = grpo("lint", *STACK, "--no-render")
    assert code == 1
    said = [line.partition("  [")[0] for line in out.splitlines() if "[checks/ignored-nothing]" in line]
    of_values = [
        "more.yaml:4:5: nemo-rl/top-k finds nothing here",
        "more.yaml:5:5: no rule is called zork/zork",
        "more.yaml:6:5: values/token cannot be accepted",
    ]
    assert said == of_values
    code, out, _ = grpo("lint", *STACK)
    assert code == 1
    said = [line.partition("  [")[0] for line in out.splitlines() if "[checks/ignored-nothing]" in line]
    assert said == [f"more.yaml:3:5: {TWICE} finds nothing here", *of_values]


@pytest.mark.parametrize(
    ("rule", "values", "words", "is_told"),
    [
        # A training of the files has the finding, and its other tasks do not.
        ("job/reward-runs-generated-code", "job: {rewards: {a: {file: %s}}}\n", ("job.task=fetch",), False),
        ("job/reward-runs-generated-code", "job: {rewards: {a: {file: %s}}}\n", (), False),
        ("job/reward-runs-generated-code", "", ("job.task=fetch",), True),
        ("job/reward-runs-generated-code", "", (), True),
        # The task convert of the files has it, and not the training.
        ("job/head-below-weights", "ray: {head: {memory: 8Gi}}\n", (), False),
        ("job/head-below-weights", "ray: {head: {memory: 400Gi}}\n", (), True),
        ("job/head-below-weights", "ray: {head: {memory: 400Gi}}\n", ("job.task=convert",), True),
        # One site file for stacks of two frameworks.
        ("verl/mini-batch-larger-than-batch", "", (), False),
    ],
)
def test_an_exception_for_another_task_or_framework_is_not_reported_as_unused(
    rule: str, values: str, words: tuple[str, ...], is_told: bool, grpo: Run
) -> None:
    """The same files are given to the release of each task."""
    runs = json.dumps("def reward(truth, response, **more):\n    exec(response)\n    return 0.0, None\n")
    Path("more.yaml").write_text(f"checks: {{ignore: {{{rule}: a reason}}}}\n" + values.replace("%s", runs))
    _, out, _ = grpo("lint", *STACK, "--no-render", *(word for each in words for word in ("--set", each)))
    assert ("[checks/ignored-nothing]" in out) == is_told, out
    assert f"[{rule}]" not in out


def test_an_unused_exception_for_training_pods_is_reported_only_with_the_train_task(grpo: Run) -> None:
    Path("more.yaml").write_text(f"checks: {{ignore: {{{TWICE}: a reason}}}}\n")
    assert "[checks/ignored-nothing]" in grpo("lint", *STACK)[1]
    assert "[checks/ignored-nothing]" not in grpo("lint", *STACK, "--set", "job.task=fetch")[1]


def test_an_exception_unused_by_the_given_manifests_is_only_an_info(grpo: Run) -> None:
    Path("more.yaml").write_text("checks: {ignore: {nodes/another-accelerator: a reason}}\n")
    Path("pod.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    code, out, _ = grpo("check", "pod.yaml", "-f", PROFILE, "-f", "more.yaml", "--format", "json")
    assert (code, rules(out)) == (0, [("checks/ignored-nothing", "info")])
    assert grpo("check", "pod.yaml", "-f", PROFILE, "-f", "more.yaml", "--fail-on", "info")[0] == 1


def test_lint_checks_the_rendered_manifests(grpo: Run) -> None:
    more = "ray: {head: {initContainers: {warm: {image: a:1, env: [{name: A}, {name: A}]}}}}\n"
    Path("more.yaml").write_text(MIXED + more)
    _, out, err = grpo("lint", *STACK, "--format", "json", "--no-render")
    of_values = rules(out)
    assert len(of_values) > 1
    assert err.startswith("judged: 4 files; not judged: what the charts render (--no-render), ")
    code, out, err = grpo("lint", *STACK, "--format", "json")
    assert (code, sorted(rules(out))) == (1, sorted([*of_values, (TWICE, "error")]))
    assert err.startswith("judged: 4 files, 4 charts, 36 objects; ")
    # With manifests they are what is asked for.
    _, out, _ = grpo("check", "pod.yaml", *STACK, "--format", "json")
    assert rules(out) == [(TWICE, "error")]


@pytest.mark.parametrize(
    ("more", "found"),
    thin(
        [
            ("accelerator:\n  worker: {cpu: '240'}\n", [("nodes/too-large", "more.yaml", 2)]),
            (
                "accelerator: {worker: {cpu: '240',\n  memory: 4000Gi}}\n",
                [("nodes/too-large", "more.yaml", 1), ("nodes/too-large", "more.yaml", 2)],
            ),
            # The requests of the machine that the values are for are no mistake of their own.
            (
                "ray:\n  workers: {podSpec: {nodeSelector: {cloud.google.com/gke-accelerator: nvidia-h100-80gb}}}\n",
                [("nodes/another-accelerator", "more.yaml", 2)],
            ),
        ],
        3,
    ),
)
def test_a_machine_mismatch_is_placed_at_the_value_that_causes_it(
    grpo: Run, more: str, found: list[tuple[str, str, int]]
) -> None:
    Path("more.yaml").write_text(more)
    _, out, _ = grpo("lint", *STACK, "--format", "json")
    assert [(each["rule"], each["file"], each["line"]) for each in json.loads(out)["findings"]] == found


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("job: {nodes: many}\n", "values/wrong-type"),
        ("zork: 1\n", "values/unknown-key"),
        ("accelerator: {name: null}\n", "values/no-accelerator"),
    ],
)
def test_findings_and_a_failed_render_do_not_hide_each_other(grpo: Run, more: str, found: str) -> None:
    """What both say is told once."""
    Path("more.yaml").write_text(more)
    code, out, err = grpo("lint", *STACK, "--format", "json")
    assert (code, found in {name for name, _ in rules(out)}) == (1, True)
    assert err.startswith("judged: 4 files")


@pytest.mark.parametrize("form", formats.FORMATS)
def test_without_helm_the_values_are_linted_and_skipped_checks_are_named(grpo: Run, form: str) -> None:
    """Each form of the report says that the charts were not judged."""
    Path("more.yaml").write_text("")
    code, out, err = grpo("lint", *STACK, "--helm", "no-helm", "--format", form)
    assert code == 3
    assert "\njudged: 4 files; not judged: what the charts render (Helm could not run), the memory of a real GPU" in err
    assert err.startswith("cannot run 'no-helm': ")
    if form == "text":
        assert out == ""
    else:
        assert "cannot run 'no-helm': " in reported(form, out)[2]
        assert "What the charts render has not been judged." in out


def test_without_helm_a_finding_in_the_values_is_reported(grpo: Run) -> None:
    Path("more.yaml").write_text("job: {nodes: 64}\n")
    code, out, err = grpo("lint", *STACK, "--helm", "no-helm")
    assert (code, "job/more-nodes-than-cluster" in out, "\njudged: 4 files; not judged: " in err) == (3, True, True)


def test_a_chart_refusal_lint_does_not_predict_is_placed_at_the_named_value(grpo: Run) -> None:
    Path("more.yaml").write_text(
        "platform:\n  kind: kubernetes\naccelerator: {refuses: {kubernetes: null}}\nnetwork: {mode: none}\n"
    )
    code, out, err = grpo("lint", *STACK, "--format", "json")
    (refused,) = [each for each in json.loads(out)["findings"] if each["severity"] == "error"]
    assert (code, refused["rule"]) == (1, "values/refused-by-chart")
    assert (refused["file"], refused["line"]) == (str(SITE), 23)
    assert "platform.kind is kubernetes" in refused["what"]
    assert refused["fix"] == "use existingClaim or pvc"
    assert err.startswith(
        "judged: 4 files, 0 charts, 0 objects; not judged: what network, storage, raycluster, grpo-job "
    )
    Path("more.yaml").write_text("job:\n  nodes: 64\n")
    code, out, _ = grpo("lint", *STACK, "--format", "json")
    (told,) = json.loads(out)["findings"]
    assert (code, told["rule"], told["line"]) == (1, "job/more-nodes-than-cluster", 2)


def test_reports_for_clean_values_are_complete(grpo: Run) -> None:
    files = STACK[:-2]
    code, out, err = grpo("lint", *files, "--format", "sarif")
    assert (code, json.loads(out)["runs"][0]["results"], err.startswith("clean: 3 files, ")) == (0, [], True)
    code, out, _ = grpo("lint", *files, "--format", "junit")
    assert (code, len(list(parsed(out).iter("testcase")))) == (0, 1)


def test_json_and_sarif_list_what_was_checked_and_what_was_skipped(grpo: Run) -> None:
    files = [PROFILE, RECIPE, str(SITE)]
    memory = "the memory of a real GPU (computed: fits; see grpo plan)"
    _, out, err = grpo("lint", *STACK[:-2], "--format", "json")
    tree = json.loads(out)
    charts = ["network", "storage", "raycluster", "grpo-job"]
    objects = tree["judged"]["objects"]
    assert tree["judged"] == {"files": files, "charts": charts, "objects": objects, "allRules": True}
    assert tree["notJudged"] == [memory]
    assert err == f"clean: 3 files, 4 charts, {objects} objects; not judged: {memory}\n"
    words = ["lint", *STACK[:-2], "--no-render", "--select", "nemo-rl"]
    tree = json.loads(grpo(*words, "--format", "json")[1])
    assert tree["judged"] == {"files": files, "charts": [], "objects": 0, "allRules": False}
    unjudged = ["what the charts render (--no-render)", memory]
    assert tree["notJudged"] == unjudged
    for more, succeeds in (("--no-render", True), ("--helm=no-helm", False)):
        out = grpo("lint", *STACK[:-2], more, "--format", "sarif")[1]
        (invocation,) = json.loads(out)["runs"][0]["invocations"]
        assert invocation["executionSuccessful"] == succeeds
        notes = [each["message"]["text"] for each in invocation["toolConfigurationNotifications"]]
        assert (len(notes), notes[1]) == (2, f"not judged: {memory}")
    # It is of lint: check has no values of which something is left.
    assert json.loads(grpo("check", "pod.yaml", "--format", "json")[1]).keys() == {"findings"}


def test_a_chart_refusal_cannot_be_accepted_by_an_exception(grpo: Run) -> None:
    Path("more.yaml").write_text("job: {nodes: 64}\nchecks: {ignore: {job/more-nodes-than-cluster: we have more}}\n")
    code, out, _ = grpo("lint", *STACK, "--format", "json")
    assert code == 1
    assert [name for name, _ in rules(out)] == ["job/more-nodes-than-cluster", "checks/ignored-nothing"]
    assert "cannot be accepted" in out


BROKEN = "job:\n  config: {\n"


def reported(form: str, out: str) -> tuple[str, int, str]:
    """Return file, line and message of the only entry of a report."""
    if form == "json":
        (one,) = json.loads(out)["findings"]
        assert one["rule"] == "checks/could-not-run"
        return one["file"], one["line"], one["what"]
    if form == "sarif":
        (one,) = json.loads(out)["runs"][0]["results"]
        place = one["locations"][0]["physicalLocation"]
        return place["artifactLocation"]["uri"], place["region"]["startLine"], one["message"]["text"]
    if form == "junit":
        (case,) = parsed(out).iter("testcase")
        (failure,) = case.iter("failure")
        return case.get("file", ""), int(case.get("line", 0)), failure.get("message", "")
    command, place, message = out.split(" ", 1)[0], *out.split(" ", 1)[1].split("::", 1)
    assert (command, out.count("\n")) == ("::error", 1)
    named = dict(each.split("=") for each in place.split(","))
    return named["file"], int(named.get("line", 0)), message


@pytest.mark.parametrize("form", [form for form in formats.FORMATS if form != "text"])
@pytest.mark.parametrize("command", ["lint", "check"])
def test_an_unreadable_values_file_is_an_entry_in_the_report(grpo: Run, command: str, form: str) -> None:
    """CI shows the report alone; the exit code and stderr are as without one."""
    Path("more.yaml").write_text(BROKEN)
    words = ["lint"] if command == "lint" else ["check", "pod.yaml"]
    wanted = grpo(*words, *STACK)
    assert (wanted[0], wanted[1]) == (2, "")
    code, out, err = grpo(*words, *STACK, "--format", form)
    assert (code, err) == (2, wanted[2])
    file, line, what = reported(form, out)
    assert (file, line) == ("more.yaml", 2)
    assert "YAML" in what or "expected" in what
    Path("more.yaml").write_text("")
    code, out, err = grpo(*words, *STACK, "-f", "none.yaml", "--format", form)
    assert (code, err) == (
        3,
        "none.yaml: there is no such file\n  fix: check the path, or write a site file with grpo init\n",
    )
    file, _, what = reported(form, out)
    assert (file, "there is no such file" in what) == ("none.yaml", True)


@pytest.mark.parametrize("form", [form for form in formats.FORMATS if form != "text"])
def test_an_unreadable_manifest_is_an_entry_in_the_report(grpo: Run, form: str) -> None:
    Path("pod.yaml").write_text("a: 1\n")
    code, out, err = grpo("check", "pod.yaml", "--format", form)
    assert (code, err.startswith("pod.yaml:1:1: expected a Kubernetes object")) == (2, True)
    assert reported(form, out)[:2] == ("pod.yaml", 1)


@pytest.mark.full
def test_a_chart_refusal_lint_already_reported_is_not_repeated(grpo: Run) -> None:
    said = {
        "job:\n  nodes: 64\n": "job/more-nodes-than-cluster",
        "job:\n  volume: zork\n": "job/volume-absent",
        "job: {config: {data: {train: [{_override_: true}]}}}\n": "job/override-misplaced",
        "job: {configFor: {b200: {cluster: {num_nodes: 64}}}}\n": "job/derived-key-differs",
        "job: {configFor: {h20: {grpo: {seed: 1}}}}\n": "job/unknown-profile",
        "job: {configFor: {v0.7.0: {policy: {optimizer: {_override_: 1}}}}}\n": "job/override-misplaced",
        "storage: {data: null, other: {mountPath: /other, existingClaim: {name: a}}}\n": "job/volume-absent",
    }
    for text, rule in said.items():
        Path("more.yaml").write_text(text)
        code, out, _ = grpo("lint", *STACK, "--format", "json")
        assert (code, {name for name, severity in rules(out) if severity == "error"}) == (1, {rule}), text


def test_a_schema_refusal_fully_covered_by_lint_is_reported_once(grpo: Run) -> None:
    Path("more.yaml").write_text("zork: 1\nray:\n  workers:\n    replicas: many\n    zork: 2\n")
    code, out, err = grpo("lint", *STACK)
    assert (code, out.count("[values/")) == (1, 3)
    assert err.startswith("judged: 4 files; not judged: what the charts render (correct the values first), ")
    code, out, err = grpo("lint", *STACK, "--select", "values/wrong-type")
    assert (code, out.count("[values/")) == (1, 1)


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("{repository: registry.example/team/rl, tag: '1'}", "whether registry.example/team/rl:1 has NeMo RL v0.7.0"),
        ("{repository: registry.example/mirror/nemo-rl, tag: own}", "whether registry.example/mirror/nemo-rl:own has"),
        # A copy with name and tag of a public image.
        ("{repository: registry.example/mirror/nemo-rl}", ""),
        ("{repository: nvcr.io/nvidia/nemo-rl}", ""),
    ],
)
def test_an_image_with_unknown_content_is_named(grpo: Run, tmp_path: Path, image: str, told: str) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(f"images: {{training: {image}}}\n", encoding="utf-8")
    files = [word for file in (*stack_files("b200"), own) for word in ("-f", str(file))]
    _, _, err = grpo("lint", "--no-render", *files)
    assert (told in err) if told else ("not one of the public images" not in err)


def test_an_unsupported_generation_engine_is_named(grpo: Run) -> None:
    files = [word for file in stack_files("b200") for word in ("-f", str(file))]
    sglang = ["--set", "job.config.policy.generation.backend=sglang"]
    assert "generation with sglang (not supported" in grpo("lint", "--no-render", *files, *sglang)[2]
    assert "sglang" not in grpo("lint", "--no-render", *files)[2]
