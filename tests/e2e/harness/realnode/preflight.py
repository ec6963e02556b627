"""Whether this machine lets us make nodes at all: many containers do not."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from harness.realnode.node import cgroups

TRIALS = {
    "network namespaces with bridges and cables": "ip link add b0 type bridge && ip link add v0 type veth peer name v1",
    "mounts of the kind overlay": "mkdir l u w m && mount -t overlay overlay -o lowerdir=l,upperdir=u,workdir=w m",
    "file systems in a file": "truncate -s 8M f && mkfs.ext4 -q f && mkdir d && mount -o loop f d && umount d",
    "rules of iptables": "iptables -A FORWARD -j ACCEPT",
    "rules of nftables": "nft add table ip grpo",
    "sets of addresses": "ipset create grpo hash:ip",
}


def refused() -> list[str]:
    """List what nodes need and this machine refuses, each with the words of the refusal."""
    found = []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        for what, script in TRIALS.items():
            command = ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-ec", script]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                found.append(f"{what}: {done.stderr.strip()}")
    return [*found, *control_groups()]


def control_groups() -> list[str]:
    """Try to make the control groups of a node."""
    for folder in cgroups("trial"):
        try:
            folder.mkdir()
            folder.rmdir()
        except OSError as error:
            return [f"control groups: {error}"]
    if not Path("/sys/fs/cgroup").is_mount():
        return ["control groups: nothing is mounted at /sys/fs/cgroup"]
    return []
