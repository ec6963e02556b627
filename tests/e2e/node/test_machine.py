"""What a user sees where a machine is not ready."""

from __future__ import annotations

import re

from conftest import GPU_NODES, NewStack
from harness.kube import Kube
from harness.nodes import Profile
from harness.realnode.cluster import RealCluster
from harness.waiting import until


def test_a_machine_without_the_installers_files_is_refused(
    new_stack: NewStack, cluster: RealCluster, kube: Kube, profiles: dict[str, Profile]
) -> None:
    """The init container ends with the path that is missing; without the whole folder not even that starts."""
    stack = new_stack("b200", "helm4")
    script = profiles["b200"].values["nccl"]["environmentScript"]
    half, bare = (cluster.nodes[name].machine for name in GPU_NODES)
    half.run("sh", "-c", "rm /home/kubernetes/bin/gib/scripts/*")
    bare.run("rm", "-r", "/home/kubernetes/bin/gib")
    stack.install("network", "storage", "raycluster")

    def said() -> str:
        workers = [pod for pod in stack.pods() if pod["metadata"]["labels"]["ray.io/node-type"] == "worker"]
        ended = [pod for pod in workers if pod["status"].get("initContainerStatuses", [{}])[0].get("restartCount")]
        text = kube.logs(ended[0], "--container=check-node", "--previous") if ended else ""
        # The kubelet may have removed the container already; the next start leaves another one.
        return text if "check-node" in text else ""

    try:
        assert script in until(said, "a check that has failed", 180, seen=lambda: kube.events(stack.namespace))
        # Kubernetes 1.37 writes a comma where older kubelets write a colon.
        refusal = re.compile("hostPath type check failed[:,] /home/kubernetes/bin/gib is not a directory")
        until(lambda: refusal.search(kube.events(stack.namespace)), "a pod without its folder", 60)
    finally:
        stack.uninstall("raycluster", "storage", "network")
