"""Every pod template as a Pod: what a RayCluster's own validation lets through, the API server's does not."""

from __future__ import annotations

import pytest
from grpo.helm.engines import Embedded
from tests import options

from conftest import NewStack
from harness.kube import Kube, KubectlError, Manifest
from harness.stack import ONE_VOLUME, Stack

# Their CRDs are no part of .tools (ComputeDomain's is not public in a form that we could install); the schemas of ours
# judge them in the suite.
NOT_SERVED = {"ComputeDomain", "PodMonitor", "PodMonitoring"}
# The namespace of these tests has it already, or no pod would be let in.
THERE = {"ServiceAccount"}


def templates(manifest: Manifest) -> dict[str, Manifest]:
    """Find the pod templates of a RayCluster or a RayJob by group name."""
    spec = manifest["spec"].get("rayClusterSpec", manifest["spec"])
    found = {"head": spec["headGroupSpec"]["template"]}
    return found | {group["groupName"]: group["template"] for group in spec["workerGroupSpecs"]}


def as_pods(manifests: list[Manifest], prefix: str = "") -> list[Manifest]:
    """Make a Pod of each template; the prefix of its name says in a refusal where it comes from."""
    pods = []
    for manifest in manifests:
        if manifest["kind"] in ("RayCluster", "RayJob") and "clusterSelector" not in manifest["spec"]:
            for name, template in templates(manifest).items():
                metadata = {**template["metadata"], "generateName": f"{prefix}{name}-"}
                metadata["namespace"] = manifest["metadata"]["namespace"]
                pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    return pods


@pytest.fixture(scope="module")
def namespace(new_stack: NewStack) -> str:
    """A namespace in which Pod Security refuses nothing, with the stack's service account."""
    stack = new_stack()
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": stack.name}}
    stack.kube.create([account], stack.namespace)
    return stack.namespace


def render(engine: Embedded, stack: Stack, layer: str, row: options.Row) -> list[Manifest]:
    """Render one layer of a row of options."""
    files = [option.removeprefix("--values=") for option in stack.options()]
    values = options.values(row)
    rendered = engine.render(str(stack.chart(layer)), files, values=values, release=layer, namespace=stack.namespace)
    return [item for item in rendered.documents if item["kind"] not in NOT_SERVED | THERE]


def test_the_server_accepts_the_objects_and_pods_of_every_option_pair(
    engine: Embedded, kube: Kube, new_stack: NewStack, namespace: str
) -> None:
    """All in one request: what each object and each pod is refused for would name it."""
    manifests: list[Manifest] = []
    count = 0
    for number, row in enumerate(options.rows()):
        stack = new_stack(row["accelerator"], namespace=namespace, **ONE_VOLUME)
        layers = options.layers(row)
        rendered = [item for layer in layers for item in render(engine, stack, layer, row)]
        pods = as_pods(rendered, f"row{number}-")
        count += len(pods)
        manifests += [*rendered, *pods]
    assert count > 2 * len(options.rows())
    kube.create(manifests, dry_run=True)


def test_the_server_refuses_a_bad_pod_template(kube: Kube, new_stack: NewStack, namespace: str) -> None:
    """The check above can fail: a mount without a volume passes as a RayCluster and not as a Pod."""
    rendered = new_stack(namespace=namespace).render("raycluster")
    manifests = [manifest for manifest in rendered if manifest["kind"] == "RayCluster"]
    for manifest in manifests:
        templates(manifest)["gpu"]["spec"]["volumes"].pop()
    kube.create(manifests, namespace, dry_run=True)
    with pytest.raises(KubectlError, match="volumeMounts"):
        kube.create(as_pods(manifests), namespace, dry_run=True)
