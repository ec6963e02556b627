"""The commands of docs/howto/foreign-charts.md, run with both Helms on a chart that has the place of KubeRay's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, by_kind, require_tool
from tests.docs import pages

PAGE = (ROOT / "docs/howto/foreign-charts.md").read_text(encoding="utf-8")
(SITE,) = pages.blocks(PAGE, "yaml")
NETWORKS = ("b200-gvnic-1", "b200-rdma-0", "b200-rdma-7")
# The values of KubeRay's ray-cluster that the page sets, at the same places of a RayCluster.
CHART = {
    "Chart.yaml": "apiVersion: v2\nname: ray-cluster\nversion: 1.0.0\n",
    "values.yaml": """\
image: {repository: rayproject/ray, tag: 2.52.0}
worker: {replicas: 1, resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1, memory: 1Gi}}}
""",
    "templates/cluster.yaml": """\
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: {{ .Release.Name }}-kuberay
spec:
  headGroupSpec:
    template:
      spec:
        containers:
        - name: ray-head
          image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
  workerGroupSpecs:
  - groupName: workergroup
    replicas: {{ .Values.worker.replicas }}
    template:
      spec:
        containers:
        - name: ray-worker
          image: {{ .Values.image.repository }}:{{ .Values.image.tag }}
          resources: {{- toYaml .Values.worker.resources | nindent 12 }}
""",
}
# There is no cluster: what would be installed is printed, after the same post-renderer.
HELM = 'case $1 in install) shift; set -- template "$@";; esac\nexec "{program}" "$@"\n'


@pytest.fixture(scope="module", params=["helm3", "helm4"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the files of the page, the chart, and the programs that its commands start."""
    tmp_path = tmp_path_factory.mktemp(request.param)
    for name, text in CHART.items():
        path = tmp_path / "kuberay/ray-cluster" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    python = f'exec "{sys.executable}" -c \'import sys; from {{}}.main import main; sys.exit(main())\' "$@"\n'
    programs = {
        "helm": HELM.format(program=require_tool(request.param)),
        "grpo": python.format("grpo.cli"),
        "grpo-post-render": python.format("postrender"),
        "git": 'test "$1 $2" = "add ray.yaml" && cp ray.yaml added.yaml\n',
    }
    (tmp_path / "bin").mkdir()
    for name, text in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    made = pages.folder_of(PAGE, tmp_path)
    (made / "my-site.yaml").write_text(SITE, encoding="utf-8")
    return made


def run(folder: Path, commands: str) -> str:
    """Run a block of the page in bash, after the lines that make its files; return what it prints."""
    (setting,) = [line for line in pages.commands(PAGE) if line.startswith("export GRPO_VALUES=")]
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_", "XDG_"))}
    done = subprocess.run(
        ["bash", "-euc", f"{setting}\n{commands}"],
        check=False,
        capture_output=True,
        text=True,
        cwd=folder,
        env={
            **kept,
            "HOME": str(folder / "home"),
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        },
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def outputs(folder: Path) -> dict[str, Any]:
    """Return the RayCluster that each block of the page renders, by the first words of the block."""
    found = {}
    for block in pages.blocks(PAGE, "bash"):
        printed = run(folder, block)
        for name in ("added.yaml", "ray.yaml"):
            if not printed and (folder / name).exists():
                printed = (folder / name).read_text(encoding="utf-8")
        found[block.split()[0]] = by_kind([*yaml.safe_load_all(printed)], "RayCluster")
    return found


def test_every_command_on_the_page_renders_the_same_manifest(folder: Path, outputs: dict[str, Any]) -> None:
    assert [*outputs] == ["export", "set"]
    assert (folder / "added.yaml").exists()
    first, *others = outputs.values()
    assert first["metadata"]["name"] == "ray-kuberay"
    assert all(other == first for other in others)


def test_the_files_on_the_page_wire_the_workers(outputs: dict[str, Any]) -> None:
    spec = outputs["export"]["spec"]
    worker, head = spec["workerGroupSpecs"][0]["template"], spec["headGroupSpec"]["template"]
    annotations = worker["metadata"]["annotations"]
    assert annotations["networking.gke.io/default-interface"] == "eth0"
    assert all(name in annotations["networking.gke.io/interfaces"] for name in NETWORKS)
    variables = {variable["name"]: variable for variable in worker["spec"]["containers"][0]["env"]}
    assert {"LD_LIBRARY_PATH", "HF_TOKEN", "NCCL_SOCKET_IFNAME"} <= {*variables}
    assert variables["HF_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "team-hf", "key": "token"}}
    assert [variable["name"] for variable in head["spec"]["containers"][0]["env"]] == ["LD_LIBRARY_PATH", "HF_TOKEN"]


def test_a_refused_stream_is_not_added_to_the_repository(folder: Path, tmp_path: Path) -> None:
    """A secret in the chart's values; the file in Git stays what it was."""
    secret = "hf_" + "a1B2c3D4e5" * 4
    own = shutil.copytree(folder, tmp_path / "own", symlinks=True)
    (own / "added.yaml").unlink(missing_ok=True)
    values = own / "my-ray.yaml"
    values.write_text(f"{{worker: {{replicas: 1, resources: {{limits: {{note: {secret}}}}}}}}}\n", encoding="utf-8")
    (block,) = [block for block in pages.blocks(PAGE, "bash") if block.startswith("set ")]
    with pytest.raises(AssertionError, match="looks like a secret"):
        run(own, block)
    assert not (own / "added.yaml").exists()
