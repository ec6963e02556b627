"""The values contract: every key counts, every typo fails, nothing depends on anything but the values."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from grpo.generate import sources
from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests import options
from tests.charts import shapes
from tests.conftest import ACCELERATORS, LAYERS, RECIPES, ROOT, Render, by_kind, stack_files, thin

RenderText = Callable[..., Rendered]

POD: dict[str, Any] = {
    "labels": {"a": "b"},
    "annotations": {"c": "d"},
    "podSpec": {"priorityClassName": "high"},
}
VARIABLES: dict[str, dict[str, Any]] = {
    part: {f"{part}_PLAIN": {"value": "1"}, f"{part}_HIDDEN": {"secret": {"name": "keys", "key": "one"}}}
    for part in ("ALL", "HEAD", "WORKERS")
}
# Every optional part of the contract in use, so that the walk below meets each leaf.
EVERYTHING: dict[str, Any] = {
    "stack": {"labels": {"team": "rl"}, "names": {"cluster": "", "serviceAccount": ""}, "wiring": {"enabled": True}},
    "network": {"rdma": {"subnets": {"rdma-3": "special"}}, "rdmaInstaller": {"enabled": True}},
    "storage": {
        "lustre": {
            "mountPath": "/lustre",
            "existingClaim": {"name": "lustre-pvc", "gcsfuse": {"enabled": True, "fileCache": "1Gi"}},
        },
        "local": {"mountPath": "/local", "ephemeral": {"size": "10Gi"}},
        "instance": {
            "mountPath": "/instance",
            "lustre": {
                "project": "other-one",
                "location": "us-central1-a",
                "instance": "fast",
                "ip": "10.1.2.3",
                "filesystem": "lfs",
                "size": "18000Gi",
            },
        },
        "class": {
            "mountPath": "/class",
            "pvc": {
                "storageClassName": "lustre",
                "size": "72000Gi",
                "lustre": {
                    "perUnitStorageThroughput": "500",
                    "network": "projects/p/global/networks/v",
                    "zone": "us-central1-a",
                },
            },
        },
        "scratch": {
            "mountPath": "/scratch",
            "pvc": {"storageClassName": "fast", "size": "100Gi", "accessMode": "ReadWriteMany"},
        },
        "data": {
            "gcsfuse": {
                "fileCache": "10Gi",
                "storageClassName": "gcsfusecsi-training",
                "mountOptions": {"uid": "1000"},
                "volumeAttributes": {"multiNICIndex": "1"},
            }
        },
    },
    # Versions before v0.7.0 need a CPU on the head.
    "ray": {
        "env": VARIABLES["ALL"],
        "networkPolicy": {
            "operatorNamespace": "kuberay",
            "egress": {
                "enabled": True,
                "allow": {"proxy": {"cidr": "10.0.0.5/32", "port": 3128}, "mlflow": {"namespace": "tracking"}},
            },
        },
        "logs": {"fluentBit": {"enabled": True}},
        "metrics": {"scrape": "podMonitor"},
        "kueue": {"queue": "gpus", "priorityClass": "high", "topology": {"required": "a/b"}},
        "head": {"numCpus": 1, "env": VARIABLES["HEAD"], **POD},
        "workers": {"env": VARIABLES["WORKERS"], **POD},
    },
    "tracking": {
        "wandb": {"enabled": True},
        "mlflow": {"enabled": True, "trackingUri": "http://mlflow:5000"},
        "tensorboard": {"server": {"enabled": True}},
    },
    "platform": {"pricePerGpuHour": 5.5},
    "job": {
        "stepTimes": {"b200": {"seconds": 92.2, "nodes": 2, "source": "ours", "model": "google/gemma-3-27b-it"}},
        "configFor": {"b200": {"grpo": {"seed": 7}}},
        "guard": {"stopOn": {"not-a-number": {"steps": 2}}},
        "env": {"SAME": {"value": "1"}},
        "stage": True,
        "fetch": {"models": {"a/b": {"revision": "main"}}, "datasets": {"a/b": {"revision": "main"}}},
        "prepareData": {
            "gsm8k": {"repository": "openai/gsm8k", "subset": "main", "question": "question", "answer": "answer"}
        },
        "code": {
            "packages": {"verl": "0.7.1"},
            "repository": "https://github.com/verl-project/verl",
            "revision": "0" * 40,
        },
        "evaluate": {
            "vllmKwargs": {"block_size": 32},
            "benchmarks": {
                "math500": {"temperature": 0.5, "topP": 0.5, "maxNewTokens": 100, "samples": 2, "seed": 42},
            },
        },
        "rewards": {
            "right": {"weight": 1, "kwargs": {"markers": ["boxed"]}, "builtin": "exact_answer"},
            "own": {"file": "def reward(truth, response):\n    return 0.0, None\n"},
        },
        "prompts": {"tags": "Answer {}"},
    },
    "checks": {"ignore": {"some/rule": "canary"}},
}

# What else must be so for a key to count.
NOT_GOOGLE = {
    "storage": {
        "data": {"gcsfuse": None, "existingClaim": {"name": "nfs"}},
        "lustre": None,
        "instance": None,
        "class": None,
    },
    "network": {"mode": "none", "rdmaInstaller": {"enabled": False}},
}
AUTOPILOT: dict[str, Any] = {
    "platform": {
        "kind": "gke-autopilot",
        "capacity": {"kind": "reservation", "reservation": "one", "placementPolicy": "near"},
    },
    "network": {"rdmaInstaller": {"enabled": False}},
    "storage": {"local": None, "data": {"gcsfuse": {"fileCache": None}}},
    "ray": {"head": {"cpu": "40", "ephemeralStorage": "3Gi"}},
}
THREE = {"ray": {"workers": {"replicas": 3}}}
SITUATIONS: dict[shapes.Path_, dict[str, Any]] = {
    ("platform", "kind"): NOT_GOOGLE,
    ("platform", "capacity", "reservation"): {"platform": {"capacity": {"kind": "reservation", "reservation": "one"}}},
    ("platform", "capacity", "maxRunDurationSeconds"): {"platform": {"capacity": {"kind": "queued"}}},
    **{
        ("platform", "keys", key): {"platform": {"capacity": {"kind": kind}}}
        for key, kind in (("spot", "spot"), ("flexStart", "flex-start"), ("queued", "queued"))
    },
    **{
        ("platform", "keys", key): AUTOPILOT
        for key in (
            *("reservation", "reservationAffinity", "placementPolicy", "placementGroup"),
            *("driverVersion", "computeClass"),
        )
    },
    ("ray", "kueue", "topology", "preferred"): {"ray": {"kueue": {"topology": {"required": ""}}}},
    ("job", "nodes"): THREE,
    ("accelerator", "refuses", "kubernetes"): {"platform": {"kind": "kubernetes"}},
    **{
        ("accelerator", "claims", "rdma", *key): {"network": {"mode": "dranet"}}
        for key in (("deviceClass",), ("count",), ("nodeSelector", "gke.networks.io/accelerator-network-profile"))
    },
    **{
        ("job", "configFor", version): {"images": {"training": {"tag": version}}, "job": {"version": version}}
        for version in ("v0.4.0", "v0.5.0")
    },
    ("storage", "data", "gcsfuse", "purpose"): {
        "storage": {"data": {"gcsfuse": {"mountOptions": {"metadata-cache:ttl-secs": "0", "rename-dir-limit": "1"}}}}
    },
    # One pod alone may have a volume to itself.
    ("storage", "scratch", "pvc", "accessMode"): {
        "ray": {"head": {"gpus": {"enabled": True}}, "workers": {"replicas": 0}},
        "tracking": {"tensorboard": {"server": {"enabled": False}}},
    },
    ("storage", "lustre", "existingClaim", "name"): THREE,
    ("storage", "lustre", "existingClaim", "gcsfuse", "enabled"): {
        "storage": {"data": {"gcsfuse": None, "existingClaim": {"name": "nfs"}}}
    },
}

# Parts of the job that count for one task only.
TASKS = {
    "step": "convert",
    "convert": "convert",
    "fetch": "fetch",
    "prepareData": "prepare-data",
    "evaluate": "evaluate",
    "clean": "clean",
}

# Their only effect by themselves is a refusal: test_a_framework_and_a_version_that_do_not_match_are_refused.
REFUSES = {("images", "training", "arm64"), ("job", "framework"), ("job", "version")}

CANDIDATES = [
    "scratch",
    "17",
    "65Gi",
    "101Gi",
    "144000Gi",
    "10.1.2.4",
    "europe-west4-b",
    "projects/p/global/networks/w",
    "http://other:5000",
    "a/c",
    "sha256:" + "a" * 64,
    "2.55.2",
    "/other",
    "eth7",
    "rdma-5",
    "a-b",
    "1",
    "0.8.0",
    "f" * 40,
    "https://github.com/other/other",
    "best",
]


def everything() -> dict[str, Any]:
    values: dict[str, Any] = {}
    defaults = [ROOT / f"charts/{layer}/values.yaml" for layer in LAYERS]
    for file in [*defaults, *stack_files()]:
        values = shapes.merge(values, yaml.safe_load(file.read_text(encoding="utf-8")))
    return shapes.merge(values, EVERYTHING)


@cache
def schema_of(layer: str) -> shapes.Schema:
    return shapes.load_schema(ROOT / "charts" / layer)


@cache
def validator_of(layer: str) -> jsonschema_rs.Draft7Validator:
    return jsonschema_rs.Draft7Validator(schema_of(layer))


def mutations(node: shapes.Schema, value: Any) -> list[Any]:
    """Return values that differ from the given one; the schema chooses among them."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, value // 2]
    if isinstance(value, float):
        return [value / 2, value * 2]
    if isinstance(value, str):
        choices = node.get("enum") or node.get("else", {}).get("enum") or []
        return [choice for choice in [*choices, value + "x", value + "1", *CANDIDATES] if choice != value]
    kubernetes = [{"hostNetwork": True}, {"emptyDir": {}}, {"name": "data", "mountPath": "/m"}, {"image": "a:1"}]
    return [
        *({"moved": "x"}, {"b200": {"moved": 1}}, {"rdma-5": "moved"}),
        *({"NCCL_DEBUG": "INFO"}, {"spot": "no"}, {"privileged": True}),
        *kubernetes,
        *({"moved": entry} for entry in kubernetes),
    ]


