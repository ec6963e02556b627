"""Ray clusters, jobs, services and cron jobs, each valid but for one or two fields, to ask KubeRay about."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from postrender.yaml import reader
from tests.conftest import ROOT
from tests.problems.kuberay_clusters import CLUSTER, GONE, Edits
from tests.problems.kuberay_jobs import JOB
from tests.problems.kuberay_services import CRON, SERVICE

Object = dict[str, Any]

PLAIN = """\
rayVersion: 2.55.1
headGroupSpec:
  rayStartParams: {dashboard-host: 0.0.0.0}
  template:
    spec:
      containers:
        - name: ray-head
          image: rayproject/ray:2.55.1
          env: [{name: LOG_LEVEL, value: info}]
          resources: {limits: {cpu: 8, memory: 32Gi}}
workerGroupSpecs:
  - groupName: gpu
    replicas: 2
    minReplicas: 2
    maxReplicas: 2
    rayStartParams: {}
    template:
      spec:
        containers:
          - name: ray-worker
            image: rayproject/ray:2.55.1
            resources: {limits: {cpu: 16, memory: 100Gi, nvidia.com/gpu: 8}}
  - groupName: cpu
    replicas: 0
    minReplicas: 0
    maxReplicas: 4
    template:
      spec:
        containers:
          - name: ray-worker
            image: rayproject/ray:2.55.1
            resources: {limits: {cpu: 16, memory: 100Gi}}
"""


@dataclass(frozen=True)
class Case:
    """One object: what is said of it counts for the whole of it where it has one edit."""

    name: str
    object: Object


def cases() -> list[Case]:
    """Return all cases, always the same ones in the same order; an object counts once."""
    found: dict[str, Case] = {}
    for case in _all():
        found.setdefault(json.dumps(case.object, sort_keys=True), case)
    return list(found.values())


def _all() -> Iterator[Case]:
    plain = reader.load_objects(PLAIN, "plain")[0]
    job = {"entrypoint": "python train.py", "submissionMode": "HTTPMode", "rayClusterSpec": plain}
    for name, edits in CLUSTER.items():
        yield Case(f"cluster, {name}", edited("RayCluster", plain, (), edits))
        yield Case(f"job, {name}", edited("RayJob", job, ("rayClusterSpec",), edits))
    for name, edits in JOB.items():
        yield Case(f"RayJob, {name}", edited("RayJob", job, (), edits))
    yield from services(plain)
    cron = {"schedule": "0 6 * * *", "jobTemplate": job}
    yield from cron_jobs(cron)
    for kind, spec in (("RayCluster", plain), ("RayJob", job), ("RayService", service(plain)), ("RayCronJob", cron)):
        for label, name in names():
            yield Case(f"{kind} named {label}", edited(kind, spec, (), {"/metadata.name": name}))
    yield from pairs(plain)
    for found in goldens():
        yield Case(f"golden {found['metadata']['name']} of {found['kind']}", found)


def service(plain: Object) -> Object:
    """Return the spec of a service."""
    return {"serveConfigV2": "applications: [{name: app, import_path: app:app}]", "rayClusterConfig": plain}


def services(plain: Object) -> Iterator[Case]:
    """Yield services, each with an edit of its own or of its cluster."""
    for name, edits in SERVICE.items():
        yield Case(f"RayService, {name}", edited("RayService", service(plain), (), edits))
    for name, edits in CLUSTER.items():
        yield Case(f"service, {name}", edited("RayService", service(plain), ("rayClusterConfig",), edits))


def cron_jobs(cron: Object) -> Iterator[Case]:
    """Yield cron jobs, each with an edit of its own or of its job."""
    for name, edits in CRON.items():
        yield Case(f"RayCronJob, {name}", edited("RayCronJob", cron, (), edits))
    for name, edits in JOB.items():
        yield Case(f"cron job, {name}", edited("RayCronJob", cron, ("jobTemplate",), edits))


def names() -> Iterator[tuple[str, str]]:
    """Yield names, each with what it is called."""
    for length in (1, 41, 42, 46, 47, 48, 52, 53, 54, 63):
        yield f"{length} letters", "a" * length
    for name in ("Ray", "1ray", "ray.one", "ray_one", "-ray", "ray-", "r--y", "ray1"):
        yield name, name


def pairs(plain: Object) -> Iterator[Case]:
    """Yield clusters with two edits, of which the operator names one."""
    chosen = (
        "minReplicas 3", "group name twice", "suspended group, scaled", "gpu labels in params", "tokens, no version",
        "idle -1, v2", "version and variable", "fault tolerance and variable REDIS_PASSWORD", "upgrade Recreate",
        "replicas 3", "cluster field  tlsOptions",
    )  # fmt: skip
    for one, two in itertools.combinations(chosen, 2):
        if not CLUSTER[one].keys() & CLUSTER[two].keys():
            edits = {**CLUSTER[one], **CLUSTER[two]}
            yield Case(f"pair, {one} + {two}", edited("RayCluster", plain, (), edits))


def goldens() -> Iterator[Object]:
    """Yield the Ray objects that the charts render for one stack."""
    for layer in ("raycluster", "grpo-job"):
        text = (ROOT / f"tests/goldens/gemma3-27b-gsm8k-b200/{layer}.yaml").read_text(encoding="utf-8")
        for found in reader.load_objects(whole(text), layer):
            if found["apiVersion"] == "ray.io/v1":
                yield found


def whole(golden: str) -> str:
    """Return a golden with its left-out programs indented: `...` at the margin ends a document."""
    return re.sub(r"(?m)^\.\.\.$", "      ...", golden)


def edited(kind: str, spec: Object, below: tuple[str, ...], edits: Edits) -> Object:
    """Return an object with some fields set or gone."""
    found: Object = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "ray"}, "spec": copy.deepcopy(spec)}
    for dotted, value in edits.items():
        parts = dotted[1:].split(".", 1) if dotted.startswith("/") else ["spec", *below, *dotted.split(".")]
        at: Any = found
        for part in parts[:-1]:
            at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
        last = int(parts[-1]) if isinstance(at, list) else parts[-1]
        if value is GONE:
            at.pop(last, None)
        else:
            at[last] = copy.deepcopy(value)
    return found
