"""Failures that a seed plants into real runs on a real Ray: what they cost, and what they leave."""

from __future__ import annotations

import json

from kinds import KINDS, Kind, first_of_each_outcome
from plant import Plant
from ray_site import RESULTS, Site
from verdict import judge, record

FOLDER, KINDS_HERE = RESULTS, KINDS
KINDS_FOR_CI = first_of_each_outcome(KINDS)


def test_a_planted_failure_loses_no_more_than_necessary(site: Site, kind: Kind, seed: int) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / f"{kind.name}-{seed}.json"
    file.unlink(missing_ok=True)
    result = Plant(site, kind, seed).grow()
    (RESULTS / f"{kind.name}-{seed}.all").write_text(json.dumps(record(result), indent=1))
    file.write_text(json.dumps(judge(result)))
