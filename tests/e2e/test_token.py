"""A Ray cluster that asks for a token: KubeRay makes it, the operator shows it, and nobody else gets in."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from conftest import NewStack
from harness.image import Image
from harness.rayhead import RayHeads
from harness.stack import Stack

JOBS = "http://127.0.0.1:8265/api/jobs/"


@pytest.fixture
def cluster(new_stack: NewStack, ray_heads: RayHeads) -> Iterator[Stack]:
    """A cluster with a token, and a real Ray head that knows it."""
    with ray_heads.running(new_stack("b200", ray={"tokenAuth": {"enabled": True}})) as stack:
        yield stack


def test_a_job_runs_with_the_token_and_a_stranger_is_refused(cluster: Stack, image: Image) -> None:
    image.behave(exit=0)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(JOBS, timeout=5)
    with refused.value as answer:
        assert answer.code == 401
    cluster.install("grpo-job")
    cluster.until_job("SUCCEEDED")
    assert len(image.calls()) == 1
    cluster.uninstall("grpo-job")
