"""Find RayJobs left behind by an uninstalled release: they hold GPUs, and no release ends them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import labels_of, name_of
from postrender.manifests.pods import mapping

_CHART: Final = "grpo-job-"
_RELEASE: Final = "meta.helm.sh/release-name"
# Flux may keep its releases in another namespace.
_FLUX: Final = "helm.toolkit.fluxcd.io/name"


@dataclass(frozen=True)
class Leftover:
    """A RayJob whose release is gone, and the command that ends it."""

    name: str
    release: str
    command: str

    def __str__(self) -> str:
        return f"RayJob {self.name}, because its release {self.release} is gone; end it: {self.command}"


def leftovers(evidence: Evidence) -> Iterator[Leftover]:
    """Yield the stack's RayJobs that Helm has installed but whose release has no record in the namespace."""
    if not {"releases", "configmaps"} <= evidence.objects.keys():
        return
    releases = {str(labels_of(each).get("name")) for each in evidence.of("releases")}
    # With HELM_DRIVER=configmap.
    records = [name_of(each) for each in evidence.of("configmaps")]
    for job in evidence.of("rayjobs"):
        labels, metadata = labels_of(job), mapping(job.get("metadata"))
        release = str(mapping(metadata.get("annotations")).get(_RELEASE, ""))
        is_ours = str(labels.get("helm.sh/chart", "")).startswith(_CHART)
        is_mine = is_ours and labels.get("app.kubernetes.io/part-of") == evidence.expected.name
        if not release or not is_mine or _FLUX in labels or "deletionTimestamp" in metadata or release in releases:
            continue
        if any(name.startswith(f"sh.helm.release.v1.{release}.v") for name in records):
            continue
        objects = [f"rayjob/{name_of(job)}", f"configmap/{name_of(job)}-locked-raise-job.attempt"]
        where = ["-n", evidence.expected.namespace]
        command = shlex.join(["kubectl", "delete", *objects, "--ignore-not-found", *where])
        yield Leftover(name_of(job), release, command)
