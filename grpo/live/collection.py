"""Query the cluster for all evidence at once."""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Callable
from typing import Any, Final

from grpo.cluster import definitions
from grpo.cluster.evidence import Evidence, Objects
from grpo.cluster.expected import Expected
from grpo.deadline import Deadline
from grpo.live import client, logs, submission
from grpo.live.client import Cluster, RefusedError
from grpo.live.queries import Queries
from postrender import json_text, masking
from postrender.manifests.apiserver import NO_NAMESPACE, plural
from postrender.manifests.pods import mapping, sequence

_STACK: Final = "grpo-charts/stack"
_RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
_OPERATORS: Final = "app.kubernetes.io/name in (kuberay-operator,kueue)"
# Of these only the names and the keys.
_METADATA_ONLY: Final = ("secrets", "configmaps")
# Newest first; a "*" in a path stands for the first that is served.
_KUEUE: Final = ("v1beta2", "v1beta1")

Query = dict[str, str | int]

# The path and the query of each list of the cluster.
_CLUSTER: Final[dict[str, tuple[str, Query]]] = {
    "clusterqueues": ("/apis/kueue.x-k8s.io/*/clusterqueues", {}),
    "resourceflavors": ("/apis/kueue.x-k8s.io/*/resourceflavors", {}),
    "topologies": ("/apis/kueue.x-k8s.io/*/topologies", {}),
    "workloadpriorityclasses": ("/apis/kueue.x-k8s.io/*/workloadpriorityclasses", {}),
    "nodes": ("/api/v1/nodes", {}),
    "nodeEvents": ("/api/v1/events", {"fieldSelector": "type=Warning,involvedObject.kind=Node"}),
    "allPods": ("/api/v1/pods", {"fieldSelector": _RUNNING}),
    "deployments": ("/apis/apps/v1/deployments", {"labelSelector": _OPERATORS}),
    "daemonsets": ("/apis/apps/v1/namespaces/kube-system/daemonsets", {}),
    "persistentvolumes": ("/api/v1/persistentvolumes", {}),
    "csidrivers": ("/apis/storage.k8s.io/v1/csidrivers", {}),
    "storageclasses": ("/apis/storage.k8s.io/v1/storageclasses", {}),
    "validatingadmissionpolicybindings": (
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        {},
    ),
    "runtimeclasses": ("/apis/node.k8s.io/v1/runtimeclasses", {}),
    "priorityclasses": ("/apis/scheduling.k8s.io/v1/priorityclasses", {}),
    "deviceclasses": ("/apis/resource.k8s.io/v1/deviceclasses", {}),
    "resourceslices": ("/apis/resource.k8s.io/v1/resourceslices", {}),
    "networks": ("/apis/networking.gke.io/v1/networks", {}),
    "gkenetworkparamsets": ("/apis/networking.gke.io/v1/gkenetworkparamsets", {}),
}


def _inside(namespace: str, name: str) -> dict[str, tuple[str, Query]]:
    """Return the path and the query for each list in the stack's namespace."""
    where = f"namespaces/{namespace}"
    return {
        "rayjobs": (f"/apis/ray.io/v1/{where}/rayjobs", {}),
        "rayclusters": (f"/apis/ray.io/v1/{where}/rayclusters", {}),
        "pods": (f"/api/v1/{where}/pods", {"labelSelector": f"{_STACK}={name}"}),
        "events": (f"/api/v1/{where}/events", {"fieldSelector": "type=Warning"}),
        # The scheduler does not call it a warning.
        "preemptions": (f"/api/v1/{where}/events", {"fieldSelector": "reason=Preempted"}),
        "persistentvolumeclaims": (f"/api/v1/{where}/persistentvolumeclaims", {}),
        "serviceaccounts": (f"/api/v1/{where}/serviceaccounts", {}),
        "resourcequotas": (f"/api/v1/{where}/resourcequotas", {}),
        "limitranges": (f"/api/v1/{where}/limitranges", {}),
        "workloads": (f"/apis/kueue.x-k8s.io/*/{where}/workloads", {}),
        "localqueues": (f"/apis/kueue.x-k8s.io/*/{where}/localqueues", {}),
        "resourceclaimtemplates": (f"/apis/resource.k8s.io/v1/{where}/resourceclaimtemplates", {}),
        "resourceclaims": (f"/apis/resource.k8s.io/v1/{where}/resourceclaims", {}),
    }


