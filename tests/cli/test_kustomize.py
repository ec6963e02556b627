"""The post-renderer as a function of kustomize: real kustomize starts it, offline."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT, by_kind, require_tool
from tests.docs import pages

Process = subprocess.CompletedProcess[str]
PAGE = (ROOT / "docs/howto/foreign-charts.md").read_text(encoding="utf-8")
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: example/train:1
        env: [{name: MODE, value: "on"}]
        resources: {limits: {nvidia.com/gpu: 8}}
"""
CONFLICT = JOB.replace("{name: MODE,", "{name: NCCL_NET,")
PROGRAM = "import sys; sys.path.insert(0, {root!r}); from postrender.main import main; sys.exit(main())"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make the kustomization of the page, and the post-renderer on PATH."""
    program = tmp_path / "bin/grpo-post-render"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec \'{sys.executable}\' -c "{PROGRAM.format(root=str(ROOT))}" "$@"\n')
    program.chmod(0o755)
    made = tmp_path / "over"
    made.mkdir()
    (made / "values").symlink_to(ROOT / "values")
    (site,) = pages.blocks(PAGE, "yaml")
    (made / "my-site.yaml").write_text(site, encoding="utf-8")
    files = pages.written(PAGE)
    for name in ("wiring.yaml", "kustomization.yaml"):
        (made / name).write_text(files[name], encoding="utf-8")
    (made / "ray.yaml").write_text(JOB, encoding="utf-8")
    return made


def set_spec(folder: Path, **spec: object) -> None:
    """Add options to the function's configuration."""
    config = yaml.safe_load((folder / "wiring.yaml").read_text())
    config["spec"] |= {name.replace("_", "-"): value for name, value in spec.items()}
    (folder / "wiring.yaml").write_text(yaml.safe_dump(config))


