"""The harness itself: what a run leaves, and what it finds of others."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.realnode.cluster import RealCluster
from harness.realnode.node import PREFIX, cgroups, remove_cgroups_of_killed_runs


def test_cgroups_of_a_killed_run_are_removed(cluster: RealCluster) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    own = [folder for name in cluster.nodes for folder in cgroups(name)]
    left = own[0].parent / f"{PREFIX}{ended.pid}-cpu-1"
    Path(left, "kubepods").mkdir(parents=True)
    remove_cgroups_of_killed_runs()
    assert not left.exists()
    assert all(folder.is_dir() for folder in own)
