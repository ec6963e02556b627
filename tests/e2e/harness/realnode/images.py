"""Container images made of folders, as OCI archives: no registry and no builder is needed."""

from __future__ import annotations

import filecmp
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.realnode.runtime import PAUSE

Blobs = dict[str, bytes]
OPERATOR = "quay.io/kuberay/operator:v1.6.2"


@dataclass(frozen=True)
class Image:
    """An image: its name, the folders of its layers (lowest first), and how its program starts."""

    name: str
    layers: Sequence[Path]
    environment: dict[str, str] = field(default_factory=dict)
    command: Sequence[str] = ()
    user: str = ""

    def stamp(self) -> str:
        """Describe the image so that another text means another image: of each layer the size and the newest file."""
        layers = []
        for folder in self.layers:
            files = [path.lstat() for path in folder.rglob("*")]
            size, newest = sum(each.st_size for each in files), max(each.st_mtime for each in files)
            layers.append((str(folder), len(files), size, newest))
        return json.dumps([self.name, layers, self.environment, list(self.command), self.user])


def platform(base: Path, operator: Path) -> list[Image]:
    """Describe what runs on every cluster: the container that keeps a pod's namespaces, and the KubeRay operator.

    `operator` is the operator's program.
    """
    layers = [base, program_layer(operator, base.parent / "manager")]
    return [Image(PAUSE, [base], {}, ["/bin/sleep", "infinity"]), Image(OPERATOR, layers, user="65532:65532")]


def program_layer(program: Path, target: Path) -> Path:
    """Lay a program out at the root of an image, as `target / target.name`; return the folder."""
    target.mkdir(exist_ok=True)
    # A newer file would mean a new image.
    if not (target / target.name).exists() or not filecmp.cmp(program, target / target.name):
        shutil.copy2(program, target / target.name)
    return target


def write(images: Sequence[Image], file: Path) -> None:
    """Write one archive with all images; a layer that two of them share is written once."""
    layers: dict[Path, tuple[str, int]] = {}
    with tarfile.open(file, "w") as archive:
        for folder in dict.fromkeys(folder for image in images for folder in image.layers):
            layers[folder] = add_layer(archive, folder, file.with_suffix(".layer"))
        manifests, blobs = describe(images, layers)
        for digest, data in blobs.items():
            add(archive, f"blobs/sha256/{digest}", data)
        add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())


def add_layer(archive: tarfile.TarFile, folder: Path, draft: Path) -> tuple[str, int]:
    """Add a folder as an uncompressed layer and return its digest and size; `draft` is a file for the meantime."""
    with tarfile.open(draft, "w") as layer:
        layer.add(folder, arcname=".")
    with draft.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    archive.add(draft, arcname=f"blobs/sha256/{digest}")
    size = draft.stat().st_size
    draft.unlink()
    return digest, size


def describe(images: Sequence[Image], layers: dict[Path, tuple[str, int]]) -> tuple[list[dict[str, Any]], Blobs]:
    """Return the entries of the index, and the blobs that they lead to."""
    entries, blobs = [], Blobs()
    for image in images:
        own = [layers[folder] for folder in image.layers]
        settings: dict[str, Any] = {"Env": [f"{key}={value}" for key, value in image.environment.items()]}
        settings |= {"Cmd": list(image.command), "User": image.user}
        roots = {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest, _ in own]}
        config = {"architecture": "amd64", "os": "linux", "config": settings, "rootfs": roots}
        manifest = {
            "schemaVersion": 2,
            "mediaType": kind("manifest.v1+json"),
            "config": store(blobs, "config.v1+json", config),
            "layers": [descriptor("layer.v1.tar", digest, size) for digest, size in own],
        }
        entry = store(blobs, "manifest.v1+json", manifest)
        entries.append({**entry, "annotations": {"io.containerd.image.name": image.name}})
    return entries, blobs


def store(blobs: Blobs, media: str, document: dict[str, Any]) -> dict[str, Any]:
    """Add a JSON document to the blobs and return what refers to it."""
    data = json.dumps(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return descriptor(media, digest, len(data))


def descriptor(media: str, digest: str, size: int) -> dict[str, Any]:
    """Refer to a blob."""
    return {"mediaType": kind(media), "digest": f"sha256:{digest}", "size": size}


def kind(media: str) -> str:
    """Return the whole media type."""
    return f"application/vnd.oci.image.{media}"


def add(archive: tarfile.TarFile, path: str, data: bytes) -> None:
    """Add a file to an archive."""
    entry = tarfile.TarInfo(path)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))
