"""The head of a document says the same as the whole document, or nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrender import heads, pods, stream, yamlio
from postrender.errors import GrpoError
from tests.conftest import ROOT
from tests.corpus.cases import EDGES, STREAMS, edge

GOLDENS = sorted((ROOT / "tests/goldens").glob("*/*.yaml"))
HOOK = "helm.sh/hook"


def identity(item: Any) -> tuple[str, ...]:
    """Return what rules compare of an object."""
    metadata = pods.mapping(item.get("metadata"))
    hook = pods.mapping(metadata.get("annotations")).get(HOOK, "")
    return tuple(
        str(each) for each in (item["apiVersion"], item["kind"], *map(metadata.get, ("name", "namespace")), hook)
    )


def compare(text: str) -> bool:
    """Compare the head with the whole document; say whether the head was plain."""
    found = heads.read(text)
    if found is None:
        return False
    try:
        (whole,) = yamlio.load_objects(text, "document")
    except GrpoError:
        # What is no YAML below its head is for Helm to refuse.
        return True
    assert identity(found) == identity(whole)
    return True


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_heads_of_our_own_objects(path: Any) -> None:
    assert [each for each in stream.split(path.read_bytes()) if not compare(each.text())] == []


@pytest.mark.parametrize("name", STREAMS)
def test_heads_of_odd_streams(name: str) -> None:
    for document in stream.split(STREAMS[name]):
        compare(document.text())


@pytest.mark.parametrize("name", EDGES)
def test_heads_of_odd_documents(name: str) -> None:
    compare(edge(name))


LINES = [
    *(
        "apiVersion: v1",
        "kind: A",
        '"kind": B',
        "metadata:",
        "metadata: {name: b}",
        "  name: a",
        "  name: 'x'",
        "  name: 1",
    ),
    *(
        "  namespace: n",
        "  annotations:",
        "    helm.sh/hook: test",
        '    "helm.sh/hook": test',
        "  - name: b",
        "   name: c",
    ),
    *("  labels:", "    name: d", "  text: |", "    name: e", "name: f", "---", "# name: g", "  name: &a b", ""),
    *(
        "kind",
        "  name: a: b",
        "    other: |",
        "      helm.sh/hook: other",
        "# kind: C",
        "  b",
        "metadata",
        "  # c",
        "d:",
    ),
]


@given(lines=st.lists(st.sampled_from(LINES), max_size=9))
def test_heads_of_any_lines(lines: list[str]) -> None:
    compare("\n".join(["apiVersion: v1", "kind: A", *lines]) + "\n")
