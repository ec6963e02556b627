"""A provisioner of folders: each claim gets one below the work folder, which every machine sees."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from harness.kube import Kube, KubectlError, Manifest
from harness.waiting import until

CLASS = "shared"


@contextlib.contextmanager
def provisioning(kube: Kube, volumes: Path) -> Iterator[None]:
    """Give folders below `volumes` to the claims of the class, which this makes."""
    until(lambda: kube.find("serviceaccount", "default", "default"), "the default service account")
    storage_class = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS}}
    kube.apply([{**storage_class, "provisioner": "kubernetes.io/no-provisioner"}])
    provisioner = Provisioner(kube, volumes)
    provisioner.start()
    try:
        yield
    finally:
        provisioner.stop()


class Provisioner:
    """A thread that makes a volume for each claim of the class `shared`."""

    def __init__(self, kube: Kube, volumes: Path, every: float = 0.5) -> None:
        self.kube = kube
        self.volumes = volumes
        self.every = every
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._loop, name="provisioner", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self.thread.start()

    def stop(self) -> None:
        """End the thread."""
        self.stopped.set()
        self.thread.join()

    def _loop(self) -> None:
        while not self.stopped.wait(self.every):
            try:
                for claim in self.kube.list("persistentvolumeclaims"):
                    if claim["spec"].get("storageClassName") == CLASS and "volumeName" not in claim["spec"]:
                        self.kube.apply([self._volume(claim)])
            except KubectlError:
                continue

    def _volume(self, claim: Manifest) -> Manifest:
        name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
        folder = self.volumes / namespace / name
        folder.mkdir(parents=True, exist_ok=True)
        spec = {
            "capacity": claim["spec"]["resources"]["requests"],
            "accessModes": claim["spec"]["accessModes"],
            "storageClassName": CLASS,
            "claimRef": {"namespace": namespace, "name": name},
            "hostPath": {"path": str(folder)},
        }
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{namespace}-{name}"},
            "spec": spec,
        }
