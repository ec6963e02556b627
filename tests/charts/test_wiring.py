"""Without wiring the charts render all but the wiring, the run's lock included, and say who has to bring it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests import options
from tests.conftest import PROFILES, ROOT, Object, Render, by_kind, thin

RenderText = Callable[..., Rendered]
Wired = Callable[[Object], bool]

OFF: dict[str, Any] = {"stack": {"wiring": {"enabled": False}}}
SHARED = ("LD_LIBRARY_PATH", "HF_TOKEN", "HF_HUB_OFFLINE", "WANDB_API_KEY")
NCCL = ("BASH_ENV", "NCCL_NET", "NCCL_TUNER_CONFIG_PATH", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
OF_PROFILES = {
    name
    for profile in PROFILES
    for name in yaml.safe_load((ROOT / f"values/accelerators/{profile}.yaml").read_text(encoding="utf-8"))[
        "accelerator"
    ]["nccl"].get("env", {})
}
VARIABLES = {*SHARED, *NCCL, *OF_PROFILES}
TOLERATED = {"nvidia.com/gpu", "kubernetes.io/arch", "cloud.google.com/gke-spot", "cloud.google.com/gke-queued"}
BESIDE = {"ResourceClaimTemplate", "ComputeDomain"}
RESOURCES = {name for machine in options.machines().values() for name in machine.get("resources", {})}
CLAIMS = {"nvlink", *(name for machine in options.machines().values() for name in machine.get("claims", {}))}
ANNOTATIONS = {name for machine in options.machines().values() for name in machine.get("annotations", {})}
MACHINES = [(profile, mode) for profile in PROFILES for mode in options.modes(profile)]
# A row says all but who brings the wiring; rows that differ in nothing else are one.
ROWS = [
    dict(row) for row in dict.fromkeys(tuple((k, v) for k, v in row.items() if k != "wiring") for row in options.rows())
]


def both(render: Render, layer: str, values: dict[str, Any], **options_: Any) -> tuple[list[Object], list[Object]]:
    """Render one layer with wiring, and without."""
    return render(layer, values, **options_), render(layer, options.merge(values, OFF), **options_)


def templates(item: Object) -> dict[str, Object]:
    """Return the pod templates of a RayCluster or a RayJob by the names of their groups."""
    spec = item.get("spec", {}).get("rayClusterSpec", item.get("spec", {}))
    if item["kind"] not in ("RayCluster", "RayJob") or "headGroupSpec" not in spec:
        return {}
    return {"head": spec["headGroupSpec"]["template"]} | {
        group["groupName"]: group["template"] for group in spec["workerGroupSpecs"]
    }


def take(holder: Object, field: str, wired: Wired, *, keep_empty: bool = True) -> list[Any]:
    """Take the wired items out of a list and return them; they stand in front of all others."""
    items = holder.get(field, [])
    taken = [item for item in items if wired(item)]
    assert items[: len(taken)] == taken, f"{field}: the wiring is not in front: {items}"
    if field in holder:
        holder[field] = items[len(taken) :]
        if not holder[field] and not keep_empty:
            del holder[field]
    return taken


def without(template: Object) -> Object:
    """Return a pod template without what the post-renderer brings."""
    template = copy.deepcopy(template)
    metadata, spec = template["metadata"], template["spec"]
    ray = spec["containers"][0]
    # The head of task fetch has the token of an offline stack from the chart, whoever wires the pods.
    is_offline = any(item["name"] == "HF_HUB_OFFLINE" for item in ray.get("env", []))
    take(ray, "env", lambda item: item["name"] in VARIABLES and not (is_offline and item["name"] == "HF_TOKEN"))
    for holder, field in ((ray, "volumeMounts"), (spec, "volumes")):
        take(holder, field, lambda item: item["name"] == "shared-memory" or item["name"].startswith(("host-", "file-")))
    take(spec, "initContainers", lambda item: item["name"] == "check-node", keep_empty=False)
    take(spec, "tolerations", lambda item: item["key"] in TOLERATED, keep_empty=False)
    for holder, field in ((spec, "resourceClaims"), (ray["resources"], "claims")):
        take(holder, field, lambda item: item["name"] in CLAIMS, keep_empty=False)
    for kind in ("requests", "limits"):
        ray["resources"][kind] = {k: v for k, v in ray["resources"][kind].items() if k not in RESOURCES}
    for holder, field, wired in (
        (metadata, "annotations", lambda key: key.startswith("networking.gke.io/") or key in ANNOTATIONS),
        (spec, "nodeSelector", lambda key: key != "cloud.google.com/compute-class"),
    ):
        kept = {key: value for key, value in holder.pop(field, {}).items() if not wired(key)}
        if kept:
            holder[field] = kept
    return template


def strip(item: Object) -> Object:
    """Return an object with its pod templates stripped of the wiring."""
    item = copy.deepcopy(item)
    spec = item.get("spec", {}).get("rayClusterSpec", item.get("spec", {}))
    if templates(item):
        for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
            group["template"] = without(group["template"])
    return item


@pytest.mark.parametrize("row", thin(ROWS, 48), ids=options.label)
def test_disabling_the_wiring_changes_nothing_else(row: options.Row, render: Render) -> None:
    """Take the wiring out of what the charts render, and it is what they render without; every object is valid."""
    for layer in options.layers(row):
        on, off = both(render, layer, options.values(row), accelerator=row["accelerator"])
        assert off == [strip(item) for item in on if item["kind"] not in BESIDE]


def test_lists_with_wiring_only_become_empty_lists_rather_than_null(render: Render) -> None:
    """What is empty without it is an empty list: a null would be no place to insert at."""
    values = {"storage": {"data": None}, "huggingface": {"cache": {"volume": ""}}}
    on, off = both(render, "raycluster", values)
    assert off == [strip(item) for item in on]
    worker = templates(by_kind(off, "RayCluster"))["gpu"]["spec"]
    assert worker["containers"][0]["env"] == worker["containers"][0]["volumeMounts"] == worker["volumes"] == []


@pytest.mark.parametrize(
    ("values", "looks"),
    [
        ({}, True),
        ({"network": {"mode": "none"}}, True),
        ({"images": {"training": {"minimumDriver": 0}}}, True),
        ({"network": {"mode": "none"}, "images": {"training": {"minimumDriver": 0}}}, False),
    ],
)
def test_the_node_check_runs_only_where_there_is_something_to_check(
    values: dict[str, Any], looks: bool, render: Render, render_text: RenderText
) -> None:
    """Files of the RDMA plugin, the driver's version, or nothing: then no container is started."""
    containers = templates(by_kind(render("raycluster", values), "RayCluster"))["gpu"]["spec"].get("initContainers", [])
    assert [container["name"] for container in containers] == ["check-node"] * looks
    assert all("" not in container["args"][0].split("\n") for container in containers)
    assert ("check-node" in (render_text("raycluster", values).notes or "")) is looks


