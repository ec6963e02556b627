"""The post-renderer as the Helms and a shell start it, and what its work looks like on a pod."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.helm import Helm
from harness.kube import Manifest

NAME = "grpo-post-render"
STAMP = "grpo-charts/wiring"
NETWORKING = "networking.gke.io/"
VARIABLES = {"LD_LIBRARY_PATH", "HF_TOKEN", "HF_HUB_OFFLINE", "WANDB_API_KEY", "BASH_ENV", "GLOO_SOCKET_IFNAME"}
# What a user of NCCL sets for themselves, in any chart.
THEIRS = {"NCCL_DEBUG"}
FOLDERS = {"/usr/local/nvidia", "/usr/local/gib", "/dev/shm"}
START = "import sys; sys.path.insert(0, {root!r}); from postrender.main import main; sys.exit(main())"


@dataclass(frozen=True)
class PostRenderer:
    """The post-renderer of this checkout: a program for Helm 3 and pipes, a plugin for Helm 4."""

    repository: Path
    folder: Path

    @property
    def program(self) -> Path:
        """The program, which `prepare` writes."""
        return self.folder / NAME

    def prepare(self, helm4: Helm) -> None:
        """Write the program, and the plugin where this Helm 4 looks for plugins."""
        self.folder.mkdir()
        code = START.format(root=str(self.repository))
        self.program.write_text(f'#!/bin/sh\nexec \'{sys.executable}\' -c "{code}" "$@"\n')
        self.program.chmod(0o755)
        plugins = helm4.home / "data/plugins"
        command = [sys.executable, "-m", "grpo.cli", "helm-plugin", "dir", str(plugins)]
        environment = {**os.environ, "PYTHONPATH": str(self.repository)}
        subprocess.run(command, check=True, capture_output=True, env=environment, timeout=60)

    def words(self, helm: Helm, *options: str) -> list[str]:
        """Give the options by which a Helm renders through it."""
        name = str(self.program) if helm.major == 3 else NAME
        return ["--post-renderer", name, *(f"--post-renderer-args={option}" for option in options)]

    def pipe(self, text: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Give it a stream on stdin."""
        command = [str(self.program), *options]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def secrets(pod: Manifest) -> Manifest:
    """Return the variables of the first container that are wiring, by name."""
    found = [entry for entry in pod["spec"]["containers"][0].get("env", []) if is_wiring(entry["name"])]
    named = {entry["name"]: entry for entry in found}
    assert len(named) == len(found), f"a variable stands there twice: {found}"
    return named


def is_wiring(variable: str) -> bool:
    """Say whether a variable belongs to what a pod needs from its cluster."""
    return variable in VARIABLES or (variable.startswith("NCCL_") and variable not in THEIRS)


def wiring(pod: Manifest, owner: str) -> Manifest:
    """Return all that is wiring of a GPU pod, without what its author may choose: names of volumes and of the owner."""
    spec, first = pod["spec"], pod["spec"]["containers"][0]
    checks = [container for container in spec["initContainers"] if container["name"] == "check-node"]
    there = pod["metadata"].get("annotations", {})
    annotations = {name: text for name, text in there.items() if name.startswith(NETWORKING)}
    if interfaces := annotations.get(f"{NETWORKING}interfaces"):
        annotations[f"{NETWORKING}interfaces"] = json.loads(interfaces)
    claims = json.dumps(spec.get("resourceClaims", [])).replace(f'"{owner}-', '"OWNER-')
    return {
        "annotations": annotations,
        "env": secrets(pod),
        "mounts": mounts(spec, first),
        # The operator gives every container the address of its own cluster.
        "checks": [{**check, "env": [], "volumeMounts": mounts(spec, check)} for check in checks],
        "initContainers": spec["initContainers"][0]["name"],
        "nodeSelector": spec["nodeSelector"],
        "tolerations": sorted(map(json.dumps, spec["tolerations"])),
        "resourceClaims": json.loads(claims),
        "claims": first["resources"].get("claims", []),
    }


def mounts(spec: Manifest, container: Manifest) -> dict[str, Any]:
    """Return how the folders of the driver and shared memory are mounted, by path, with what is mounted there."""
    volumes = {volume["name"]: {**volume, "name": ""} for volume in spec["volumes"]}
    found = {entry["mountPath"]: entry for entry in container["volumeMounts"] if entry["mountPath"] in FOLDERS}
    return {path: {**entry, "name": "", "volume": volumes[entry["name"]]} for path, entry in found.items()}
