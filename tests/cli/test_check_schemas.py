"""Objects are judged by the schemas of their kinds: of a Kubernetes version, of definitions that are given."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from grpo.cli import main as cli
from grpo.manifests import crds
from grpo.manifests.loader import read
from grpo.report import text as report_text
from postrender import textfile
from postrender.manifests import schemas
from tests.conftest import ROOT, thin

_NO_SCHEMA = "crd.yaml, line 1: the definition of example.com/v1/Trainer is not a schema"
POD = "kind: Pod\nspec:\n  containers:\n  - name: a\n    image: example/a:1\n    env:\n"
_EITHER = "fits none of the allowed forms: 'a' is missing; or 'b' is missing"
TRAINER = """\
apiVersion: example.com/v1
kind: Trainer
metadata: {name: trainer}
spec: {gpus: 8, image: null, retries: "3", extra: {any: thing}}
"""
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trainers.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Trainer, plural: trainers}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          spec:
            type: object
            required: [gpus, replicas]
            properties:
              gpus: {type: integer, minimum: 1, maximum: 8}
              image: {type: string}
              mode: {type: string, enum: [train, eval]}
              retries: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              extra: {type: object, x-kubernetes-preserve-unknown-fields: true}
              labels: {type: object, additionalProperties: {type: string}}
              replicas: {type: integer, default: 1}
              nodes: {type: array, items: {type: string, nullable: true}}
              either:
                type: object
                x-kubernetes-preserve-unknown-fields: true
                oneOf: [{required: [a]}, {required: [b]}]
              bare: {type: object}
              name: {type: string, pattern: '^[[:alnum:]]+$'}
              pod: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
"""


