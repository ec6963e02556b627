"""`grpo render --output-dir`: one object a file, byte-stable, and nothing removed that it has not written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from grpo.cli import main as cli
from grpo.manifests import folds
from postrender.yaml import reader
from tests.conftest import LAYERS, ROOT, require_tool, stack_files, thin

WORDS = ["--namespace", "rl", *(word for file in stack_files() for word in ("-f", str(file)))]
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def render_to(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Render into tmp_path/out with the embedded Helm: render_to("all", "extra: values"); exit code, stdout, stderr."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def run(layer: str = "all", values: str = "", *words: str) -> tuple[int, str, str]:
        over = tmp_path / "over.yaml"
        over.write_text(values, encoding="utf-8")
        code = cli.main(["render", layer, *WORDS, "-f", str(over), "--output-dir", str(tmp_path / "out"), *words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the folder into which render_to renders."""
    return tmp_path / "out"


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return content and time of every file below a folder."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def listed(folder: Path) -> list[str]:
    """Return the resources of a folder's kustomization."""
    resources: list[str] = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    return resources


def test_each_object_gets_one_file_in_install_order(
    render_to: Run, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, err = render_to()
    assert (code, printed) == (0, "")
    assert err.startswith(f"{out}/network: 18 objects, 18 written, 0 removed\n")
    assert {path.name for path in out.iterdir()} == {*LAYERS}
    assert listed(out / "grpo-job") == [
        "configmap-gemma3-gsm8k-1-locked-raise-job.attempt.yaml",
        "configmap-gemma3-gsm8k-has-its-run-install-a-second-release.yaml",
        "rayjob-gemma3-gsm8k-1.yaml",
    ]
    for layer in LAYERS:
        assert {path.name for path in (out / layer).iterdir()} == {"kustomization.yaml", *listed(out / layer)}
        cli.main(["render", layer, *WORDS])
        printed = reader.load_objects(capsys.readouterr().out, layer)
        objects = [item for item in printed if "helm.sh/hook" not in item["metadata"].get("annotations", {})]
        texts = [(out / layer / name).read_text(encoding="utf-8") for name in listed(out / layer)]
        assert [item for text in texts for item in reader.load_objects(text, layer)] == objects
        assert all(item["metadata"].get("namespace", "rl") == "rl" for item in objects)


def test_a_second_run_touches_nothing(render_to: Run, out: Path) -> None:
    render_to()
    before = state(out)
    assert render_to()[0] == 0
    assert state(out) == before


def test_a_new_attempt_replaces_the_files_of_the_old_one(render_to: Run, out: Path) -> None:
    render_to()
    before = state(out)
    code, _, err = render_to("grpo-job", "job: {attempt: 2}")
    assert (code, err.splitlines()[0]) == (0, f"{out}/grpo-job: 3 objects, 2 written, 2 removed")
    assert {path.name for path in (out / "grpo-job").glob("rayjob-*")} == {"rayjob-gemma3-gsm8k-2.yaml"}
    after = state(out)
    assert {name for name in after if name.startswith("storage/")} == {n for n in before if n.startswith("storage/")}
    code, _, err = render_to("grpo-job", "job: {attempt: 3}")
    assert (code, err.splitlines()[0]) == (0, f"{out}/grpo-job: 3 objects, 2 written, 2 removed")


def test_an_older_attempt_is_not_written(render_to: Run, out: Path) -> None:
    """A revert of the commit that raised job.attempt lowers it."""
    render_to("grpo-job", "job: {attempt: 10}")
    before = state(out)
    code, _, err = render_to("grpo-job", "job: {attempt: 9}")
    assert (code, state(out) == before) == (2, True)
    assert err.startswith(
        f"{out}/grpo-job/rayjob-gemma3-gsm8k-10.yaml: attempt 9 of this run is older than attempt 10, and an ended "
        "attempt never runs again, so nothing is written\n"
        "  fix: raise job.attempt above 10 (a revert keeps the number of the newer attempt, plus one)\n"
    )
    assert render_to("grpo-job", "job: {attempt: 11}")[0] == 0


CHANGED = "job: {config: {grpo: {max_num_steps: 11}}}"
LOCK = "gemma3-gsm8k-1-locked-raise-job.attempt"


def test_changes_the_api_server_would_refuse_are_not_written(render_to: Run, out: Path) -> None:
    """The old files stay, so that the mistake is told until it is mended."""
    folder = out / "grpo-job"
    lock, guard = (
        folder / f"configmap-{name}.yaml" for name in (LOCK, "gemma3-gsm8k-has-its-run-install-a-second-release")
    )
    render_to("grpo-job")
    before = state(out)
    code, _, err = render_to("grpo-job", CHANGED)
    assert (code, state(out) == before) == (2, True)
    assert err.startswith(
        f'{lock}: the API server refuses to change data["spec.yaml"], data.digest of ConfigMap/{LOCK}, '
        "so nothing is written\n  fix: raise job.attempt, or take the change back\n"
    )
    guard.write_text(guard.read_text().replace('run: "gemma3-gsm8k"', "run: other"))
    code, _, err = render_to("grpo-job", CHANGED)
    assert (code, "so nothing is written (1 more: grpo diff --left)\n" in err) == (2, True)
    lock.unlink()
    code, _, err = render_to("grpo-job", CHANGED)
    assert (code, "  fix: keep job.name and job.task, or give the other run a release of its own\n" in err) == (2, True)
    guard.write_text("data: [damaged")
    assert render_to("grpo-job", CHANGED)[0] == 0


def test_a_layer_without_objects_is_written_as_an_empty_list(render_to: Run, out: Path) -> None:
    render_to("network")
    assert render_to("network", "network: {mode: none}")[2].startswith(f"{out}/network: 0 objects, 0 written, 18 rem")
    assert {path.name for path in (out / "network").iterdir()} == {"kustomization.yaml"}
    assert listed(out / "network") == []


INDEX = "kustomization.yaml"
# What lies in the folder, and what the message says of it.
FOREIGN = {
    "a file": (lambda folder: (folder / "notes.md").write_text("mine"), "notes.md: not written by grpo render"),
    "a hidden file": (lambda folder: (folder / ".x").touch(), ".x: not written by grpo render"),
    "a folder": (lambda folder: (folder / "more").mkdir(), "more: not written by grpo render"),
    "no index": (lambda folder: (folder / INDEX).unlink(), "configmap-gemma3-gsm8k-1-locked-raise-job.attempt.yaml: "),
    "a foreign index": (lambda folder: (folder / INDEX).write_text("resources: []\n"), f"{INDEX}: not written by"),
    "an index cut short": (
        lambda folder: (folder / INDEX).write_text((folder / INDEX).read_text().split("resources")[0]),
        f"{INDEX}: cannot be read as a list of files",
    ),
    "an index that is no YAML": (
        lambda folder: (folder / INDEX).write_text((folder / INDEX).read_text() + "{"),
        f"{INDEX}: cannot be read as a list of files",
    ),
    "an index that is no text": (
        lambda folder: (folder / INDEX).write_bytes((folder / INDEX).read_bytes() + b"\xff"),
        f"{INDEX}: cannot be read as a list of files",
    ),
    "an index that leads out": (
        lambda folder: (folder / INDEX).write_text((folder / INDEX).read_text() + "  - ../../precious.yaml\n"),
        "'../../precious.yaml' is not a file that grpo render writes",
    ),
    "an index that names itself": (
        lambda folder: (folder / INDEX).write_text((folder / INDEX).read_text() + f"  - {INDEX}\n"),
        f"'{INDEX}' is not a file that grpo render writes",
    ),
    "a link for a file": (
        lambda folder: (
            (folder / "rayjob-gemma3-gsm8k-1.yaml").rename(folder.parent / "moved")
            and (folder / "rayjob-gemma3-gsm8k-1.yaml").symlink_to(folder.parent / "moved")
        ),
        "rayjob-gemma3-gsm8k-1.yaml: not written by",
    ),
}


def test_a_folder_that_is_a_link_is_not_followed(render_to: Run, out: Path) -> None:
    """An index behind it could name files of others, which a render would remove."""
    render_to()
    (out / "grpo-job").rename(out.parent / "moved")
    (out / "grpo-job").symlink_to(out.parent / "moved")
    before = state(out.parent / "moved")
    code, printed, err = render_to("grpo-job")
    assert (code, printed) == (2, "")
    assert "grpo-job: is a symbolic link, so nothing is written or removed there\n  fix: " in err
    assert state(out.parent / "moved") == before


@pytest.mark.parametrize("case", thin([*FOREIGN], 3))
def test_a_folder_with_foreign_files_is_refused_and_left_unchanged(render_to: Run, out: Path, case: str) -> None:
    """All layers are checked before the first is written."""
    prepare, message = FOREIGN[case]
    render_to()
    (out.parent / "precious.yaml").write_text("mine", encoding="utf-8")
    prepare(out / "grpo-job")
    before = state(out.parent)
    code, printed, err = render_to("all", "network: {rdma: {prefix: other}}\njob: {attempt: 2}")
    assert (code, printed) == (2, "")
    assert message in err
    assert "\n  fix: " in err
    after = state(out.parent)
    assert {n: v for n, v in after.items() if n != "over.yaml"} == {n: v for n, v in before.items() if n != "over.yaml"}


def test_foreign_files_beside_the_layers_are_named(render_to: Run, out: Path) -> None:
    """The other layers of the stack are no strangers where one alone is rendered."""
    assert "not written by" not in render_to()[2]
    assert "not written by" not in render_to("storage")[2]
    (out / "rayjob-more-1.yaml").write_text("kind: RayJob\n", encoding="utf-8")
    (out / "more").mkdir()
    (out / "more" / INDEX).write_text("resources: []\n", encoding="utf-8")
    code, _, err = render_to()
    named = [line for line in err.splitlines() if "not written by" in line]
    assert (code, named) == (
        0,
        [f"{out}/{name}: not written by grpo render" for name in ("more", "rayjob-more-1.yaml")],
    )


def test_files_left_by_an_interrupted_run_are_not_foreign(
    render_to: Run, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is written first: whenever a run ends, it names every file that stands there."""
    render_to("grpo-job")
    replace = os.replace
    for stop in range(1, 4):
        calls = []

        def failing(source: str, target: str, calls: list[str] = calls, stop: int = stop) -> None:
            if Path(target).is_relative_to(out):
                calls.append(target)
            if len(calls) > stop:
                raise OSError(28, "No space left on device", target)
            replace(source, target)

        monkeypatch.setattr(os, "replace", failing)
        code, _, err = render_to("grpo-job", f"job: {{attempt: {2 * stop}}}")
        assert (code, "cannot be written: No space left on device" in err) == (3, True)
        monkeypatch.undo()
        assert render_to("grpo-job", f"job: {{attempt: {2 * stop + 1}}}")[0] == 0
        assert {path.name for path in (out / "grpo-job").iterdir()} == {INDEX, *listed(out / "grpo-job")}


def test_an_unwritable_path_is_named(render_to: Run, out: Path) -> None:
    out.write_text("a file", encoding="utf-8")
    code, printed, err = render_to("storage")
    assert (code, printed) == (3, "")
    assert err.startswith(f"{out}")
    out.unlink()
    out.mkdir()
    (out / "storage").write_text("a file", encoding="utf-8")
    assert render_to("storage")[::2] == (
        2,
        f"{out}/storage: not a folder\n  fix: give another folder with --output-dir\n",
    )


def test_an_empty_folder_name_is_a_usage_error(render_to: Run) -> None:
    code, printed, err = render_to("all", "", "--output-dir", "")
    assert (code, printed) == (2, "")
    assert err == "grpo render: --output-dir is empty, expected a folder\n  fix: see grpo render --help\n"


def test_kustomize_can_build_the_folder(render_to: Run, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl = require_tool("kubectl")
    render_to()
    render_to("network", "network: {mode: none}")
    for layer in LAYERS:
        built = subprocess.run([kubectl, "kustomize", out / layer], check=True, capture_output=True, text=True).stdout
        texts = [(out / layer / name).read_text(encoding="utf-8") for name in listed(out / layer)]
        assert [*reader.load_objects(built, layer)] == [o for t in texts for o in reader.load_objects(t, layer)]


def test_the_folder_of_another_stack_is_refused(render_to: Run, out: Path) -> None:
    """What it holds would be removed, and with pruning a training would end."""
    render_to("storage")
    before = state(out)
    code, _, err = render_to("storage", "stack: {name: qwen}\n")
    assert code == 2
    assert "holds stack gemma, and these values are stack qwen" in err.replace(" namespace rl", "")
    assert "give each stack its own folder" in err
    assert state(out) == before


EPHEMERAL = "job: {cluster: {mode: ephemeral}, attempt: 2}\n"


def test_a_job_with_its_own_cluster_needs_no_raycluster_layer(render_to: Run, out: Path) -> None:
    """A second cluster would hold as many GPUs again, idle; the command says which layer it has not rendered."""
    code, _, err = render_to("all", EPHEMERAL)
    assert (code, {path.name for path in out.iterdir()}) == (0, {*LAYERS} - {"raycluster"})
    assert err.count("raycluster is left out: job.cluster.mode is ephemeral") == 1
    assert render_to("raycluster", EPHEMERAL)[2].startswith(f"{out}/raycluster: ")


def test_a_layer_left_out_loses_its_files_and_keeps_an_empty_list(render_to: Run, out: Path) -> None:
    """An Application on a folder that is gone reports an error and prunes nothing: the GPUs would stay."""
    render_to()
    before = len(listed(out / "raycluster"))
    _, _, err = render_to("all", EPHEMERAL)
    assert f"{out}/raycluster: 0 objects, 0 written, {before} removed\n" in err
    assert {path.name for path in (out / "raycluster").iterdir()} == {INDEX}
    after = state(out)
    assert render_to("all", EPHEMERAL)[0] == 0
    assert state(out) == after
    _, _, err = render_to("all", "job: {attempt: 3}")
    assert err.splitlines()[2].startswith(f"{out}/raycluster: {before} objects, {before} written")


def test_a_layer_folder_of_another_stack_is_refused_even_when_left_out(render_to: Run, out: Path) -> None:
    render_to("raycluster", "stack: {name: qwen}\n")
    before = state(out)
    code, _, err = render_to("all", EPHEMERAL)
    assert (code, "raycluster/kustomization.yaml: the folder holds stack qwen" in err) == (2, True)
    assert state(out) == before


def test_a_foreign_folder_named_like_a_left_out_layer_is_kept(render_to: Run, out: Path) -> None:
    (out / "raycluster").mkdir(parents=True)
    (out / "raycluster/notes.md").write_text("mine", encoding="utf-8")
    assert render_to("all", EPHEMERAL)[0] == 0
    assert {path.name for path in (out / "raycluster").iterdir()} == {"notes.md"}


def test_an_unresumable_attempt_is_not_written_and_a_start_at_step_0_is_reported(render_to: Run, out: Path) -> None:
    """An attempt of another model finds the directory of the run, and refuses it after the old attempt has ended."""
    render_to("grpo-job")
    before = state(out)
    other = "job: {attempt: 2, config: {policy: {model_name: google/gemma-3-4b-it}}}"
    code, _, err = render_to("grpo-job", other)
    assert (code, state(out) == before) == (2, True)
    assert err.startswith(
        f"{out}/grpo-job/rayjob-gemma3-gsm8k-1.yaml: attempt 2 cannot resume: the model was google/gemma-3-27b-it and "
        "would be google/gemma-3-4b-it, so nothing is written\n"
        "  fix: take the change back, or choose another job.name, which starts at step 0\n"
    )
    code, _, err = render_to("grpo-job", "job: {attempt: 2}\nstorage: {data: {mountPath: /elsewhere}}")
    assert (code, "\nRayJob/gemma3-gsm8k-1: attempt 2 starts at step 0: it looks for steps in /elsewhere/" in err) == (
        0,
        True,
    )


def test_render_programs_writes_the_programs_of_the_chart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    assert cli.main(["render", "grpo-job", *WORDS, "--programs", str(folder)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == sorted(str(path) for path in folder.rglob("*.py"))
    archive = (ROOT / "charts/grpo-job/files/programs/train.tar.bz2.b64").read_text()
    assert {name: (folder / name).read_text() for name in folds.unpacked(archive)} == folds.unpacked(archive)
    assert cli.main(["render", "grpo-job", *WORDS, "--programs", str(folder)]) == 2
    assert "is not empty\n  fix: name a new folder" in capsys.readouterr().err
    assert cli.main(["render", "network", *WORDS, "--programs", str(tmp_path / "none")]) == 2
    assert "no object carries programs of the charts" in capsys.readouterr().err
    assert cli.main(["render", "grpo-job", *WORDS, "--programs", str(folder), "--full"]) == 2
