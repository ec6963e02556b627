"""Run the tests of real nodes inside a network and mount namespace of their own.

usage: python tests/e2e/node/run.py [pytest arguments]
       python tests/e2e/node/run.py --preflight     only say whether this machine can have nodes

Needs root, a kernel of its own, some Debian packages, and what `tools/node.sh` makes; anything missing is exit code 3.
Nothing inside can be reached from outside or reach out.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import sandbox, suite
from harness.realnode import preflight
from harness.realnode.cluster import resolve_names

TOOLS = suite.REPOSITORY / ".tools"
PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "kube-proxy",
    "containerd",
    "containerd-shim-runc-v2",
    "ctr",
    "runc",
    "cni/ptp",
    "coredns",
    "kube-router",
    "ray-operator",
    "helm3",
    "helm4",
)
PACKAGES = {
    "unshare": "util-linux",
    "ip": "iproute2",
    "nft": "nftables",
    "iptables": "iptables",
    "ipset": "ipset",
    "openssl": "openssl",
}


def unfit() -> list[str]:
    """List why this machine cannot have nodes."""
    if os.geteuid() != 0:
        return ["root: run as root, on a machine with its own kernel"]
    lacking = [f"{name}: install {package}" for name, package in PACKAGES.items() if shutil.which(name) is None]
    return lacking or preflight.refused()


def missing() -> list[str]:
    """List what was not built, each entry with what to do about it."""
    lacking = []
    for name in PROGRAMS:
        if not os.access(TOOLS / "bin" / name, os.X_OK):
            lacking.append(f".tools/bin/{name}: run `make tools` and `tools/node.sh`")
    for name in ("kuberay-crds", "kuberay-operator", "gke-crds"):
        if not (TOOLS / "share" / name).is_dir():
            lacking.append(f".tools/share/{name}: run `make tools`")
    if not (TOOLS / "node/base").is_dir():
        lacking.append(".tools/node: run `tools/node.sh`")
    return lacking


def prepare(work: Path) -> None:
    """Let this namespace's programs ask the cluster's DNS, as pods do, and give the claims a file system of their own.

    All machines see that file system, so that a test can fill it for all pods at once.
    """
    (work / "volumes").mkdir()
    sandbox.mount("-t", "tmpfs", "-o", "size=256m", "tmpfs", work / "volumes")
    resolve_names(work)


def main(arguments: list[str]) -> int:
    """Enter the namespaces, run pytest with `arguments` and return its exit code (3: could not run)."""
    if suite.INSIDE in os.environ:
        return suite.run_inside(Path(__file__).resolve().parent, prepare, arguments)
    only_preflight = arguments == ["--preflight"]
    lacking = unfit() or ([] if only_preflight else missing())
    if lacking:
        print("\n".join(f"e2e-node: needs {entry}" for entry in lacking), file=sys.stderr)
        return suite.CANNOT_RUN
    if only_preflight:
        return 0
    # Beside the images: their files are linked, not copied.
    return suite.enter((TOOLS / "node").resolve(), __file__, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