def leaf_paths() -> list[shapes.Path_]:
    return [
        path
        for path, _, _ in shapes.leaves(schema_of("grpo-job"), everything())
        if path[0] != "checks" and path not in REFUSES
    ]


def output(render_text: RenderText, layer: str, values: dict[str, Any]) -> tuple[str, str | None]:
    """Return what one layer prints: its manifest and its notes."""
    rendered = render_text(layer, values, files=[])
    return rendered.manifest, rendered.notes


def readers(path: shapes.Path_) -> list[str]:
    """Return the layers, those that read the section of a path first: they show a change soonest."""
    return sorted(LAYERS, key=lambda layer: path[0] not in READS.get(layer, {path[0]}))


@pytest.mark.parametrize("path", thin([(each,) for each in leaf_paths()], 80), ids=".".join)
def test_every_key_changes_the_output(path: shapes.Path_, render_text: RenderText) -> None:
    """Changing a leaf changes what at least one chart renders or says."""
    values = everything()
    if path[:2] == ("accelerator", "interfaces"):
        # A subnet that is named for this network would be refused without it.
        values["network"]["rdma"]["subnets"] = {}
    values = shapes.merge(values, SITUATIONS.get(path, {}))
    if path[0] == "job" and path[1] in TASKS:
        values["job"]["task"] = TASKS[path[1]]
    if values["job"]["version"] == "v0.4.0":
        # It has no registry in which a reward could be put.
        values["job"]["rewards"] = {}
    validator = validator_of("grpo-job")
    node = next(node for at, node, _ in shapes.leaves(schema_of("grpo-job"), values) if at == path)
    valid = [
        shapes.merge(values, shapes.nested(path, value))
        for value in mutations(node, shapes.lookup(values, path))
        if validator.is_valid(shapes.merge(values, shapes.nested(path, value)))
    ]
    assert valid, f"no second valid value was found for {path}"
    assert any(differs(render_text, layer, values, changed) for changed in valid for layer in readers(path)), (
        f"{path} moves nothing"
    )


