"""`grpo check` of a folder with several stacks: which of them are judged against the values, and what is compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.report import text as report_text
from postrender import textfile
from tests.conftest import SITE, stack_files

Run = Callable[..., tuple[int, str, str]]
VALUES = [option for file in map(str, stack_files()) for option in ("-f", file)]
LABELS = "labels: {app.kubernetes.io/name: raycluster, app.kubernetes.io/part-of: STACK}"
CLUSTER = f"""\
apiVersion: ray.io/v1
kind: RayCluster
metadata: {{name: NAME, namespace: rl, {LABELS}}}
spec:
  headGroupSpec:
    template:
      spec:
        nodeSelector: {{cloud.google.com/gke-accelerator: nvidia-h200-141gb}}
        containers: [{{name: ray-head, image: "example/ray:1", resources: {{limits: {{nvidia.com/gpu: 8}}}}}}]
"""
CLEAN = "clean: 2 manifests (selected rules only)"
SELECT = ("--select", "nodes,cluster")


def write(path: str, stack: str, name: str = "") -> Path:
    """Write a RayCluster of a stack."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(CLUSTER.replace("STACK", stack).replace("NAME", name or f"{stack}-ray"))
    return file


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run `grpo check` in an empty folder; return exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    report_text._source_lines.cache_clear()
    monkeypatch.setattr(textfile, "_streams", {})

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["check", *words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def own() -> str:
    """Return the name of the values' stack."""
    return str(SITE.read_text().partition("name: ")[2].split()[0])


def test_another_stack_is_not_judged_against_the_values(grpo: Run, own: str) -> None:
    write("deploy/h200/raycluster/ray.yaml", "other")
    code, out, err = grpo("deploy", *VALUES, *SELECT)
    assert (code, out) == (0, "")
    assert f"; not judged: other against the values, which are of the stack {own}\n" in err
    write("deploy/own/raycluster/ray.yaml", own)
    code, out, err = grpo("deploy", *VALUES, *SELECT)
    assert (code, out.count("[nodes/another-accelerator]")) == (1, 1)
    assert out.startswith("deploy/own/raycluster/ray.yaml:")
    assert "not judged: other against the values" in err


def test_stacks_in_one_file_are_told_apart(grpo: Run, own: str) -> None:
    texts = [write("a.yaml", own).read_text(), write("b.yaml", "other").read_text()]
    Path("all.yaml").write_text("---\n".join(texts))
    code, out, err = grpo("all.yaml", *VALUES, *SELECT)
    assert (code, out.count("[nodes/another-accelerator]")) == (1, 1)
    found = out.partition(": RayCluster gemma-ray: the pod selects")[0].rpartition("\n")[2]
    assert found.startswith("all.yaml:8:")
    assert "not judged: other against the values" in err


def test_what_the_values_use_and_what_these_charts_did_not_make_is_judged(grpo: Run, own: str) -> None:
    file = write("ray.yaml", "other")
    code, _, err = grpo("ray.yaml", *VALUES, *SELECT, "--set", "stack.names.cluster=other-ray")
    assert (code, "against the values" in err) == (1, False)
    file.write_text(file.read_text().replace("app.kubernetes.io/name: raycluster", "app.kubernetes.io/name: ray"))
    code, _, err = grpo("ray.yaml", *VALUES, *SELECT)
    assert (code, "against the values" in err) == (1, False)


def test_the_same_object_in_two_stacks_below_one_folder_is_said(grpo: Run) -> None:
    write("deploy/dev/raycluster/ray.yaml", "demo")
    write("deploy/prod/raycluster/ray.yaml", "demo")
    said = "1 object is in several stacks below deploy: if these are for one cluster, grpo check deploy/dev deploy/prod"
    code, out, err = grpo("deploy", "--select", "stream")
    assert (code, out) == (0, "")
    assert f"; not judged: {said}\n" in err
    assert grpo("deploy", "--apart", "--select", "stream")[2].splitlines()[0] == CLEAN
    write("deploy/prod/raycluster/ray.yaml", "other")
    assert grpo("deploy", "--select", "stream")[2].splitlines()[0] == CLEAN
