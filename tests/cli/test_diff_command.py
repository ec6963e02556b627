"""`grpo diff` of any two sides, and what `grpo render` folds for people."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.helm.engines import Embedded
from postrender import textfile
from postrender.yaml import reader
from tests.conftest import SITE, stack_files

Run = Callable[..., tuple[int, str, str]]
PROFILE, RECIPE, _ = map(str, stack_files())
COMMON = ["-f", RECIPE, "-f", str(SITE)]
STACK = ["-f", PROFILE, *COMMON]


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line in tmp_path with the embedded Helm; return exit code, stdout, stderr."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(list(words))
        return code, *capsys.readouterr()

    return run


def write(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.yaml").write_text(text, encoding="utf-8")


def differing(out: str) -> list[str]:
    """Return the objects and fields in the output, without the values."""
    lines = (line for line in out.splitlines() if not line.startswith(" " * 6))
    return [line.strip().partition(": left")[0] for line in lines if ": no field differs" not in line]


@pytest.mark.full
def test_two_sets_of_files_are_compared(grpo: Run) -> None:
    write(standard="platform: {kind: gke-standard}\n", autopilot="platform: {kind: gke-autopilot}\n")
    write(more="ray: {head: {ephemeralStorage: 2Gi}, gcsfuse: {ephemeralStorage: 1Gi}}\n")
    sides = ["--left", "standard.yaml", "--right", "autopilot.yaml", "--right", "more.yaml"]
    code, out, _ = grpo("diff", *STACK, *sides)
    assert code == 0
    assert "  RayCluster/gemma-ray\n" in out
    assert "\n      left   100Gi\n      right  2Gi\n" in out


def test_sites_with_other_names_are_compared_object_by_object(grpo: Run) -> None:
    """The side without files has those of both, and what --set gives counts for both."""
    write(other="stack: {name: other}\njob: {name: second}\nray: {workers: {replicas: 3}}\n")
    code, out, _ = grpo("diff", *STACK, "--right", "other.yaml", "--set", "job.attempt=2")
    assert code == 0
    assert "    spec.workerGroupSpecs[0].replicas\n      left   2\n      right  3\n" in out
    assert (
        "PersistentVolumeClaim/gemma-data\n    metadata.name\n      left   gemma-data\n      right  other-data\n" in out
    )
    assert "  RayJob/gemma3-gsm8k-2\n    metadata.name\n      left   gemma3-gsm8k-2\n      right  second-2\n" in out
    assert "(not set)" not in out


def test_two_attempts_of_a_run_are_compared_object_by_object(grpo: Run) -> None:
    """What a new attempt changes is its number; only the mark of the ended one is new."""
    write(one="job: {attempt: 1}\n", two="job: {attempt: 2, retries: 3}\n")
    over = "gemma3-gsm8k-1-is-over-raise-job.attempt-or-remove-this-revision"
    code, out, _ = grpo("diff", *STACK, "--left", "one.yaml", "--right", "two.yaml", "--format", "json")
    assert code == 0
    found = json.loads(out)["layers"]["grpo-job"]
    both = {each["object"] for each in found if len(each["values"]) == 2}
    assert both == {
        "ConfigMap/gemma3-gsm8k-1-locked-raise-job.attempt",
        "RayJob/gemma3-gsm8k-1",
        f"ConfigMap/{over} (pre-upgrade,pre-rollback,pre-delete)",
    }
    assert {each["object"] for each in found} - both == {
        f"ConfigMap/{over} (post-upgrade)",
        f"ConfigMap/{over} (post-delete)",
    }
    assert {each["path"] for each in found if "locked" in each["object"]} >= {'data["spec.yaml"]', "data.digest"}


@pytest.mark.full
def test_each_side_can_have_its_own_machine(grpo: Run) -> None:
    write(left="job: {name: a}\n", right="job: {name: a}\n")
    files = ["--left", "left.yaml", "--right", "right.yaml"]
    machines = ["--accelerator", "b200", "--accelerator", "h200"]
    _, out, _ = grpo("diff", *machines, *COMMON, *files)
    assert "\n      left   nvidia-b200\n      right  nvidia-h200-141gb\n" in out
    assert differing(grpo("diff", "--accelerator", "h200", *COMMON, *files)[1]) == []


def test_a_rendered_folder_is_compared_in_its_own_namespace(grpo: Run) -> None:
    assert grpo("render", *STACK, "-n", "rl", "--output-dir", "deploy")[0] == 0
    code, out, err = grpo("diff", "--accelerator", "a4-highgpu-8g", *COMMON, "--left", "deploy")
    assert (code, differing(out)) == (0, []), err
    assert "namespace rl\n" in err
    assert "hooks of Helm are not compared" in err
    _, out, _ = grpo("diff", *STACK, "--left", "deploy", "--set", "job.config.grpo.num_prompts_per_step=32")
    assert differing(out) == [
        "grpo-job: 4 fields differ",
        "ConfigMap/gemma3-gsm8k-1-locked-raise-job.attempt",
        'data["spec.yaml"]',
        "data.digest",
        "RayJob/gemma3-gsm8k-1",
        "spec.entrypoint(plan).config.grpo.num_prompts_per_step",
        "spec.entrypoint(plan).digest",
        "locked: right is refused where left is applied",
        'ConfigMap/gemma3-gsm8k-1-locked-raise-job.attempt: data["spec.yaml"], data.digest',
        "fix: raise job.attempt, or take the change back",
    ]


def manifests(bucket: str, steps: int, attempt: int, label: str = "a") -> str:
    """Return a volume, and the lock of a run."""
    metadata = f"labels: {{app.kubernetes.io/name: grpo-job, team: {label}}}"
    return (
        f"apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: data, {metadata}}}\n"
        f"spec: {{csi: {{driver: gcsfuse.csi.storage.gke.io, volumeHandle: {bucket}}}}}\n---\n"
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: run-{attempt}-locked-raise-job.attempt, {metadata}}}\n"
        f"immutable: true\ndata: {{spec.yaml: 'steps: {steps}'}}\n"
    )


def test_a_change_the_api_server_would_refuse_is_a_finding_for_ci(grpo: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attempt has another lock, and what can change is no finding. No Helm is needed."""
    monkeypatch.setattr(Embedded, "__enter__", lambda _: pytest.fail("Helm was started"))
    write(old=manifests("one", 10, 1), label=manifests("one", 10, 1, "b"), attempt=manifests("one", 11, 2))
    write(both=manifests("two", 11, 1))
    sides = ["diff", "--left", "old.yaml", "--right"]
    for harmless in ("label", "attempt"):
        code, out, _ = grpo(*sides, f"{harmless}.yaml", "--fail-on", "locked")
        assert (code, "\ngrpo-job" in f"\n{out}", "locked:" in out) == (0, True, False)
    code, out, _ = grpo(*sides, "both.yaml", "--fail-on", "locked")
    _, _, said = out.partition("locked: right is refused where left is applied\n")
    assert (code, said) == (
        1,
        "  PersistentVolume/data: spec.csi.volumeHandle\n"
        "    fix: take the change back, or give the volume another name under storage; what is in this one stays\n"
        '  ConfigMap/run-1-locked-raise-job.attempt: data["spec.yaml"]\n'
        "    fix: raise job.attempt, or take the change back\n",
    )
    code, out, _ = grpo(*sides, "both.yaml", "--format", "json")
    volume, lock = json.loads(out)["locked"]
    assert (code, volume["layer"], volume["side"], volume["paths"]) == (
        0,
        "grpo-job",
        "right",
        ["spec.csi.volumeHandle"],
    )
    assert lock["fix"] == "raise job.attempt, or take the change back"
    assert lock["source"].startswith("kubernetes v1.36.0 ")


