"""Cluster DNS for one kind of name: the head services of Ray clusters.

The operator finds a dashboard by `<service>.<namespace>.svc.cluster.local`. Go reads /etc/hosts again every five
seconds, so that a service which has just gone may resolve a little longer, as it does with a real DNS cache.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from harness.kube import Kube, KubectlError
from harness.sandbox import LOCALHOST

SUFFIX = "-head-svc"
DOMAIN = "svc.cluster.local"


class Resolver:
    """A thread that keeps the private hosts file equal to the head services that exist."""

    def __init__(self, kube: Kube, hosts: Path, every: float = 0.5) -> None:
        self.kube = kube
        self.hosts = hosts
        self.every = every
        self.known: frozenset[str] = frozenset()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._loop, name="resolver", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self.thread.start()

    def stop(self) -> None:
        """End the thread and leave only localhost in the file."""
        self.stopped.set()
        self.thread.join()
        self._write(frozenset())

    def _loop(self) -> None:
        while not self.stopped.wait(self.every):
            try:
                names = frozenset(head_services(self.kube))
            except KubectlError:
                continue
            if names != self.known:
                self._write(names)

    def _write(self, names: frozenset[str]) -> None:
        """Write in place: the file is bind-mounted, a new one under the same name would not be seen."""
        lines = "".join(f"127.0.0.1 {name}\n" for name in sorted(names))
        handle = os.open(self.hosts, os.O_WRONLY)
        try:
            text = (LOCALHOST + lines).encode()
            os.pwrite(handle, text, 0)
            os.ftruncate(handle, len(text))
        finally:
            os.close(handle)
        self.known = names


def head_services(kube: Kube) -> list[str]:
    """List the DNS names of the head services that exist."""
    found = [service["metadata"] for service in kube.list("services")]
    return [f"{item['name']}.{item['namespace']}.{DOMAIN}" for item in found if item["name"].endswith(SUFFIX)]