def differs(render_text: RenderText, layer: str, values: dict[str, Any], changed: dict[str, Any]) -> bool:
    try:
        before = output(render_text, layer, values)
    except RenderError as refusal:
        # A reason is read in a refusal.
        with pytest.raises(RenderError) as other:
            output(render_text, layer, changed)
        return str(other.value) != str(refusal)
    try:
        return output(render_text, layer, changed) != before
    except RenderError:
        # The value breaks another rule (a volume of that name is missing); another value must show the effect.
        return False


def object_paths() -> list[tuple[str, shapes.Path_]]:
    return [(layer, path) for layer in LAYERS for path in sorted(set(shapes.objects(schema_of(layer), everything())))]


LEVELS = pytest.mark.parametrize(
    ("layer", "path"), thin(object_paths(), 8), ids=lambda part: part if isinstance(part, str) else ".".join(part)
)


@LEVELS
def test_the_schema_refuses_a_misspelt_key_at_every_level(layer: str, path: shapes.Path_) -> None:
    """The schema of every chart refuses an unknown key of every section and names it."""
    values = shapes.merge(everything(), shapes.nested((*path, "mispelt"), "x"))
    assert "mispelt" in "\n".join(error.message for error in validator_of(layer).iter_errors(values))


@pytest.mark.full
@LEVELS
def test_helm_refuses_a_misspelt_key_at_every_level(layer: str, path: shapes.Path_, render_text: RenderText) -> None:
    values = shapes.merge(everything(), shapes.nested((*path, "mispelt"), "x"))
    with pytest.raises(RenderError, match="mispelt"):
        render_text(layer, values, files=[])