def test_an_older_attempt_is_a_finding_for_ci(grpo: Run) -> None:
    """A revert of the commit that raised job.attempt lowers it; another run or task counts by itself."""
    grpo("render", *STACK, "--set", "job.attempt=2", "-n", "rl", "--output-dir", "deploy")
    words = ("diff", *STACK, "--left", "deploy", "--fail-on", "locked")
    fix = "raise job.attempt above 2 (a revert keeps the number of the newer attempt, plus one)"
    why = "attempt 1 of this run is older than attempt 2, and an ended attempt never runs again"
    code, out, _ = grpo(*words)
    _, _, said = out.partition("locked: right is refused where left is applied\n")
    assert (code, said) == (1, f"  RayJob/gemma3-gsm8k-2: {why}\n    fix: {fix}\n")
    code, out, _ = grpo(*words, "--format", "json")
    (found,) = json.loads(out)["locked"]
    assert (code, found["object"], found["paths"]) == (1, "RayJob/gemma3-gsm8k-2", ["metadata.name"])
    assert (found["why"], found["fix"]) == (why, fix)
    for other in ("job.attempt=2", "job.attempt=3", "job.task=fetch"):
        assert "locked:" not in grpo(*words, "--set", other)[1]


def test_changing_the_gpu_count_of_a_verl_run_is_reported(grpo: Run) -> None:
    recipe = str(Path(RECIPE).with_name("qwen2.5-32b-gsm8k-verl.yaml"))
    stack = ["-f", PROFILE, "-f", recipe, "-f", str(SITE)]
    grpo("render", *stack, "--output-dir", "deploy")
    more = ["--set", "ray.workers.replicas=4", "--set", "job.attempt=2"]
    code, out, _ = grpo("diff", *stack, *more, "--left", "deploy", "--fail-on", "locked")
    _, _, said = out.partition("locked: right is refused where left is applied\n")
    assert (code, said) == (
        1,
        "  RayJob/qwen25-32b-gsm8k-1: attempt 2 cannot resume: the number of GPUs was 16 and would be 32\n"
        "    fix: take the change back, or choose another job.name, which starts at step 0\n",
    )
    code, out, _ = grpo("diff", *stack, *more, "--set", "job.name=second", "--left", "deploy", "--fail-on", "locked")
    assert (code, "locked:" in out) == (0, False)


