"""The grpo-job chart: one immutable run, with the configuration that follows from the values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Rendered
from grpo.runlog.shared import Limits
from postrender.errors import RenderError
from tests.conftest import Object, Render, by_kind, thin

HOSTILE = 'it\'s "$HOME" `id` # a, b\n\\ {x} \u2028 \u0085 \x7f \U0001f600 GRPO_PLAN\nGRPO_PLAN\nGRPO_FILE'


def rayjob(objects: list[Object]) -> Object:
    return next(item for item in objects if item["kind"] == "RayJob")


def lock(objects: list[Object]) -> Object:
    return next(item for item in objects if "-locked-" in item["metadata"]["name"])


def plan(objects: list[Object]) -> dict[str, Any]:
    """Return the plan inside the entrypoint."""
    text = rayjob(objects)["spec"]["entrypoint"]
    start, end = text.index("GRPO_PLAN'\n") + len("GRPO_PLAN'\n"), text.index("\nGRPO_PLAN\n")
    found: dict[str, Any] = json.loads(text[start:end])
    return found


def test_names_are_derived_from_the_run_and_the_attempt(render: Render) -> None:
    """The lock's name says what to do when the API server refuses to change it."""
    objects = render("grpo-job", {"job": {"name": "probe", "attempt": 3}})
    assert rayjob(objects)["metadata"]["name"] == "probe-3"
    assert lock(objects)["metadata"]["name"] == "probe-3-locked-raise-job.attempt"
    assert lock(objects)["immutable"] is True


def test_the_lock_changes_only_when_the_spec_changes(render: Render) -> None:
    """Any change of the spec is refused until the attempt is raised; labels pass."""
    before = lock(render("grpo-job"))["data"]
    assert lock(render("grpo-job", {"stack": {"labels": {"a": "b"}}}))["data"] == before
    for values in (
        {"job": {"config": {"grpo": {"seed": 1}}}},
        {"stack": {"names": {"cluster": "other"}}},
        {"job": {"retries": 1}},
    ):
        after = lock(render("grpo-job", values))["data"]
        assert after["digest"] != before["digest"]
        assert after["spec.yaml"] != before["spec.yaml"]


def test_the_ten_previous_attempts_cannot_be_reapplied(render: Render) -> None:
    """An upgrade or a rollback makes an object of its attempt's name; a newer attempt has left one of that name."""
    objects = render("grpo-job", {"job": {"name": "probe", "attempt": 13}})
    ended = [item for item in objects if "-is-over-" in item["metadata"]["name"]]
    keys = ("helm.sh/hook", "helm.sh/hook-delete-policy")
    hooks = {(item["metadata"]["name"], *(item["metadata"]["annotations"][key] for key in keys)) for item in ended}
    assert len(hooks) == len(ended) == 21
    assert all(item.get("immutable") for item in ended if "post-upgrade" in item["metadata"]["annotations"].values())
    name = "probe-{}-is-over-raise-job.attempt-or-remove-this-revision"
    assert (name.format(13), "pre-upgrade,pre-rollback,pre-delete", "hook-succeeded") in hooks
    for number in range(3, 13):
        assert (name.format(number), "post-upgrade", "before-hook-creation") in hooks
        assert (name.format(number), "post-delete", "before-hook-creation,hook-succeeded") in hooks


def test_the_plan_carries_the_digest_of_its_spec(render: Render) -> None:
    """The driver records it, so that a retry never runs a refused spec."""
    objects = render("grpo-job")
    assert plan(objects)["digest"] == lock(objects)["data"]["digest"]
    assert len(plan(objects)["digest"]) == 64


def test_an_existing_cluster_is_selected_by_name(render: Render) -> None:
    """KubeRay refuses retries of its own there, so the entrypoint has them."""
    objects = render("grpo-job", {"job": {"retries": 2}})
    spec = rayjob(objects)["spec"]
    assert spec["clusterSelector"] == {"ray.io/cluster": "gemma-ray"}
    assert spec["submissionMode"] == "HTTPMode"
    assert "backoffLimit" not in spec
    assert plan(objects)["retries"] == 2


