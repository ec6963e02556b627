"""Run the end-to-end tests inside a network and mount namespace of their own.

usage: python tests/e2e/run.py [pytest arguments]

Only the loopback interface exists inside, so nothing that the tests start can be reached from outside or reach out.
Needs root, util-linux' `unshare`, the programs of `tools/build.sh` and Ray (`tools/ray.sh`); anything missing is exit
code 3.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from harness import sandbox, suite

REPOSITORY = Path(__file__).resolve().parents[2]
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
MANIFESTS = (
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
    lacking = []
    if os.geteuid() != 0:
        lacking.append("root (a network namespace needs it): run as root, for example in a privileged container")
    for name in ("unshare", "mount", "umount", "openssl", "bash"):
        if shutil.which(name) is None:
            lacking.append(f"{name} on PATH: install util-linux, openssl and bash")
    for name in PROGRAMS:
        if not os.access(REPOSITORY / ".tools/bin" / name, os.X_OK):
            lacking.append(f".tools/bin/{name}: run `tools/build.sh`")
    for name in MANIFESTS:
        if not (REPOSITORY / ".tools/share" / name).is_dir():
            lacking.append(f".tools/share/{name}: run `tools/build.sh`")
    if not os.access(REPOSITORY / ".tools/ray/bin/ray", os.X_OK):
        lacking.append(".tools/ray: run `tools/ray.sh`")
    return lacking


def main(arguments: list[str]) -> int:
    """Enter the namespaces, run pytest with `arguments` and return its exit code (3: could not run)."""
    if suite.INSIDE in os.environ:
        return suite.run_inside(Path(__file__).resolve().parent, sandbox.enter, arguments)
    lacking = missing()
    if lacking:
        print("\n".join(f"e2e: needs {entry}" for entry in lacking), file=sys.stderr)
        return suite.CANNOT_RUN
    return suite.enter(Path("/tmp"), __file__, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