def test_changes_that_end_a_run_are_reported(grpo: Run) -> None:
    """Where pruning applies a folder, another name deletes the RayJob, and another image the pods."""
    grpo("render", *STACK, "-n", "rl", "--output-dir", "deploy")
    more = ["--set", "job.name=second", "--set", "ray.head.jobStopSeconds=240"]
    code, out, _ = grpo("diff", *STACK, *more, "--left", "deploy", "--fail-on", "locked")
    _, _, said = out.partition("ends: where left is applied, right ends a run or starts it again\n")
    assert code == 0
    assert said.startswith(
        "  RayCluster/gemma-ray: its pods are recreated (spec.headGroupSpec, spec.workerGroupSpecs): a run on it "
        "stops, and loses what it did after its last saved step\n"
    )
    assert "  RayJob/gemma3-gsm8k-1: run gemma3-gsm8k ends, because a tool that prunes deletes its RayJob, and" in said
    ends = json.loads(grpo("diff", *STACK, *more, "--left", "deploy", "--format", "json")[1])["ends"]
    assert [(each["layer"], each["object"]) for each in ends] == [
        ("raycluster", "RayCluster/gemma-ray"),
        ("grpo-job", "RayJob/gemma3-gsm8k-1"),
    ]
    _, _, err = grpo("render", *STACK, *more, "-n", "rl", "--output-dir", "deploy")
    assert "\nRayCluster/gemma-ray: its pods are recreated (" in err
    assert "\nRayJob/gemma3-gsm8k-1: run gemma3-gsm8k ends, " in err
    assert "ends" not in grpo("render", *STACK, *more, "-n", "rl", "--output-dir", "deploy")[2]


def test_a_file_with_one_layer_is_compared_with_that_layer(grpo: Run) -> None:
    _, text, _ = grpo("render", "raycluster", *STACK)
    write(old=text.replace("import signal", "import signal  # changed"))
    code, out, err = grpo("diff", *STACK, "--left", "old.yaml")
    assert code == 0
    assert differing(out) == ["raycluster: 1 field differs", "ConfigMap/gemma-ray-test", 'data["check_cluster.py"]']
    assert "grpo-job is not compared: old.yaml has nothing of it\n" in err
    assert "helm test" not in err
    _, out, _ = grpo("diff", *STACK, "--left", "old.yaml", "--full")
    assert "      left   import signal  # changed\n      right  import signal\n" in out
    _, out, _ = grpo("diff", *STACK, "--left", "old.yaml", "--format", "json")
    (found,) = json.loads(out)["layers"]["raycluster"]
    assert [text.split()[1:3] for text in found["values"].values()] == [["lines,", "sha256"]] * 2


def test_each_command_reads_the_current_file(grpo: Run) -> None:
    textfile.keep("old.yaml", b"kind: ConfigMap\n")
    _, text, _ = grpo("render", "raycluster", *STACK)
    write(old=text)
    assert differing(grpo("diff", *STACK, "--left", "old.yaml")[1]) == []


def test_two_folders_need_no_values(grpo: Run) -> None:
    grpo("render", "grpo-job", *STACK, "--output-dir", "old")
    grpo("render", "grpo-job", *STACK, "--set", "job.attempt=2", "--output-dir", "new")
    code, out, err = grpo("diff", "--left", "old", "--right", "new")
    assert code == 0
    assert "      left   gemma3-gsm8k-1\n      right  gemma3-gsm8k-2\n" in out
    assert "rendered with" not in err