@pytest.mark.parametrize("layer", LAYERS)
def test_a_values_prefix_on_a_key_is_refused(layer: str, render_text: RenderText) -> None:
    """What --set values.ray.workers.replicas=4 gives is refused by every chart."""
    with pytest.raises(RenderError, match="'values'"):
        render_text(layer, {"values": {"ray": {"workers": {"replicas": 4}}}})


@pytest.mark.parametrize("layer", LAYERS)
def test_no_chart_renders_without_a_profile(layer: str, render_text: RenderText) -> None:
    """One sentence names the missing file."""
    with pytest.raises(RenderError, match=r"no accelerator profile: add -f values/accelerators/NAME\.yaml"):
        render_text(layer, files=stack_files()[1:])


@pytest.mark.parametrize("layer", thin(LAYERS, 4))
@pytest.mark.parametrize(
    "path",
    [
        ("huggingface", "secret", "name"),
        ("stack", "name"),
        ("job", "config", "logger", "key"),
        ("images", "training", "tag"),
        ("ray", "head", "annotations", "x"),
    ],
    ids=".".join,
)
def test_a_token_is_refused_and_never_printed(layer: str, path: shapes.Path_, render_text: RenderText) -> None:
    """Helm's message has the place of a token and not one part of it."""
    token = "hf_" + "Zq9" * 12
    with pytest.raises(RenderError) as caught:
        render_text(layer, shapes.nested(path, token))
    assert "Zq9" not in str(caught.value)
    assert path[-1] in str(caught.value)


@pytest.mark.parametrize("key", ["n", "y", "on", "off", "no", "yes"])
def test_an_unquoted_boolean_key_fails_loudly(key: str, render_text: RenderText, tmp_path: Path) -> None:
    """Helm reads verl's `n` as false; the chart says so instead of rendering it."""
    file = tmp_path / "n.yaml"
    file.write_text(f"job:\n  config:\n    rollout:\n      {key}: 8\n", encoding="utf-8")
    with pytest.raises(RenderError, match=r"job\.config\.rollout\.(true|false).*in quotes"):
        render_text("grpo-job", files=[*stack_files(), file])


def test_a_quoted_n_key_reaches_the_config(render: Render, tmp_path: Path) -> None:
    """The quoted key reaches the framework's configuration under its own name."""
    file = tmp_path / "n.yaml"
    file.write_text('job:\n  config:\n    rollout:\n      "n": 8\n', encoding="utf-8")
    job = next(item for item in render("grpo-job", files=[*stack_files(), file]) if item["kind"] == "RayJob")
    assert '"rollout": {\n      "n": 8\n    }' in job["spec"]["entrypoint"]


