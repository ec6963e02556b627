"""The charts' own wiring, and the charts without wiring behind the post-renderer, give the same objects."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Embedded
from grpo.helm.stack import Stack
from postrender import facts
from postrender.pipeline import Pipeline
from postrender.wiring import inputs
from postrender.wiring.apply import STAMP, Options
from postrender.wiring.plan import Wiring
from postrender.yaml import reader
from tests import options
from tests.conftest import PROFILES, ROOT, thin

OFF: dict[str, Any] = {"stack": {"wiring": {"enabled": False}}}
# A row says all but who brings the wiring; rows that differ in nothing else are one.
ROWS = [
    dict(row) for row in dict.fromkeys(tuple((k, v) for k, v in row.items() if k != "wiring") for row in options.rows())
]
MACHINES = [{"accelerator": profile, "network": mode} for profile in PROFILES for mode in options.modes(profile)]
NEW_CLOUD = ROOT / "tests/postrender/new-cloud.yaml"
# What a pod claims of it: each fact of the profile's claim in its place.
RING = {
    "requests": [
        {
            "name": "ring",
            "exactly": {
                "deviceClassName": "ring.acme.example",
                "allocationMode": "ExactCount",
                "count": 4,
                "selectors": [{"cel": {"expression": 'device.attributes["ring.acme.example"].up == true'}}],
            },
        }
    ],
    "constraints": [{"requests": ["ring"], "matchAttribute": "ring.acme.example/switch"}],
}
BASE = [str(ROOT / "values/recipes/gemma3-27b-gsm8k.yaml"), str(ROOT / "tests/site.yaml")]


def stacks(profile: Path, folder: Path, values: dict[str, Any]) -> tuple[Stack, Stack]:
    """Return a stack with wiring, and without."""
    found = []
    for name, more in (("on", {}), ("off", OFF)):
        file = folder / f"{name}.yaml"
        file.write_text(yaml.safe_dump(options.merge(values, more)), encoding="utf-8")
        found.append(Stack.load([str(profile), *BASE, str(file)]))
    return found[0], found[1]


def objects(data: bytes) -> dict[tuple[str, str], Any]:
    """Return objects by kind and name, without our stamp, which the charts do not need."""
    found = {}
    for item in reader.load_objects(data.decode(), "stream"):
        annotations = item["metadata"].get("annotations", {})
        annotations.pop(STAMP, None)
        if not annotations:
            item["metadata"].pop("annotations", None)
        found[(item["kind"], item["metadata"]["name"])] = item
    return found


def without_empty(value: Any) -> Any:
    """Return a value without lists that are empty: an API object without one is the same."""
    if isinstance(value, dict):
        return {key: without_empty(item) for key, item in value.items() if item != []}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def compare(row: dict[str, str], folder: Path, helm: Embedded, values: dict[str, Any] | None = None) -> int:
    """Compare a row of options, with values over it; return how many objects the post-renderer has changed or added."""
    profile = ROOT / f"values/accelerators/{row['accelerator']}.yaml"
    on, off = stacks(profile, folder, options.merge(options.values(row), values or {}))
    return compare_stacks(on, off, options.layers(row), helm)


def compare_stacks(on: Stack, off: Stack, layers: Iterable[str], helm: Embedded) -> int:
    """Render both ways and compare; return how many objects the post-renderer has changed or added."""
    wiring = Wiring(inputs.load(off.files))
    worked = 0
    for layer in layers:
        by_chart = objects(on.render(helm, layer).manifest.encode())
        unwired = off.render(helm, layer).manifest.encode()
        before = copy.deepcopy(objects(unwired))
        result = Pipeline(unwired, wiring, Options(), gate=True).run()
        assert [each.what for each in result.refusals] == []
        wired = b"".join(result.parts)
        after = objects(wired)
        assert after.keys() == by_chart.keys()
        for identity, item in by_chart.items():
            assert without_empty(after[identity]) == without_empty(item), identity
        again = Pipeline(wired, wiring, Options(), gate=True).run()
        assert b"".join(again.parts) == wired
        worked += sum(before.get(identity) != item for identity, item in after.items())
        # What the chart has wired needs nothing.
        whole = on.render(helm, layer).manifest.encode()
        assert b"".join(Pipeline(whole, wiring, Options(), gate=True).run().parts) == whole
    return worked


@pytest.mark.parametrize("row", thin(MACHINES, 32), ids=options.label)
def test_every_machine_and_mode_is_wired_like_the_charts(row: dict[str, str], tmp_path: Path, helm: Embedded) -> None:
    whole = options.complete({**row, "accelerator": options.shape(row["accelerator"])}, set())
    assert compare({**whole, **row}, tmp_path, helm) > 0


@pytest.mark.parametrize("mode", thin(["devices", "dranet", "none"], 3))
def test_a_machine_of_a_new_cloud_needs_only_one_profile_file(mode: str, tmp_path: Path, helm: Embedded) -> None:
    """Neither a template nor a program knows it: all that its pods have for GPUs and network comes from its profile."""
    values = {"network": {"mode": mode}, **options.instead(existingClaim={"name": "nfs"})}
    on, off = stacks(NEW_CLOUD, tmp_path, values)
    assert compare_stacks(on, off, on.layers(), helm) > 0
    found = objects(on.render(helm, "raycluster").manifest.encode())
    (cluster,) = (item for (kind, _), item in found.items() if kind == "RayCluster")
    pod = cluster["spec"]["workerGroupSpecs"][0]["template"]
    ray = pod["spec"]["containers"][0]
    assert pod["spec"]["nodeSelector"] == {"acme.example/machine": "x900.8"}
    tolerations = pod["spec"]["tolerations"]
    assert {"key": "acme.example/reserved", "operator": "Exists", "effect": "NoSchedule"} in tolerations
    team = {"key": "acme.example/team", "operator": "Equal", "value": "rl", "effect": "NoExecute"}
    assert team in tolerations
    network = (None, None) if mode == "none" else (True, "ClusterFirstWithHostNet")
    assert (pod["spec"].get("hostNetwork"), pod["spec"].get("dnsPolicy")) == network
    assert ray["resources"]["limits"].get("acme.example/fabric") == ("4" if mode == "devices" else None)
    assert bool(pod["spec"].get("resourceClaims")) == (mode == "dranet")
    templates = [
        item["spec"]["spec"]["devices"] for (kind, _), item in found.items() if kind == "ResourceClaimTemplate"
    ]
    assert templates == ([RING] if mode == "dranet" else [])
    assert pod["metadata"]["annotations"].get("acme.example/rail") == (None if mode == "none" else "all")
    assert any(each["mountPath"] == "/etc/acme/topology.xml" for each in ray["volumeMounts"]) == (mode != "none")
    assert {"name": "NCCL_IB_HCA", "value": "acme"} in ray["env"]


@pytest.mark.parametrize(
    ("kind", "capacity"),
    thin(
        [
            ("gke-autopilot", "reservation"),
            ("gke-standard", "spot"),
            ("gke-standard", "flex-start"),
            ("gke-standard", "queued"),
        ],
        4,
    ),
)
def test_platform_keys_are_configurable_values(kind: str, capacity: str, tmp_path: Path, helm: Embedded) -> None:
    """With other keys no pod has one of the charts' defaults, whoever wires it."""
    keys = facts.load("wiring.json")["default"]["platform"]["keys"]
    other = {"platform": {"keys": {key: f"acme.example/{key}" for key in keys}}}
    chosen = {"accelerator": "b200", "platform": kind, "network": "multiNetwork", "capacity": capacity}
    row = options.complete(chosen, set())
    assert compare(row, tmp_path, helm, other) > 0
    wired = Stack.load([str(ROOT / "values/accelerators/b200.yaml"), *BASE, str(tmp_path / "on.yaml")])
    text = wired.render(helm, "raycluster").manifest
    assert "acme.example/" in text
    assert [key for key, default in keys.items() if default in text] == []


@pytest.mark.parametrize("row", thin(ROWS, len(ROWS)), ids=options.label)
def test_every_pair_of_options_is_wired_like_the_charts(row: dict[str, str], tmp_path: Path, helm: Embedded) -> None:
    compare(row, tmp_path, helm)


def test_a_host_folder_nested_in_another_is_checked_once(tmp_path: Path, helm: Embedded) -> None:
    paths = {name: {"hostPath": f"/home/{name}", "mountPath": f"/usr/local/{name}"} for name in ("gib", "gib/more")}
    host_paths = {name.replace("/", "-"): path for name, path in paths.items()}
    values = {"accelerator": {"hostPaths": host_paths, "libraryPath": "/usr/local/gib/more/lib:/usr/local/gib/lib64"}}
    row = next(row for row in ROWS if row["accelerator"] == "b200" and row["network"] == "multiNetwork")
    assert compare(row, tmp_path, helm, values) > 0
