"""The volume of a stack's runs: where its data is stored, and how to write to it while no pod mounts it."""

from __future__ import annotations

import json
import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grpo.helm import kubectl
from postrender.errors import InputError
from postrender.manifests.pods import mapping
from postrender.values.merge import Values

# It has Python, and nothing else that this needs.
_IMAGE: Final = "python:3.12-slim"
_POD: Final = "grpo-upload"
_IN_CLAIM: Final = "jsonpath={.spec.volumeName}"
_IN_VOLUME: Final = "jsonpath={.spec.csi.volumeHandle}"


@dataclass(frozen=True)
class Volume:
    """The volume job.volume: its claim, where the stack's pods mount it, and its section in the values."""

    claim: str
    mount: str
    section: Mapping[str, Any]

    @classmethod
    def of(cls, values: Values) -> Volume:
        """Return the volume that the values configure; raise InputError if they have no persistent one."""
        mount = kubectl.mount_path(values)
        name = values.get("job.volume", "data")
        section = mapping(values.get(f"storage.{name}"))
        if section.get("ephemeral"):
            raise InputError(
                f"job.volume is {name!r}, a local disk of each pod, which goes with the pod",
                fix="name a volume that stays",
            )
        stack = values.get("stack.name")
        claim = mapping(section.get("existingClaim")).get("name") or (f"{stack}-{name}" if stack else "")
        if not claim:
            fix = "also give the site file, with -f"
            raise InputError("the values name no stack, so the claim of its volume is unknown", fix=fix)
        return cls(str(claim), mount, section)

    @property
    def datasets(self) -> str:
        """Return the folder named by GRPO_DATASETS."""
        return posixpath.join(self.mount, "datasets")

    def by_hand(self, files: Sequence[str], folder: str, namespace: str) -> str:
        """Return the commands that put files into a folder of the volume while no pod mounts it."""
        if bucket := mapping(self.section.get("gcsfuse")):
            inside = str(mapping(bucket.get("mountOptions")).get("only-dir") or "").strip("/")
            return _copy(files, f"gs://{posixpath.join(str(bucket.get('bucket')), inside, folder)}/")
        if mapping(mapping(self.section.get("existingClaim")).get("gcsfuse")).get("enabled"):
            found = ["kubectl", "get", "pvc", self.claim, "-n", namespace, "-o", _IN_CLAIM]
            bucket_name = f'"$(kubectl get pv "$({shlex.join(found)})" -o {shlex.quote(_IN_VOLUME)})"'
            return f"{_copy(files, '')}gs://{bucket_name}/{folder}/"
        return f"{self._small_pod(namespace)}; then run this again, and kubectl delete pod {_POD} -n {namespace}"

    def _small_pod(self, namespace: str) -> str:
        """Return the commands that start a pod to mount the claim."""
        mounts = [{"name": "data", "mountPath": self.mount}]
        container = {"name": _POD, "image": _IMAGE, "command": ["sleep", "86400"], "volumeMounts": mounts}
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": self.claim}}
        spec = json.dumps({"spec": {"containers": [container], "volumes": [volume]}}, separators=(",", ":"))
        where = ["-n", namespace]
        start = ["kubectl", "run", _POD, *where, "--image", _IMAGE, "--restart", "Never", "--overrides", spec]
        wait = ["kubectl", "wait", "--for=condition=Ready", f"pod/{_POD}", *where, "--timeout=10m"]
        return f"{shlex.join(start)} && {shlex.join(wait)}"


def _copy(files: Sequence[str], target: str) -> str:
    return f"{shlex.join(['gcloud', 'storage', 'cp', *files])} {target}"