def test_an_ephemeral_cluster_equals_the_one_the_raycluster_chart_renders(render: Render) -> None:
    """Both charts render one and the same cluster; it ends with the job, and retries get a new one."""
    objects = render("grpo-job", {"job": {"retries": 2, "cluster": {"mode": "ephemeral"}}})
    spec = rayjob(objects)["spec"]
    cluster = by_kind(render("raycluster"), "RayCluster")["spec"]
    text = json.dumps({key: value for key, value in cluster.items() if key != "upgradeStrategy"})
    # The label of the owner alone is the job's.
    assert spec["rayClusterSpec"] == json.loads(text.replace('"gemma-ray"', '"gemma3-gsm8k"'))
    assert (spec["shutdownAfterJobFinishes"], spec["backoffLimit"], plan(objects)["retries"]) == (True, 2, 0)
    assert "clusterSelector" not in spec


def test_the_config_contains_the_keys_derived_from_the_values(render: Render) -> None:
    """Nodes, GPUs and directories are derived, and the recipe's keys arrive as they are."""
    config = plan(render("grpo-job"))["config"]
    assert config["cluster"] == {"num_nodes": 2, "gpus_per_node": 8}
    assert config["checkpointing"]["checkpoint_dir"] == "/data/runs/gemma3-gsm8k/checkpoints"
    assert config["logger"]["log_dir"] == "/data/runs/gemma3-gsm8k/logs"
    assert config["defaults"] == "/opt/nemo-rl/examples/configs/grpo_math_1B.yaml"
    assert config["policy"]["generation"]["top_k"] is None
    assert config["checkpointing"]["model_save_format"] is None


def test_two_jobs_in_one_stack_share_only_the_cluster(render: Render) -> None:
    """They differ in job.name, and so in their objects and directories, but for the object that refuses one of them."""
    first, second = render("grpo-job"), render("grpo-job", {"job": {"name": "other"}})
    names = [{item["metadata"]["name"] for item in each} for each in (first, second)]
    (guard,) = names[0] & names[1]
    assert guard == "grpo-job-has-its-run-install-a-second-release"
    found, other = (next(item for item in each if item["metadata"]["name"] == guard) for each in (first, second))
    assert (found["immutable"], found["data"]) == (True, {"run": "gemma3-gsm8k", "task": "train"})
    assert other["data"] == {"run": "other", "task": "train"}
    again = render("grpo-job", {"job": {"attempt": 2, "config": {"grpo": {"max_num_steps": 2}}}})
    assert found in again
    assert plan(first)["runDirectory"] != plan(second)["runDirectory"]


def test_a_derived_key_may_be_repeated_but_not_contradicted(
    render: Render, render_text: Callable[..., Rendered]
) -> None:
    """Equal is allowed; different names the key and both values."""
    assert plan(render("grpo-job", {"job": {"config": {"cluster": {"num_nodes": 2}}}})) == plan(render("grpo-job"))
    with pytest.raises(RenderError, match=r"job\.config\.cluster\.num_nodes is 4, and the chart derives 2"):
        render_text("grpo-job", {"job": {"config": {"cluster": {"num_nodes": 4}}}})


def test_an_overlay_applies_to_its_accelerator_only(render: Render) -> None:
    """job.configFor.h200 is laid over job.config on H200, null included."""
    values = {"job": {"configFor": {"h200": {"policy": {"max_total_sequence_length": 2048, "precision": None}}}}}
    assert plan(render("grpo-job", values))["config"]["policy"]["max_total_sequence_length"] == 4096
    policy = plan(render("grpo-job", values, accelerator="h200"))["config"]["policy"]
    assert (policy["max_total_sequence_length"], policy["precision"], policy["train_micro_batch_size"]) == (
        2048,
        None,
        1,
    )


def of_version(version: str) -> dict[str, Any]:
    return {"images": {"training": {"tag": version}}, "job": {"version": version}}


def configuration(render: Render, job: dict[str, Any], version: str = "v0.7.0", accelerator: str = "b200") -> Any:
    values = {"ray": {"head": {"numCpus": 1}}, **of_version(version)}
    values["job"] |= job
    return plan(render("grpo-job", values, accelerator=accelerator))["config"]


def test_an_accelerator_overlay_overrides_a_version_overlay(render: Render) -> None:
    """The order is job.config, version, accelerator; overlays for another version count for nothing."""
    overlays = {
        "h200": {"x": {"last": "h200"}},
        "v0.5.0": {"x": {"last": "v0.5.0", "middle": "v0.5.0"}},
        "v0.6.0": {"x": {"never": True}},
    }
    job = {"config": {"x": {"last": "config", "middle": "config", "first": "config"}}, "configFor": overlays}
    older = {"last": "h200", "middle": "v0.5.0", "first": "config"}
    assert configuration(render, job, "v0.5.0", "h200")["x"] == older
    assert configuration(render, job, "v0.5.0")["x"] == {**older, "last": "v0.5.0"}
    assert configuration(render, job)["x"] == {"last": "config", "middle": "config", "first": "config"}