def _calls(cluster: Cluster, name: str) -> dict[str, Callable[[], Objects]]:
    """Return the call that collects each kind of evidence."""
    calls: dict[str, Callable[[], Objects]] = {
        kind: lambda path=path, query=query: _list(cluster, path, query)  # type: ignore[misc]
        for kind, (path, query) in {**_inside(cluster.namespace, name), **_CLUSTER}.items()
    }
    where = f"/api/v1/namespaces/{cluster.namespace}"
    # Of Secrets only the metadata: the server sends no value.
    calls["releases"] = lambda: cluster.items(f"{where}/secrets", metadata_only=True, labelSelector="owner=helm")
    for kind in _METADATA_ONLY:
        calls[kind] = lambda path=f"{where}/{kind}": [*map(_keys, cluster.items(path, metadata_only=True))]  # type: ignore[misc]
    calls["namespaces"] = lambda: [mapping(cluster.get(where))]
    calls["version"] = lambda: [mapping(cluster.get("/version"))]
    calls["apis"] = lambda: [mapping(cluster.get("/apis"))]
    calls["definitions"] = lambda: [definitions.shortened(cluster.get(path)) for path in definitions.PATHS]
    return calls


def _reviews(cluster: Cluster, expected: Expected) -> Objects:
    """Return whether the user may do each thing that an install does; raise RefusedError if a query fails."""
    return [cluster.review(each) for each in _actions(expected)]


def _list(cluster: Cluster, path: str, query: Query) -> Objects:
    """Return a list's objects, from the newest served version of Kueue's API; raise RefusedError if unreadable."""
    versions = _KUEUE if "*" in path else ("",)
    for version in versions:
        try:
            return cluster.items(path.replace("*", version), metadata_only=False, **query)
        except RefusedError as refusal:
            if not refusal.is_unknown or version == versions[-1]:
                raise
    return []


def in_namespace(kind: str) -> bool:
    """Return whether a kind of evidence is in the stack's namespace."""
    return kind in (*_METADATA_ONLY, "releases", *_inside("", ""))


def _keys(secret: dict[str, Any]) -> dict[str, Any]:
    """Return a Secret's name and keys, as the server records them for each writer; None if no keys are recorded."""
    metadata = mapping(secret.get("metadata"))
    noted = [mapping(mapping(each).get("fieldsV1")) for each in metadata.get("managedFields") or []]
    keys = {key.removeprefix("f:") for each in noted for key in mapping(each.get("f:data")) if key != "."}
    about = {"name": metadata.get("name"), "namespace": metadata.get("namespace")}
    return {"metadata": about, "keys": sorted(keys) if noted else None}


def _actions(expected: Expected) -> list[dict[str, str]]:
    """Return what Helm does when it installs the layers: create each kind, and keep its records as Secrets."""
    found = [{"verb": "create", "group": "", "resource": "secrets", "namespace": expected.namespace}]
    for objects in expected.objects.values():
        for item in objects:
            kind, group = str(item.get("kind")), str(item.get("apiVersion")).rpartition("/")[0].partition("/")[0]
            namespace = "" if (group, kind) in NO_NAMESPACE else expected.namespace
            action = {"verb": "create", "group": group, "resource": plural(kind), "namespace": namespace}
            if action not in found:
                found.append(action)
    return found


def collect(
    cluster: Cluster,
    name: str,
    render: Callable[[], Expected],
    *,
    rights: bool = False,
    with_logs: bool = False,
    deadline: Callable[[], Deadline] = Deadline,
) -> Evidence:
    """Query everything at once, render the named stack meanwhile, and then wait until the deadline.

    With `rights`, what the user may install is queried too. What is in pods (the run's record and, with `with_logs`,
    the last lines of its programs) is queried as soon as the pods are known, within the same time. Whatever did not
    arrive in time is listed as not read.

    Raises what `render` raises, and ClusterError if nothing at all could be read.
    """
    asked, queries = time.time(), Queries()
    # It is made before the first answer is taken.
    evidence: Evidence

    def take(kind: str) -> Callable[[Objects | RefusedError], None]:
        return lambda answer: _take(evidence, kind, answer)

    for kind, call in _calls(cluster, name).items():
        queries.ask(kind, call, take(kind))
    expected = render()
    evidence = Evidence(expected, cluster.context, asked)
    if rights:
        queries.ask("reviews", functools.partial(_reviews, cluster, expected), take("reviews"))
    until = deadline()
    for answered in queries.answers(until):
        if answered == "pods":
            _ask_in_pods(cluster, evidence, queries, with_logs=with_logs)
        if answered in ("pods", "rayjobs"):
            _ask_ray(cluster, evidence, queries)
    evidence.unread.update(dict.fromkeys(queries.open, f"no answer within {until.seconds:.0f} s"))
    if "pods" in queries.open:
        late = ("status.json", "logs of pods") if with_logs else ("status.json",)
        evidence.unread.update(dict.fromkeys(late, "not asked for, because the pods were not read"))
    if not evidence.objects:
        said = next(
            iter(evidence.unread.values()), "it answered 404 to every request; is this a Kubernetes API server?"
        )
        raise client.nothing_read(cluster.context, said)
    return evidence