@pytest.mark.parametrize(
    ("layer", "values", "gone"),
    [
        ("network", {"accelerator": {"interfaces": {"eth1": None}}}, "gvnic-1"),
        ("raycluster", {"accelerator": {"interfaces": {"eth9": None}}}, "rdma-7"),
        ("raycluster", {"accelerator": {"hostPaths": {"gib": None}}}, "/home/kubernetes/bin/gib"),
        ("storage", {"storage": {"data": {"gcsfuse": {"mountOptions": {"implicit-dirs": None}}}}}, "implicit-dirs"),
        ("raycluster", {"storage": {"scratch": None}}, "/scratch"),
    ],
)
def test_null_deletes_a_map_entry(
    layer: str, values: dict[str, Any], gone: str, render_text: RenderText, tmp_path: Path
) -> None:
    """A later file takes one entry of a map away."""
    extra = {"storage": {"scratch": {"mountPath": "/scratch", "existingClaim": {"name": "scratch"}}}}
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(yaml.safe_dump(extra), encoding="utf-8")
    second.write_text(yaml.safe_dump(values), encoding="utf-8")
    assert gone in render_text(layer, files=[*stack_files(), first]).manifest
    assert gone not in render_text(layer, files=[*stack_files(), first, second]).manifest


def default_paths(layer: str) -> list[shapes.Path_]:
    """Return the paths of every default of a layer's schema, and of the sections above them."""
    leaves = defaults_of(schema_of(layer), schema_of(layer))
    return sorted({leaf[:depth] for leaf in leaves for depth in range(1, len(leaf) + 1)})


@pytest.mark.parametrize("layer", LAYERS)
def test_the_schema_does_not_let_null_remove_a_default(layer: str) -> None:
    """A template would read the gap as 0, as false or as nothing; the schema refuses the null itself."""
    values: dict[str, Any] = yaml.safe_load((ROOT / f"charts/{layer}/values.yaml").read_text(encoding="utf-8"))
    for file in stack_files():
        values = shapes.merge(values, yaml.safe_load(file.read_text(encoding="utf-8")))
    assert validator_of(layer).is_valid(values)
    for path in default_paths(layer):
        where = {
            tuple(error.instance_path)
            for error in validator_of(layer).iter_errors(shapes.merge(values, shapes.nested(path, None)))
        }
        assert path in where, path


@pytest.mark.full
@pytest.mark.parametrize("layer", LAYERS)
def test_helm_does_not_let_null_remove_a_default(layer: str, render_text: RenderText, tmp_path: Path) -> None:
    """Helm deletes a default where a file says null, before it asks the schema; its message names the key."""
    accepted = []
    file = tmp_path / "null.yaml"
    for path in default_paths(layer):
        file.write_text(yaml.safe_dump(shapes.nested(path, None)), encoding="utf-8")
        try:
            render_text(layer, files=[*stack_files(), file])
            accepted.append(".".join(path))
        except RenderError as error:
            assert path[-1] in str(error), path
    assert not accepted


@pytest.mark.parametrize("layer", thin(LAYERS, 4))
def test_overlay_keys_must_be_known_profiles_and_versions(layer: str, render_text: RenderText) -> None:
    """A misspelt machine or version would lose its overlay silently."""
    machines = {machine["name"] for machine in options.machines().values()}
    folders = (ROOT / "schemas/catalogues" / framework for framework in ("nemo-rl", "verl"))
    known = [*machines, *(version for folder in folders for version in sources.versions(folder))]
    render_text(layer, {"job": {"configFor": {name: {} for name in known}}})
    for name in ("v0.5", "v0.3.0", "0.5.0", "v0x5.0"):
        with pytest.raises(RenderError, match=f"{re.escape(name)}'"):
            render_text(layer, {"job": {"configFor": {name: {"grpo": {"seed": 1}}}}})
    with pytest.raises(RenderError, match=r"job\.configFor\.h20: no accelerator profile has this name\. .*: b200, "):
        render_text(layer, {"job": {"configFor": {"h20": {"grpo": {"seed": 1}}}}})


