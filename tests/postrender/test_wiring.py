"""What is wired, what is skipped, and what happens where something has its copy already."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from postrender.errors import InputError
from postrender.wiring import apply, inputs
from postrender.wiring.apply import NOT_WIRED, STAMP, Options, Wired
from postrender.wiring.plan import Wiring
from postrender.wiring.transforms import FAIL, KEEP, REPLACE
from tests.conftest import ROOT
from tests.postrender.streams import RAYCLUSTER, pod

PROFILE = str(ROOT / "values/accelerators/{}.yaml")


def wiring(tmp_path: Any = None, text: str = "", profile: str = "b200") -> Wiring:
    """Return the wiring of a profile and more values."""
    files = [PROFILE.format(profile)]
    if text:
        (tmp_path / "site.yaml").write_text(text)
        files.append(str(tmp_path / "site.yaml"))
    return Wiring(inputs.load(files))


def wired(text: str, given: Wiring | None = None, **options: Any) -> tuple[Any, Wired]:
    """Wire the one object of a document."""
    before = yaml.safe_load(text)
    kept = yaml.safe_load(text)
    after, (done,) = apply.wire(before, given or wiring(), Options(**options))
    assert before == kept, "the document that is given is left as it is"
    return after, done


def changed(spec: dict[str, Any], **fields: Any) -> str:
    """Return a pod with GPUs and more fields of its spec, or of its container (in `container`)."""
    item = yaml.safe_load(pod())
    item["spec"]["containers"][0] |= fields.pop("container", {})
    item["spec"] |= {**spec, **fields}
    return yaml.safe_dump(item)


def test_a_pod_that_uses_a_full_node_is_fully_wired() -> None:
    after, done = wired(pod())
    container = after["spec"]["containers"][0]
    names = ["LD_LIBRARY_PATH", "HF_TOKEN", "BASH_ENV", "NCCL_NET", "NCCL_TUNER_CONFIG_PATH", "NCCL_SOCKET_IFNAME"]
    assert [each["name"] for each in container["env"]] == [*names, "GLOO_SOCKET_IFNAME"]
    assert [each["mountPath"] for each in container["volumeMounts"]] == [
        "/usr/local/gib",
        "/usr/local/nvidia",
        "/dev/shm",
    ]
    assert [each["name"] for each in after["spec"]["volumes"]] == ["shared-memory", "host-gib", "host-nvidia"]
    assert after["spec"]["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-b200"}
    assert [each["key"] for each in after["spec"]["tolerations"]] == ["nvidia.com/gpu"]
    assert [each["name"] for each in after["spec"]["initContainers"]] == ["check-node"]
    assert after["metadata"]["annotations"]["networking.gke.io/interfaces"].count("rdma") == 8
    assert after["metadata"]["annotations"][STAMP].startswith("1 ")
    assert (done.changed, done.pods, done.skipped, done.conflicts) == (True, ["spec"], [], [])


def test_wiring_twice_changes_nothing_further() -> None:
    after, _ = wired(pod())
    again, done = wired(yaml.safe_dump(after))
    assert again == after
    assert not done.changed


def test_the_stamp_changes_only_with_values_that_affect_the_wiring(tmp_path: Any) -> None:
    stamp = wiring().digest
    assert wiring(tmp_path, "job: {attempt: 2}").digest == stamp
    assert wiring(tmp_path, "huggingface: {secret: {name: other}}").digest != stamp
    assert wiring(profile="h200").digest != stamp


def test_a_pod_with_part_of_a_node_is_not_wired() -> None:
    """Only pods that take a node, and those of a Ray cluster, are named on the page."""
    after, done = wired(pod(gpus=4))
    assert after["spec"] == yaml.safe_load(pod(gpus=4))["spec"]
    assert {*after["metadata"]["annotations"]} == {NOT_WIRED}
    assert done.skipped == [{"pod": "", "reason": "takes 4 GPUs, and a node of b200 has 8"}]


def test_a_pod_that_avoids_the_machine_is_not_a_target() -> None:
    expression = {"key": "cloud.google.com/gke-accelerator", "operator": "NotIn", "values": ["nvidia-b200"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert wired(changed({"affinity": affinity}))[1].skipped[0]["reason"] == "avoids nvidia-b200 by its affinity"


@pytest.mark.parametrize("by", ["selector", "affinity"])
def test_a_pod_that_selects_a_different_machine_is_unchanged(by: str) -> None:
    key = "cloud.google.com/gke-accelerator"
    expression = {"key": key, "operator": "In", "values": ["nvidia-l4"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    spec = {
        "selector": {"nodeSelector": {key: "nvidia-l4"}},
        "affinity": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}},
    }[by]
    after, done = wired(changed(spec))
    assert after["spec"] == yaml.safe_load(changed(spec))["spec"]
    assert done.skipped == [{"pod": "", "reason": "selects nvidia-l4, and b200 is nvidia-b200"}]


def test_every_pod_of_a_ray_cluster_gets_the_variables() -> None:
    after, _ = wired(RAYCLUSTER)
    head = after["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    assert [each["name"] for each in head["env"]] == ["LD_LIBRARY_PATH", "HF_TOKEN", "GREETING"]
    assert "metadata" not in after["spec"]["headGroupSpec"]["template"]


def test_a_pod_without_gpus_is_not_a_target() -> None:
    text = pod().replace("nvidia.com/gpu: 8", "cpu: 1")
    after, done = wired(text)
    assert after == yaml.safe_load(text)
    assert (done.pods, done.skipped) == ([], [])


def test_an_object_can_opt_out() -> None:
    text = pod().replace("  name: pod", "  name: pod\n  annotations: {grpo-charts/wiring: skip}")
    after, done = wired(text)
    assert after == yaml.safe_load(text)
    assert done.skipped == [{"pod": "all", "reason": "the annotation grpo-charts/wiring is skip"}]


def test_objects_can_be_selected() -> None:
    assert wired(pod("a"), select=frozenset({("pod", "a")}))[1].changed
    _, done = wired(pod("b"), select=frozenset({("pod", "a")}))
    assert (done.changed, done.skipped) == (False, [{"pod": "all", "reason": "not selected"}])


def test_init_containers_get_the_secrets_only_on_request() -> None:
    text = changed({"initContainers": [{"name": "fetch", "image": "a"}]})
    after, _ = wired(text)
    assert [each.get("env") for each in after["spec"]["initContainers"][1:]] == [None]
    after, _ = wired(text, init_containers=True)
    assert [each["name"] for each in after["spec"]["initContainers"][1]["env"]] == ["HF_TOKEN"]


CONFLICTS: list[tuple[dict[str, Any], str]] = [
    ({"container": {"env": [{"name": "NCCL_NET", "value": "Socket"}]}}, "spec.containers[main].env[NCCL_NET]"),
    ({"container": {"env": [{"name": "HF_TOKEN", "value": "x"}]}}, "spec.containers[main].env[HF_TOKEN]"),
    (
        {
            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
            "container": {"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]},
        },
        "spec.volumes[dshm]",
    ),
    (
        {
            "volumes": [{"name": "gib", "hostPath": {"path": "/home/kubernetes/bin/gib", "type": "Directory"}}],
            "container": {"volumeMounts": [{"name": "gib", "mountPath": "/usr/local/gib/"}]},
        },
        "spec.containers[main].volumeMounts[/usr/local/gib/]",
    ),
    # An empty folder in place of the driver's.
    (
        {
            "volumes": [{"name": "driver", "emptyDir": {}}],
            "container": {"volumeMounts": [{"name": "driver", "mountPath": "/usr/local/gib", "readOnly": True}]},
        },
        "spec.volumes[driver]",
    ),
    ({"initContainers": [{"name": "check-node", "image": "a"}]}, "spec.initContainers[check-node]"),
]


@pytest.mark.parametrize(("fields", "place"), CONFLICTS, ids=[place for _, place in CONFLICTS])
def test_an_existing_field_that_differs_is_a_conflict(fields: dict[str, Any], place: str) -> None:
    text = changed({}, **fields)
    for policy in (FAIL, KEEP, REPLACE):
        after, done = wired(text, policy=policy)
        assert [each["at"] for each in done.conflicts] == [place]
        again, more = wired(yaml.safe_dump(after), policy=policy)
        assert again == after
        assert len(more.conflicts) == (0 if policy == REPLACE else 1)


@pytest.mark.parametrize(
    "fields",
    [
        {"container": {"env": [{"name": "NCCL_NET", "value": "gIB"}]}},
        {
            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "250Gi"}}],
            "container": {"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]},
        },
        {
            "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
            "container": {"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]},
        },
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
        {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]},
    ],
)
def test_an_existing_field_with_the_same_meaning_is_left_alone(fields: dict[str, Any]) -> None:
    after, done = wired(changed({}, **fields))
    assert done.conflicts == []
    container = after["spec"]["containers"][0]
    assert sum(each["mountPath"] == "/dev/shm" for each in container["volumeMounts"]) == 1
    assert sum(each["name"] == "NCCL_NET" for each in container["env"]) == 1
    assert len(after["spec"]["tolerations"]) == 1


def test_whitespace_in_an_interface_list_is_ignored() -> None:
    after, _ = wired(pod())
    after["metadata"]["annotations"]["networking.gke.io/interfaces"] = after["metadata"]["annotations"][
        "networking.gke.io/interfaces"
    ].replace(",", ", ")
    again, done = wired(yaml.safe_dump(after))
    assert again == after
    assert not done.conflicts


def test_device_claims_are_added_to_both_pod_and_container(tmp_path: Any) -> None:
    after, done = wired(RAYCLUSTER, wiring(tmp_path, "network: {mode: dranet}"))
    spec = after["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    assert spec["resourceClaims"] == [{"name": "rdma", "resourceClaimTemplateName": "ray-rdma"}]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "rdma"}]
    (template,) = done.companions
    assert (template["kind"], template["metadata"]) == ("ResourceClaimTemplate", {"name": "ray-rdma"})
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == 8


def test_an_nvlink_domain_has_as_many_nodes_as_pods() -> None:
    text = RAYCLUSTER.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 4")
    after, done = wired(text, wiring(profile="gb200"))
    (domain,) = [each for each in done.companions if each["kind"] == "ComputeDomain"]
    assert (domain["metadata"]["name"], domain["spec"]["numNodes"]) == ("ray-nvlink-2", 2)
    names = [each["name"] for each in after["spec"]["workerGroupSpecs"][0]["template"]["spec"]["resourceClaims"]]
    assert "nvlink" in names


def test_an_nvlink_domain_needs_a_known_pod_count() -> None:
    text = "kind: DaemonSet\nmetadata: {name: d}\nspec:\n  template:\n" + "".join(
        f"    {line}\n" for line in pod(gpus=4).splitlines()[4:]
    )
    with pytest.raises(InputError, match="an NVLink domain of gb200 has 1 to 18 nodes, and d has no fixed number"):
        wired(text, wiring(profile="gb200"))


@pytest.mark.parametrize("nodes", [0, 19])
def test_an_nvlink_domain_has_1_to_18_nodes(nodes: int) -> None:
    assert wiring(profile="gb200").domain_name("d", 18) == "d-nvlink-18"
    with pytest.raises(InputError, match=f"an NVLink domain of gb200 has 1 to 18 nodes, and d has {nodes}"):
        wiring(profile="gb200").domain_name("d", nodes)


def test_interfaces_are_ordered_by_number(tmp_path: Any) -> None:
    found = wiring(tmp_path, "accelerator: {interfaces: {eth10: {network: rdma-8, deviceMode: RDMA}}}").interfaces()
    assert [each["interface"] for each in found] == [f"eth{number}" for number in range(1, 11)]


def test_new_objects_inherit_the_namespace_the_labels_and_helm_annotations(tmp_path: Any) -> None:
    text = RAYCLUSTER.replace(
        "  name: ray\n",
        "  name: ray\n  namespace: team\n  labels: {app: x, kueue.x-k8s.io/queue-name: q}\n"
        "  annotations: {helm.sh/hook: pre-install, postrenderer.helm.sh/postrender-filename: a.yaml, other: x}\n",
    )
    _, done = wired(text, wiring(tmp_path, "network: {mode: dranet}"))
    assert done.companions[0]["metadata"] == {
        "name": "ray-rdma",
        "namespace": "team",
        "labels": {"app": "x"},
        "annotations": {
            "helm.sh/hook": "pre-install",
            "postrenderer.helm.sh/postrender-filename": "a.yaml",
            "helm.sh/hook-weight": "-1",
        },
    }


@pytest.mark.parametrize(("weight", "wanted"), [('"5"', "4"), ('"-5"', "-6"), ("0", "-1"), ("soon", "-1")])
def test_objects_that_a_hook_needs_are_created_before_it(tmp_path: Any, weight: str, wanted: str) -> None:
    """Helm waits for each hook before it makes the next one, and takes a word for no weight."""
    annotations = f"  annotations: {{helm.sh/hook: test, helm.sh/hook-weight: {weight}}}\n"
    text = RAYCLUSTER.replace("  name: ray\n", f"  name: ray\n{annotations}")
    _, done = wired(text, wiring(tmp_path, "network: {mode: dranet}"))
    assert done.companions[0]["metadata"]["annotations"]["helm.sh/hook-weight"] == wanted


def test_image_specific_settings_apply_only_to_that_image(tmp_path: Any) -> None:
    image = "images: {training: {repository: busybox, tag: '1.37', libraryPath: /own, minimumDriver: 999}}"
    after, _ = wired(pod(), wiring(tmp_path, image))
    assert after["spec"]["containers"][0]["env"][0]["value"].startswith("/own:/usr/local/nvidia/lib64")
    assert "999" in after["spec"]["initContainers"][0]["args"][0]
    after, _ = wired(pod(), wiring(tmp_path, image.replace("busybox", "other")))
    assert after["spec"]["containers"][0]["env"][0]["value"].startswith("/usr/local/nvidia/lib64")
    assert "999" not in after["spec"]["initContainers"][0]["args"][0]


def test_an_image_is_recognised_by_its_digest(tmp_path: Any) -> None:
    image = "images: {training: {repository: busybox, tag: '1.37', digest: 'sha256:1', libraryPath: /own}}"
    for name, is_known in (("busybox@sha256:1", True), ("busybox:1.37", False)):
        after, _ = wired(pod().replace("busybox:1.37", name), wiring(tmp_path, image))
        (path,) = [each["value"] for each in after["spec"]["containers"][0]["env"] if each["name"] == "LD_LIBRARY_PATH"]
        assert path.startswith("/own:") is is_known


def test_a_pod_without_metadata_keeps_its_interfaces() -> None:
    text = pod().replace("metadata:\n  name: pod\n", "metadata:\n")
    after, _ = wired(text)
    assert {*after["metadata"]["annotations"]} == {
        "networking.gke.io/default-interface",
        "networking.gke.io/interfaces",
        STAMP,
    }


@pytest.mark.parametrize("fields", [{"volumes": {"a": 1}}, {"container": {"env": "a"}}, {"nodeSelector": ["a"]}])
def test_a_field_of_the_wrong_type_is_not_replaced(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"must be a (list|map)"):
        wired(changed({}, **fields))


@pytest.mark.parametrize("policy", [FAIL, KEEP, REPLACE])
def test_a_foreign_volume_is_left_unchanged(policy: str) -> None:
    claim = {"name": "host-gib", "persistentVolumeClaim": {"claimName": "c"}}
    text = changed({"volumes": [claim]}, container={"volumeMounts": [{"name": "host-gib", "mountPath": "/data"}]})
    after, done = wired(text, policy=policy)
    assert done.conflicts == []
    assert claim in after["spec"]["volumes"]
    mounts = {each["mountPath"]: each["name"] for each in after["spec"]["containers"][0]["volumeMounts"]}
    assert (mounts["/data"], mounts["/usr/local/gib"]) == ("host-gib", "host-gib-wiring")
    assert after["spec"]["initContainers"][0]["volumeMounts"][0]["name"] == "host-gib-wiring"
    assert not wired(yaml.safe_dump(after), policy=policy)[1].changed


def test_a_volume_mounted_by_subpath_is_not_replaced() -> None:
    """One volume for both folders: replacing its path would break the other mount."""
    volume = {"name": "bin", "hostPath": {"path": "/home/kubernetes/bin", "type": "Directory"}}
    parts = [{"name": "bin", "mountPath": f"/usr/local/{each}", "subPath": each} for each in ("nvidia", "gib")]
    text = changed({"volumes": [volume]}, container={"volumeMounts": parts})
    after, done = wired(text, policy=KEEP)
    assert after["spec"]["containers"][0]["volumeMounts"][1:] == parts
    looked = {each["mountPath"]: each.get("subPath") for each in after["spec"]["initContainers"][0]["volumeMounts"]}
    assert looked == {"/usr/local/gib": "gib", "/usr/local/nvidia": "nvidia"}
    after, done = wired(text, policy=REPLACE)
    assert volume in after["spec"]["volumes"]
    mounts = {each["mountPath"]: each["name"] for each in after["spec"]["containers"][0]["volumeMounts"]}
    assert mounts == {"/dev/shm": "shared-memory", "/usr/local/gib": "host-gib", "/usr/local/nvidia": "host-nvidia"}
    assert len(done.conflicts) == 2


def test_a_literal_in_place_of_a_secret_reference_is_never_shown() -> None:
    _, done = wired(changed({}, container={"env": [{"name": "HF_TOKEN", "value": "opaque"}]}), policy=KEEP)
    assert "opaque" not in str(done.conflicts)
    theirs = {"name": "check-node", "image": "a", "env": [{"name": "KEY", "value": "opaque"}]}
    _, done = wired(changed({"initContainers": [theirs]}), policy=KEEP)
    assert "check-node" in str(done.conflicts)
    assert "opaque" not in str(done.conflicts)


def test_gpus_in_two_containers_are_not_a_full_node() -> None:
    item = yaml.safe_load(pod())
    item["spec"]["containers"].append({**item["spec"]["containers"][0], "name": "second"})
    after, done = wired(yaml.safe_dump(item))
    assert after["spec"] == item["spec"]
    assert done.skipped[0]["reason"] == "divides its GPUs among 2 containers, and one must take all 8"


def test_a_pod_on_the_host_network_gets_no_interfaces(tmp_path: Any) -> None:
    text = changed({"hostNetwork": True})
    assert "to which no other can be attached" in wired(text)[1].skipped[0]["reason"]
    coreweave = wiring(profile="coreweave-b200")
    assert "has the network of its node" in wired(text, coreweave)[1].skipped[0]["reason"]
    assert wired(text, wiring(tmp_path, "network: {mode: none}"))[1].skipped == []


def test_a_jobs_pod_count_is_limited_by_its_completions() -> None:
    text = "kind: Job\nmetadata: {name: j}\nspec:\n  parallelism: 4\n  completions: 2\n  template:\n" + "".join(
        f"    {line}\n" for line in pod(gpus=4).splitlines()[4:]
    )
    _, done = wired(text, wiring(profile="gb200"))
    assert [each["spec"].get("numNodes") for each in done.companions if each["kind"] == "ComputeDomain"] == [2]


def test_two_pods_sharing_one_alias_are_both_wired() -> None:
    job = {"template": {"spec": {"template": yaml.safe_load(pod())}}}
    kept = yaml.safe_dump(job)
    document = {"kind": "JobSet", "metadata": {"name": "a"}, "spec": {"replicatedJobs": [job, job]}}
    after, (done,) = apply.wire(document, wiring(), Options())
    assert yaml.safe_dump(job) == kept
    first, second = (each["template"]["spec"]["template"] for each in after["spec"]["replicatedJobs"])
    assert first == second
    assert first is not second
    assert [each["name"] for each in first["spec"]["initContainers"]] == ["check-node"]
    assert len(done.pods) == 2


GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "", "operator": "Exists"}, True),
        ({"key": GPU, "operator": "Exists"}, True),
        ({"key": GPU, "operator": "Exists", "effect": ""}, True),
        ({"key": GPU, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": GPU, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": GPU, "operator": "Equal", "value": "present"}, False),
        # Kubernetes takes it for Equal, with an empty value.
        ({"key": GPU}, False),
        ({"key": GPU, "effect": "NoSchedule"}, False),
    ],
)
def test_a_toleration_is_added_unless_another_covers_it(toleration: dict[str, str], covers: bool) -> None:
    after, done = wired(changed({"tolerations": [toleration]}))
    ours = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    assert after["spec"]["tolerations"] == ([toleration] if covers else [ours, toleration])
    assert done.conflicts == []


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        ({"key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64", "effect": "NoSchedule"}, True),
        ({"key": "kubernetes.io/arch", "value": "arm64"}, True),
        ({"key": "kubernetes.io/arch", "operator": "Exists"}, True),
        ({"key": "kubernetes.io/arch", "value": "amd64"}, False),
        # Without a key only Exists means something.
        ({"operator": "Equal", "value": "arm64"}, False),
    ],
)
def test_a_toleration_for_one_value_is_covered_by_the_same_value_or_by_all(
    toleration: dict[str, str], covers: bool
) -> None:
    text = changed({"tolerations": [toleration, {"key": GPU, "operator": "Exists"}]}).replace(f"{GPU}: 8", f"{GPU}: 4")
    after, _ = wired(text, wiring(profile="gb200"))
    ours = {"key": "kubernetes.io/arch", "operator": "Equal", "value": "arm64", "effect": "NoSchedule"}
    assert after["spec"]["tolerations"][:-2] == ([] if covers else [ours])


def test_the_last_of_two_entries_with_one_name_wins() -> None:
    """As for Kubernetes: where that is ours nothing is to be done, and else that one is replaced."""
    ours, theirs = {"name": "NCCL_NET", "value": "gIB"}, {"name": "NCCL_NET", "value": "Socket"}
    for policy in (FAIL, REPLACE):
        after, done = wired(changed({}, container={"env": [theirs, ours]}), policy=policy)
        assert done.conflicts == []
        assert after["spec"]["containers"][0]["env"][-2:] == [theirs, ours]
    after, done = wired(changed({}, container={"env": [ours, theirs]}), policy=REPLACE)
    assert [each["there"] for each in done.conflicts] == [theirs]
    assert after["spec"]["containers"][0]["env"][-2:] == [ours, ours]


def test_new_entries_come_first_in_order_and_existing_ones_are_kept() -> None:
    own = [{"name": "Z", "value": "1"}, {"name": "NCCL_NET", "value": "gIB"}, {"name": "A", "value": "$(NCCL_NET)"}]
    env = wired(changed({}, container={"env": own}))[0]["spec"]["containers"][0]["env"]
    assert env[-3:] == own
    assert [each["name"] for each in env[:-3]] == [
        *("LD_LIBRARY_PATH", "HF_TOKEN", "BASH_ENV", "NCCL_TUNER_CONFIG_PATH"),
        *("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"),
    ]


def test_malformed_entries_are_left_alone() -> None:
    """The API server says what is wrong with them."""
    text = changed({"initContainers": ["fetch", {"image": "a"}]}, container={"env": ["A", {"value": "x"}]})
    after, done = wired(text, init_containers=True)
    assert after["spec"]["containers"][0]["env"][-2:] == ["A", {"value": "x"}]
    assert after["spec"]["initContainers"][1] == "fetch"
    assert done.conflicts == []


@pytest.mark.parametrize("policy", [FAIL, KEEP, REPLACE])
def test_an_annotation_that_differs_is_a_conflict(policy: str) -> None:
    name = "networking.gke.io/default-interface"
    text = pod().replace("  name: pod", f"  name: pod\n  annotations: {{{name}: of the env}}")
    after, done = wired(text, policy=policy)
    wanted = {"at": f"metadata.annotations[{name}]", "there": "of the env", "wanted": "eth0", "decision": policy}
    assert done.conflicts == [wanted]
    assert after["metadata"]["annotations"][name] == ("eth0" if policy == REPLACE else "of the env")
    # What is equal is none.
    assert wired(pod().replace("  name: pod", f"  name: pod\n  annotations: {{{name}: eth0}}"))[1].conflicts == []


def test_a_conflict_shows_only_values_that_are_not_secrets() -> None:
    """Where a Secret should be named a literal may be one; another reference and another variable are none."""
    other = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}
    net = {"name": "NCCL_NET", "value": "Socket"}
    _, done = wired(changed({}, container={"env": [other, net]}), policy=KEEP)
    assert [each["there"] for each in done.conflicts] == [other, net]
    _, done = wired(changed({}, container={"env": [{"name": "HF_TOKEN", "value": "opaque"}]}), policy=KEEP)
    (conflict,) = done.conflicts
    assert conflict["there"] == {"name": "HF_TOKEN", "value": "(a literal value, which is not shown)"}


@pytest.mark.parametrize(
    ("fields", "shape"), [({"volumes": {"a": 1}}, "volumes must be a list"), ({"nodeSelector": ["a"]}, "must be a map")]
)
def test_a_type_error_names_the_expected_type(fields: dict[str, Any], shape: str) -> None:
    with pytest.raises(InputError, match=shape):
        wired(changed({}, **fields))


def test_init_container_secrets_are_added_once_and_not_to_our_own_containers() -> None:
    after, _ = wired(changed({"initContainers": [{"name": "fetch", "image": "a"}]}), init_containers=True)
    again, done = wired(yaml.safe_dump(after), init_containers=True)
    assert (again, done.changed) == (after, False)
    assert "env" not in again["spec"]["initContainers"][0]


@pytest.mark.parametrize("resources", ["{}", "{limits: {nvidia.com/gpu: 0}}", "{requests: {cpu: 4}}"])
def test_a_worker_group_without_gpus_gets_only_variables(resources: str) -> None:
    """Beside a group with GPUs, and alone: what a group is for does not say what it asks for."""
    item = yaml.safe_load(RAYCLUSTER)
    (gpus,) = item["spec"]["workerGroupSpecs"]
    container = {"name": "ray-worker", "image": "rayproject/ray:2.52.0", "resources": yaml.safe_load(resources)}
    cpus = {"groupName": "cpus", "replicas": 30, "template": {"spec": {"containers": [container]}}}
    for groups, domain in (([gpus, cpus], 2), ([cpus], None)):
        item["spec"]["workerGroupSpecs"] = groups
        after, done = wired(yaml.safe_dump(item))
        template = after["spec"]["workerGroupSpecs"][-1]["template"]
        names = [each["name"] for each in template["spec"]["containers"][0].pop("env")]
        assert (template, names) == (cpus["template"], ["LD_LIBRARY_PATH", "HF_TOKEN"])
        assert (len(done.pods), len(done.variables)) == (len(groups) - 1, 2)
        # The nodes of an NVLink domain, and the claims, are those of the pods with GPUs.
        claimed = yaml.safe_dump(item).replace(f"{GPU}: 8", f"{GPU}: 4")
        after, done = wired(claimed, wiring(profile="gb200"))
        assert [each["spec"].get("numNodes") for each in done.companions if each["kind"] == "ComputeDomain"] == [
            each for each in [domain] if each
        ]
        spec = after["spec"]["workerGroupSpecs"][-1]["template"]["spec"]
        assert ("resourceClaims" in spec, "claims" in spec["containers"][0]["resources"]) == (False, False)


def test_workers_on_cpu_machines_get_the_wiring_of_their_machine() -> None:
    after, _ = wired(RAYCLUSTER.replace(f"{GPU}: 8", "cpu: 8"), wiring(profile="cpu"))
    spec = after["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    assert [each["emptyDir"]["sizeLimit"] for each in spec["volumes"]] == ["8Gi"]


# Pods with GPUs where no kind is known to have them: a kind of somebody else, and one that shares a name with ours.
STRAYS = {
    "kind: MPIJob\nspec: {mpiReplicaSpecs: {Worker: {template: {spec: {containers: [&c {name: a, resources: {limits:"
    " {nvidia.com/gpu: 8}}}, *c]}}}}}": ("spec.mpiReplicaSpecs.Worker.template", 16),
    "kind: Job\nspec: {tasks: [{template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}}]}}}]}": (
        "spec.tasks.0.template",
        8,
    ),
    "kind: InferenceService\nspec: {predictor: {containers: [{resources: {limits: {nvidia.com/gpu: '1'}}}]}}": (
        "spec.predictor",
        1,
    ),
}


@pytest.mark.parametrize("text", STRAYS)
def test_gpu_pods_in_an_unknown_place_are_skipped_with_the_reason(text: str) -> None:
    text = f"apiVersion: a/v1\nmetadata: {{name: a}}\n{text}"
    before, (place, count) = yaml.safe_load(text), STRAYS[text.partition("}\n")[2]]
    after, done = wired(text)
    (skipped,) = done.skipped
    assert skipped["pod"] == place
    kind = before["kind"]
    assert skipped["reason"].startswith(f"takes {count} GPU{'s' if count > 1 else ''}, and {kind} is not known to have")
    option = f"--pod-template-path {kind}={place.replace('.0.', '.*.')}"
    assert (option in skipped["reason"]) == place.endswith("template")
    assert after == before | {"metadata": {"name": "a", "annotations": {NOT_WIRED: f"{place} {skipped['reason']}"}}}


@pytest.mark.parametrize(
    "text",
    [
        "kind: ClusterQueue\nspec: {flavors: [{resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]}",
        "kind: MPIJob\nspec: {template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 0}}}, null]}}}",
        "kind: A\nspec: {containers: {resources: {limits: {nvidia.com/gpu: 8}}}}",
    ],
)
def test_an_object_that_only_mentions_gpus_has_no_pods(text: str) -> None:
    assert apply.wire(yaml.safe_load(text), wiring(), Options()) == (yaml.safe_load(text), [])


def test_an_object_lists_its_unwired_pods() -> None:
    second = RAYCLUSTER[RAYCLUSTER.index("    - groupName") :].replace(f"{GPU}: 8", f"{GPU}: 4")
    after, done = wired(RAYCLUSTER + second)
    notes = after["metadata"]["annotations"]
    assert notes[NOT_WIRED] == "spec.workerGroupSpecs.1.template takes 4 GPUs, and a node of b200 has 8"
    assert notes[STAMP].startswith("1 ")
    again, done = wired(yaml.safe_dump(after))
    assert (again, done.changed) == (after, False)
    # What is true no longer goes.
    after["spec"]["workerGroupSpecs"][1]["template"]["spec"]["containers"][0]["resources"]["limits"][GPU] = 8
    last, done = wired(yaml.safe_dump(after))
    assert (last["metadata"]["annotations"], done.changed) == ({STAMP: notes[STAMP]}, True)


@pytest.mark.parametrize("mount", ["/usr/local/gib", "/usr/local/gib/"])
def test_an_already_mounted_volume_keeps_its_name(mount: str) -> None:
    volume = {"name": "mine", "hostPath": {"path": "/home/kubernetes/bin/gib", "type": "Directory"}}
    mounts = [{"name": "mine", "mountPath": mount, "readOnly": True}]
    after, done = wired(changed({"volumes": [volume]}, container={"volumeMounts": mounts}))
    assert done.conflicts == []
    assert [each["name"] for each in after["spec"]["volumes"]] == ["shared-memory", "host-nvidia", "mine"]
    names = {each["mountPath"]: each["name"] for each in after["spec"]["containers"][0]["volumeMounts"]}
    assert names == {"/dev/shm": "shared-memory", "/usr/local/nvidia": "host-nvidia", mount: "mine"}


def test_an_identical_volume_with_our_name_is_not_a_conflict() -> None:
    volume = {"name": "host-gib", "hostPath": {"path": "/home/kubernetes/bin/gib", "type": "Directory"}}
    after, done = wired(changed({"volumes": [volume]}))
    assert done.conflicts == []
    assert sorted(each["name"] for each in after["spec"]["volumes"]) == ["host-gib", "host-nvidia", "shared-memory"]


def test_the_stamp_follows_the_values_and_is_not_added_when_nothing_changes() -> None:
    after, _ = wired(pod())
    stamp = after["metadata"]["annotations"].pop(STAMP)
    # As our charts wire it, without a stamp.
    again, done = wired(yaml.safe_dump(after))
    assert (again, done.changed) == (after, False)
    after["metadata"]["annotations"][STAMP] = "1 00000000"
    again, _ = wired(yaml.safe_dump(after))
    assert again["metadata"]["annotations"][STAMP] == stamp


def test_the_head_finds_the_driver_libraries_when_its_workers_are_wired() -> None:
    def variables(text: str) -> list[str]:
        head = wired(text)[0]["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
        return [each["name"] for each in head["env"]]

    small = RAYCLUSTER.replace(f"{GPU}: 8", f"{GPU}: 4")
    assert variables(RAYCLUSTER) == ["LD_LIBRARY_PATH", "HF_TOKEN", "GREETING"]
    assert variables(small) == ["HF_TOKEN", "GREETING"]
    # One group is wired and the other is not.
    second = small[small.index("    - groupName") :].replace("groupName: gpus", "groupName: small")
    assert variables(RAYCLUSTER + second) == ["LD_LIBRARY_PATH", "HF_TOKEN", "GREETING"]


# The worker group of a RayCluster as AWS publishes one for verl, in our own words.
ON_EKS = {
    "nodeSelector": {"node.kubernetes.io/instance-type": "p5en.48xlarge"},
    "container": {
        "resources": {
            "limits": {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 16},
            "requests": {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 16},
        }
    },
}
ON_COREWEAVE = {
    "nodeSelector": {"node.coreweave.cloud/type": "gd-8xh200ib-i128"},
    "container": {
        "resources": {"limits": {"nvidia.com/gpu": 8, "rdma/ib": 1}, "requests": {"nvidia.com/gpu": 8, "rdma/ib": 1}}
    },
}
PLAIN: dict[str, Any] = {
    "container": {"resources": {"limits": {"nvidia.com/gpu": 8}, "requests": {"nvidia.com/gpu": 8}}}
}


def test_a_containers_existing_capabilities_are_kept() -> None:
    container = {**PLAIN["container"], "securityContext": {"capabilities": {"add": ["SYS_NICE"], "drop": ["ALL"]}}}
    after, _ = wired(changed({}, container=container))
    added = {"add": ["SYS_NICE", "IPC_LOCK"], "drop": ["ALL"]}
    assert after["spec"]["containers"][0]["securityContext"] == {"capabilities": added}


@pytest.mark.parametrize(
    ("profile", "selected", "resource", "net"),
    [
        ("coreweave-h200", "gd-8xh200ib-i128", {"rdma/ib": "1"}, "IB"),
        ("eks-h200", "p5en.48xlarge", {"vpc.amazonaws.com/efa": "16"}, "Libfabric"),
    ],
)
def test_a_foreign_charts_pod_is_wired_for_other_clouds_too(
    profile: str, selected: str, resource: dict[str, str], net: str
) -> None:
    """Devices, rights, settings and node; twice gives the same."""
    after, done = wired(changed({}, **PLAIN), wiring(profile=profile))
    container = after["spec"]["containers"][0]
    assert resource.items() <= container["resources"]["limits"].items()
    assert resource.items() <= container["resources"]["requests"].items()
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    assert list(after["spec"]["nodeSelector"].values()) == [selected]
    assert {"name": "NCCL_NET", "value": net} in container["env"]
    assert (done.pods, done.conflicts) == (["spec"], [])
    again, done = wired(yaml.safe_dump(after), wiring(profile=profile))
    assert again == after
    assert not done.changed


@pytest.mark.parametrize(
    ("profile", "spec", "reason"),
    [
        ("coreweave-h200", ON_EKS, "selects p5en.48xlarge, and h200 is gd-8xh200ib-i128"),
        ("eks-h200", ON_COREWEAVE, "selects gd-8xh200ib-i128, and h200 is p5en.48xlarge"),
        ("h200", ON_EKS, "selects p5en.48xlarge, and h200 is nvidia-h200-141gb"),
    ],
)
def test_a_pod_for_a_different_cloud_is_skipped_with_the_reason(
    profile: str, spec: dict[str, Any], reason: str
) -> None:
    fields = {**spec, "container": dict(spec["container"])}
    selector = fields.pop("nodeSelector")
    after, done = wired(changed({"nodeSelector": selector}, **fields), wiring(profile=profile))
    assert after["spec"]["nodeSelector"] == selector
    assert [each["reason"] for each in done.skipped] == [reason]


def test_a_pod_whose_affinity_selects_another_clouds_gpu_is_skipped_too() -> None:
    expression = {"key": "cloud.google.com/gke-accelerator", "operator": "In", "values": ["nvidia-b200"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    fields = {name: value for name, value in ON_EKS.items() if name != "nodeSelector"}
    _, done = wired(changed({"nodeSelector": None, "affinity": affinity}, **fields), wiring(profile="eks-h200"))
    assert [each["reason"] for each in done.skipped] == ["selects nvidia-b200, and h200 is p5en.48xlarge"]


def test_a_profile_with_host_network_is_wired(tmp_path: Any) -> None:
    """hostNetwork of the profile; a pod that has it already is wired too."""
    text = (
        "accelerator: {hostNetwork: true, files: {nccl: {configMap: nccl, key: nccl.conf, mountPath: /etc/nccl.conf}}}"
    )
    given = wiring(tmp_path, text, "oci-h200")
    after, _ = wired(changed({}, **PLAIN), given)
    spec = after["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert {"name": "file-nccl", "configMap": {"name": "nccl"}} in spec["volumes"]
    mount = {"name": "file-nccl", "mountPath": "/etc/nccl.conf", "subPath": "nccl.conf", "readOnly": True}
    assert mount in spec["containers"][0]["volumeMounts"]
    networks = after["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
    assert networks.split(",") == ["default/rdma-vf"] * 8
    again, done = wired(yaml.safe_dump(after), given)
    assert again == after
    assert not done.changed


@pytest.mark.parametrize(("amount", "conflicts"), [(16, 0), ("16", 0), (8, 2)])
def test_the_same_device_count_in_a_different_type_is_not_a_conflict(amount: object, conflicts: int) -> None:
    """Manifests write it as a number, and the profiles as a text."""
    given = {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": amount}
    text = changed({"nodeSelector": None}, container={"resources": {"requests": given, "limits": given}})
    after, done = wired(text, wiring(profile="eks-h200"), policy=KEEP)
    assert len(done.conflicts) == conflicts
    assert after["spec"]["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"] == amount


def test_a_variable_that_says_the_same_in_another_way_is_no_conflict() -> None:
    own = [{"name": "NCCL_SOCKET_IFNAME", "value": "=eth0"}, {"name": "NCCL_NET", "value": "ib"}]
    after, done = wired(changed({}, container={"env": own}), wiring(profile="coreweave-b200"))
    assert done.conflicts == []
    assert after["spec"]["containers"][0]["env"][-2:] == own
    other = [{"name": "NCCL_SOCKET_IFNAME", "value": "=eth1"}]
    _, done = wired(changed({}, container={"env": other}), wiring(profile="coreweave-b200"))
    assert [each["at"].rpartition(".")[2] for each in done.conflicts] == ["env[NCCL_SOCKET_IFNAME]"]


def test_any_number_of_what_says_yes_or_no_is_enough() -> None:
    own = {"limits": {"nvidia.com/gpu": 8, "rdma/ib": 8}}
    after, done = wired(changed({}, container={"resources": own}), wiring(profile="coreweave-b200"))
    assert done.conflicts == []
    resources = after["spec"]["containers"][0]["resources"]
    assert (resources["limits"]["rdma/ib"], resources["requests"]["rdma/ib"]) == (8, 8)
    _, done = wired(changed({}, container={"resources": own}), wiring(profile="infiniband-h100"))
    assert done.conflicts == []
    own = {"limits": {"nvidia.com/gpu": 8, "rdma/ib": 4}}
    _, done = wired(changed({}, container={"resources": own}), wiring(profile="aks-h200"))
    assert [each["at"].rpartition(".")[2] for each in done.conflicts] == ["limits[rdma/ib]"]


@pytest.mark.parametrize(
    ("size", "conflicts"),
    [("500Gi", 0), ("250Gi", 0), ("256000Mi", 0), (None, 0), ("1Gi", 1), ("much", 1)],
)
def test_more_shared_memory_than_the_machine_needs_is_no_conflict(size: str | None, conflicts: int) -> None:
    volumes = [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}]
    mounts = {"volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}]}
    after, done = wired(changed({"volumes": volumes}, container=mounts), wiring(profile="coreweave-b200"))
    assert (len(done.conflicts), after["spec"]["volumes"]) == (conflicts, volumes)