@pytest.mark.parametrize("name", ["v0.7.0", "v0.5.0", "b200"])
def test_a_marked_overlay_section_replaces_the_base_section(name: str, render: Render) -> None:
    """The marker stays for a NeMo RL that reads it, so that the base file's section goes too; older ones get none."""
    version = "v0.5.0" if name == "v0.5.0" else "v0.7.0"
    job = {
        "config": {"z": {"train": {"a": 1}, "shuffle": True}, "x": {"deep": {"a": 1}}},
        "configFor": {name: {"z": {"_override_": True, "b": None}, "x": {"deep": {"_override_": True, "b": 2}}}},
    }
    config = configuration(render, job, version)
    assert config["z"] == ({"b": None} if version == "v0.5.0" else {"_override_": True, "b": None})
    assert config["x"] == {"deep": {"b": 2}}


@pytest.mark.parametrize(
    ("version", "marked"), [("v0.7.0", True), ("v0.6.0", True), ("v0.5.0", False), ("v0.4.0", False)]
)
def test_the_marker_is_passed_only_to_a_framework_that_understands_it(
    version: str, marked: bool, render: Render
) -> None:
    """NeMo RL before v0.6.0 would keep it as a key; false means nothing to any."""
    config = configuration(render, {"config": {"data": {"_override_": True}, "env": {"_override_": False}}}, version)
    assert config["data"].get("_override_", False) is marked
    assert "_override_" not in config["env"]


