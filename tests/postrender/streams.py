"""Manifests with pods, for tests of the post-renderer."""

from __future__ import annotations

RAYCLUSTER = """\
---
# Source: app/templates/raycluster.yaml
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: ray
spec:
  headGroupSpec:
    rayStartParams: {}
    template:
      spec:
        containers:
          - name: ray-head
            image: rayproject/ray:2.52.0
            env:
              - name: GREETING # of the head
                value: "yes"
  workerGroupSpecs:
    - groupName: gpus
      replicas: 2
      rayStartParams: {}
      template:
        spec:
          containers:
            # The container with the GPUs.
            - name: ray-worker
              image: rayproject/ray:2.52.0
              resources:
                limits:
                  nvidia.com/gpu: 8
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  containers:
    - name: main
      image: busybox:1.37
      resources:
        limits:
          nvidia.com/gpu: {gpus}
"""


def pod(name: str = "pod", gpus: int = 8) -> str:
    """Return a pod with GPUs, without a line `---`."""
    return POD.format(name=name, gpus=gpus)


def documents() -> dict[str, str]:
    """Return manifests by names of template files."""
    return {"raycluster": RAYCLUSTER, "pod": pod()}
