"""Write the script for the init container that checks a node, as lines of bash."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

# Who should have brought the files of the plugin.
INSTALLER: Final = "the GPUDirect RDMA installer has not finished on this node, or is for another machine family"
IMAGE: Final = "the image must hold the NCCL plugin of this machine, because no installer puts it on the node"


def plugin(files: Sequence[str], script: str | None, *, in_image: bool) -> list[str]:
    """Return lines that fail if the NCCL plugin's files are missing or its script is broken."""
    lines = [
        f"for file in {' '.join(files)}; do",
        '  if [ ! -r "$file" ]; then',
        f'    echo "check-node: $file is not readable: {IMAGE if in_image else INSTALLER}" >&2',
        "    exit 1",
        "  fi",
        "done",
    ]
    if script:
        reason = "the image has a broken copy" if in_image else "the installer was interrupted"
        message = f"check-node: {script} is not a script that bash can read: {reason}"
        lines += [f"if ! bash -n {script}; then", f'  echo "{message}" >&2', "  exit 1", "fi"]
    return lines


def shadowed(folders: Sequence[str]) -> list[str]:
    """Return lines that warn of an NCCL in node folders on LD_LIBRARY_PATH, which may replace the image's."""
    return [
        f"for folder in {' '.join(folders)}; do",
        '  if [ -e "$folder/libnccl.so.2" ]; then',
        "    echo \"check-node: warning: $folder/libnccl.so.2 is the node's NCCL, and LD_LIBRARY_PATH has it before the"
        " image's: helm test says which of the two is loaded\" >&2",
        "  fi",
        "done",
    ]


def driver(minimum: int, platform: str) -> list[str]:
    """Return lines that fail if the node's NVIDIA driver is older than the image's CUDA requires."""
    newer = {
        "gke-standard": "make the node pool with gpu-driver-version=latest",
        "gke-autopilot": "the pods ask for the newest that Autopilot has",
    }.get(platform, "install a newer driver on the nodes")
    return [
        "driver=$(grep -m 1 -oE '[0-9]{3,}[.][0-9]+' /proc/driver/nvidia/version 2>/dev/null | head -n 1)",
        'if [ -z "$driver" ]; then',
        '  echo "check-node: the version of the NVIDIA driver cannot be read here; the image needs'
        f' {minimum} or newer"',
        f'elif [ "${{driver%%.*}}" -lt {minimum} ]; then',
        f"  echo \"check-node: the node has NVIDIA driver $driver, and the image's CUDA needs {minimum} or newer:"
        f' {newer}" >&2',
        "  exit 1",
        "fi",
    ]
