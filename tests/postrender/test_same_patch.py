"""The benchmark's judgement: a difference between two tools is seen, and the order of a list is none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench import same_patch, streams
from tests.conftest import ROOT, require_tool, stack_files

POD = ("spec", "template")


@pytest.fixture(scope="module")
def wiring() -> tuple[same_patch.Wiring, same_patch.Wiring]:
    """Render our chart once."""
    return same_patch.chart_wiring(str(ROOT), map(str, stack_files()))


def patched(stream: bytes, folder: Path, wiring: tuple[same_patch.Wiring, same_patch.Wiring]) -> str:
    """Return what kustomize makes of a stream."""
    (folder / "input.yaml").write_bytes(stream)
    made = same_patch.kustomization(stream.decode(), *wiring)
    (folder / "kustomization.yaml").write_text(json.dumps(made))
    kubectl = require_tool("kubectl")
    return subprocess.run([kubectl, "kustomize", folder], check=True, capture_output=True, text=True).stdout


def test_kustomize_inserts_the_wiring_of_our_chart(
    tmp_path: Path, wiring: tuple[same_patch.Wiring, same_patch.Wiring]
) -> None:
    stream = streams.stream("medium")
    after = patched(stream, tmp_path, wiring)
    # Every target is another one now, and each GPU pod has what the chart gives a worker.
    assert len(same_patch.differences(stream.decode(), after)) == 16
    pods = [pod for item in same_patch.targets(after) for _, pod in same_patch.pod_templates(item)]
    assert len(pods) == 4 * 3 + 3 * 3 + 6 + 3
    for pod in pods:
        for place, value in wiring[not same_patch.gpus(pod)].items():
            there = same_patch.found(pod, place)
            assert there[: len(value)] == value if isinstance(value, list) else there.items() >= value.items()


def job(**changed: object) -> dict[str, Any]:
    """Return a small Job."""
    container = {"name": "c", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "1"}]}
    spec = {"template": {"metadata": {}, "spec": {"containers": [{**container, **changed}]}}}
    return {"kind": "Job", "metadata": {"name": "a"}, "spec": spec}


def text(item: Mapping[str, Any]) -> str:
    """Return a stream of one object."""
    return f"---\n{yaml.safe_dump(item, sort_keys=False)}"


def test_order_of_lists_and_keys_and_the_stamp_say_nothing() -> None:
    other = job(env=[{"value": "2", "name": "A"}, {"value": "1", "name": "B"}])
    other["metadata"]["annotations"] = {same_patch.STAMP: "1 digest"}
    assert same_patch.differences(text(job()), text(other)) == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (text(job(env=[{"name": "A", "value": 2}, {"name": "B", "value": "1"}])), '.value: "2" here, 2 there'),
        (text(job(env=[{"name": "A", "value": "2"}])), 'env: [{"name": "B", "value": "1"}] here, [] there'),
        (text({**job(), "metadata": {"name": "b"}}), "Job None/a: only one of the two has it"),
        ("---\nkind: Service\n", "Job None/a: only one of the two has it"),
    ],
)
def test_a_difference_is_seen(other: str, said: str) -> None:
    assert said in same_patch.differences(text(job()), other)[0]


def test_a_document_that_is_no_target_must_keep_every_byte() -> None:
    service = "---\n# Source: a/service.yaml\nkind: Service\nspec: {}\n"
    stream = text(job()) + service
    assert same_patch.touched(stream, text(job(env=[])) + service) == []
    assert same_patch.touched(stream, stream.replace("spec: {}", "spec:  {}")) == [
        "# Source: a/service.yaml: changed, and is no target"
    ]
    assert same_patch.touched(stream, stream + service) == ["1 documents are no targets, and 2 came out"]


def test_a_kind_is_patched_by_the_lists_that_it_has() -> None:
    inserted: same_patch.Wiring = {
        ("spec", "containers", 0, "env"): [{"name": "X"}, {"name": "Y"}],
        ("spec", "volumes"): [{"name": "v"}],
        ("metadata", "annotations"): {},
    }
    assert list(same_patch.steps(POD, job()["spec"]["template"], inserted)) == [
        {"op": "add", "path": "/spec/template/spec/containers/0/env/0", "value": {"name": "Y"}},
        {"op": "add", "path": "/spec/template/spec/containers/0/env/0", "value": {"name": "X"}},
        {"op": "add", "path": "/spec/template/spec/volumes", "value": [{"name": "v"}]},
    ]
