"""A program of jobs/ runs here or in the head pod; a kubectl of a few lines stands in for the real one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from grpo.helm import kubectl as helm_kubectl
from postrender import paths
from postrender.errors import ClusterError, InputError
from postrender.values import merge
from tests.conftest import Render, stack_files

HELLO = """\
import os, sys
sys.stderr.write("looked\\n")
print("hello", sys.argv[1:], os.environ.get("POD"))
sys.exit(int(sys.argv[1]))
"""
# Finds the pods that the test names, and runs what `exec` is told, as the pod would.
KUBECTL = """\
#!/bin/sh
echo "$*" >> "$CALLS"
case $1 in
  get) if [ "$REFUSES" = get ]; then echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1; fi
       if [ "$REFUSES" = cluster ]; then
         echo 'The connection to the server localhost:8080 was refused - did you specify the right host or port?' >&2
         exit 1
       fi
       for pod in $PODS; do echo "pod/$pod"; done ;;
  exec) if [ "$REFUSES" = exec ]; then echo 'error: unable to upgrade connection' >&2; exit 1; fi
        while [ "$1" != -- ]; do case $1 in pod/*) export POD="$1" ;; esac; shift; done; shift
        "$@"; code=$?
        [ $code = 0 ] || { echo "command terminated with exit code $code" >&2; exit $code; } ;;
esac
"""
LABELS = "ray.io/cluster=gemma-ray,ray.io/node-type=head"
Values = Callable[..., merge.Values]


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the stand-ins first on PATH and a program among the data; return the file with kubectl's command lines."""
    (tmp_path / "charts").mkdir()
    (tmp_path / "jobs/inspection").mkdir(parents=True)
    (tmp_path / "jobs/inspection/hello.py").write_text(HELLO)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubectl").write_text(KUBECTL)
    (tmp_path / "bin/kubectl").chmod(0o755)
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    monkeypatch.setattr(paths, "data_root", lambda: str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("PODS", "gemma-ray-head")
    return tmp_path / "calls"


@pytest.fixture
def load(tmp_path: Path) -> Values:
    def load(**more: object) -> merge.Values:
        (tmp_path / "more.yaml").write_text(yaml.safe_dump(more))
        return merge.load([*map(str, stack_files()), str(tmp_path / "more.yaml")])

    return load


def test_the_program_runs_locally_without_a_head(kubectl: Path) -> None:
    done = helm_kubectl.run("hello", ["0", "two words"])
    assert (done.code, done.output, done.errors) == (0, "hello ['0', 'two words'] None\n", "looked\n")
    assert helm_kubectl.run("hello", ["4"]).code == 4
    assert not kubectl.exists()


def test_the_program_runs_in_the_head_pod(kubectl: Path) -> None:
    done = helm_kubectl.run("hello", ["0", "two words"], helm_kubectl.Head(LABELS, "team-a"))
    assert (done.code, done.output) == (0, "hello ['0', 'two words'] pod/gemma-ray-head\n")
    found, executed = kubectl.read_text().splitlines()
    assert f"get pods --namespace team-a --selector {LABELS}" in found
    assert executed.startswith(
        "exec --stdin --namespace team-a pod/gemma-ray-head --container ray-head -- python3 -I -"
    )


def test_the_programs_exit_code_is_returned_without_kubectls_remark(kubectl: Path) -> None:
    done = helm_kubectl.run("hello", ["1"], helm_kubectl.Head(LABELS))
    assert (done.code, done.errors) == (1, "looked\n")
    assert "--namespace" not in kubectl.read_text()


def test_the_displayed_command_does_the_same(kubectl: Path) -> None:
    for pod in (None, helm_kubectl.Head(LABELS, "team-a")):
        done = helm_kubectl.run("hello", ["0", "it's"], pod)
        line = helm_kubectl.shell("hello", ["0", "it's"], pod)
        pasted = subprocess.run(["sh", "-c", line], check=True, capture_output=True, text=True)
        assert pasted.stdout == done.output


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"PODS": ""}, f"no head pod is running with the labels {LABELS}"),
        ({"REFUSES": "get"}, "kubectl failed: Error from server.*forbidden"),
        ({"REFUSES": "exec"}, "kubectl failed: error: unable to upgrade connection"),
        ({"REFUSES": "cluster"}, "kubectl has no kubeconfig, or one without a current context"),
        ({"PATH": "/nowhere"}, "cannot run kubectl: No such file"),
    ],
)
def test_kubectl_failures_are_reported_with_a_fix(
    kubectl: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], message: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ClusterError, match=message) as error:
        helm_kubectl.run("hello", ["0"], helm_kubectl.Head(LABELS))
    assert error.value.fix
    assert error.value.exit_code == 3


def test_a_missing_program_is_named(kubectl: Path) -> None:
    with pytest.raises(ClusterError, match=r"goodbye\.py is missing"):
        helm_kubectl.run("goodbye", [])


def test_names_and_directory_match_the_charts(render: Render, load: Values) -> None:
    job = next(item for item in render("grpo-job") if item["kind"] == "RayJob")
    where = helm_kubectl.head(load(), "gemma3-gsm8k", namespace="team-a")
    cluster = job["spec"]["clusterSelector"]["ray.io/cluster"]
    assert where == helm_kubectl.Head(f"ray.io/cluster={cluster},ray.io/node-type=head", "team-a")
    assert f'"runDirectory": "{helm_kubectl.run_directory(load(), "gemma3-gsm8k")}"' in job["spec"]["entrypoint"]
    pod = next(item for item in render("raycluster") if item["kind"] == "RayCluster")["spec"]["headGroupSpec"][
        "template"
    ]
    assert pod["spec"]["containers"][0]["name"] == "ray-head"


def test_the_head_of_a_run_with_its_own_cluster_is_found_by_run_name(render: Render, load: Values) -> None:
    ephemeral = {"job": {"cluster": {"mode": "ephemeral"}}}
    job = next(item for item in render("grpo-job", ephemeral) if item["kind"] == "RayJob")
    labels = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["metadata"]["labels"]
    where = helm_kubectl.head(load(**ephemeral), "gemma3-gsm8k")
    own, _, _ = where.labels.partition(",")
    assert own == f"grpo-charts/owner={labels['grpo-charts/owner']}"
    assert helm_kubectl.head(load(**ephemeral), "gemma3-gsm8k", cluster="other").labels == LABELS.replace(
        "gemma-ray", "other"
    )


def test_custom_names_are_used(load: Values) -> None:
    mine = load(stack={"names": {"cluster": "mine"}}, job={"volume": "disk"}, storage={"disk": {"mountPath": "/disk"}})
    assert helm_kubectl.head(mine, "run").labels == LABELS.replace("gemma-ray", "mine")
    assert helm_kubectl.run_directory(mine, "run") == "/disk/runs/run"


def test_values_without_a_site_file_name_the_missing_keys() -> None:
    bare = merge.load([str(path) for path in stack_files()[:2]])
    with pytest.raises(InputError, match="name no stack"):
        helm_kubectl.head(bare, "run")
    with pytest.raises(InputError, match="storage has no volume of that name"):
        helm_kubectl.run_directory(bare, "run")
