"""The storage chart: volumes of three sources, and the service account of the pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests.conftest import Object, Render, by_kind

RenderText = Callable[..., Rendered]
SHORT = {"PersistentVolume": "pv", "PersistentVolumeClaim": "pvc"}
PVC: dict[str, Any] = {
    "storage": {"scratch": {"mountPath": "/scratch", "pvc": {"storageClassName": "fast", "size": "2048Gi"}}}
}


def find(objects: list[Object], kind: str, name: str) -> Object:
    return next(item for item in objects if item["kind"] == kind and item["metadata"]["name"] == name)


def test_a_bucket_is_a_static_volume_reserved_for_its_claim(render: Render) -> None:
    """PV and PVC name each other, and the PV outlives both releases."""
    objects = render("storage")
    volume, claim = (
        find(objects, "PersistentVolume", "team-a-gemma-data"),
        find(objects, "PersistentVolumeClaim", "gemma-data"),
    )
    assert volume["spec"]["claimRef"] == {"namespace": "team-a", "name": "gemma-data"}
    assert volume["spec"]["csi"] == {
        "driver": "gcsfuse.csi.storage.gke.io",
        "volumeHandle": "acme-rl-runs",
        "volumeAttributes": {"skipCSIBucketAccessCheck": "true"},
    }
    assert volume["spec"]["mountOptions"] == [
        "implicit-dirs",
        "metadata-cache:negative-ttl-secs:0",
        "metadata-cache:ttl-secs:0",
        "read_ahead_kb=1024",
        "rename-dir-limit=200000",
        "write:enable-streaming-writes:true",
        "write:global-max-blocks:128",
    ]
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert claim["spec"]["volumeName"] == "team-a-gemma-data"


def test_mount_options_are_in_the_form_the_driver_reads(render: Render) -> None:
    """A bare option, a flag with its value, and a key of the driver's configuration file."""
    options = {
        "implicit-dirs": "",
        "uid": 1000,
        "read_ahead_kb": 1000000,
        "write:block-size-mb": 0.25,
        "write:enable-streaming-writes": False,
        "logging:severity": "info",
        "metadata-cache:ttl-secs": None,
    }
    attributes = {"gcsfuseMetadataPrefetchOnMount": True, "hostNetworkPodKSA": "true", "multiNICIndex": 1}
    bucket = {"purpose": None, "mountOptions": options, "volumeAttributes": attributes}
    spec = find(render("storage", {"storage": {"data": {"gcsfuse": bucket}}}), "PersistentVolume", "team-a-gemma-data")[
        "spec"
    ]
    assert spec["mountOptions"] == [
        "implicit-dirs",
        "logging:severity:info",
        "read_ahead_kb=1000000",
        "uid=1000",
        "write:block-size-mb:0.25",
        "write:enable-streaming-writes:false",
    ]
    assert spec["csi"]["volumeAttributes"] == {
        "gcsfuseMetadataPrefetchOnMount": "true",
        "hostNetworkPodKSA": "true",
        "multiNICIndex": "1",
    }


@pytest.mark.parametrize(
    ("purpose", "seconds", "renames"),
    [("checkpoints", "0", True), ("data", "-1", False), ("cache", "60", True), ("weights", "60", True)],
)
def test_a_purpose_selects_a_set_of_mount_options(purpose: str, seconds: str, renames: bool, render: Render) -> None:
    """A finished step is a renamed folder, which the driver refuses without a limit; the user's options win."""
    bucket = {"purpose": purpose, "mountOptions": {"uid": "7", "metadata-cache:negative-ttl-secs": None}}
    objects = render("storage", {"storage": {"data": {"gcsfuse": bucket}}})
    options = find(objects, "PersistentVolume", "team-a-gemma-data")["spec"]["mountOptions"]
    assert {"implicit-dirs", f"metadata-cache:ttl-secs:{seconds}", "uid=7"} <= set(options)
    assert ("rename-dir-limit=200000" in options) is renames
    assert not [option for option in options if "negative" in option]


KEPT = {"helm.sh/resource-policy": "keep"}


def test_objects_used_by_a_running_cluster_are_kept_on_uninstall(render: Render, render_text: RenderText) -> None:
    """Its claim, the volume behind it, and the account that proves to the bucket who it is."""
    objects = render("storage", PVC)
    kept = [item for item in objects if item["metadata"].get("annotations", {}).items() >= KEPT.items()]
    assert kept == objects
    notes = render_text("storage", PVC).notes or ""
    line = next(line for line in notes.splitlines() if "kubectl delete" in line)
    words = {f"{SHORT.get(item['kind'], item['kind'].lower())}/{item['metadata']['name']}" for item in objects}
    assert line.split()[:4] == ["kubectl", "delete", "--namespace", "team-a"]
    assert set(line.split()[4:]) == words


