"""The helm binaries, Helm 3 and Helm 4, with the options that a person would use."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.kube import Manifest, load


class HelmError(Exception):
    """Helm said no; the text is what it wrote on stderr."""


@dataclass(frozen=True)
class Helm:
    """One Helm on one cluster, as the administrator or as a user."""

    program: Path
    kubeconfig: Path
    home: Path
    user: str = ""
    groups: tuple[str, ...] = field(default=())
    # Helm 4 installs with server-side apply unless it is told otherwise; upgrades go on as the release was installed.
    server_side: bool = True

    @property
    def major(self) -> int:
        """3 or 4."""
        return int(self.program.name.removeprefix("helm"))

    @property
    def safe_upgrade(self) -> str:
        """The option that undoes a refused upgrade, by the name that it has in this Helm."""
        return "--atomic" if self.major == 3 else "--rollback-on-failure"

    def run(self, *arguments: str) -> str:
        """Run helm and return its stdout.

        Raises HelmError.
        """
        identity = [f"--kube-as-user={self.user}", *(f"--kube-as-group={name}" for name in self.groups)]
        command = [str(self.program), *arguments, *(identity if self.user else [])]
        folders = {f"HELM_{name}_HOME": str(self.home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        environment = {**os.environ, **folders, "KUBECONFIG": str(self.kubeconfig)}
        result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=180, check=False)
        if result.returncode != 0:
            raise HelmError(f"{self.program.name} {' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout

    def install(self, release: str, chart: Path, namespace: str, options: Sequence[str]) -> str:
        """Install a chart; Helm 3 has no server-side apply, and no option for it."""
        server = [f"--server-side={str(self.server_side).lower()}"] if self.major == 4 else []
        return self.run("install", release, str(chart), "--namespace", namespace, *server, *options)

    def upgrade(self, release: str, chart: Path, namespace: str, options: Sequence[str], safe: bool = True) -> str:
        """Upgrade a release, by default with the option that takes a refused upgrade back."""
        extra = [self.safe_upgrade] if safe else []
        return self.run("upgrade", release, str(chart), "--namespace", namespace, *extra, *options)

    def uninstall(self, release: str, namespace: str) -> str:
        """Uninstall a release and wait until its objects are gone."""
        return self.run("uninstall", release, "--namespace", namespace, "--wait", "--timeout", "90s")

    def template(self, release: str, chart: Path, namespace: str, options: Sequence[str]) -> list[Manifest]:
        """Render a chart."""
        return load(self.run("template", release, str(chart), "--namespace", namespace, *options))

    def status(self, release: str, namespace: str) -> str:
        """Return the state of a release: deployed, failed …"""
        lines = self.run("status", release, "--namespace", namespace).splitlines()
        return next(line.split()[-1] for line in lines if line.startswith("STATUS:"))

    def manifest(self, release: str, namespace: str) -> list[Manifest]:
        """Return the objects of a release as Helm has stored them."""
        return load(self.run("get", "manifest", release, "--namespace", namespace))