@pytest.mark.parametrize(
    ("values", "message"),
    thin(
        [
            ({"nodes": 3}, r"job\.nodes is 3, and the cluster has 2 GPU nodes"),
            (
                {"nodes": 1, "cluster": {"mode": "ephemeral"}},
                r"job\.nodes is 1 of 2 GPU nodes, and job\.cluster\.mode is ephemeral",
            ),
            (
                {"config": {"data": {"train": {"_override_": True}}}},
                r"job\.config\.data\.train\._override_: .* Move it to job\.config\.data, and write there",
            ),
            ({"config": {"data": {"_override_": 1}}}, r"job\.config\.data\._override_ is 1, expected true .* or false"),
            (
                {"configFor": {"b200": {"a": {"b": {"_override_": "yes"}}}}},
                r'job\.configFor\.b200\.a\.b\._override_ is "yes"',
            ),
            (
                {"configFor": {"v0.7.0": {"_override_": True}}},
                r"job\.configFor\.v0\.7\.0\._override_: only sections can be replaced",
            ),
            ({"config": {"_override_": True}}, r"job\.config\._override_: only sections can be replaced"),
            (
                {"config": {"a": [{"_override_": True}]}},
                r"job\.config\.a\[0\]\._override_: a list is replaced as a whole",
            ),
            (
                {"configFor": {"b200": {"a": {"b": [[], [{"c": {"_override_": True}}]]}}}},
                r"job\.configFor\.b200\.a\.b\[1\]\[0\]\.c\._override_: a list is replaced",
            ),
            ({"volume": "lustre"}, r'job\.volume is "lustre", and storage has no volume of that name'),
            ({"config": {"x": "y" * 100000}}, r"the entrypoint has \d+ bytes"),
        ],
        3,
    ),
)
def test_a_job_that_cannot_run_is_refused(
    values: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """The message has the numbers and the way out."""
    with pytest.raises(RenderError, match=message):
        render_text("grpo-job", {"job": values})


def test_a_job_can_use_fewer_nodes_than_its_existing_cluster(render: Render) -> None:
    found = plan(render("grpo-job", {"job": {"nodes": 1}}))
    assert found["config"]["cluster"]["num_nodes"] == 1


@pytest.mark.parametrize(
    ("version", "script"),
    [
        ("v0.4.0", "run_grpo_math.py"),
        ("v0.5.0", "run_grpo.py"),
        ("v0.7.0", "run_grpo.py"),
        ("v0.8.0", "run_grpo.py"),
    ],
)
def test_the_framework_version_selects_the_training_script(version: str, script: str, render: Render) -> None:
    """run_grpo_math.py is gone from v0.6.0 on. An image of another version is refused by what it lacks."""
    found = plan(render("grpo-job", {**of_version(version), "ray": {"head": {"numCpus": 1}}}))
    assert found["command"][1] == f"examples/{script}"
    assert found["requiredFiles"] == [f"examples/{script}", "/opt/nemo-rl/examples/configs/grpo_math_1B.yaml"]


@pytest.mark.parametrize(
    ("version", "section", "script"),
    [
        ("v0.8.0", {"diagnostics": True}, "run_grpo_single_controller.py"),
        ("v0.8.0", None, "run_grpo.py"),
        ("v0.7.0", {"diagnostics": True}, "run_grpo.py"),
    ],
)
def test_an_async_rl_section_selects_the_single_controller(
    version: str, section: dict[str, Any] | None, script: str, render: Render
) -> None:
    values = of_version(version)
    values["job"] = {**values["job"], "config": {"async_rl": section}}
    found = plan(render("grpo-job", values))
    assert found["command"][1] == f"examples/{script}"
    assert found["requiredFiles"][0] == f"examples/{script}"


@pytest.mark.parametrize("version", ["v0.4.0", "v0.5.0", "v0.6.0"])
def test_an_older_nemo_rl_needs_a_cpu_on_the_head(version: str, render_text: Callable[..., Rendered]) -> None:
    """It reserves one on every node and waits forever, with all GPUs idle."""
    with pytest.raises(
        RenderError, match=f"ray.head.numCpus is 0, but job.version {version} waits forever .*: set it to 1"
    ):
        render_text("grpo-job", of_version(version))


def test_an_image_of_another_version_is_refused(render_text: Callable[..., Rendered]) -> None:
    """v0.5.0 to v0.7.0 have the same files where the launcher looks."""
    with pytest.raises(RenderError, match=r"images\.training\.tag is v0\.7\.0, but job\.version is v0\.6\.0: set both"):
        render_text("grpo-job", {"job": {"version": "v0.6.0"}})


def test_any_value_reaches_the_entrypoint_unchanged(render: Render) -> None:
    """Quotes, dollars, newlines, the delimiters themselves, control characters, tiny and large numbers."""
    config = {
        "text": HOSTILE,
        HOSTILE: 1,
        "tiny": 3e-07,
        "large": 10000000000,
        "flag": False,
        "none": None,
        "list": [1, [None, "n"]],
    }
    assert {key: plan(render("grpo-job", {"job": {"config": config}}))["config"][key] for key in config} == config


def test_enabling_mlflow_also_enables_it_in_the_framework(render: Render, render_text: Callable[..., Rendered]) -> None:
    """With the address of its server, which has no default that could be right."""
    mlflow = {"enabled": True, "trackingUri": "http://mlflow.mlflow.svc:5000"}
    logger = plan(render("grpo-job", {"tracking": {"mlflow": mlflow}}))["config"]["logger"]
    named = {"experiment_name": "grpo", "run_name": "gemma3-gsm8k"}
    assert logger["mlflow"] == {"tracking_uri": mlflow["trackingUri"], **named}
    assert logger["mlflow_enabled"] is True
    with pytest.raises(RenderError, match=r"tracking\.mlflow\.trackingUri"):
        render_text("grpo-job", {"tracking": {"mlflow": {"enabled": True}}})
    with pytest.raises(RenderError, match="trackingUri"):
        render_text("grpo-job", {"tracking": {"mlflow": {**mlflow, "trackingUri": "http://me:secret@host"}}})


def test_enabling_wandb_also_enables_it_in_the_framework(render: Render, render_text: Callable[..., Rendered]) -> None:
    """One switch for the secret and for the logger; the configuration must not say otherwise."""
    logger = plan(render("grpo-job", {"tracking": {"wandb": {"enabled": True, "project": "rl"}}}))["config"]["logger"]
    assert (logger["wandb_enabled"], logger["wandb"]) == (True, {"project": "rl", "name": "gemma3-gsm8k"})
    assert plan(render("grpo-job"))["config"]["logger"]["wandb_enabled"] is False
    with pytest.raises(RenderError, match=r"job\.config\.logger\.wandb_enabled is true, and the chart derives false"):
        render_text("grpo-job", {"job": {"config": {"logger": {"wandb_enabled": True}}}})


def test_driver_environment_variables_are_part_of_the_plan(render: Render) -> None:
    """They travel in the entrypoint, because a cluster that runs cannot be given any."""
    values = {"job": {"env": {"NRL_X": {"value": "it's $HOME"}}}}
    values["job"]["guard"] = {"enabled": False}
    assert plan(render("grpo-job", values))["environment"] == {"NRL_X": "it's $HOME", "GRPO_DATASETS": "/data/datasets"}


@pytest.mark.parametrize("framework", ["nemo-rl", "verl"])
def test_the_flight_recorder_is_on_and_configured_by_the_values(framework: str, render: Render) -> None:
    recipe = "qwen2.5-32b-gsm8k-verl" if framework == "verl" else "gemma3-27b-gsm8k"
    values = {
        "ray": {"env": {"TORCH_FR_DUMP_TEMP_FILE": {"value": "/mine/rank-"}}},
        "job": {"env": {"TORCH_FR_BUFFER_SIZE": {"value": "50"}}},
    }
    found = plan(render("grpo-job", values, recipe=recipe))["environment"]
    assert found["TORCH_NCCL_DUMP_ON_TIMEOUT"] == "1"
    assert found["TORCH_FR_BUFFER_SIZE"] == "50"
    assert "TORCH_FR_DUMP_TEMP_FILE" not in found


def test_the_guard_uses_the_save_time_of_the_head(render: Render) -> None:
    values = {"ray": {"head": {"jobStopSeconds": 77}}, "job": {"guard": {"stopOn": {"dead-reward": {}}}}}
    found = plan(render("grpo-job", values))["guard"]
    assert found["saveSeconds"] == 77
    assert found["stopOn"] == {"dead-reward": {"steps": 1}}
    assert "guard" not in plan(render("grpo-job", {"job": {"task": "convert"}}))


def test_the_default_sign_limits_are_those_of_the_program(render: Render) -> None:
    """Only silence is judged by other values, the deadlines."""
    found = plan(render("grpo-job"))["guard"]["limits"]
    assert Limits.of(found) == Limits()
    names = {re.sub("_(.)", lambda letter: letter[1].upper(), field.name) for field in fields(Limits)}
    assert names - found.keys() == {"silentFactor", "silentSeconds", "validationSeconds"}
    changed = plan(render("grpo-job", {"job": {"guard": {"limits": {"deadSteps": 20, "deadLoss": 0.00001}}}}))
    assert changed["guard"]["limits"] == {**found, "deadSteps": 20, "deadLoss": 0.00001}


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"klFactors": 2}, "'klFactors' not allowed"),
        ({"kl": "high"}, "got string, want number"),
        ({"steps": 2.5}, "got number, want integer"),
        ({"ratioHigh": 0.9}, "minimum: got 0.9, want 1"),
    ],
)
def test_unknown_sign_limits_are_refused(limits: dict[str, Any], message: str, render: Render) -> None:
    with pytest.raises(RenderError, match=message):
        render("grpo-job", {"job": {"guard": {"limits": limits}}})


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"env": {"K": {"secret": {"name": "a", "key": "b"}}}}, r"job\.env\.K: .* Write it under ray\.env"),
        ({"env": {"NCCL_NET": {"value": "x"}}}, r"job\.env\.NCCL_NET: the charts set NCCL_NET themselves"),
        ({"runtimeEnv": {"env_vars": {"A": "b"}}}, r"Write the variables under job\.env"),
    ],
)
def test_an_environment_that_would_break_the_job_is_refused(
    job: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """Before a GPU is taken."""
    with pytest.raises(RenderError, match=message):
        render_text("grpo-job", {"job": job})


def test_the_runtime_environment_is_passed_to_ray_as_yaml(render: Render) -> None:
    """As YAML text, as KubeRay takes it; absent where there is none."""
    spec = rayjob(render("grpo-job", {"job": {"runtimeEnv": {"working_dir": "/data/x"}}}))["spec"]
    assert yaml.safe_load(spec["runtimeEnvYAML"]) == {"working_dir": "/data/x"}
    assert "runtimeEnvYAML" not in rayjob(render("grpo-job"))["spec"]


def test_a_head_with_gpus_counts_as_a_node(render: Render) -> None:
    """16 GPUs are a head and one worker."""
    values = {"ray": {"head": {"gpus": {"enabled": True}}, "workers": {"replicas": 1}}}
    assert plan(render("grpo-job", values))["config"]["cluster"] == {"num_nodes": 2, "gpus_per_node": 8}
    older = {**values, **of_version("v0.6.0")}
    assert plan(render("grpo-job", older))["facts"]["headCpus"] == 216


def test_a_volume_deleted_by_a_later_file_is_named(render_text: Callable[..., Rendered]) -> None:
    """The job's own key is the one to change."""
    values = {"storage": {"data": None}, "huggingface": {"cache": {"volume": ""}}}
    with pytest.raises(RenderError, match=r'job\.volume is "data", and storage has no volume of that name'):
        render_text("grpo-job", values)