def layer(folder: str, kind: str, name: str, value: str) -> None:
    """Write an object of a layer."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    metadata = f"{{name: {name}, namespace: rl}}"
    text = f"apiVersion: v1\nkind: {kind}\nmetadata: {metadata}\ndata: {{a: {value}}}\n"
    Path(folder, f"{kind.lower()}-{name}.yaml").write_text(text, encoding="utf-8")


def test_folders_with_several_stacks_are_compared_stack_by_stack(grpo: Run) -> None:
    """A stack that is new does not take the objects of another one, and one that is gone is named."""
    for root in ("old", "new"):
        layer(f"{root}/dev/storage", "ConfigMap", "shared", "dev")
        layer(f"{root}/prod/storage", "ConfigMap", "shared", "prod")
    assert grpo("diff", "--left", "old", "--right", "new")[1] == (
        "dev/storage: no field differs\nprod/storage: no field differs\n"
    )
    layer("new/canary/storage", "ConfigMap", "shared", "canary")
    layer("old/gone/storage", "ConfigMap", "mine", "gone")
    _, out, err = grpo("diff", "--left", "old", "--right", "new")
    assert "dev/storage: no field differs\n" in out
    assert "prod/storage: no field differs\n" in out
    assert "  ConfigMap/shared: new object, only in right (" in out
    assert "  ConfigMap/mine: object that is gone, only in left (" in out
    assert "is not compared" not in err
    layer("old/notes", "ConfigMap", "mine", "no layer")
    code, _, err = grpo("diff", *STACK, "--left", "old")
    assert (code, "old holds several stacks, and the values are of one" in err) == (2, True)
    assert "fix: name its folder: old/dev, old/gone, old/prod" in err


def test_a_secret_in_rendered_files_is_masked(grpo: Run) -> None:
    secret = "hf" + "_" + "a1B2" * 8
    write(token=f"apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{token: {secret}}}\n")
    for form in ("text", "json"):
        _, out, _ = grpo("diff", *STACK, "--left", "token.yaml", "--format", form)
        assert "Secret/s" in out
        assert secret not in out


def test_the_cluster_of_an_ephemeral_run_is_not_a_separate_layer(grpo: Run) -> None:
    write(own="job: {cluster: {mode: ephemeral}}\n")
    _, out, _ = grpo("diff", *STACK, "--right", "own.yaml")
    assert "\n  RayCluster/gemma-ray: object that is gone, only in left (" in out
    _, out, _ = grpo("diff", *STACK, "--right", "own.yaml", "--full")
    assert "    spec.rayVersion\n      left   2.55.1\n      right  (not set)\n" in out


WRONG = {
    "--left a.yaml --accelerator b200 --accelerator h200 --accelerator gb200": "--accelerator is given 3 times",
    "--left pod.yaml --left a.yaml -f a.yaml": "--left pod.yaml stands alone",
    "--left pod.yaml --right a.yaml --accelerator b200 --accelerator h200": "--left was rendered before and takes no",
    "--left pod.yaml --right pod.yaml -f a.yaml": "both sides were rendered before",
    "--right a.yaml": "no values file is given",
    "-f a.yaml --left empty.yaml": "--left empty.yaml is empty: neither manifests nor values",
}


@pytest.mark.parametrize("words", WRONG)
def test_incompatible_files_are_refused(grpo: Run, words: str) -> None:
    write(empty="\n", a="job: {attempt: 2}\n", pod="apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n")
    code, out, err = grpo("diff", *words.split())
    assert (code, out) == (2, "")
    assert f"grpo diff: {WRONG[words]}" in err


def test_a_missing_side_is_named(grpo: Run) -> None:
    code, out, err = grpo("diff", *STACK, "--right", "none.yaml")
    assert (code, out) == (3, "")
    assert err.startswith("none.yaml: there is no such file")


def test_render_folds_only_on_request(grpo: Run) -> None:
    _, whole, err = grpo("render", *STACK)
    assert "folded" not in err
    assert len(reader.load_objects(whole, "<whole>")) > 20
    assert grpo("render", *STACK, "--full")[1] == whole
    code, folded, err = grpo("render", *STACK, "--fold")
    assert code == 0
    assert folded.count("\n… ") == 7
    hidden = whole.count("\n") - folded.count("\n")
    assert f"{hidden} lines of programs and of the lock are folded: --full prints them\n" in err
    code, out, err = grpo("render", *STACK, "--fold", "--output-dir", "deploy")
    assert (code, out, os.path.exists("deploy")) == (2, "", False)
    assert "--output-dir writes every line" in err