def _take(evidence: Evidence, kind: str, answer: Objects | RefusedError) -> None:
    """Store a kind's objects without their secrets, or the reason why they could not be read."""
    if not isinstance(answer, RefusedError):
        evidence.objects[kind] = [_kept(kind, each) for each in answer]
    elif not answer.is_unknown:
        evidence.unread[kind] = masking.text(str(answer))


def _ask_in_pods(cluster: Cluster, evidence: Evidence, queries: Queries, *, with_logs: bool) -> None:
    """Query what programs in pods can read, and what they have printed."""
    head, folder = logs.head_of(evidence), evidence.expected.run_directory
    if head and folder:
        # The guard writes it; the head pod mounts the volume.
        words = ["sh", "-c", f"cat {shlex.quote(f'{folder}/status.json')} || true"]
        call = functools.partial(cluster.execute, head, "ray-head", words)
        queries.ask("status.json", call, functools.partial(_take_record, evidence))
    for name, of_log in logs.calls(cluster, evidence).items() if with_logs else ():
        queries.ask(name, of_log, functools.partial(logs.take, evidence, name))


def _ask_ray(cluster: Cluster, evidence: Evidence, queries: Queries) -> None:
    """Query Ray for the job that KubeRay has submitted, once the pods and the RayJob are known."""
    status = mapping((evidence.find("rayjobs", evidence.expected.job) or {}).get("status"))
    head, job = logs.head_of(evidence), status.get("jobId")
    # KubeRay chooses the name before it submits the job.
    is_submitted = status.get("jobStatus") or submission.delay(evidence) is not None
    if head and job and is_submitted:
        call = functools.partial(cluster.execute, head, "ray-head", submission.question(str(job)))
        queries.ask("job in Ray", call, functools.partial(_take_job, evidence))


def _take_job(evidence: Evidence, answer: str | RefusedError) -> None:
    """Store what Ray reports about the job, or the reason why Ray could not be queried."""
    try:
        if isinstance(answer, RefusedError):
            raise answer
        # The image may print warnings first. Without an answer the last line says why.
        last = (answer.strip().splitlines() or ["no answer"])[-1]
        evidence.ray = masking.clean(mapping(json_text.loads(last)))
        if not evidence.ray:
            raise RefusedError(0, last)
    except RefusedError as error:
        evidence.unread["job in Ray"] = masking.text(str(error))
    except ValueError:
        evidence.unread["job in Ray"] = masking.text(last)


def _shortened(pod: dict[str, Any]) -> dict[str, Any]:
    """Return only the location and the requests of a pod in any namespace: the rest is not ours to keep."""
    spec, metadata = mapping(pod.get("spec")), mapping(pod.get("metadata"))
    kept = ("resources", "restartPolicy")
    lists = {
        key: [{each: item[each] for each in kept if each in item} for item in map(mapping, sequence(spec.get(key)))]
        for key in ("containers", "initContainers")
    }
    about = {"name": metadata.get("name"), "namespace": metadata.get("namespace")}
    return {"metadata": about, "spec": {"nodeName": spec.get("nodeName"), **lists}}


def _kept(kind: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of an object: no secrets and, for nodes, no image list, which is most of their size."""
    if kind == "allPods":
        return _shortened(item)
    if kind == "nodes":
        status = {key: value for key, value in mapping(item.get("status")).items() if key != "images"}
        item = {**item, "status": status}
    return mapping(masking.clean(item))


def _take_record(evidence: Evidence, answer: str | RefusedError) -> None:
    """Store what the guard has written, or the reason why it could not be read."""
    try:
        if isinstance(answer, RefusedError):
            raise answer
        evidence.record = masking.clean(mapping(json_text.loads(answer))) if answer.strip() else {}
    except (RefusedError, ValueError) as error:
        evidence.unread["status.json"] = masking.text(str(error))
