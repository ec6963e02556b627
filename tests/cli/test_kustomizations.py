"""A kustomization in a folder that is checked, compared or rendered again, and the files that it does not list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.manifests import export
from grpo.report import text as report_text
from postrender import textfile
from postrender.errors import OutputRefusedError

Run = Callable[..., tuple[int, str, str]]
CONFIG = "# Source: storage/templates/x.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: rl}\n"
HEAD = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
OURS = export._index(["a.yaml", "b.yaml"], "")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `grpo` beside a folder with two files that its kustomization lists; return exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    report_text._source_lines.cache_clear()
    monkeypatch.setattr(textfile, "_streams", {})
    for folder in ("main", "deploy"):
        write(OURS, f"{folder}/storage")

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main([*words])
        return code, *capsys.readouterr()

    return run


def write(index: str, folder: str = "deploy/storage") -> None:
    """Write two files and a kustomization."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in ("a", "b"):
        Path(f"{folder}/{name}.yaml").write_text(CONFIG.replace("NAME", name))
    Path(f"{folder}/kustomization.yaml").write_text(index)


def test_a_rendered_folder_is_clean(run: Run) -> None:
    assert run("check", "deploy") == (0, "", "clean: 3 manifests\n")


@pytest.mark.parametrize(
    ("index", "line", "said"),
    [
        (OURS.replace("  - b.yaml\n", ""), "5:1: b.yaml is in the folder", "[kustomize/edited-by-hand]"),
        (f"{OURS}patches: []\n", "8:1: grpo render wrote this kustomization.yaml without patches", "patches: []"),
        (f"{OURS}images: []\n", "8:1: grpo render wrote this kustomization.yaml without images", "values"),
        (f"{OURS}  - ../main\n", "8:5: grpo render wrote this kustomization.yaml, and does not list ../main", "Git"),
        (f"{OURS}  - c.yaml\n", "8:5: kustomization.yaml lists c.yaml, which is not", "[kustomize/file-missing]"),
        (f"{HEAD}resources: [a.yaml, b.yaml, c.yaml]\n", "3:29: kustomization.yaml lists c.yaml", "remove the line"),
    ],
)
def test_an_edited_kustomization_is_found(run: Run, index: str, line: str, said: str) -> None:
    write(index)
    for word in ("deploy", "deploy/storage/kustomization.yaml"):
        code, out, _ = run("check", word)
        assert (code, out.count("[kustomize/")) == (1, 1)
        assert out.startswith(f"deploy/storage/kustomization.yaml:{line}"), out
        assert said in out


def test_a_file_beside_a_kustomization_of_somebody_is_a_warning(run: Run) -> None:
    write(f"{HEAD}resources: [a.yaml]\n")
    code, out, _ = run("check", "deploy")
    assert (code, "warning: b.yaml is in the folder" in out) == (0, True)
    for index in (
        f"{HEAD}resources: [a.yaml]\npatches: [{{path: ./b.yaml}}]\n",
        f"{HEAD}resources: [a.yaml]\ngenerators: [b.yaml]\n",
    ):
        write(index)
        assert run("check", "deploy")[:2] == (0, ""), index
    write(f"{HEAD}resources: [a.yaml]\nconfigMapGenerator: [{{name: x, files: [key=b.yaml]}}]\n")
    assert "kustomize/" not in run("check", "deploy")[1]


def test_two_folders_differ_in_what_they_list(run: Run) -> None:
    write(OURS.replace("  - b.yaml\n", ""))
    assert "ConfigMap/b: object that is gone, only in left" in run("diff", "--left", "main", "--right", "deploy")[1]
    write(f"{OURS}patches: [{{path: a.yaml}}]\n")
    out = run("diff", "--left", "main", "--right", "deploy", "--full")[1]
    assert "Kustomization/kustomization.yaml" in out
    assert "patches[0].path" in out
    write(OURS)
    assert run("diff", "--left", "main", "--right", "deploy")[1] == "storage: no field differs\n"


FLUX = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: all, namespace: rl}\n"


def test_a_kustomization_of_flux_is_an_object_and_lists_no_files(run: Run) -> None:
    for folder in ("main", "deploy"):
        write(FLUX, f"{folder}/storage")
    assert "[kustomize/" not in run("check", "deploy")[1]
    assert run("diff", "--left", "main", "--right", "deploy")[1] == "storage: no field differs\n"
    Path("deploy/storage/b.yaml").unlink()
    Path("deploy/storage/kustomization.yaml").write_text(f"{FLUX}spec: {{prune: true}}\n")
    out = run("diff", "--left", "main", "--right", "deploy", "--full")[1]
    assert ("Kustomization/all" in out, "spec.prune" in out, "ConfigMap/b" in out) == (True, True, True)


def test_a_patch_in_a_file_is_compared(run: Run) -> None:
    index = f"{HEAD}resources: [a.yaml]\npatches: [{{path: ./b.yaml}}]\n"
    for folder in ("main", "deploy"):
        write(index, f"{folder}/storage")
    assert run("diff", "--left", "main", "--right", "deploy")[1] == "storage: no field differs\n"
    with Path("deploy/storage/b.yaml").open("a") as file:
        file.write("data: {KEY: other}\n")
    out = run("diff", "--left", "main", "--right", "deploy")[1]
    assert "Kustomization/kustomization.yaml" in out
    assert 'files["b.yaml"]' in out


def test_a_file_of_the_same_name_elsewhere_is_another_one(run: Run) -> None:
    write(f"{HEAD}resources: [a.yaml, ../../main/storage/b.yaml]\n")
    assert "warning: b.yaml is in the folder" in run("check", "deploy")[1]


def test_render_says_which_of_the_two_is_wrong(run: Run) -> None:
    write(OURS.replace("  - b.yaml\n", ""))
    with pytest.raises(
        OutputRefusedError, match=r"b.yaml: grpo render wrote it, and kustomization.yaml beside it does"
    ):
        export._former("deploy/storage", "")
    write(OURS)
    Path("deploy/storage/mine.yaml").write_text("kind: ConfigMap\n")
    with pytest.raises(OutputRefusedError, match=r"mine.yaml: not written by grpo render"):
        export._former("deploy/storage", "")
