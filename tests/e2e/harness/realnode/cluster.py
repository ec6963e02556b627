"""A cluster of real nodes: control plane, DNS and the KubeRay operator on one network with the machines."""

from __future__ import annotations

from pathlib import Path

from harness import leftovers, sandbox
from harness.apiserver import ApiServer, Ports, Tools
from harness.helm import Helm
from harness.processes import Programs
from harness.realnode import images, machine, runtime
from harness.realnode.machine import CONTROL_PLANE, Machine
from harness.realnode.node import Node, remove_cgroups, remove_cgroups_of_killed_runs
from harness.waiting import until

# The machine on which the images are imported once, for all others and for later runs.
IMPORTER = 99
OPERATOR = "kuberay-system"
NAMES = """
.:53 {{
  bind {address}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig}
    ttl 1
  }}
}}
"""


def resolve_names(work: Path) -> None:
    """Let the programs of this mount namespace ask the cluster's DNS, as pods do."""
    sandbox.bind_text(work / "hosts", sandbox.LOCALHOST, Path("/etc/hosts"))
    text = f"nameserver {CONTROL_PLANE}\noptions timeout:1 attempts:2\n"
    sandbox.bind_text(work / "resolv.conf", text, Path("/etc/resolv.conf").resolve())


class RealCluster:
    """Everything that runs; `stop` ends it in reverse order and removes what would outlive the processes."""

    def __init__(self, work: Path, tools: Tools, cache: Path) -> None:
        self.work = work
        self.tools = tools
        self.cache = cache
        self.programs = Programs(work / "logs")
        self.server = ApiServer(work, tools, self.programs, Ports(address=CONTROL_PLANE))
        self.kubeconfig = self.server.kubeconfig
        self.kube = self.server.kube
        self.nodes: dict[str, Node] = {}

    def start(self, contents: list[images.Image], names: list[str]) -> None:
        """Start everything but the operator, and return when the nodes are ready.

        Raises RuntimeError with a program's last log lines, AssertionError when one does not become ready.
        """
        remove_cgroups_of_killed_runs()
        machine.make_bridge()
        prepared = self._prepare_images(contents)
        self.server.start()
        self.server.apply_crds("kuberay-crds", "gke-crds")
        self._start_controllers()
        for number, name in enumerate(names, 1):
            self._start_node(number, name, prepared)
        for node in self.nodes.values():
            node.until_ready()
            node.start_policies()
            # A kubelet offers none while it does not count it.
            node.offer({"ephemeral-storage": "100Gi"})

    def stop(self) -> list[str]:
        """Stop every program, etcd last, then the containers, and return the control groups that are left."""
        self.kube.close()
        self.programs.stop()
        leftovers.sweep()
        return [group for node in self.nodes for group in remove_cgroups(node)]

    def _prepare_images(self, contents: list[images.Image]) -> Path:
        """Return the data of a containerd that has imported the images, from an earlier run when nothing differs."""
        stamp = "\n".join(image.stamp() for image in contents)
        prepared, said = self.cache / "containerd", self.cache / "containerd.stamp"
        if said.exists() and said.read_text() == stamp:
            return prepared
        archive = self.work / "images.tar"
        images.write(contents, archive)
        importer = Machine("importer", IMPORTER, self.work / "importer", self.programs)
        until(importer.exists, "the namespaces of the importer")
        program = runtime.start(importer, self.tools, None)
        runtime.load_images(importer, self.tools, archive)
        self.programs.end(program)
        self.programs.end(importer.holder)
        archive.unlink()
        runtime.keep(importer.folder / "containerd", prepared)
        said.write_text(stamp)
        return prepared

    def _start_controllers(self) -> None:
        flags: list[str | Path] = ["--kubeconfig", self.kubeconfig, "--leader-elect=false", "--bind-address=127.0.0.1"]
        keys = self.work / "pki"
        # Without the authority no pod gets the volume of its service account.
        tokens = [f"--service-account-private-key-file={keys / 'sa.key'}", f"--root-ca-file={keys / 'apiserver.crt'}"]
        self.server.start_tool("kube-controller-manager", *flags, *tokens, "--kube-api-qps=200", "--kube-api-burst=200")
        self.server.start_tool("kube-scheduler", *flags)
        names = self.work / "Corefile"
        names.write_text(NAMES.format(address=CONTROL_PLANE, kubeconfig=self.kubeconfig))
        self.server.start_tool("coredns", f"-conf={names}")

    def _start_node(self, number: int, name: str, prepared: Path) -> None:
        own = Machine(name, number, self.work / "nodes" / name, self.programs)
        until(own.exists, f"the namespaces of {name}")
        own.connect([node.machine for node in self.nodes.values()])
        node = Node(own, self.tools, self.kube, self.kubeconfig)
        self.nodes[name] = node
        node.start(prepared)

    def install_operator(self) -> None:
        """Install the operator by its own chart, as a platform team does, and return when it answers."""
        self.kube.create([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR}}])
        helm = Helm(self.tools.bin / "helm4", self.kubeconfig, self.work / "operator")
        wait = ["--wait", "--timeout=170s"]
        helm.install("kuberay-operator", self.tools.share / "kuberay-operator", OPERATOR, wait)