def test_a_release_without_objects_of_its_own_leaves_nothing(render_text: RenderText) -> None:
    theirs = {"gcsfuse": None, "existingClaim": {"name": "lustre-pvc"}}
    values = {"storage": {"data": theirs}, "stack": {"names": {"serviceAccount": "team"}}}
    assert "kubectl delete" not in (render_text("storage", values).notes or "")


def bucket_spec(render: Render, **bucket: Any) -> Any:
    objects = render("storage", {"storage": {"data": {"gcsfuse": bucket}}})
    return find(objects, "PersistentVolume", "team-a-gemma-data")["spec"]


def test_read_ahead_and_the_file_cache_exclude_each_other(render: Render) -> None:
    """The driver does not buffer reads of a cached file, so the two never stand together."""
    ahead = {"read:enable-buffered-read:true", "read:global-max-blocks:80", "read_ahead_kb=131072"}
    cache = {
        "file-cache:max-size-mb:194560",
        "file-cache:cache-file-for-range-read:true",
        "file-cache:enable-parallel-downloads:true",
        "read_ahead_kb=1024",
    }
    plain = set(bucket_spec(render, purpose="weights")["mountOptions"])
    cached = set(bucket_spec(render, purpose="weights", fileCache="200Gi")["mountOptions"])
    assert (plain - cached, cached - plain) == (ahead, cache)


def test_only_data_volumes_prefetch_metadata_at_mount(render: Render) -> None:
    """Elsewhere metadata expires before it is used; the user's attributes win, and null removes one."""
    prefetch = {"gcsfuseMetadataPrefetchOnMount": "true"}
    unchecked = {"skipCSIBucketAccessCheck": "true"}
    for purpose, attributes in {"data": prefetch | unchecked, "weights": unchecked, "cache": unchecked}.items():
        assert bucket_spec(render, purpose=purpose)["csi"]["volumeAttributes"] == attributes
    changed = bucket_spec(render, purpose="data", volumeAttributes={"gcsfuseMetadataPrefetchOnMount": False})
    assert changed["csi"]["volumeAttributes"] == {"gcsfuseMetadataPrefetchOnMount": "false"} | unchecked
    none = bucket_spec(render, purpose="checkpoints", volumeAttributes={"skipCSIBucketAccessCheck": None})
    assert "volumeAttributes" not in none["csi"]


def test_a_gke_profile_sets_the_storage_class_of_volume_and_claim(
    render: Render, render_text: Callable[..., Rendered]
) -> None:
    """The options of the volume win over those of the profile; the notes have the role that it needs."""
    values = {"storage": {"data": {"gcsfuse": {"storageClassName": "gcsfusecsi-checkpointing"}}}}
    objects = render("storage", values)
    volume = find(objects, "PersistentVolume", "team-a-gemma-data")["spec"]
    assert volume["storageClassName"] == "gcsfusecsi-checkpointing"
    assert "metadata-cache:ttl-secs:0" in volume["mountOptions"]
    claim = find(objects, "PersistentVolumeClaim", "gemma-data")["spec"]
    assert (claim["storageClassName"], claim["volumeName"]) == ("gcsfusecsi-checkpointing", "team-a-gemma-data")
    notes = render_text("storage", values).notes or ""
    assert "--role=projects/acme-rl/roles/gke.gcsfuse.profileUser" in notes
    assert "--member=serviceAccount:service-482915073164@container-engine-robot.iam.gserviceaccount.com" in notes
    assert "profileUser" not in (render_text("storage").notes or "")


