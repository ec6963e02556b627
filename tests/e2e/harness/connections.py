"""Connections that a pod opens."""

from __future__ import annotations

from harness.kube import Kube, Manifest

CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)
    print("open")
except OSError as error:
    print(error)
"""


def connects(kube: Kube, source: Manifest, address: str, port: int) -> bool:
    """Tell whether a pod opens a connection to an address."""
    return kube.execute(source, "python3", "-c", CONNECT, address, str(port)).strip() == "open"


def address(pod: Manifest) -> str:
    """Return the address of a pod on the pod network."""
    return str(pod["status"]["podIP"])
