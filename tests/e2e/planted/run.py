"""Plant failures into runs on a Ray cluster of processes, in namespaces of its own.

usage: python tests/e2e/planted/run.py [--seeds 1-5] [--kinds NAME,… | --kinds outcomes] [--missing] [--part K/N]
       python tests/e2e/planted/run.py --preflight     only say whether this machine can have such a cluster

Needs root on Linux, a C compiler, loop devices and what `make tools` and `tools/ray.sh` make; anything missing is exit
code 3. Nothing inside can be reached from outside or reach out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import suite
from ray_site import enter

PACKAGES = {
    "unshare": "util-linux",
    "fsfreeze": "util-linux",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "cc": "gcc",
}
# Processes of other clusters on this machine are no evidence.
PROCESSES = ("--pid", "--fork", "--kill-child", "--mount-proc")


def unfit() -> list[str]:
    """List why this machine cannot have such a cluster."""
    if os.geteuid() != 0:
        return ["root (a network namespace needs it): run as root, for example in a privileged container"]
    return suite.not_installed(PACKAGES)


def missing() -> list[str]:
    """List what this machine lacks, each entry with what to do about it."""
    ray = [] if (suite.TOOLS / "ray/.stamp").is_file() else [".tools/ray: run `tools/ray.sh`"]
    return unfit() or suite.not_built(["helm4"], [], "`make tools`") + ray


if __name__ == "__main__":
    if sys.argv[1:] == ["--preflight"]:
        sys.exit(suite.refuse(unfit()))
    sys.exit(suite.main(__file__, Path("/tmp"), enter, missing, sys.argv[1:], PROCESSES))
