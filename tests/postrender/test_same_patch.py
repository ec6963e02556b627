"""The benchmark's judgement: a difference between two tools is seen, and the order of a list is none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench import same_patch, streams
from postrender.pipeline import Pipeline
from postrender.wiring import inputs
from postrender.wiring.apply import Options
from postrender.wiring.plan import Wiring
from tests.conftest import ROOT, require_tool

POD = ("spec", "template")


@pytest.fixture(scope="module")
def wiring() -> tuple[same_patch.Wiring, same_patch.Wiring]:
    """Render our chart once."""
    return same_patch.chart_wiring(str(ROOT))


def by_python(stream: str, made: dict[str, Any], _: Path) -> str:
    """Return the targets of a stream after the steps of its kustomization, which only add."""
    after = []
    for patch in made["patches"]:
        for item in same_patch.targets(stream, (patch["target"]["kind"],)):
            for step in json.loads(patch["patch"]):
                *way, last = (key.replace("~1", "/").replace("~0", "~") for key in step["path"].split("/")[1:])
                holder: Any = item
                for key in way:
                    holder = holder[int(key) if isinstance(holder, list) else key]
                if isinstance(holder, list):
                    holder.insert(int(last), step["value"])
                else:
                    holder[last] = step["value"]
            after.append(text(item))
    return "".join(after)


def by_kustomize(stream: str, made: dict[str, Any], folder: Path) -> str:
    """Return what kustomize makes of a stream."""
    (folder / "input.yaml").write_text(stream)
    (folder / "kustomization.yaml").write_text(json.dumps(made))
    kubectl = require_tool("kubectl")
    return subprocess.run([kubectl, "kustomize", folder], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("patched", [by_python, by_kustomize])
def test_the_patch_and_the_post_renderer_make_the_same_changes(
    patched: Callable[[str, dict[str, Any], Path], str],
    tmp_path: Path,
    wiring: tuple[same_patch.Wiring, same_patch.Wiring],
) -> None:
    """What the post-renderer inserts changes; `make bench` then compares two tools of which one does less."""
    stream = streams.stream("medium")
    given = Wiring(inputs.load([str(ROOT / file) for file in same_patch.FILES]))
    ours = b"".join(Pipeline(stream, given, Options(), gate=False).run().parts).decode()
    theirs = patched(stream.decode(), same_patch.kustomization(stream.decode(), *wiring), tmp_path)
    assert same_patch.differences(ours, theirs) == []
    assert len(same_patch.differences(stream.decode(), ours)) == 16, "every target gets wiring"


def job(**changed: object) -> dict[str, Any]:
    """Return a small Job."""
    container = {"name": "c", "env": [{"name": "A", "value": "2"}, {"name": "B", "value": "1"}]}
    spec = {"template": {"metadata": {}, "spec": {"containers": [{**container, **changed}]}}}
    return {"kind": "Job", "metadata": {"name": "a"}, "spec": spec}


def text(item: Mapping[str, Any]) -> str:
    """Return a stream of one object."""
    return f"---\n{yaml.safe_dump(item, sort_keys=False)}"


def test_list_order_key_order_and_the_stamp_are_not_differences() -> None:
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
def test_a_difference_is_detected(other: str, said: str) -> None:
    assert said in same_patch.differences(text(job()), other)[0]


def test_a_document_without_targets_must_keep_every_byte() -> None:
    service = "---\n# Source: a/service.yaml\nkind: Service\nspec: {}\n"
    stream = text(job()) + service
    assert same_patch.touched(stream, text(job(env=[])) + service) == []
    assert same_patch.touched(stream, stream.replace("spec: {}", "spec:  {}")) == [
        "# Source: a/service.yaml: changed, and is no target"
    ]
    assert same_patch.touched(stream, stream + service) == ["1 documents are no targets, and 2 came out"]


def test_the_patch_adds_to_existing_lists_and_creates_missing_ones() -> None:
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
