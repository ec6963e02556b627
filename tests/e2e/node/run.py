"""Run the tests of real nodes inside a network and mount namespace of their own.

usage: python tests/e2e/node/run.py [pytest arguments]
       python tests/e2e/node/run.py --preflight     only say whether this machine can have nodes

Needs root, a kernel of its own, some Debian packages, and what `tools/node.sh` makes; anything missing is exit code 3.
Nothing inside can be reached from outside or reach out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import sandbox, suite
from harness.realnode import preflight
from harness.realnode.cluster import resolve_names

IMAGES = suite.TOOLS / "node/base"
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
    "dranet",
    "kueue",
    "ray-operator",
    "helm3",
    "helm4",
)
FOLDERS = ("kuberay-crds", "kuberay-operator", "gke-crds", "kueue-crds", "kueue-webhooks")
PACKAGES = {
    "unshare": "util-linux",
    "ip": "iproute2",
    "nft": "nftables",
    "iptables": "iptables",
    "ipset": "ipset",
    "openssl": "openssl",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
}


def unfit() -> list[str]:
    """List why this machine cannot have nodes."""
    if os.geteuid() != 0:
        return ["root: run as root, on a machine with its own kernel"]
    return suite.not_installed(PACKAGES) or preflight.refused()


def missing() -> list[str]:
    """List what this machine lacks, each entry with what to do about it."""
    built = [] if IMAGES.is_dir() else [f"{IMAGES}: run `tools/node.sh`"]
    return unfit() or suite.not_built(PROGRAMS, FOLDERS, "`make tools` and `tools/node.sh`") + built


def prepare(work: Path) -> None:
    """Let this namespace's programs ask the cluster's DNS, as pods do, and give the claims a file system of their own.

    All machines see that file system, so that a test can fill it for all pods at once.
    """
    (work / "volumes").mkdir()
    sandbox.mount("-t", "tmpfs", "-o", "size=256m", "tmpfs", work / "volumes")
    resolve_names(work)


if __name__ == "__main__":
    if sys.argv[1:] == ["--preflight"]:
        sys.exit(suite.refuse(unfit()))
    # Beside the images: their files are linked, not copied.
    sys.exit(suite.main(__file__, (suite.TOOLS / "node").resolve(), prepare, missing, sys.argv[1:]))
