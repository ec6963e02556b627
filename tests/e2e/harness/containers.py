"""Running a container of a pod as a process: its command, its variables and its mounts, without its isolation."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from harness import pods
from harness.image import CODE, ENVIRONMENT
from harness.kube import Kube, Manifest


@dataclass(frozen=True)
class Start:
    """What to execute, and with which variables alone."""

    command: list[str]
    environment: dict[str, str]


def prepare(
    kube: Kube,
    pod: Manifest,
    container: Manifest,
    work: Path,
    extra: dict[str, str] | None = None,
    shown: dict[str, Path] | None = None,
) -> Start:
    """Work out how a container starts.

    `extra` adds to the image's variables, `shown` (path in the container → folder) to the mounts. Mounts are made in a
    mount namespace of the container's own, so that nothing has to be taken away afterwards.
    """
    environment = pods.environment(kube, pod, container, {**ENVIRONMENT, **(extra or {})})
    words = [pods.expand(word, environment) for word in [*container["command"], *container.get("args", [])]]
    folders = {**pods.mounts(pod, container, work / "host", work / "volumes"), **(shown or {})}
    script = []
    for path, folder in folders.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        script.append(shlex.join(["/bin/mount", "--bind", str(folder), path]))
    script.append('exec "$@"')
    return Start(["/usr/bin/unshare", "--mount", "/bin/sh", "-ec", "\n".join(script), "sh", *words], environment)


def pre_stop(container: Manifest) -> Manifest:
    """Return a container that runs what this one runs before SIGTERM."""
    return {**container, "command": container["lifecycle"]["preStop"]["exec"]["command"], "args": []}


def run(start: Start, seconds: float = 30) -> subprocess.CompletedProcess[str]:
    """Run a container to its end in the image's working directory."""
    return subprocess.run(
        start.command, env=start.environment, cwd=CODE, capture_output=True, text=True, timeout=seconds, check=False
    )
