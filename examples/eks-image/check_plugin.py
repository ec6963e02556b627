"""Say whether NCCL can use EFA in this image: check_plugin.py VERSION, the version of aws-ofi-nccl that is expected.

It opens the plugin as NCCL does (src/plugin/plugin_open.cc of NCCL 2.28.9), with the variables of the image, and
compares its interfaces with those that each NCCL of the image asks for. It needs no GPU and no EFA device.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HOME = "/opt/amazon/"
# libibverbs finds no EFA device without it.
DRIVER = "/etc/libibverbs.d/efa.driver"
# PyTorch uses the NCCL of a wheel, which lies here. The system's may have another version.
WHEEL = "/nvidia/nccl/lib/"
SKIPPED = {"dev", "proc", "sys", "tmp"}


class CheckError(Exception):
    """NCCL would not use EFA; the message says why."""


def plugin_name(variables: dict[str, str]) -> str:
    """Return the name of the library that NCCL opens for NCCL_NET_PLUGIN."""
    named = variables.get("NCCL_NET_PLUGIN", "")
    return f"libnccl-net-{named}.so" if named else "libnccl-net.so"


def interfaces(library: bytes) -> set[int]:
    """Return the versions of the network interface that a build of NCCL looks up, or that a plugin offers."""
    return {int(number) for number in re.findall(rb"ncclNetPlugin_v(\d+)\0", library)}


def first(pattern: bytes, library: bytes) -> str:
    """Return the first match of a pattern in a library, or an empty text."""
    found = re.search(pattern, library)
    return found[1].decode() if found else ""


def shared(offered: set[int], nccl: bytes, path: str) -> int:
    """Return the interface that an NCCL takes of a plugin. Raises CheckError if they share none."""
    wanted = interfaces(nccl)
    if not wanted & offered:
        raise CheckError(f"{path} asks for the interfaces {sorted(wanted)}, and the plugin has {sorted(offered)}")
    return max(wanted & offered)


def opened(name: str) -> tuple[ctypes.CDLL, str]:
    """Open a library as NCCL does; return it and its path. Raises CheckError if it, or what it needs, is not found."""
    try:
        library = ctypes.CDLL(name, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as error:
        raise CheckError(f"the dynamic loader does not open {name}: {error}") from None
    stem = re.escape(name.partition(".so")[0])
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return library, "".join(re.findall(rf"(?<!\S)(/\S*/{stem}\.so\S*)", maps)[-1:]) or name


def nccls(root: str) -> Iterator[str]:
    """Yield the path of each NCCL below a folder; most virtual environments have a link, and all are checked."""
    for folder, folders, files in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name not in SKIPPED]
        path = os.path.join(folder, "libnccl.so.2")
        if "libnccl.so.2" in files and os.path.exists(path):
            yield path


def check_libraries(version: str, name: str) -> set[int]:
    """Open libfabric, the CUDA runtime and the plugin; return the interfaces of the plugin."""
    if not os.path.exists(DRIVER):
        raise CheckError(f"{DRIVER} is missing: rdma-core of the installer is not in the image")
    fabric, fabric_path = opened("libfabric.so.1")
    number = fabric.fi_version()
    print(f"libfabric {number >> 16}.{number & 0xFFFF}: {fabric_path}")
    # AWS's packages of the plugin look for the CUDA runtime by this name when NCCL starts (src/nccl_ofi_cuda.cpp).
    print(f"CUDA runtime: {opened('libcudart.so')[1]}")
    plugin, path = opened(name)
    for one in (fabric_path, path):
        if not one.startswith(HOME):
            raise CheckError(f"{one} is found first, and not the one below {HOME}")
    text = Path(path).read_bytes()
    found = first(rb"aws-ofi-nccl (\d+\.\d+\.\d+)", text)
    print(f"aws-ofi-nccl {found or 'of an unknown version'}: {path}")
    if found != version:
        raise CheckError(f"expected aws-ofi-nccl {version}: give AWS_OFI_NCCL and EFA_INSTALLER that belong together")
    return {each for each in interfaces(text) if hasattr(plugin, f"ncclNetPlugin_v{each}")}


def check_nccls(offered: set[int], root: str) -> None:
    """Check the NCCL of each virtual environment, and the system's."""
    paths = [*nccls(root)]
    for path in paths:
        text = Path(path).read_bytes()
        taken, number = shared(offered, text, path), first(rb"NCCL version (\d+\.\d+\.\d+)", text)
        print(f"NCCL {number or 'of an unknown version'} takes interface v{taken}: {path}")
    if not any(WHEEL in path for path in paths):
        raise CheckError(f"no libnccl.so.2 of a wheel of PyTorch ({WHEEL}) is in the image")


def main(arguments: list[str]) -> int:
    """Return 0 if NCCL can use EFA; else print why not and return 1."""
    (version,) = arguments
    try:
        check_nccls(check_libraries(version, plugin_name(dict(os.environ))), "/")
    except CheckError as error:
        print(f"check_plugin: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