def test_a_custom_profile_can_have_an_overlay(render_text: RenderText) -> None:
    values = {"accelerator": {"name": "our-b200"}, "job": {"configFor": {"our-b200": {"grpo": {"seed": 77}}}}}
    assert '"seed": 77' in render_text("grpo-job", values).manifest


def test_a_token_used_as_a_config_key_is_not_printed(render_text: RenderText) -> None:
    """Below job.config every key is allowed, and would be stored in the release."""
    with pytest.raises(RenderError, match=r"a key below job\.config\.env looks like a token") as caught:
        render_text("grpo-job", {"job": {"config": {"env": {"hf_" + "Zq9" * 12: 1}}}})
    assert "Zq9" not in str(caught.value)


def pod_templates(item: Any) -> list[Any]:
    """Return every pod template below an object."""
    if isinstance(item, dict):
        here = [item["template"]] if "template" in item else []
        return here + [found for value in item.values() for found in pod_templates(value)]
    return [found for value in item for found in pod_templates(value)] if isinstance(item, list) else []


@pytest.mark.parametrize("mode", thin(["existing", "ephemeral"], 2))
@pytest.mark.parametrize("layer", ["raycluster", "grpo-job"])
def test_a_chart_bump_recreates_nothing(layer: str, mode: str, render: Render, tmp_path: Path) -> None:
    """Another chart version leaves pod templates and specs byte-identical, but for the version of the programs."""
    bumped = tmp_path / layer
    shutil.copytree(ROOT / "charts" / layer, bumped)
    for file in (bumped / "Chart.yaml", bumped / "charts/common/Chart.yaml"):
        file.write_text(file.read_text(encoding="utf-8").replace("version: 0.1.0", "version: 9.9.9"), encoding="utf-8")
    values = {"job": {"cluster": {"mode": mode}}}
    before, after = render(layer, values), render(layer, values, chart=bumped)
    specs = [json.dumps(item.get("spec", item.get("data"))) for item in after]
    named = [text.replace("'grpo-job 9.9.9, sha256 ", "'grpo-job 0.1.0, sha256 ") for text in specs]
    assert named == [json.dumps(item.get("spec", item.get("data"))) for item in before]
    moved = [item["kind"] for item, text in zip(after, specs, strict=True) if text not in named]
    assert moved == (["RayJob"] if layer == "grpo-job" else [])
    assert json.dumps(pod_templates(before)) == json.dumps(pod_templates(after))
    assert all("9.9.9" in item["metadata"]["labels"]["helm.sh/chart"] for item in after)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_stack_label_changes_metadata_only(layer: str, render: Render) -> None:
    """stack.labels moves no spec and no pod template."""
    before, after = render(layer), render(layer, {"stack": {"labels": {"team": "rl"}}})
    assert [item.get("spec", item.get("data")) for item in before] == [
        item.get("spec", item.get("data")) for item in after
    ]
    assert all(item["metadata"]["labels"]["team"] == "rl" for item in after)


@pytest.mark.usefixtures("unshared_helm")
@pytest.mark.parametrize("layer", LAYERS)
def test_two_renders_are_byte_identical(layer: str, render_text: RenderText) -> None:
    """Nothing random and no clock reaches the manifests."""
    assert render_text(layer).manifest == render_text(layer).manifest


@pytest.mark.parametrize("recipe", thin(RECIPES, 12))
@pytest.mark.parametrize("accelerator", thin(ACCELERATORS, 2))
def test_profiles_and_recipes_commute(accelerator: str, recipe: str, render_text: RenderText) -> None:
    """No leaf is set by both kinds, so their order does not matter."""
    profile, chosen, site = stack_files(accelerator, recipe)
    trees = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in (profile, chosen)]
    schema = schema_of("grpo-job")
    profile_leaves, recipe_leaves = ({path for path, _, _ in shapes.leaves(schema, tree)} for tree in trees)
    assert not profile_leaves & recipe_leaves
    for layer in LAYERS:
        assert (
            render_text(layer, files=[profile, chosen, site]).manifest
            == render_text(layer, files=[chosen, profile, site]).manifest
        )


