"""Run the end-to-end tests inside a network and mount namespace of their own.

usage: python tests/e2e/run.py [pytest arguments]

Only the loopback interface exists inside, so nothing that the tests start can be reached from outside or reach out.
Needs root, util-linux' `unshare` and the programs of `make tools`; anything missing is exit code 3.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from harness import sandbox, suite

PACKAGES = {"unshare": "util-linux", "mount": "util-linux", "openssl": "openssl"}
PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kwok",
    "ray-operator",
    "kueue",
    "helm3",
    "helm4",
)
FOLDERS = (
    "gke-crds",
    "jobset-crds",
    "kuberay-crds",
    "kuberay-1.5-crds",
    "kuberay-ray-cluster",
    "kueue-crds",
    "kueue-webhooks",
    "kwok-stages",
)


def missing() -> list[str]:
    """List what this machine lacks, each entry with what to do about it."""
    if os.geteuid() != 0:
        return ["root (a network namespace needs it): run as root, for example in a privileged container"]
    return suite.not_installed(PACKAGES) + suite.not_built(PROGRAMS, FOLDERS, "`make tools`")


def prepare(_: Path) -> None:
    """Bring the loopback interface up, on which everything listens."""
    sandbox.raise_loopback()


if __name__ == "__main__":
    sys.exit(suite.main(__file__, Path("/tmp"), prepare, missing, sys.argv[1:]))
