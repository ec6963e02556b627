"""An RDMA network's network profile is zonal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from postrender.finding import ERROR, Finding, Place
from postrender.gate.manifests import Manifests
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROFILE: Final = re.compile(r"(?i)profile[^\n]{0,120}?\b([a-z]+-[a-z]+\d+)-vpc-roce\b")


def check(manifests: Manifests) -> Iterator[Finding]:
    """Search all texts: Config Connector objects and scripts in ConfigMaps name such profiles."""
    for document, text in enumerate(manifests.texts):
        for match in _PROFILE.finditer(text):
            line = text.count("\n", 0, match.start(1))
            col = match.start(1) - (text.rfind("\n", 0, match.start(1)) + 1)
            what = f"the network profile {match[1]}-vpc-roce is named after the region {match[1]}"
            yield Finding(what, place=Place(document, line=line + 1, col=col + 1))


RULE = Problem(
    "network/profile-of-a-region",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.COSTS,
    title="a RoCE network profile is named after a region, but such profiles are zonal",
    why="profiles are zonal: the network cannot be created, and the GPU nodes are created without RDMA",
    fix="write the profile of the zone, such as us-central1-b-vpc-roce",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=check,
)