@pytest.mark.parametrize(("profile", "mode"), thin(MACHINES, 32))
def test_with_wiring_off_no_pod_of_any_machine_has_any(profile: str, mode: str, render: Render) -> None:
    """Every machine in every network that it can have, head with GPUs or not, cluster of its own or not."""
    values = options.merge(options.alone(profile, mode), {**OFF, "tracking": {"wandb": {"enabled": True}}})
    trains = profile != "cpu"
    heads = [{}, options.FACTORS["head"]["gpus"]] if trains else [{}]
    layers = ["raycluster", "grpo-job"] if trains else ["raycluster"]
    for head in heads:
        for layer in layers:
            own = options.merge(values, {**head, "job": {"cluster": {"mode": "ephemeral"}}})
            objects = render(layer, own, accelerator=profile)
            assert not BESIDE & {item["kind"] for item in objects}
            found = [template for item in objects for template in templates(item).values()]
            assert len(found) == 2
            assert found == [without(template) for template in found]


def test_the_wiring_comes_first_and_in_order(render: Render) -> None:
    """The order in which the post-renderer inserts; ours that is no wiring follows, and then the user's."""
    values = {
        "tracking": {"wandb": {"enabled": True}},
        "accelerator": {"nccl": {"env": {"NCCL_DEBUG": "INFO"}}},
        "ray": {
            "env": {"A": {"value": "1"}},
            "workers": {"podSpec": {"tolerations": [{"key": "theirs", "operator": "Exists"}]}},
        },
    }
    head, worker = templates(by_kind(render("raycluster", values), "RayCluster")).values()
    shared = ["LD_LIBRARY_PATH", "HF_TOKEN", "WANDB_API_KEY"]
    names = [entry["name"] for entry in worker["spec"]["containers"][0]["env"]]
    assert names == [*shared, *NCCL, "NCCL_DEBUG", "HF_HOME", "A"]
    names = [entry["name"] for entry in head["spec"]["containers"][0]["env"]]
    assert names == [*shared, "HF_HOME", "A", "GRPO_CLUSTER_FACTS", "RAY_JOB_STOP_WAIT_TIME_S", "RAY_AUTH_MODE"]
    ray = worker["spec"]["containers"][0]
    assert [mount["name"] for mount in ray["volumeMounts"]] == ["host-gib", "host-nvidia", "shared-memory", "data"]
    assert [volume["name"] for volume in worker["spec"]["volumes"]] == [
        "shared-memory",
        "host-gib",
        "host-nvidia",
        "data",
    ]
    assert [entry["key"] for entry in worker["spec"]["tolerations"]] == ["nvidia.com/gpu", "theirs"]


