"""Charts and manifests that are not ours, wired by the post-renderer, under both Helms and the real operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import NewForeign, NewStack
from harness.controlplane import ControlPlane
from harness.devices import allocated, published
from harness.foreign import GPUS, RELEASE, Foreign, pods_of, until_ready
from harness.helm import Helm, HelmError
from harness.kube import Kube, KubectlError, Manifest, dump, load
from harness.postrenderer import STAMP, PostRenderer, secrets, wiring
from harness.stack import Stack
from harness.waiting import until

FOREIGN = Path(__file__).parent / "foreign"
# Ours has one GPU node and theirs has two, so that both fit on the four of a machine beside one more.
OURS = {"ray": {"workers": {"replicas": 1}}}
COMBINATIONS = ["helm3-h200", "helm4-b200"]
UNTYPED = [{"name": "driver", "hostPath": {"path": "/home/kubernetes/bin/nvidia"}}]
HOOK = {"helm.sh/hook": "post-install"}
H200 = tuple(f"h200-{number}" for number in range(4))


def same_wiring(ours: Stack, cluster: str, pods: list[Manifest]) -> None:
    """Compare the pods of a cluster that was post-rendered with those of our chart."""
    head, worker = pods_of(ours, ours.cluster)
    wanted = wiring(worker, ours.cluster)
    assert wanted["checks"]
    assert wanted["mounts"]
    assert len(pods) == 3
    for pod in pods[1:]:
        found = wiring(pod, cluster)
        assert {part for part in wanted if found[part] != wanted[part]} == set(), found
    assert secrets(pods[0]) == secrets(head)
    assert {"HF_TOKEN", "LD_LIBRARY_PATH"} <= {*secrets(head)}


@contextmanager
def installed(stack: Stack, *layers: str) -> Iterator[Stack]:
    """Install our layers, and at the end uninstall whatever the namespace has: the next module needs the nodes."""
    try:
        stack.install(*layers)
        yield stack
    finally:
        for release in stack.helm.run("list", "--namespace", stack.namespace, "--short").split():
            stack.helm.uninstall(release, stack.namespace)


def test_devices_are_claimed_and_allocated(new_stack: NewStack, new_foreign: NewForeign, kube: Kube) -> None:
    ours = new_stack("h200", network={"mode": "dranet"}, **OURS)
    with published(kube, "h200", H200, H200), installed(ours, "storage", "raycluster"):
        foreign = new_foreign(ours)
        foreign.install()
        pods = until_ready(ours, foreign.cluster)
        until_ready(ours, ours.cluster)
        same_wiring(ours, foreign.cluster, pods)
        assert wiring(pods[1], foreign.cluster)["resourceClaims"]
        of = {pod["metadata"]["name"] for pod in pods[1:]}
        claims = [claim for claim in allocated(kube, ours.namespace) if owner_of(claim) in of]
        assert [len(claim["status"]["allocation"]["devices"]["results"]) for claim in claims] == [8, 8]
        template = kube.get("resourceclaimtemplate", f"{foreign.cluster}-rdma", ours.namespace)
        own = kube.get("resourceclaimtemplate", f"{ours.cluster}-rdma", ours.namespace)
        assert template["spec"] == own["spec"]
        assert template["metadata"]["labels"]["app.kubernetes.io/instance"] == RELEASE
        ours.helm.uninstall(RELEASE, ours.namespace)
        assert kube.find("resourceclaimtemplate", f"{foreign.cluster}-rdma", ours.namespace) is None


def owner_of(claim: Manifest) -> str:
    """Return the pod that a claim was made for."""
    return str(claim["metadata"]["ownerReferences"][0]["name"])


def test_a_refused_stream_does_not_reach_the_server(
    helm: Helm, new_stack: NewStack, new_foreign: NewForeign, kube: Kube
) -> None:
    foreign = new_foreign(new_stack("b200", helm.program.name))
    namespace = foreign.ours.namespace
    before = kube.run("get", "secrets,configmaps", "-n", namespace, "-o", "name")
    with pytest.raises(HelmError) as refusal:
        foreign.install(volumes=UNTYPED)
    assert "grpo-post-render: refused, nothing was written" in str(refusal.value)
    assert "volume driver mounts /home/kubernetes/bin/nvidia of the node without a type" in str(refusal.value)
    assert "fix: write type: Directory beside the path" in str(refusal.value)
    assert kube.list("rayclusters", namespace) == []
    assert kube.run("get", "secrets,configmaps", "-n", namespace, "-o", "name") == before
    with pytest.raises(HelmError, match="has no deployed releases"):
        foreign.upgrade()


def test_hooks_are_wired_if_helm_passes_them_to_the_post_renderer(
    helm: Helm, new_stack: NewStack, renderer: PostRenderer, kube: Kube, tmp_path: Path
) -> None:
    """With devices, as Helm waits for a hook and makes no other object meanwhile."""
    stack = new_stack("h200", helm.program.name, network={"mode": "dranet"})
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 0.1.0\n")
    (tmp_path / "templates/jobs.yaml").write_text(dump([gpu_job("plain", {}), gpu_job("hook", HOOK)]))
    with published(kube, "h200", H200, H200):
        helm.install("app", tmp_path, stack.namespace, renderer.words(helm, *stack.options()))
        jobs = {name: kube.get("job", name, stack.namespace) for name in ("plain", "hook")}
        wired = {name: STAMP in job["metadata"].get("annotations", {}) for name, job in jobs.items()}
        assert wired == {"plain": True, "hook": helm.major == 4}
        claims = {name: "resourceClaims" in job["spec"]["template"]["spec"] for name, job in jobs.items()}
        assert claims == wired
        helm.uninstall("app", stack.namespace)
        kube.run("delete", "job,resourceclaimtemplate", "--all", "-n", stack.namespace, "--timeout=60s")


def gpu_job(name: str, annotations: dict[str, str]) -> Manifest:
    """Describe a Job that takes the GPUs of a node."""
    container = {"name": "main", "image": "example/check:1", "resources": GPUS}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


@pytest.mark.ci
def test_a_verl_manifest_is_wired_through_a_pipe(
    new_stack: NewStack, new_foreign: NewForeign, renderer: PostRenderer, kube: Kube
) -> None:
    cluster = "b200-ray-cluster"
    with installed(new_stack("b200", "helm4", **OURS), "storage", "raycluster") as ours:
        text = (FOREIGN / "verl.yaml").read_text().replace("example/verl:1", new_foreign(ours).image())
        refused = renderer.pipe(text, *ours.options())
        assert (refused.returncode, refused.stdout) == (1, "")
        there = set(re.findall(r"RayCluster b200-ray-cluster: (\S+) is ", refused.stderr))
        worker = "spec.workerGroupSpecs.0.template.spec"
        assert there == {
            f"{worker}.volumes[gib]",
            f"{worker}.volumes[library-dir-host]",
            f"{worker}.containers[ray-worker].env[LD_LIBRARY_PATH]",
            f"{worker}.containers[ray-worker].volumeMounts[/usr/local/gib]",
            f"{worker}.containers[ray-worker].volumeMounts[/usr/local/nvidia]",
        }
        wired = renderer.pipe(text, *ours.options(), "--on-conflict=replace")
        assert (wired.returncode, wired.stderr) == (0, "")
        kube.run("apply", "--validate=strict", "-n", ours.namespace, "-f", "-", stdin=wired.stdout)
        try:
            pods = until_ready(ours, cluster)
            until_ready(ours, ours.cluster)
            same_wiring(ours, cluster, pods)
            of_the_author(pods[1])
        finally:
            kube.delete("raycluster", cluster, ours.namespace)
            until(lambda: not pods_of(ours, cluster), "pods gone")


def of_the_author(worker: Manifest) -> None:
    """Look for what the author of the manifest wrote, beside the wiring."""
    spec, container = worker["spec"], worker["spec"]["containers"][0]
    assert worker["metadata"]["annotations"]["gke-gcsfuse/volumes"] == "true"
    assert [each["name"] for each in spec["initContainers"]][:2] == ["check-node", "verl-setup"]
    assert {"name": "NCCL_DEBUG", "value": "INFO"} in container["env"]
    assert {"name": "tmp", "mountPath": "/tmp"} in container["volumeMounts"]
    assert [each["name"] for each in spec["volumes"]].count("dshm") == 1
    assert [each["mountPath"] for each in container["volumeMounts"]].count("/dev/shm") == 1


MODES: dict[str, dict[str, object]] = {
    "multiNetwork": {"tracking": {"wandb": {"enabled": True, "secret": {"name": "wandb", "key": "key"}}}},
    "dranet": {"network": {"mode": "dranet"}, "huggingface": {"offline": {"enabled": True}}},
    "none": {"network": {"mode": "none"}},
}


@pytest.mark.parametrize("mode", MODES)
def test_the_server_accepts_every_kind_strictly(
    mode: str, control_plane: ControlPlane, new_stack: NewStack, renderer: PostRenderer, kube: Kube
) -> None:
    """Field names and types; pods themselves are judged as pods, templates by what their kind checks."""
    control_plane.server.apply_crds("jobset-crds")
    stack = new_stack("b200", "helm4", **MODES[mode])
    text = (FOREIGN / "kinds.yaml").read_text()
    done = renderer.pipe(text, *stack.options())
    assert (done.returncode, done.stderr) == (0, "")
    before, after = load(text), load(done.stdout)
    beside = [each for each in after if each["kind"] == "ResourceClaimTemplate"]
    assert len(beside) == (len(before) if mode == "dranet" else 0)
    assert all(STAMP in each["metadata"]["annotations"] for each in after if each not in beside)
    kube.run("create", "--dry-run=server", "--validate=strict", "-n", stack.namespace, "-f", "-", stdin=done.stdout)
    wrong = done.stdout.replace("readOnly: true", 'readOnly: "true"')
    with pytest.raises(KubectlError, match="readOnly"):
        kube.run("create", "--dry-run=server", "--validate=strict", "-n", stack.namespace, "-f", "-", stdin=wrong)
    # The pods of the templates too: a mount without a volume passes in a JobSet.
    kube.create(as_pods(after), stack.namespace, dry_run=True)


def as_pods(manifests: list[Manifest]) -> list[Manifest]:
    """Make a Pod of each template of a Job in a JobSet, whose kind has no check of its own here."""
    jobs = [job for each in manifests if each["kind"] == "JobSet" for job in each["spec"]["replicatedJobs"]]
    templates = {job["name"]: job["template"]["spec"]["template"] for job in jobs}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template.get("metadata", {}), "name": name},
            "spec": template["spec"],
        }
        for name, template in templates.items()
    ]


@pytest.fixture(scope="module", params=COMBINATIONS)
def release(request: pytest.FixtureRequest, new_stack: NewStack, new_foreign: NewForeign) -> Iterator[Foreign]:
    """KubeRay's chart, installed through the post-renderer, and ours with the same values.

    The last release lives until the end of the module, so tests that need nodes of their own stand above.
    """
    helm, accelerator = request.param.split("-")
    with installed(new_stack(accelerator, helm, **OURS), "storage", "raycluster") as ours:
        foreign = new_foreign(ours)
        foreign.install()
        until_ready(ours, foreign.cluster)
        until_ready(ours, ours.cluster)
        yield foreign


@pytest.mark.ci
def test_pods_created_by_the_operator_are_wired_like_ours(release: Foreign) -> None:
    assert re.fullmatch(r"1 [0-9a-f]{8}", release.stamp() or "")
    same_wiring(release.ours, release.cluster, pods_of(release.ours, release.cluster))


@pytest.mark.ci
def test_applying_the_same_input_again_changes_nothing(release: Foreign) -> None:
    """By three-way merge on the client, or by server-side apply without a conflict."""
    before, stored = release.get()["metadata"]["generation"], release.stored()
    pods = [pod["metadata"]["uid"] for pod in pods_of(release.ours, release.cluster)]
    for _ in range(2):
        release.upgrade()
    assert release.stored() == stored
    assert release.get()["metadata"]["generation"] == before
    assert [pod["metadata"]["uid"] for pod in pods_of(release.ours, release.cluster)] == pods
    assert release.ours.helm.status(RELEASE, release.ours.namespace) == "deployed"


@pytest.mark.ci
def test_applying_the_stored_objects_changes_nothing(release: Foreign, kube: Kube) -> None:
    stored = release.stored()
    assert kube.diff(load(stored), release.ours.namespace) == ""
    again = release.renderer.pipe(stored, *release.ours.options())
    assert (again.returncode, again.stdout) == (0, stored)


@pytest.mark.ci
def test_a_refused_upgrade_leaves_the_release_alone(release: Foreign) -> None:
    before, stored = release.get()["metadata"]["generation"], release.stored()
    with pytest.raises(HelmError, match="of the node without a type"):
        release.upgrade(volumes=UNTYPED)
    assert (release.get()["metadata"]["generation"], release.stored()) == (before, stored)
    assert release.ours.helm.status(RELEASE, release.ours.namespace) == "deployed"


@pytest.mark.ci
def test_an_upgrade_without_the_post_renderer_removes_its_stamp(release: Foreign) -> None:
    """Keep this test the last one of the release."""
    release.upgrade(wired=False)
    assert release.stamp() is None
    release.upgrade()
    assert release.stamp()
