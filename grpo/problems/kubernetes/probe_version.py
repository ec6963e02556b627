"""GKE versions: of the API server, and of the nodes that take the GPU pods."""

from __future__ import annotations

from collections.abc import Iterator

from grpo.cluster.evidence import Evidence
from grpo.cluster.objects import labels_of, name_of
from grpo.problems.probe import Result, failed, passed, skipped
from grpo.problems.problem import probe
from grpo.values import gke_versions
from grpo.values.gke_versions import Need
from postrender.manifests.pods import mapping

_BY_HAND = "kubectl version"
_NODES = "kubectl get nodes"
_FIX = "upgrade the control plane and the node pools, or change the value; nodes may be older than the server"
_FIX_NODES = "upgrade the node pools of these nodes, or change the value"
_SHOWN = 3


@probe("gke-version", "the version of GKE is older than the values need", "version")
def version(evidence: Evidence) -> Iterator[Result]:
    """Compare the versions of the API server and of the nodes with the minimum version that each value needs."""
    needs = [Need(value, what, tuple(versions)) for value, what, versions in evidence.expected.gke]
    said = next((str(each.get("gitVersion") or "") for each in evidence.of("version")), "")
    found = gke_versions.read(said)
    if needs and found is None:
        yield skipped(f"the API server is {said or 'without a version'}, which is no version of GKE", command=_BY_HAND)
        return
    kubelets = _kubelets(evidence)
    for each in needs:
        text = f"{each.what} needs GKE {' or '.join(each.versions)} or newer, and the API server is {said}"
        if found and gke_versions.has(found, each.versions):
            yield _of_nodes(each, text, kubelets, is_known="nodes" in evidence.objects)
        else:
            yield failed(text, each.value, _FIX, _BY_HAND)


def _of_nodes(need: Need, text: str, kubelets: dict[str, str], *, is_known: bool) -> Result:
    """Check the nodes against a need that the API server meets: a node pool is often upgraded later."""
    if not is_known:
        return skipped(f"{text}; the nodes were not read", need.value, _NODES)
    versions = {name: gke_versions.read(said) for name, said in kubelets.items()}
    if old := [f"{name} ({kubelets[name]})" for name, at in versions.items() if at and not _has(at, need)]:
        more = f" and {len(old) - _SHOWN} more" if len(old) > _SHOWN else ""
        return failed(f"{text}; older are the nodes {', '.join(old[:_SHOWN])}{more}", need.value, _FIX_NODES, _NODES)
    if not all(versions.values()):
        return skipped(f"{text}; of some nodes the kubelet has no version of GKE", need.value, _NODES)
    return passed(text, need.value, _BY_HAND)


def _has(at: gke_versions.Version, need: Need) -> bool:
    return gke_versions.has(at, need.versions)


def _kubelets(evidence: Evidence) -> dict[str, str]:
    """Return the kubelet version of each node that has the labels required by a GPU pod."""
    selectors = [
        mapping(pod.spec.get("nodeSelector")) for _, pod in evidence.expected.roles() if pod.gpu_container()[1]
    ]
    return {
        name_of(node): str(mapping(mapping(node.get("status")).get("nodeInfo")).get("kubeletVersion", ""))
        for node in evidence.of("nodes")
        if any(selector.items() <= labels_of(node).items() for selector in selectors)
    }