def build(folder: Path, *words: str, program: str = "kustomize", **environment: str) -> Process:
    """Build a kustomization, not from its own folder: paths in it are meant from there."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_", "GRPO_"))}
    path = f"{folder.parent / 'bin'}{os.pathsep}{kept['PATH']}"
    command = ["build", *(words or ("--enable-alpha-plugins", "--enable-exec"))] if program == "kustomize" else words
    return subprocess.run(
        [require_tool(program), *command, folder],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        env={**kept, "PATH": path, **environment},
    )


def objects(done: Process) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def test_the_documented_files_wire_what_kustomize_builds(folder: Path) -> None:
    done = build(folder)
    (job,) = objects(done)
    assert done.stderr == ""
    assert job["metadata"]["annotations"]["grpo-charts/wiring"].startswith("1 ")
    # Nothing of kustomize's own bookkeeping stays behind.
    assert {*job["metadata"]} == {"name", "annotations"}
    assert {*job["metadata"]["annotations"]} == {"grpo-charts/wiring"}
    pod = job["spec"]["template"]
    interfaces = json.loads(pod["metadata"]["annotations"]["networking.gke.io/interfaces"])
    assert interfaces[-1] == {"interfaceName": "eth9", "network": "b200-rdma-7"}
    env = {each["name"]: each for each in pod["spec"]["containers"][0]["env"]}
    assert env["HF_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "team-hf", "key": "token"}}
    assert env["MODE"]["value"] == "on"
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["check-node"]


def test_additional_objects_get_their_final_name(folder: Path) -> None:
    """Kustomize renames first and calls functions then, within one kustomization."""
    (folder / "my-site.yaml").write_text("network: {mode: dranet}\n")
    text = "{resources: [ray.yaml], transformers: [wiring.yaml], namePrefix: a-, namespace: rl}\n"
    (folder / "kustomization.yaml").write_text(text)
    built = objects(build(folder))
    claim = by_kind(built, "ResourceClaimTemplate")
    assert claim["metadata"] == {"name": "a-train-rdma", "namespace": "rl"}
    spec = by_kind(built, "Job")["spec"]["template"]["spec"]
    assert spec["resourceClaims"] == [{"name": "rdma", "resourceClaimTemplateName": "a-train-rdma"}]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "rdma"}]


def test_a_refusal_stops_the_build_and_says_why(folder: Path) -> None:
    (folder / "ray.yaml").write_text(CONFLICT)
    done = build(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "grpo-post-render: refused, nothing was written" in done.stderr
    assert "env[NCCL_NET] is" in done.stderr


def test_options_are_read_from_the_spec(folder: Path) -> None:
    (folder / "ray.yaml").write_text(CONFLICT)
    set_spec(folder, on_conflict="replace", report="report.json", no_gate=True)
    (job,) = objects(build(folder))
    env = {each["name"]: each for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert env["NCCL_NET"] == {"name": "NCCL_NET", "value": "gIB"}
    (conflict,) = json.loads((folder / "report.json").read_text())["objects"][0]["conflicts"]
    assert conflict["decision"] == "replace"


def test_an_option_in_the_spec_can_be_a_list(folder: Path) -> None:
    with open(folder / "ray.yaml", "a", encoding="utf-8") as file:
        file.write(f"---\n{JOB.replace('name: train', 'name: other')}")
    set_spec(folder, select=["job/other"])
    wired = {each["metadata"]["name"]: "annotations" in each["metadata"] for each in objects(build(folder))}
    assert wired == {"train": False, "other": True}
    set_spec(folder, select=["job/other", "Job/train"])
    assert all("annotations" in each["metadata"] for each in objects(build(folder)))


@pytest.mark.full
def test_exported_shell_variables_do_not_override_the_spec(folder: Path) -> None:
    """GRPO_VALUES is there for helm; the build of a kustomization is the same with it."""
    exported = str(ROOT / "values/accelerators/h200.yaml")
    assert build(folder, GRPO_VALUES=exported).stdout == build(folder).stdout
    config = yaml.safe_load((folder / "wiring.yaml").read_text())
    del config["spec"]["values"]
    (folder / "wiring.yaml").write_text(yaml.safe_dump(config))
    (job,) = objects(build(folder, GRPO_VALUES=exported))
    selector = job["spec"]["template"]["spec"]["nodeSelector"]
    assert selector == {"cloud.google.com/gke-accelerator": "nvidia-h200-141gb"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"onConflict": "replace"}, "functionConfig.spec.onConflict was not expected"),
        ({"on_conflict": "merge"}, "--on-conflict is 'merge', expected one of fail, keep, replace"),
        ({"values": "nowhere.yaml"}, "nowhere.yaml: there is no such file"),
    ],
)
def test_a_wrong_spec_says_what_was_expected(folder: Path, spec: dict[str, object], said: str) -> None:
    set_spec(folder, **spec)
    done = build(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_a_spec_without_values_files_is_refused(folder: Path) -> None:
    config = yaml.safe_load((folder / "wiring.yaml").read_text())
    del config["spec"]
    (folder / "wiring.yaml").write_text(yaml.safe_dump(config))
    done = build(folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no values files" in done.stderr


def test_a_kustomization_without_objects_builds_nothing(folder: Path) -> None:
    (folder / "kustomization.yaml").write_text("transformers: [wiring.yaml]\n")
    assert objects(build(folder)) == []


def test_kubectl_ignores_the_function_as_documented(folder: Path) -> None:
    """Kubectl knows no --enable-exec and leaves such a function out without a word, so nothing is wired."""
    done = build(folder, "kustomize", "--enable-alpha-plugins", program="kubectl")
    (job,) = objects(done)
    assert done.stderr == ""
    assert "annotations" not in job["metadata"]
    assert "unknown flag: --enable-exec" in build(folder, "kustomize", "--enable-exec", program="kubectl").stderr


def test_overlay_prefixes_behave_as_documented(folder: Path) -> None:
    """A prefix of an outer kustomization renames the claim and not what refers to it."""
    (folder / "my-site.yaml").write_text("network: {mode: dranet}\n")
    outer = folder.parent / "outer"
    outer.mkdir()
    (outer / "kustomization.yaml").write_text("resources: [../over]\nnamePrefix: a-\n")
    built = objects(build(outer))
    assert by_kind(built, "ResourceClaimTemplate")["metadata"]["name"] == "a-train-rdma"
    (claim,) = by_kind(built, "Job")["spec"]["template"]["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == "train-rdma"
