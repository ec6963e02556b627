"""`grpo check` of a folder with several stacks: which of them are judged against the values, and what is compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.report import text as report_text
from postrender import textfile
from tests.conftest import SITE, stack_files
from tests.grpo.test_runs import NEMO_RL, rayjob

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


@pytest.mark.parametrize(
    ("layer", "fix"),
    [
        ("network", "for other machines set network.names.prefix, "),
        ("storage", "give one of the two stacks another stack.name; if "),
        ("raycluster", "give one of the two stacks another stack.name; if "),
        ("grpo-job", "give one of the two runs another job.name; if "),
        ("another", "rename one of the two, or remove it; if "),
    ],
)
def test_the_fix_names_the_value_that_gives_an_object_another_name(grpo: Run, layer: str, fix: str) -> None:
    for stack in ("dev", "prod"):
        file = write(f"{stack}.yaml", stack, "rdma-0")
        file.write_text(file.read_text().replace("name: raycluster", f"name: {layer}"))
    _, out, _ = grpo("dev.yaml", "prod.yaml", "--select", "stream")
    assert "prod.yaml:3:18: warning: RayCluster rdma-0 is already in dev.yaml:1  [stream/object-twice]" in out
    assert fix in out.partition("  fix: ")[2]


def run(folder: str, namespace: str, stack: str = "demo", bucket: str = "runs", **options: str) -> None:
    """Write a training of a stack and the volume of its runs, as the charts render them."""
    labels = {"app.kubernetes.io/part-of": stack}
    job = rayjob({**NEMO_RL, "facts": {"mounts": {"/data": f"{stack}-data"}}}, name=options.get("name", "a"))
    job["metadata"] |= {"namespace": namespace, "labels": {**labels, "app.kubernetes.io/name": "grpo-job"}}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{stack}", "labels": {**labels, "app.kubernetes.io/name": "storage"}},
        "spec": {
            "claimRef": {"namespace": namespace, "name": f"{stack}-data"},
            "csi": {"volumeHandle": bucket},
            "mountOptions": ["implicit-dirs", *([f"only-dir={options['below']}"] if "below" in options else [])],
        },
    }
    for layer, item in {"storage": volume, "grpo-job": job}.items():
        file = Path(folder) / layer / "object.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(item))


SHARED = ("--select", "checkpoints/shared-run-directory")


def test_runs_of_two_stacks_with_the_same_directory_are_found(grpo: Run) -> None:
    """A bucket is the same one in all clusters."""
    run("deploy/dev", "rl")
    for namespace, stack in (("rl", "other"), ("other", "demo")):
        run("deploy/prod", namespace, stack)
        for words in (("deploy",), ("deploy/dev", "deploy/prod"), ("deploy/dev", "deploy/prod", "--apart")):
            code, out, _ = grpo(*words, *SHARED)
            said = "run a has its directory in runs, but so has run a in deploy/dev/grpo-job/object.json:1"
            assert (code, out.count(said)) == (1, 1)
            assert out.startswith("deploy/prod/grpo-job/object.json:1:")


def test_runs_with_directories_of_their_own_and_copies_of_one_run_are_accepted(grpo: Run) -> None:
    run("deploy/dev", "rl")
    for change in ({"bucket": "others"}, {"name": "b"}, {"below": "team"}):
        run("deploy/prod", "other", **change)
        assert grpo("deploy", *SHARED)[:2] == (0, ""), change
    run("deploy/prod", "rl")
    assert grpo("deploy", *SHARED)[:2] == (0, "")
    run("deploy/prod", "other")
    Path("deploy/prod/storage/object.json").unlink()
    assert grpo("deploy", *SHARED)[:2] == (0, "")
