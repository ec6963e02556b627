"""KubeRay's own chart ray-cluster, beside ours with the same values files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.kube import Manifest
from harness.postrenderer import STAMP, PostRenderer
from harness.stack import Stack
from harness.waiting import until

RELEASE = "ray"
# The chart gives a worker 1Gi, which the shared memory of the wiring does not fit.
GPUS = {"limits": {"nvidia.com/gpu": 8, "memory": "300Gi"}}


@dataclass(frozen=True)
class Foreign:
    """KubeRay's own chart as a release beside `ours`, which has the same values files."""

    ours: Stack
    renderer: PostRenderer
    chart: Path

    @property
    def cluster(self) -> str:
        """The name that the chart gives to its RayCluster."""
        return f"{RELEASE}-kuberay"

    def options(self, wired: bool = True, **worker: object) -> list[str]:
        """Give Helm the values of the chart, and the post-renderer its own."""
        repository, _, tag = self.image().rpartition(":")
        values = {
            "image": {"repository": repository, "tag": tag},
            "worker": {"replicas": 2, "resources": GPUS, **worker},
        }
        file = self.ours.work / f"values/{self.ours.namespace}-kuberay.yaml"
        file.write_text(yaml.safe_dump(values))
        post = self.renderer.words(self.ours.helm, *self.ours.options()) if wired else []
        return [f"--values={file}", *post]

    def image(self) -> str:
        """Return the image of ours: what is known of an image is wiring, too."""
        (cluster,) = (each for each in self.ours.render("raycluster") if each["kind"] == "RayCluster")
        return str(cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"])

    def install(self, wired: bool = True, **worker: object) -> None:
        """Install the chart."""
        self.ours.helm.install(RELEASE, self.chart, self.ours.namespace, self.options(wired, **worker))

    def upgrade(self, wired: bool = True, **worker: object) -> None:
        """Upgrade the release with the values that it has.

        Without waiting: where only templates change, KubeRay does not write status.observedGeneration, for which
        Helm 4 waits in vain.
        """
        options = self.options(wired, **worker)
        self.ours.helm.upgrade(RELEASE, self.chart, self.ours.namespace, options, safe=False)

    def get(self) -> Manifest:
        """Return the RayCluster."""
        return self.ours.kube.get("raycluster", self.cluster, self.ours.namespace)

    def stored(self) -> str:
        """Return the text that Helm has stored."""
        return self.ours.helm.run("get", "manifest", RELEASE, "--namespace", self.ours.namespace)

    def stamp(self) -> str | None:
        """Return the annotation by which a wired object is known."""
        return dict(self.get()["metadata"].get("annotations", {})).get(STAMP)


def pods_of(stack: Stack, cluster: str) -> list[Manifest]:
    """Return the pods of one cluster, head first."""
    return [pod for pod in stack.pods() if pod["metadata"]["labels"]["ray.io/cluster"] == cluster]


def until_ready(stack: Stack, cluster: str) -> list[Manifest]:
    """Wait until the operator calls a cluster ready; return its pods, head first."""

    def ready() -> bool:
        found = stack.kube.get("raycluster", cluster, stack.namespace)
        return bool(found.get("status", {}).get("state") == "ready")

    until(ready, f"RayCluster {cluster} ready", seen=lambda: stack.kube.events(stack.namespace))
    return pods_of(stack, cluster)
