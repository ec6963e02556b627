"""What the cluster says about a stack: its objects, its nodes, and what could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from grpo.cluster.expected import Expected
from grpo.cluster.objects import cluster_of, labels_of, name_of

Objects = list[dict[str, Any]]


@dataclass
class Evidence:
    """The evidence that was read: objects by their kind's plural, and a reason for each kind that could not be read.

    A kind that the cluster does not have, such as Kueue's, has no objects but is not `unread`. `allPods` covers all
    namespaces, to compute the free room on the nodes. `releases` has only the metadata of Helm's Secrets. `record` is
    the status.json in the run's directory, `ray` is the job as reported by Ray's Jobs API, and `logs` are the last
    lines of programs, by program name.
    """

    expected: Expected
    context: str
    time: float
    objects: dict[str, Objects] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)
    ray: dict[str, Any] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)

    def of(self, kind: str) -> Objects:
        """Return the objects of one kind."""
        return self.objects.get(kind, [])

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the object of a kind with this name."""
        return next((each for each in self.of(kind) if name_of(each) == name), None)

    @property
    def cluster(self) -> str:
        """Return the RayCluster's name, which KubeRay chooses if the job creates the cluster itself."""
        job = self.find("rayjobs", self.expected.job) or {}
        return self.expected.cluster or cluster_of(job)

    def pods_of_cluster(self) -> Objects:
        """Return the Ray cluster's pods."""
        name = self.cluster
        return [pod for pod in self.of("pods") if name and labels_of(pod).get("ray.io/cluster") == name]