@pytest.mark.parametrize("mode", thin(["existing", "ephemeral"], 2))
@pytest.mark.parametrize("task", ["train", "fetch"])
def test_the_lock_is_the_same_with_and_without_wiring(task: str, mode: str, render: Render) -> None:
    """Its ConfigMap is immutable: who switches from one applier to the other keeps the run that is there."""
    on, off = both(render, "grpo-job", {"job": {"task": task, "cluster": {"mode": mode}}})
    assert by_kind(off, "ConfigMap") == by_kind(on, "ConfigMap")
    lock = by_kind(off, "ConfigMap")["data"]
    locked = yaml.safe_load(lock["spec.yaml"])
    beginning = locked.pop("entrypoint").partition("GRPO_PROGRAMS")[0].replace("(sha256 of the spec in the lock)", "")
    wired = {key: value for key, value in copy.deepcopy(by_kind(on, "RayJob")["spec"]).items() if key != "entrypoint"}
    cluster = wired.get("rayClusterSpec") or {}
    for group in (cluster.get("headGroupSpec"), *(cluster.get("workerGroupSpecs") or [])):
        # Programs, as those of the entrypoint are.
        pod = group["template"]["spec"] if group else {"containers": [{"lifecycle": {}}]}
        pod["containers"][0].pop("lifecycle")
        for each in pod.get("initContainers", []):
            del each["args"]
    assert locked == wired
    job = by_kind(off, "RayJob")["spec"]
    assert job["entrypoint"] == by_kind(on, "RayJob")["spec"]["entrypoint"]
    assert f'"digest": "{lock["digest"]}"' in job["entrypoint"]
    # The title is a comment for people.
    title, _, rest = job["entrypoint"].partition("\n")
    assert title.startswith("# ")
    assert rest.partition("GRPO_PROGRAMS")[0].replace(lock["digest"], "") == beginning
    assert (job == by_kind(on, "RayJob")["spec"]) is (mode == "existing")


@pytest.mark.parametrize(
    ("task", "head", "expected"),
    [("train", False, True), ("evaluate", False, True), ("fetch", False, False), ("fetch", True, True)],
)
def test_claims_are_rendered_only_for_pods_that_use_them(task: str, head: bool, expected: bool, render: Render) -> None:
    """A task on the head's CPUs brings a cluster without a GPU node, and evaluation one node."""
    values = {
        "network": {"mode": "dranet"},
        "images": {"training": {"arm64": True}},
        "job": {"task": task, "cluster": {"mode": "ephemeral"}},
        "ray": {"head": {"gpus": {"enabled": head}}},
    }
    objects = render("grpo-job", values, accelerator="gb200")
    spec = by_kind(objects, "RayJob")["spec"]["rayClusterSpec"]
    claims = [template["spec"].get("resourceClaims", []) for template in templates(by_kind(objects, "RayJob")).values()]
    named = {claim["resourceClaimTemplateName"] for pod in claims for claim in pod}
    made = {item["metadata"]["name"]: item for item in objects if item["kind"] in BESIDE}
    assert named == set(made)
    assert bool(made) is expected
    for domain in (item for item in made.values() if item["kind"] == "ComputeDomain"):
        assert domain["spec"]["numNodes"] == sum(group["replicas"] for group in spec["workerGroupSpecs"]) + head


