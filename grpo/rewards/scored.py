"""A sample with its scores."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from grpo.rewards.samples import Sample

Record = dict[str, Any]


class Scored(NamedTuple):
    """A sample with its score, the scores and failures of its rewards, and the pairs that look exchanged."""

    sample: Sample
    score: float
    correct: bool
    parts: dict[str, float]
    failures: list[Record]
    turned: Mapping[str, str] = MappingProxyType({})
