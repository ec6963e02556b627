"""containerd on a machine: its configuration, its images, and its network plugin."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from harness.apiserver import Tools
from harness.processes import Program
from harness.realnode.machine import Machine
from harness.waiting import until

SOCKET = "/run/containerd/containerd.sock"
PAUSE = "registry.k8s.io/pause:3.10"
CONFIGURATION = """
version = 3
root = "{root}"
state = "/run/containerd"

[grpc]
  address = "{socket}"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
  # Lower scores need CAP_SYS_RESOURCE, which root lacks inside many containers and virtual machines.
  restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{cni}"]
  conf_dir = "{network}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{runc}"
  SystemdCgroup = false
"""


def configuration(folder: Path, tools: Tools) -> str:
    """Return containerd's configuration for the data in `folder`."""
    return CONFIGURATION.format(
        root=folder / "containerd",
        socket=SOCKET,
        pause=PAUSE,
        cni=tools.bin / "cni",
        network=folder / "network",
        runc=tools.bin / "runc",
    )


def network(machine: Machine) -> str:
    """Give each pod a cable of its own to the machine: traffic between two pods of one machine is routed as well."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": machine.address.pods}]]}
    where = {"dataDir": str(machine.folder / "addresses"), "routes": [{"dst": "0.0.0.0/0"}]}
    pods = {"type": "ptp", "ipMasq": False, "ipam": {**addresses, **where}}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [pods]})


def copy_images(prepared: Path, folder: Path) -> None:
    """Take over the images of a containerd that has imported them; files are linked, only its database is copied.

    Layers of images are never written to, so that all machines may share their files.
    """
    subprocess.run(["cp", "--archive", "--link", prepared, folder], check=True)
    for database in folder.rglob("*.db"):
        own = database.with_suffix(".copy")
        shutil.copy2(database, own)
        own.replace(database)


def start(machine: Machine, tools: Tools, images: Path | None) -> Program:
    """Start containerd on a machine with the `images` that another one has prepared, and return when it answers."""
    machine.folder.mkdir(parents=True)
    (machine.folder / "network").mkdir()
    (machine.folder / "network/10-pods.conflist").write_text(network(machine))
    file = machine.folder / "containerd.toml"
    file.write_text(configuration(machine.folder, tools))
    if images is not None:
        copy_images(images, machine.folder / "containerd")
    path = f"{tools.bin}:/usr/sbin:/usr/bin:/sbin:/bin"
    program = machine.start("containerd", tools.bin / "containerd", "--config", file, PATH=path)

    def answers() -> bool:
        program.check()
        return subprocess.run(ctr(machine, tools, "version"), capture_output=True, check=False).returncode == 0

    until(answers, f"containerd of {machine.name}")
    return program


def ctr(machine: Machine, tools: Tools, *words: str | Path) -> list[str | Path]:
    """Return the command line of containerd's client on a machine, for the images and containers of Kubernetes."""
    return machine.inside(tools.bin / "ctr", f"--address={SOCKET}", "--namespace=k8s.io", *words)


def kill(machine: Machine, tools: Tools, container: str) -> None:
    """Kill a container's first process, as the kernel does that has no memory left; `container` is its id."""
    subprocess.run(ctr(machine, tools, "tasks", "kill", "--signal=SIGKILL", container), check=True, capture_output=True)


def load_images(machine: Machine, tools: Tools, archive: Path) -> None:
    """Import an archive with images."""
    subprocess.run(ctr(machine, tools, "images", "import", archive), check=True, capture_output=True)


def keep(root: Path, prepared: Path) -> None:
    """Keep the data of a containerd that has ended, in place of older data."""
    shutil.rmtree(prepared, ignore_errors=True)
    shutil.move(root, prepared)
