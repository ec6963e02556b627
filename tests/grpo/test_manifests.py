"""The rendered-manifests layout over any objects: stable, complete, one file an object."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grpo.helm.engines import Rendered
from grpo.manifests import export
from postrender.errors import InputError
from postrender.manifests import apiserver
from postrender.yaml import reader
from tests.conftest import examples

Object = dict[str, Any]


def item(kind: str, name: str, *, group: str = "v1", namespace: str = "", **metadata: Any) -> Object:
    """Return an object with nothing but an identity."""
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, **place, **metadata}}


def rendered(*objects: Object) -> Rendered:
    """Return a manifest of objects, as Helm prints one."""
    text = "".join(f"---\n# Source: x/templates/x.yaml\n{json.dumps(each)}\n" for each in objects)
    return Rendered("x", text, None, "none")


NAMES = st.text("abz09.-:/_Ä", min_size=1, max_size=8) | st.sampled_from(["x" * 253, "..", "con", "kustomization"])
OBJECTS = st.builds(
    item,
    st.sampled_from(["RayJob", "ConfigMap", "Network", "A-B"]),
    NAMES,
    group=st.sampled_from(["v1", "ray.io/v1", "b.io/v1"]),
    namespace=st.sampled_from(["", "a", "b"]),
)
SETS = st.lists(OBJECTS, max_size=6, unique_by=apiserver.identity)


@settings(max_examples=examples(150))
@given(first=SETS, second=SETS)
def test_an_export_folder_mirrors_the_latest_render(first: list[Object], second: list[Object]) -> None:
    """Whatever was there before, it holds exactly the objects of the last run, and a repetition writes nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "layer")
        for objects in (first, second, second):
            (report,) = export.write(name, {"layer": rendered(*objects)})
        assert (report.written, report.removed) == (0, 0)
        index = reader.load_objects((folder / export.INDEX).read_text(encoding="utf-8"), "index")[0]["resources"]
        assert {path.name for path in folder.iterdir()} == {export.INDEX, *index}
        texts = [(folder / file).read_text(encoding="utf-8") for file in index]
        assert [each for text in texts for each in reader.load_objects(text, "file")] == second


@given(objects=SETS)
def test_file_names_are_portable_and_independent_of_order(objects: list[Object]) -> None:
    names = export.files(rendered(*objects))
    assert len({*names}) == len(objects)
    assert all(export.FILE.fullmatch(name) and len(name.encode()) < 255 for name in names)
    assert export.INDEX not in names
    assert export.files(rendered(*reversed(objects))) == names


def test_two_objects_with_one_identity_are_an_error() -> None:
    """The version of the API is no part of the identity."""
    twice = [
        item("RayJob", "x", group="ray.io/v1", namespace="a"),
        item("RayJob", "x", group="ray.io/v2", namespace="a"),
    ]
    with pytest.raises(InputError, match="x renders RayJob x in namespace a twice"):
        export.files(rendered(*twice))


def test_a_namespace_does_not_distinguish_cluster_scoped_objects() -> None:
    twice = [item("PersistentVolume", "x", namespace=namespace) for namespace in ("a", "b")]
    with pytest.raises(InputError, match="x renders PersistentVolume x twice"):
        export.files(rendered(*twice))


def test_one_name_in_two_namespaces_makes_two_files() -> None:
    names = [*export.files(rendered(item("A", "x", namespace="a"), item("A", "x", namespace="b"), item("B", "x")))]
    assert names[2] == "b-x.yaml"
    assert [name[:4] for name in names[:2]] == ["a-x-", "a-x-"]


def test_objects_used_only_by_helm_test_are_left_out() -> None:
    hook = {"annotations": {"helm.sh/hook": "test"}}
    both = {"annotations": {"helm.sh/hook": "post-install,test"}}
    assert [*export.files(rendered(item("Pod", "a", **hook), item("Pod", "b", **both)))] == ["pod-b.yaml"]


def test_text_is_kept_exactly_as_helm_printed_it() -> None:
    text = "---\n# Source: a.yaml\nkind: A\napiVersion: v1\nmetadata:\n  name: a\ndata: |-\n  --- no end\n\n  b\n"
    (content,) = export.files(Rendered("x", text, None, "none")).values()
    assert content == text.removeprefix("---\n")
