"""The file system and the network that the end-to-end tests see.

The tests need paths that a training image has (/opt/nemo-rl, /data, /usr/local/gib). They get a root of their own, a
tmpfs into which every top-level folder of the machine is bound, so that nothing is ever created on the machine itself.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from pathlib import Path

from harness.leftovers import LIBC

# Folders in which the tests make entries: a tmpfs each, with the machine's own entries bound into it.
SHADOWED = ("opt", "usr/local")
LOCALHOST = "127.0.0.1 localhost\n::1 localhost\n"
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


def enter(work: Path) -> None:
    """Bring the loopback interface up and change into a private root below `work`."""
    raise_loopback()
    root = work / "root"
    root.mkdir()
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", root)
    # Otherwise binding /tmp into the new root would bind the new root into itself.
    mount("--make-unbindable", root)
    populate(Path("/"), root, skip={Path("/") / name.split("/")[0] for name in SHADOWED if "/" not in name})
    for name in SHADOWED:
        shadow(Path("/") / name, root / name)
    bind_text(work / "hosts", LOCALHOST, root / "etc/hosts")
    bind_text(work / "resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n", root / "etc/resolv.conf")
    here = Path.cwd()
    os.chroot(root)
    os.chdir(here)


def raise_loopback() -> None:
    """Do what `ip link set lo up` does, without needing iproute2."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(handle, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def own_network() -> None:
    """Give this thread, and all that it starts, a network of its own, of which only the loopback interface exists.

    Raises OSError.
    """
    if LIBC.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    raise_loopback()


def populate(source: Path, target: Path, skip: set[Path]) -> None:
    """Bind each folder of `source` to the same name in `target` and copy its symbolic links."""
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        if entry.is_symlink():
            place.symlink_to(os.readlink(entry))
        elif entry.is_dir() and entry not in skip:
            place.mkdir()
            mount("--rbind", entry, place)


def shadow(source: Path, target: Path) -> None:
    """Put a writable tmpfs over `target` that shows the entries of `source`."""
    target.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", target)
    if source.is_dir():
        populate(source, target, skip=set())


def bind_text(file: Path, text: str, target: Path) -> None:
    """Write `text` to `file` and show it at `target`."""
    file.write_text(text)
    if target.is_symlink() or not target.exists():
        return
    mount("--bind", file, target)


def mount(*arguments: str | Path) -> None:
    """Run mount(8).

    Raises subprocess.CalledProcessError.
    """
    subprocess.run(["mount", *map(str, arguments)], check=True)