def defaults_of(schema: shapes.Schema, node: shapes.Schema, path: shapes.Path_ = ()) -> dict[shapes.Path_, Any]:
    found: dict[shapes.Path_, Any] = {}
    for key, raw in node.get("properties", {}).items():
        inner = resolve_keep_default(schema, raw)
        if "default" in inner:
            found[(*path, key)] = inner["default"]
        else:
            found |= defaults_of(schema, inner, (*path, key))
    return found


def resolve_keep_default(schema: shapes.Schema, raw: Any) -> shapes.Schema:
    resolved = shapes.resolve(schema, raw)
    return resolved | ({"default": raw["default"]} if isinstance(raw, dict) and "default" in raw else {})


READS = {
    "network": {"stack", "platform", "accelerator", "network"},
    "storage": {"stack", "platform", "storage"},
    "raycluster": {
        "stack",
        "platform",
        "accelerator",
        "network",
        "storage",
        "huggingface",
        "tracking",
        "images",
        "ray",
    },
}


@pytest.mark.parametrize("layer", LAYERS)
def test_values_yaml_has_every_schema_default(layer: str) -> None:
    """Schema and values.yaml agree leaf by leaf."""
    schema = schema_of(layer)
    sections = READS.get(layer, set(schema["properties"]))
    expected = {path: value for path, value in defaults_of(schema, schema).items() if path[0] in sections}
    values = yaml.safe_load((ROOT / f"charts/{layer}/values.yaml").read_text(encoding="utf-8"))
    for path, value in expected.items():
        assert shapes.lookup(values, path) == value, path
    assert {path for path, _, _ in shapes.leaves(schema, values)} == set(expected)


@pytest.mark.parametrize("word", thin(["on", "null", "y", "no", "true", "e1"], 3))
def test_a_name_yaml_would_parse_as_another_type_stays_a_string(word: str, render: Render) -> None:
    """Each object is valid, and what carries the name carries it as text."""
    values: dict[str, Any] = {
        "stack": {"name": word, "names": {"serviceAccount": "", "cluster": ""}},
        "accelerator": {"name": word},
        "job": {"name": word, "cluster": {"mode": "ephemeral"}},
        "network": {"rdmaInstaller": {"enabled": True}},
        "ray": {"kueue": {"queue": word, "priorityClass": word}, "networkPolicy": {"operatorNamespace": "kuberay"}},
        "tracking": {"tensorboard": {"server": {"enabled": True}}},
        "storage": {word: {"mountPath": "/w", "pvc": {"storageClassName": word, "size": "1Ti"}}},
    }
    objects = [item for layer in LAYERS for item in render(layer, values)]
    labels = [template["metadata"].get("labels", {}) for item in objects for template in pod_templates(item)]
    assert {label["grpo-charts/stack"] for label in labels if "grpo-charts/stack" in label} == {word}


def test_names_stay_within_their_limits(render: Render) -> None:
    """The longest allowed names give names that KubeRay accepts."""
    data = {"prepareData": {"gsm8k": {"repository": "openai/gsm8k"}}}
    values = {"stack": {"name": "s" * 40}, "job": {**data, "name": "j" * 32, "attempt": 9, "task": "prepare-data"}}
    cluster = by_kind(render("raycluster", values), "RayCluster")["metadata"]["name"]
    job = next(item for item in render("grpo-job", values) if item["kind"] == "RayJob")["metadata"]["name"]
    assert len(cluster) <= 53
    assert len(job) == 47


@pytest.mark.parametrize(
    "values",
    [
        {"stack": {"name": "s" * 41}},
        {"stack": {"names": {"cluster": "1.2x"}}},
        {"job": {"name": "j" * 33}},
        {"job": {"name": "Upper"}},
        {"job": {"name": "1st"}},
    ],
)
def test_names_over_their_limits_are_refused(values: dict[str, Any], render_text: RenderText) -> None:
    """A name that KubeRay would refuse after the install is refused before it."""
    with pytest.raises(RenderError, match="name"):
        render_text("grpo-job", values)


def test_a_framework_and_a_version_that_do_not_match_are_refused(render_text: RenderText) -> None:
    with pytest.raises(RenderError, match=r"job\.version v0\.7\.0 is a version of nemo-rl, but job\.framework is verl"):
        render_text("grpo-job", {"job": {"framework": "verl"}})
