"""The streams of the benchmark are the same every time, as large as they say, and valid."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from bench import check as bench_check
from bench import streams
from grpo.check.objects import check
from grpo.manifests import loader
from postrender.finding import is_at_least
from postrender.manifests import schemas

TARGETS = {"RayCluster", "RayJob", "Job", "JobSet"}
# Documents, bytes, and how many objects of each kind get wiring.
EXPECTED: dict[str, tuple[int, float, dict[str, int]]] = {
    "small": (10, 20e3, {"RayCluster": 1, "Job": 1}),
    "medium": (300, 1.13e6, {"RayCluster": 4, "RayJob": 3, "Job": 6, "JobSet": 3}),
    "large": (3000, 19.6e6, {"RayCluster": 1}),
    "large_all": (3000, 20.0e6, {"RayCluster": 300}),
}
# Figures of two days can be compared only where the streams are the same: who changes them changes these too.
DIGESTS = {
    "small": "7bc61ccc6c74b621a1b65b25c75e83fac4c54f920a900e557564b55a0e767924",
    "medium": "40e34ebe50df6cd7c3b969e617a73724d4f8689746b3caf3b3fd4ecf08d8a759",
}


def parsed(size: str) -> Iterator[dict[str, Any]]:
    """Read one document after the other: the whole of a large stream would be much memory."""
    for text in streams.stream(size).decode().split("\n---\n"):
        yield yaml.load(text, yaml.CSafeLoader)


@pytest.mark.parametrize(("size", "digest"), DIGESTS.items())
def test_a_stream_is_identical_with_every_python_version(size: str, digest: str) -> None:
    assert hashlib.sha256(streams.stream(size)).hexdigest() == digest


LARGE = [pytest.param(size, marks=pytest.mark.full) for size in ("large", "large_all")]


@pytest.mark.parametrize("size", ["small", "medium", *LARGE])
def test_a_stream_has_the_stated_size(size: str) -> None:
    count, length, targets = EXPECTED[size]
    data = streams.stream(size)
    assert data.startswith(b"---\n# Source: ")
    assert data.count(b"\n---\n") + 1 == count
    assert len(data) == pytest.approx(length, rel=0.05)
    assert {kind: data.count(f"\nkind: {kind}\n".encode()) for kind in targets} == targets


@pytest.mark.parametrize("size", ["small", "medium"])
def test_every_document_is_one_object_with_a_unique_name(size: str) -> None:
    objects = list(parsed(size))
    assert len(objects) == EXPECTED[size][0]
    names = Counter((item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects)
    assert set(names.values()) == {1}
    assert Counter(item["kind"] for item in objects if item["kind"] in TARGETS) == EXPECTED[size][2]


def test_every_document_of_a_known_kind_is_valid() -> None:
    judge = schemas.Kinds()
    known = [item for size in ("small", "medium") for item in parsed(size) if judge.entry(schemas.kind_of(item))]
    assert {item["kind"] for item in known} >= {"RayCluster", "RayJob", "Job", "Deployment"}
    assert [found for found in judge.judge(known) if found] == []


@pytest.mark.parametrize("size", ["small", "medium"])
def test_check_finds_nothing_in_a_benchmark_stream(size: str) -> None:
    # To tell what is wrong takes longer than to judge it, and those that it is compared with find nothing.
    stream = bench_check.mended(streams.stream(size))
    findings = check(loader.read({"stream": stream}), None, schemas.Kinds())
    assert not is_at_least(findings, "warning"), findings[0].what


@pytest.mark.full
def test_the_large_documents_parse_too() -> None:
    texts = streams.stream("large").decode().split("\n---\n")
    objects = [yaml.load(text, yaml.CSafeLoader) for text in sorted(texts, key=len)[-10:]]
    assert {item["kind"] for item in objects} == {"CustomResourceDefinition", "ConfigMap"}
    assert len(max(texts, key=len)) > 500_000