def test_the_cluster_facts_are_those_of_a_wired_cluster(render: Render) -> None:
    """A job with wiring runs on a cluster that was wired by the post-renderer."""
    facts = [
        next(entry["value"] for entry in head["spec"]["containers"][0]["env"] if entry["name"] == "GRPO_CLUSTER_FACTS")
        for objects in both(render, "raycluster", {})
        for head in [templates(by_kind(objects, "RayCluster"))["head"]]
    ]
    assert facts[0] == facts[1]
    assert "HF_TOKEN" in facts[1]
    assert "LD_LIBRARY_PATH" in facts[1]


@pytest.mark.parametrize(
    ("layer", "values", "said"),
    [
        ("raycluster", {}, True),
        ("grpo-job", {"job": {"cluster": {"mode": "ephemeral"}}}, True),
        ("grpo-job", {"job": {"cluster": {"mode": "existing"}}}, False),
        ("network", {}, False),
        ("storage", {}, False),
    ],
)
def test_the_notes_say_who_adds_the_wiring(
    layer: str, values: dict[str, Any], said: bool, render_text: RenderText
) -> None:
    """In one line, and only where there are pods to wire."""
    on = (render_text(layer, values).notes or "").splitlines()
    off = (render_text(layer, options.merge(values, OFF)).notes or "").splitlines()
    added = [line for line in off if line not in on]
    assert [line for line in off if line in on] == on
    assert len(added) == said
    assert all(f"release {layer} needs --post-renderer grpo-post-render" in line for line in added)


def workers(**fields: Any) -> dict[str, Any]:
    """Return values that lay something over the workers' pods."""
    return {"ray": {"workers": fields}}


@pytest.mark.parametrize("wiring", thin([{}, OFF], 2), ids=["on", "off"])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (workers(volumes={"shared-memory": {"emptyDir": {}}}), r"the pod already has a volume with that name"),
        (workers(volumes={"host-gib": {"emptyDir": {}}}), r"the pod already has a volume with that name"),
        (workers(mounts={"data": {"mountPath": "/dev/shm"}}), r"volume shared-memory is already mounted at /dev/shm"),
        (workers(initContainers={"check-node": {"image": "a:1"}}), r"the pod already has a container with that name"),
        (workers(env={"NCCL_NET": {"value": "x"}}), r"the charts set NCCL_NET themselves"),
        (workers(env={"LD_LIBRARY_PATH": {"value": "x"}}), r"the charts set LD_LIBRARY_PATH themselves"),
        (
            workers(annotations={"networking.gke.io/interfaces": "[]"}),
            r"gke\.io/interfaces: the charts set it themselves",
        ),
        (
            {"network": {"mode": "dranet"}, **workers(podSpec={"resourceClaims": [{"name": "rdma"}]})},
            r"the charts claim devices under the name rdma themselves",
        ),
        (
            {"network": {"mode": "dranet"}, "accelerator": {"interfaces": {"eth3": {"network": "rdma-0"}}}},
            r"accelerator\.interfaces\.eth3 joins network rdma-0, as eth2 does",
        ),
        (
            {"accelerator": {"nvlinkDomainNodes": 2}, **workers(replicas=3)},
            r"an NVLink domain of b200 has at most 2",
        ),
    ],
)
def test_the_charts_refuse_settings_that_clash_with_the_wiring(
    wiring: dict[str, Any], values: dict[str, Any], message: str, render_text: RenderText
) -> None:
    """At once, and not when somebody else brings it."""
    with pytest.raises(RenderError, match=message):
        render_text("raycluster", options.merge(values, wiring))


def test_user_settings_that_build_on_the_wiring_are_kept(render: Render) -> None:
    """A sidecar that reads the driver's folder, and a node selector that replaces ours."""
    selector = {"cloud.google.com/gke-accelerator": "nvidia-b300", "pool": "ours"}
    values = workers(
        podSpec={"nodeSelector": selector, "tolerations": []},
        sidecars={
            "exporter": {"image": "exporter:1", "volumeMounts": [{"name": "host-nvidia", "mountPath": "/nvidia"}]}
        },
    )
    on, off = (
        templates(by_kind(objects, "RayCluster"))["gpu"]["spec"] for objects in both(render, "raycluster", values)
    )
    assert on["nodeSelector"] == off["nodeSelector"] == selector
    assert on["containers"][1] == off["containers"][1]
    assert [entry["key"] for entry in on["tolerations"]] == ["nvidia.com/gpu"]
    assert off["tolerations"] == []