def grpo(*words: str, stdin: str = "", path: str = "") -> tuple[int, str, str]:
    """Run `grpo check`."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        patch.setattr("sys.stdout", out)
        patch.setattr("sys.stderr", err)
        patch.setenv("PATH", path or os.environ["PATH"])
        # Both know files by their names, and each call has a stream of its own.
        report_text._source_lines.cache_clear()
        patch.setattr(textfile, "_streams", {})
        code = cli.main(["check", *words])
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
    return code, out.read(), err.read()


def said(out: str) -> list[tuple[str, int, str]]:
    return [(each["rule"], each["line"], each["what"]) for each in json.loads(out)["findings"]]


def validate(spec: dict[str, Any]) -> list[str]:
    known = schemas.Kinds()
    crds.add_from(known, read({"crd.yaml": DEFINITION.encode()}))
    item = {"apiVersion": "example.com/v1", "kind": "Trainer", "metadata": {"name": "a"}, "spec": spec}
    return [str(violation) for violation in known.judge([item])[0]]


def test_a_kind_without_a_schema_is_reported_but_does_not_fail() -> None:
    code, out, _ = grpo("-", "--format", "json", stdin=TRAINER)
    what = "Trainer trainer: there is no schema for Trainer of example.com/v1: its fields are not checked"
    assert (code, said(out)) == (0, [("kubernetes/not-judged", 2, what)])


def test_definitions_are_read_from_files_folders_and_the_checked_stream(tmp_path: Path) -> None:
    bad = TRAINER.replace("gpus: 8", "gpus: 9, gpu: 8")
    expected = ["kubernetes/unknown-field", "kubernetes/value-refused"]
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds/trainer.yaml").write_text(DEFINITION)
    for words, stdin in (
        (["--crds", str(tmp_path / "crds")], bad),
        (["--crds", str(tmp_path / "crds/trainer.yaml")], bad),
        ([], f"{DEFINITION}---\n{bad}"),
    ):
        code, out, _ = grpo("-", "--format", "json", *words, stdin=stdin)
        assert (code, sorted(rule for rule, _, _ in said(out))) == (1, expected)
    assert grpo("-", "--crds", str(tmp_path / "crds"), stdin=TRAINER)[0] == 0


def test_kubectl_output_is_accepted_as_definitions(tmp_path: Path) -> None:
    """Here a program that prints what kubectl prints: a List, as JSON."""
    item = next(iter(read({"a": DEFINITION.encode()}))).plain
    listed = {"apiVersion": "v1", "kind": "List", "items": [item], "metadata": {"resourceVersion": ""}}
    (tmp_path / "out.json").write_text(json.dumps(listed, indent=4))
    program = tmp_path / "kubectl"
    program.write_text(
        f'#!/bin/sh\n[ "$*" = "get customresourcedefinitions --output json" ] && cat {tmp_path}/out.json\n'
    )
    program.chmod(0o755)
    path, bad = f"{tmp_path}:/usr/bin:/bin", TRAINER.replace("gpus", "gpu")
    code, out, _ = grpo("-", "--crds", "cluster", "--format", "json", stdin=bad, path=path)
    assert (code, {rule for rule, _, _ in said(out)}) == (1, {"kubernetes/unknown-field", "kubernetes/value-refused"})
    (tmp_path / "out.json").unlink()
    code, out, err = grpo("-", "--crds", "cluster", stdin=TRAINER, path=path)
    assert (code, out) == (3, "")
    assert "kubectl failed: " in err
    program.unlink()
    code, out, err = grpo("-", "--crds", "cluster", stdin=TRAINER, path=str(tmp_path))
    assert (code, out) == (3, "")
    assert "cannot run kubectl: " in err


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (None, 3, "there is no such file"),
        (TRAINER, 2, "contains no CustomResourceDefinition"),
        ("a: [", 2, "this is not YAML"),
        ("kind: CustomResourceDefinition\nspec: {versions: 7}\n", 0, ""),
        (
            DEFINITION.replace("minimum: 1", "pattern: '(?<'").replace("type: integer,", "type: string,"),
            2,
            _NO_SCHEMA,
        ),
    ],
)
def test_bad_definitions_give_a_clear_error(content: str | None, code: int, words: str, tmp_path: Path) -> None:
    path = tmp_path / "crd.yaml"
    if content is not None:
        path.write_text(content)
    found, _, err = grpo("-", "--crds", str(path), stdin=TRAINER)
    assert (found, "Traceback" in err) == (code, False)
    assert words in err


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"gpus": 8, "image": None, "mode": None, "retries": 3, "extra": {"a": 1}, "labels": {"a": "b"}}, []),
        ({"gpus": 8, "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"a": 1}}}, []),
        ({}, ["spec: 'gpus' is missing"]),
        ({"gpus": 9}, ["spec.gpus: expected 8 or less"]),
        ({"gpus": None}, ["spec.gpus: expected an integer"]),
        ({"gpus": 1, "mode": "rest"}, ["spec.mode: expected one of 'train', 'eval'"]),
        ({"gpus": 1, "retries": 1.5}, ["spec.retries: expected an integer or a string"]),
        ({"gpus": 1, "labels": {"a": 1}}, ["spec.labels.a: expected a string; write it in quotes"]),
        ({"gpus": 1, "replicas": None, "nodes": [None, "a"], "either": None}, []),
        (
            {"gpus": 1, "either": {"c": 1}},
            ["spec.either: fits none of the allowed forms: 'a' is missing; or 'b' is missing"],
        ),
        ({"gpus": 1, "bare": {"a": 1}}, ["spec.bare.a: unknown field; correct its spelling or its place"]),
        ({"gpus": 1, "name": "a.b"}, ["spec.name: expected text that matches ^[[:alnum:]]+$"]),
        ({"gpus": 1, "gpu": 1}, ["spec.gpu: unknown field; correct its spelling or its place"]),
    ],
)
def test_a_definition_is_applied_as_the_api_server_applies_it(spec: dict[str, Any], expected: list[str]) -> None:
    assert validate(spec) == expected


@pytest.mark.parametrize("version", ["1.30", "v1.37", "1.34.2", "v1.35.1-gke.100"])
def test_kinds_are_checked_against_the_chosen_kubernetes_version(version: str) -> None:
    claim = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: a}\nspec: {}\n"
    code, out, _ = grpo("-", "--kube-version", version, stdin=claim)
    old = version == "1.30"
    assert (code, "Kubernetes 1.30 has no DeviceClass in resource.k8s.io/v1" in out) == (int(old), old)


@pytest.mark.parametrize("version", ["1.29", "2.35", "1.035", "1.x", "", "latest"])
def test_an_unknown_version_is_a_usage_error(version: str) -> None:
    code, out, err = grpo("-", "--kube-version", version, stdin=TRAINER)
    assert (code, out) == (2, "")
    assert f"--kube-version is {version!r}, expected one of 1.30 to 1.37" in err


@pytest.mark.parametrize("folder", thin(["kuberay-crds", "kuberay-1.5-crds", "gke-crds", "jobset-crds"], 2))
@pytest.mark.full
def test_real_definitions_compile_and_validate(folder: str) -> None:
    """What our own schemas accept, the real definitions accept too."""
    path = ROOT / ".tools/share" / folder
    if not path.is_dir():
        message = f"NOT CHECKED: the definitions of {folder}; run tools/build.sh"
        pytest.fail(message) if os.environ.get("GRPO_REQUIRE_TOOLS") else pytest.skip(message)
    known = schemas.Kinds()
    crds.add(known, [str(path)])
    for golden in sorted((ROOT / "tests/goldens").rglob("*.yaml")):
        # Goldens leave out what the job's programs are, with a line that ends a document.
        text = golden.read_text("utf-8").replace("\n...\n", "\n")
        items = [document.plain for document in read({golden.name: text.encode()})]
        judged = [item for item in items if known.has(item) and not (folder == "kuberay-1.5-crds" and is_new(item))]
        assert [[*map(str, found)] for found in known.judge(judged) if found] == []


def is_new(item: dict[str, Any]) -> bool:
    """Say whether an object uses what KubeRay 1.5 does not know."""
    return not {"upgradeStrategy", "preRunningDeadlineSeconds"}.isdisjoint(item.get("spec", {}))


@pytest.mark.parametrize(
    "text",
    thin(
        [
            "kind: Secret\nstringData: {password: 9876543210}\n",
            "kind: Secret\ndata: {password: hunter2hunter2}\n",
            "kind: Secret\nstringData:\n  password: 9876543210\n  password: 9876543210\n",
            f"{POD}    - name: API_KEY\n      value: 9876543210\n",
            f"{POD}    - name: API_KEY\n      val: hunter2hunter2\n",
            # What is wrong stands in the same line.
            "kind: Secret\nstringData: {password: hunter2hunter2, 'a b': c}\n",
            f"{POD}    - {{name: API_KEY, value: hunter2hunter2, more: b}}\n",
            f"{POD}    - API_KEY=hunter2hunter2\n",
            f"{POD}      API_KEY: hunter2hunter2\n",
            # What cannot be read.
            f"{POD}    - name: DB_PASSWORD\n      value: hunter2: x\n",
            f"{POD}    - {{name: API_KEY, value: hunter2, name: b}}\n",
            f"{POD}    - name: API_KEY\n      value: *hunter2\n",
            "kind: Secret\nstringData: {a: 'hunter2\0'}\n",
            "kind: Secret\nstringData: {a: hunter2}\n---\nkind: ConfigMap\ndata: [\n",
        ],
        4,
    ),
)
@pytest.mark.parametrize("form", ["text", "json", "github", "sarif", "junit"])
def test_text_that_may_be_a_secret_is_not_shown(text: str, form: str) -> None:
    code, out, err = grpo("-", "--format", form, stdin=f"apiVersion: v1\nmetadata: {{name: a}}\n{text}")
    assert code in (1, 2)
    assert out + err
    assert "9876543210" not in out + err
    assert "hunter2" not in out + err


def test_a_one_line_object_containing_a_secret_is_not_shown() -> None:
    secret = "{apiVersion: v1, kind: Secret, metadata: {name: A_b}, stringData: {password: hunter2hunter2}}\n"
    code, out, _ = grpo("-", stdin=secret)
    assert (code, "kubernetes/value-refused" in out, "hunter2" in out) == (1, True, False)
    shown = secret.replace("Secret", "ConfigMap").replace("stringData: {password", "data: {motto")
    assert "hunter2" in grpo("-", stdin=shown)[1]


def test_an_api_group_without_a_dot_is_treated_as_a_kubernetes_group() -> None:
    code, out, _ = grpo("-", stdin="apiVersion: app/v1\nkind: Deployment\nmetadata: {name: a}\n")
    assert (code, "but has it in apps/v1" in out) == (1, True)


def test_a_crd_older_than_the_operator_is_found_before_it_drops_fields(tmp_path: Path) -> None:
    """Helm never renews what a chart has in crds/, and the API server drops what an old definition does not know."""
    cluster = (
        "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: a}\nspec: {upgradeStrategy: {type: Recreate}}\n"
    )
    old = (
        DEFINITION.replace("example.com", "ray.io").replace("Trainer", "RayCluster").replace("trainers", "rayclusters")
    )
    (tmp_path / "old.yaml").write_text(old.replace("required: [gpus, replicas]", "required: []"))
    code, out, _ = grpo("-", "--crds", str(tmp_path / "old.yaml"), "--select", "kubernetes", stdin=cluster)
    assert (code, "spec.upgradeStrategy is not a field of RayCluster" in out) == (1, True)
    assert "update an old CRD" in out
    assert "upgradeStrategy" not in grpo("-", "--select", "kubernetes/unknown-field", stdin=cluster)[1]
