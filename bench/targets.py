"""The objects of the benchmark's streams that get wiring: RayCluster, RayJob, Job and JobSet with eight GPUs a pod.

All objects of a kind have the same lists in the same places, because kustomize addresses them by index.
"""

from __future__ import annotations

from random import Random

from ordinary import environment, indented, metadata, words

IMAGE = "nvcr.io/nvidia/nemo-rl:v0.7.0"


def gpu_pod(numbers: Random, name: str, *, restart: str = "", quoted: bool = True) -> str:
    """Return a GPU pod's template with environment, mounts and volumes of its own, unindented."""
    gpus = '"8"' if quoted else "8"
    return (
        f"metadata:\n  labels:\n    app: {name}\n    team: {words(numbers, 1)}\nspec:\n"
        + (f"  restartPolicy: {restart}\n" if restart else "")
        + f"  containers:\n  - name: {name}\n    image: {IMAGE}\n    imagePullPolicy: IfNotPresent\n    \n"
        + f"    # {words(numbers, 9)}\n    env:\n{indented(environment(numbers, numbers.randrange(8, 24)), 6)}"
        + f"    resources:\n      limits:\n        cpu: 200\n        memory: 3000Gi\n        nvidia.com/gpu: {gpus}\n"
        + f"      requests:\n        cpu: 200\n        memory: 3000Gi\n        nvidia.com/gpu: {gpus}\n"
        + "    volumeMounts:\n      - mountPath: /tmp/ray\n        name: log-volume\n      - mountPath: /data\n"
        + "        name: data\n  volumes:\n    - emptyDir: {}\n      name: log-volume\n    - name: data\n"
        + f"      persistentVolumeClaim:\n        claimName: {words(numbers, 2, '-')}\n"
    )


def bare_gpu_pod(numbers: Random, name: str) -> str:
    """Return a GPU pod's template that has nothing to insert into but empty collections, unindented."""
    return (
        f"metadata:\n  annotations: {{}}\n  labels:\n    app: {name}\nspec:\n  affinity: {{}}\n  containers:\n"
        f"    - name: {name}\n      image: {IMAGE}\n      env: []\n      args:\n        - |-\n"
        f"          # {words(numbers, 8)}\n          exec {words(numbers, 3)}\n      resources:\n"
        "        limits:\n          cpu: 200\n          memory: 3000Gi\n          nvidia.com/gpu: 8\n"
        "        requests:\n          cpu: 200\n          memory: 3000Gi\n          nvidia.com/gpu: 8\n"
        "  nodeSelector: {}\n  tolerations: []\n"
    )


def cluster(numbers: Random, name: str) -> str:
    """Return the spec of a Ray cluster: a head and two groups of workers, unindented."""
    groups = "".join(
        f"- groupName: {group}\n  replicas: {numbers.randrange(1, 8)}\n  minReplicas: 1\n  maxReplicas: 8\n"
        f"  numOfHosts: 1\n  rayStartParams: {{}}\n  template:\n{indented(made, 4)}"
        for group, made in (
            ("train", gpu_pod(numbers, "ray-worker")),
            ("generate", bare_gpu_pod(numbers, "ray-worker")),
        )
    )
    head = (
        f"metadata:\n  labels:\n    app: {name}\n  annotations: {{}}\nspec:\n  containers:\n  - name: ray-head\n"
        f"    image: {IMAGE}\n    env:\n{indented(environment(numbers, 6), 4)}    ports:\n"
        "    - {containerPort: 6379, name: gcs}\n    - containerPort: 8265\n      name: dashboard\n    resources:\n"
        "      limits:\n        cpu: 32\n        memory: 128Gi\n      requests:\n        cpu: 32\n"
        "        memory: 128Gi\n    volumeMounts:\n    - mountPath: /tmp/ray\n      name: log-volume\n  volumes:\n"
        "  - emptyDir: {}\n    name: log-volume\n"
    )
    return (
        "rayVersion: 2.55.1\nheadGroupSpec:\n  serviceType: ClusterIP\n  rayStartParams:\n    dashboard-host: 0.0.0.0\n"
        f'    num-gpus: "0"\n  template:\n{indented(head, 4)}workerGroupSpecs:\n{groups}'
    )


def ray_cluster(numbers: Random, name: str) -> str:
    """Return a RayCluster."""
    made = indented(cluster(numbers, name), 2)
    return f"apiVersion: ray.io/v1\nkind: RayCluster\n{metadata(numbers, name)}spec:\n{made}"


def ray_job(numbers: Random, name: str) -> str:
    """Return a RayJob with a cluster of its own."""
    entry = f"python -m {words(numbers, 2, '.')} --{words(numbers, 2, '-')}={numbers.randrange(99)}"
    return (
        f"apiVersion: ray.io/v1\nkind: RayJob\n{metadata(numbers, name)}spec:\n"
        f"  entrypoint: |\n    set -eu\n    {entry}\n  shutdownAfterJobFinishes: true\n  submissionMode: HTTPMode\n"
        f"  ttlSecondsAfterFinished: 600\n  rayClusterSpec:\n{indented(cluster(numbers, name), 4)}"
    )


def job(numbers: Random, name: str) -> str:
    """Return a Job of one GPU pod."""
    made = indented(gpu_pod(numbers, "trainer", restart="Never", quoted=False), 4)
    return (
        f"apiVersion: batch/v1\nkind: Job\n{metadata(numbers, name)}spec:\n  backoffLimit: {numbers.randrange(4)}\n"
        f"  completions: 2\n  parallelism: 2\n  completionMode: Indexed\n  template:\n{made}"
    )


def job_set(numbers: Random, name: str) -> str:
    """Return a JobSet of one replicated job."""
    made = indented(gpu_pod(numbers, "trainer", restart="Never"), 10)
    return (
        f"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n{metadata(numbers, name)}spec:\n  failurePolicy:\n"
        f"    maxRestarts: {numbers.randrange(1, 9)}\n  replicatedJobs:\n  - name: workers\n    replicas: 1\n"
        f"    template:\n      spec:\n        backoffLimit: 0\n        template:\n{made}"
    )
