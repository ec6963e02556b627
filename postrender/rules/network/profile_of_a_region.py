"""The network profile of an RDMA network is of a zone."""

from __future__ import annotations

from postrender.patterns import Pattern
from postrender.rules import ERROR, Hit, Manifests, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

_PROFILE: Final = Pattern(r"(?i)profile[^\n]{0,120}?\b([a-z]+-[a-z]+\d+)-vpc-roce\b", "-vpc-roce")


def check(manifests: Manifests) -> Iterator[Hit]:
    """Search the texts: such a profile stands in objects of Config Connector and in scripts of ConfigMaps."""
    for document, text in enumerate(manifests.texts):
        for match in _PROFILE.finditer(text):
            line = text.count("\n", 0, match.start(1))
            col = match.start(1) - (text.rfind("\n", 0, match.start(1)) + 1)
            what = f"the network profile {match[1]}-vpc-roce is named after the region {match[1]}"
            yield Hit(document, what, line=line + 1, col=col + 1)


RULE = Rule(
    "network/profile-of-a-region",
    severity=ERROR,
    title="a RoCE network profile is named after a region",
    why="there is one profile a zone: the network cannot be made, and GPU nodes are ordered without RDMA",
    fix="name the zone: us-central1-b-vpc-roce",
    source="https://docs.cloud.google.com/ai-hypercomputer/docs/create/gke-ai-hypercompute-custom",
    check=check,
)