def test_a_dynamic_claim_has_the_requested_size_and_mode(render: Render) -> None:
    """Sizes are written as Kubernetes writes them."""
    claim = find(render("storage", PVC), "PersistentVolumeClaim", "gemma-scratch")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["resources"] == {"requests": {"storage": "2Ti"}}
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_no_volume_objects_are_rendered_for_an_existing_claim(render: Render) -> None:
    """Bringing a claim renders the service account and nothing else."""
    objects = render("storage", {"storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "lustre-pvc"}}}})
    assert [item["kind"] for item in objects] == ["ServiceAccount"]


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"mountPath": "/x"}, r"storage\.bad has 0 sources"),
        (
            {"mountPath": "/x", "existingClaim": {"name": "a"}, "gcsfuse": {"bucket": "bbb"}},
            r"storage\.bad has 2 sources \(existingClaim, gcsfuse\)",
        ),
    ],
)
def test_a_volume_has_exactly_one_source(
    volume: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """The message names the volume and the sources that it found."""
    with pytest.raises(RenderError, match=message):
        render_text("storage", {"storage": {"bad": volume}})


def test_the_service_account_carries_its_principal(render: Render) -> None:
    """The IAM member is spelled out for the person who binds the role."""
    account = find(render("storage"), "ServiceAccount", "gemma")
    assert account["metadata"]["annotations"]["grpo-charts/workload-identity-principal"] == (
        "principal://iam.googleapis.com/projects/482915073164/locations/global/workloadIdentityPools/"
        "acme-rl.svc.id.goog/subject/ns/team-a/sa/gemma"
    )


def test_an_existing_service_account_is_not_created(render: Render) -> None:
    """stack.names.serviceAccount says that it exists."""
    assert not [
        item
        for item in render("storage", {"stack": {"names": {"serviceAccount": "mine"}}})
        if item["kind"] == "ServiceAccount"
    ]


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ({"other": {"mountPath": "/data"}}, r"mountPath is /data, where storage\.\w+ is already mounted"),
        ({"other": {"mountPath": "/dev/shm"}}, r"where the chart's shared memory is already mounted"),
        ({"other": {"mountPath": "/usr/local/gib"}}, r"where accelerator\.hostPaths\.gib is already mounted"),
        (
            {"shared-memory": {"mountPath": "/x"}},
            r"storage\.shared-memory: the pods already have a volume with that name",
        ),
        ({"host-gib": {"mountPath": "/x"}}, r"storage\.host-gib: the pods already have a volume with that name"),
        ({"other": {"mountPath": "/data/"}}, "mountPath"),
    ],
)
def test_volumes_that_would_make_a_pod_invalid_are_refused(
    storage: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """KubeRay would only write an event that the pod could not be made."""
    volumes = {name: volume | {"existingClaim": {"name": "claim"}} for name, volume in storage.items()}
    with pytest.raises(RenderError, match=message):
        render_text("storage", {"storage": volumes})


def test_the_notes_name_the_role_for_each_bucket(render_text: Callable[..., Rendered]) -> None:
    """Also where the project is not known; and only where there is a bucket."""
    unknown = render_text("storage", {"platform": {"projectId": "", "projectNumber": ""}}).notes or ""
    assert "gs://acme-rl-runs" in unknown
    assert "projects/PROJECT_NUMBER/locations/global/workloadIdentityPools/PROJECT_ID.svc.id.goog" in unknown
    claim = {"storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "lustre-pvc"}}}}
    assert "role" not in (render_text("storage", claim).notes or "")


LUSTRE = {"location": "us-central1-a", "instance": "fast", "ip": "10.1.2.3", "filesystem": "lfs", "size": "18000Gi"}
TIER = {"perUnitStorageThroughput": "500", "network": "projects/p/global/networks/vpc", "zone": "us-central1-a"}


def lustre_class(size: str, **changes: str) -> dict[str, Any]:
    pvc = {"storageClassName": "team-a-lustre", "size": size, "lustre": TIER | changes}
    return {"storage": {"data": {"gcsfuse": None, "pvc": pvc}}}


def test_a_lustre_instance_is_a_static_volume(render: Render) -> None:
    """By the three parts of its handle, and kept as a bucket is."""
    objects = render("storage", {"storage": {"data": {"gcsfuse": None, "lustre": LUSTRE}}})
    volume = find(objects, "PersistentVolume", "team-a-gemma-data")["spec"]
    assert volume["csi"] == {
        "driver": "lustre.csi.storage.gke.io",
        "volumeHandle": "acme-rl/us-central1-a/fast",
        "volumeAttributes": {"ip": "10.1.2.3", "filesystem": "lfs"},
    }
    assert (volume["capacity"], volume["persistentVolumeReclaimPolicy"]) == ({"storage": "18000Gi"}, "Retain")
    claim = find(objects, "PersistentVolumeClaim", "gemma-data")["spec"]
    assert (claim["volumeName"], claim["resources"]) == ("team-a-gemma-data", {"requests": {"storage": "18000Gi"}})


def test_a_lustre_instance_may_be_in_another_project(render: Render, render_text: Callable[..., Rendered]) -> None:
    """And without any there is a sentence."""
    objects = render("storage", {"storage": {"data": {"gcsfuse": None, "lustre": {**LUSTRE, "project": "other-one"}}}})
    handle = find(objects, "PersistentVolume", "team-a-gemma-data")["spec"]["csi"]["volumeHandle"]
    assert handle == "other-one/us-central1-a/fast"
    values = {"platform": {"projectId": ""}, "storage": {"data": {"gcsfuse": None, "lustre": LUSTRE}}}
    with pytest.raises(RenderError, match=r"storage\.data\.lustre needs the project of the instance"):
        render_text("storage", values)


def test_a_lustre_storage_class_outlives_its_claims(render: Render) -> None:
    """Its parameters are the two that the driver needs."""
    objects = render("storage", lustre_class("36000Gi"))
    found = find(objects, "StorageClass", "team-a-lustre")
    parameters = {key: value for key, value in TIER.items() if key != "zone"}
    assert (found["provisioner"], found["parameters"]) == ("lustre.csi.storage.gke.io", parameters)
    (expression,) = found["allowedTopologies"][0]["matchLabelExpressions"]
    assert expression == {"key": "topology.gke.io/zone", "values": [TIER["zone"]]}
    assert found["reclaimPolicy"] == "Retain"
    claim = find(objects, "PersistentVolumeClaim", "gemma-data")
    assert claim["spec"]["storageClassName"] == "team-a-lustre"
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


@pytest.mark.parametrize(
    ("size", "changes", "message"),
    [
        ("20000Gi", {}, r"sizes in steps of 18000Gi: write 36000Gi, the next one"),
        ("9000Gi", {"perUnitStorageThroughput": "125"}, r"steps of 72000Gi: write 72000Gi, the next one"),
        ("18Ti", {}, r"sizes of Managed Lustre are in Gi: write 18000Gi, for instance"),
        ("18000Gi", {"network": "my-vpc"}, "network"),
        ("18000Gi", {"perUnitStorageThroughput": "300"}, "perUnitStorageThroughput"),
    ],
)
def test_an_invalid_lustre_instance_is_refused(
    size: str, changes: dict[str, str], message: str, render_text: Callable[..., Rendered]
) -> None:
    """The driver would say so only when a pod waits for it; another form of network silently means another VPC."""
    with pytest.raises(RenderError, match=message):
        render_text("storage", lustre_class(size, **changes))


def test_the_lustre_notes_have_complete_commands(render_text: Callable[..., Rendered]) -> None:
    """With the names filled in."""
    notes = render_text("storage", {"storage": {"data": {"gcsfuse": None, "lustre": LUSTRE}}}).notes or ""
    assert "gcloud lustre instances describe fast --project=acme-rl --location=us-central1-a" in notes
    assert "billed until you delete it" in (render_text("storage", lustre_class("18000Gi")).notes or "")


LOCAL: dict[str, Any] = {"storage": {"local": {"mountPath": "/local", "ephemeral": {"size": "200Gi"}}}}


def test_each_pod_gets_its_own_local_disk(render: Render, render_text: Callable[..., Rendered]) -> None:
    """No claim; head and workers have it; a cache may lie there and a run may not."""
    assert not [item for item in render("storage", LOCAL) if "local" in item["metadata"]["name"]]
    values = {**LOCAL, "huggingface": {"cache": {"volume": "local"}}}
    spec = by_kind(render("raycluster", values), "RayCluster")["spec"]
    for group in (spec["headGroupSpec"], spec["workerGroupSpecs"][0]):
        pod = group["template"]["spec"]
        assert {"name": "local", "emptyDir": {"sizeLimit": "200Gi"}} in pod["volumes"]
        assert {"name": "HF_HOME", "value": "/local/huggingface"} in pod["containers"][0]["env"]
    with pytest.raises(RenderError, match=r'job\.volume is "local", which is local disk'):
        render_text("grpo-job", {**LOCAL, "job": {"volume": "local"}})


def test_two_stacks_share_no_namespaced_object(render: Render) -> None:
    """In one namespace only the cluster-scoped network layer is common."""
    for layer in ("storage", "raycluster", "grpo-job"):
        both = [
            {(item["kind"], item["metadata"]["name"]) for item in render(layer, values)}
            # These have the name of the release, which is the same here and never in a namespace.
            - {("ConfigMap", "raycluster-release"), ("ConfigMap", "grpo-job-has-its-run-install-a-second-release")}
            for values in ({}, {"stack": {"name": "other"}, "job": {"name": "other-run"}})
        ]
        assert both[0].isdisjoint(both[1])
