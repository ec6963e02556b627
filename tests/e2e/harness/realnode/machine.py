"""One machine of the cluster: a network and a mount namespace that a sleeping process keeps open.

The machines and the control plane meet on a bridge in the namespace of the tests. A machine's pods have addresses of
its own subnet; plain routes lead to them, as on a cloud network.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness.processes import Program, Programs

CONTROL_PLANE = "10.0.0.1"
BRIDGE = "cluster0"
# What a kubelet and a runtime write outside of their own folders, and where the installers of GKE put their files.
PRIVATE = ("/run", "/var/log", "/home")
SCRIPT = "\n".join([*(f"mount -t tmpfs tmpfs {folder}" for folder in PRIVATE), "exec sleep infinity"])


@dataclass(frozen=True)
class Address:
    """The addresses of machine `number`, 1 to 99."""

    number: int

    @property
    def node(self) -> str:
        """The machine's own address."""
        return f"10.0.0.{100 + self.number}"

    @property
    def pods(self) -> str:
        """The subnet of its pods."""
        return f"10.244.{self.number}.0/24"


def make_bridge() -> None:
    """Make the network of all machines, with the control plane's address on it."""
    ip("link", "set", "lo", "up")
    ip("link", "add", BRIDGE, "type", "bridge")
    ip("address", "add", f"{CONTROL_PLANE}/24", "dev", BRIDGE)
    ip("link", "set", BRIDGE, "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def ip(*words: str) -> None:
    """Run ip(8).

    Raises subprocess.CalledProcessError.
    """
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Machine:
    """Namespaces in which `start` runs the programs of a node; the caller's `programs` ends them."""

    def __init__(self, name: str, number: int, folder: Path, programs: Programs) -> None:
        self.name = name
        self.address = Address(number)
        self.folder = folder
        self.programs = programs
        self.holder = programs.start(f"{name}-namespaces", ["unshare", "--net", "--mount", "sh", "-c", SCRIPT])

    def exists(self) -> bool:
        """Tell whether the namespaces are made, with all mounts: the process that holds them has begun to sleep."""
        return Path(f"/proc/{self.holder.process.pid}/comm").read_text() == "sleep\n"

    def connect(self, others: list[Machine]) -> None:
        """Plug the machine into the bridge, and route the pods of all machines, these `others` and this one."""
        end = f"node{self.address.number}"
        pid = str(self.holder.process.pid)
        ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", pid)
        ip("link", "set", end, "master", BRIDGE, "up")
        ip("route", "add", self.address.pods, "via", self.address.node)
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{self.address.node}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")
        self.run("ip", "route", "add", "default", "via", CONTROL_PLANE)
        self.run("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
        for other in others:
            self.run("ip", "route", "add", other.address.pods, "via", other.address.node)
            other.run("ip", "route", "add", self.address.pods, "via", self.address.node)

    def run(self, *words: str | Path) -> str:
        """Run a command on the machine and return its output.

        Raises AssertionError with what the command said.
        """
        done = subprocess.run(self.inside(*words), capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{self.name}: {' '.join(map(str, words))}: {done.stderr.strip()}"
        return done.stdout

    def inside(self, *words: str | Path) -> list[str | Path]:
        """Return the command line that runs `words` on the machine."""
        return ["nsenter", f"--target={self.holder.process.pid}", "--net", "--mount", "--", *words]

    def start(self, program: str, *words: str | Path, **env: str) -> Program:
        """Start a long-running program on the machine."""
        return self.programs.start(f"{self.name}-{program}", self.inside(*words), **env)
