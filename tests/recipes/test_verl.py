"""verl's recipes and what the chart makes of them, without verl: tests/recipes/test_verl_real.py asks verl itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from grpo.helm.engines import Rendered
from postrender.errors import RenderError
from tests.charts.test_grpo_job import plan, rayjob
from tests.conftest import ACCELERATORS, LAYERS, ROOT, SITE, Render, thin
from tests.jobs.harness import load_program
from tests.recipes import verl_rules

TRAINED, PUBLISHED = "qwen2.5-32b-gsm8k-verl", "qwen2.5-32b-gsm8k-verl-reference"
RECIPES = (TRAINED, PUBLISHED)
DEFAULT = "0.7.1"
OTHERS = ("0.6.1", "0.8.0", "0.9.1")
# Micro batch, log-prob micro batch of rollout and reference, share of vLLM, offload of the reference.
MACHINES = {
    (TRAINED, "b200"): (32, 32, 32, 0.6, False),
    (TRAINED, "h200"): (16, 16, 16, 0.5, True),
    (PUBLISHED, "b200"): (64, 8, 4, 0.6, None),
    (PUBLISHED, "h200"): (32, 8, 4, 0.6, None),
}
# Prompts of an update, learning rate, length of an answer, TP of vLLM, validation before the first step.
NUMBERS = {TRAINED: (128, 1e-6, 1024, 4, True), PUBLISHED: (256, 1e-5, 512, 8, False)}
LABELS = (
    "# Source: ",
    "# Not run on hardware by us.",
    "# Why these numbers:",
    "# What differs from the published set-up (old → new), and why:",
    "# Expected: ",
)
CHANGED = ("KL to the reference", "micro batch", "max_model_len", "default_local_dir", "image", "Ray", "logger")
SHAPE = r"^(\d+\.){2}\d+$"


def stack(recipe: str, version: str = DEFAULT, accelerator: str = "b200") -> list[Path]:
    """Return the values files of a recipe at a version, as a person gives them."""
    other = [] if version == DEFAULT else [ROOT / f"values/frameworks/verl-{version}.yaml"]
    return [
        ROOT / f"values/accelerators/{accelerator}.yaml",
        ROOT / f"values/recipes/{recipe}.yaml",
        *other,
        SITE,
    ]


@pytest.fixture
def plan_of(render: Render) -> Callable[..., dict[str, Any]]:
    """Return the plan of a recipe's RayJob: plan_of(TRAINED, "0.8.0", "h200", {"job": …})."""

    def plan_it(
        recipe: str = TRAINED,
        version: str = DEFAULT,
        accelerator: str = "b200",
        values: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        return plan(render("grpo-job", values, files=stack(recipe, version, accelerator)))

    return plan_it


PlanOf = Callable[..., dict[str, Any]]


@pytest.mark.parametrize("version", thin([DEFAULT, *OTHERS], 2))
@pytest.mark.parametrize("accelerator", thin(ACCELERATORS, 2))
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_rendered_numbers_match_the_contract(recipe: str, accelerator: str, version: str, plan_of: PlanOf) -> None:
    """Each number, on both machines, and none of them changed by another version of verl."""
    config = plan_of(recipe, version, accelerator)["config"]
    actor, rollout, ref = (config["actor_rollout_ref"][part] for part in ("actor", "rollout", "ref"))
    data, trainer = config["data"], config["trainer"]
    assert (
        actor["ppo_micro_batch_size_per_gpu"],
        rollout["log_prob_micro_batch_size_per_gpu"],
        ref["log_prob_micro_batch_size_per_gpu"],
        rollout["gpu_memory_utilization"],
        ref.get("fsdp_config", {}).get("param_offload"),
    ) == MACHINES[recipe, accelerator]
    assert (
        actor["ppo_mini_batch_size"],
        actor["optim"]["lr"],
        data["max_response_length"],
        rollout["tensor_model_parallel_size"],
        trainer["val_before_train"],
    ) == NUMBERS[recipe]
    assert (data["train_batch_size"], rollout["n"], data["max_prompt_length"]) == (256, 8, 512)
    assert (trainer["total_epochs"], trainer["test_freq"], trainer["save_freq"]) == (2, 10, 10)
    assert (actor["strategy"], trainer["max_actor_ckpt_to_keep"]) == ("fsdp2", None)
    assert config["actor_rollout_ref"]["model"]["path"] == "Qwen/Qwen2.5-32B-Instruct"
    assert (config["algorithm"]["adv_estimator"], rollout["name"], rollout["mode"]) == ("grpo", "vllm", "async")


@pytest.mark.parametrize("accelerator", thin(ACCELERATORS, 2))
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_kl_loss_is_enabled_by_the_switch_that_verl_reads(recipe: str, accelerator: str, plan_of: PlanOf) -> None:
    """By the one switch that acts, once, and not by a coefficient that nothing reads."""
    config = plan_of(recipe, accelerator=accelerator)["config"]
    actor = config["actor_rollout_ref"]["actor"]
    assert (actor["use_kl_loss"], actor["kl_loss_coef"], actor["kl_loss_type"]) == (True, 0.001, "low_var_kl")
    assert not config["algorithm"].get("use_kl_in_reward")
    assert "kl_ctrl" not in config["algorithm"]


@pytest.mark.parametrize("accelerator", thin(ACCELERATORS, 2))
@pytest.mark.parametrize("recipe", RECIPES)
def test_batch_and_engine_sizes_are_divisible(recipe: str, accelerator: str, plan_of: PlanOf) -> None:
    """What verl would say after the models are loaded, or never."""
    assert verl_rules.violations(plan_of(recipe, accelerator=accelerator)["config"]) == []


@pytest.mark.parametrize(
    ("section", "change", "rule"),
    [
        ("data", {"train_batch_size": 255}, "B1"),
        ("data", {"train_batch_size": 192}, "B3"),
        ("actor_rollout_ref", {"actor": {"ppo_micro_batch_size_per_gpu": 24}}, "B7"),
        ("actor_rollout_ref", {"rollout": {"tensor_model_parallel_size": 3}}, "R3"),
        ("actor_rollout_ref", {"rollout": {"max_model_len": 1024}}, "R8"),
    ],
)
def test_the_rules_find_indivisible_sizes(section: str, change: dict[str, Any], rule: str, plan_of: PlanOf) -> None:
    """Each rule on a configuration that breaks it."""
    config = plan_of(values={"job": {"config": {section: change}}})["config"]
    assert any(found.startswith(rule) for found in verl_rules.violations(config))


def test_the_key_n_and_small_numbers_survive_yaml(plan_of: PlanOf) -> None:
    """As a reader of YAML 1.1, which Hydra is, reads the file that the launcher writes."""
    text: str = load_program("configuration").to_yaml(plan_of()["config"])
    read = yaml.safe_load(text)
    assert read["actor_rollout_ref"]["rollout"]["n"] == 8
    assert read["actor_rollout_ref"]["actor"]["optim"]["lr"] == 1e-6
    assert read == plan_of()["config"]


def test_the_chart_derives_nodes_directories_and_names_from_the_values(plan_of: PlanOf) -> None:
    """Nodes, directories and names, all absolute, none of them in the image or in a pod of its own."""
    found = plan_of(values={"job": {"attempt": 3}})
    run, config = "/data/runs/qwen25-32b-gsm8k", found["config"]
    assert found["command"] == [
        *("python3", "-m", "verl.trainer.main_ppo"),
        *("--config-dir", f"{run}/attempts/3", "--config-name", "config"),
    ]
    trainer = config["trainer"]
    assert (trainer["nnodes"], trainer["n_gpus_per_node"]) == (2, 8)
    assert trainer["default_local_dir"] == f"{run}/checkpoints"
    assert trainer["logger"] == ["console", "tensorboard"]
    assert config["defaults"] == ["ppo_trainer", "_self_"]
    assert config["hydra"] == {"run": {"dir": f"{run}/attempts/3"}, "output_subdir": ".hydra"}
    assert config["ray_kwargs"]["ray_init"]["num_cpus"] is None


DRIVER = """
import hydra
@hydra.main(config_path="tree", config_name="ppo_trainer", version_base=None)
def main(config):
    print(config.own, config.theirs)
main()
"""


@pytest.mark.full
def test_a_restarted_trainer_gets_the_same_configuration(plan_of: PlanOf, tmp_path: Path) -> None:
    """After a failure, and in task evaluate: what Hydra has written beside the configuration must not be part of it."""
    pytest.importorskip("hydra", reason="hydra-core is in the extra dev")
    found, attempt = plan_of()["config"], tmp_path / "attempt"
    (tmp_path / "tree").mkdir()
    attempt.mkdir()
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "tree/ppo_trainer.yaml").write_text("theirs: 1\n")
    own = {"defaults": found["defaults"], "hydra": {**found["hydra"], "run": {"dir": str(attempt)}}, "own": 2}
    (attempt / "config.yaml").write_text(json.dumps(own))
    words = [sys.executable, str(tmp_path / "driver.py"), "--config-dir", str(attempt), "--config-name", "config"]
    for further in ([], [], ["hydra.run.dir=.", "hydra.output_subdir=null"]):
        done = subprocess.run([*words, *further], capture_output=True, text=True, cwd=tmp_path, check=False)
        assert (done.returncode, done.stdout) == (0, "2 1\n"), done.stderr
    assert (attempt / found["hydra"]["output_subdir"] / "config.yaml").is_file()


def test_transfer_queue_avoids_a_head_without_cpus(plan_of: PlanOf) -> None:
    """TransferQueue 0.1.10 ties its storage to nodes in turn, also to one on which no actor can run: then verl ends.

    Source: transfer_queue/utils/common.py (get_node_round_robin_scheduling_strategies).
    """
    storage = plan_of(RECIPES[0], "0.9.1")["config"]["transfer_queue"]["backend"]["SimpleStorage"]
    assert storage == {"required_node_resource": "GPU"}
    assert "transfer_queue" not in plan_of(RECIPES[0], "0.8.0")["config"]
    own = {"backend": {"SimpleStorage": {"required_node_resource": "storage", "num_data_storage_units": 2}}}
    values = {"job": {"config": {"transfer_queue": own}}}
    assert plan_of(RECIPES[0], "0.9.1", values=values)["config"]["transfer_queue"] == own


def test_the_workers_get_the_drivers_variables(plan_of: PlanOf) -> None:
    """verl's workers inherit their pod's variables, and the driver's by ray_init alone.

    The launcher puts the run's code before the PYTHONPATH of the pod. In a worker, Ray does that (update_envs).
    """
    found = plan_of(values={"job": {"env": {"NCCL_DEBUG": {"value": "INFO"}}}})
    environment = found["environment"]
    path = {"PYTHONPATH": f"{environment['PYTHONPATH']}:$PYTHONPATH"}
    assert found["config"]["ray_kwargs"]["ray_init"]["runtime_env"]["env_vars"] == {**environment, **path}
    assert environment["NCCL_DEBUG"] == "INFO"
    assert environment["GRPO_DATASETS"] == "/data/datasets"
    assert environment["TENSORBOARD_DIR"] == "/data/runs/qwen25-32b-gsm8k/logs"
    assert environment["PYTHONPATH"].startswith("/data/code/")
    assert "verl-0.7.1" in environment["PYTHONPATH"]


def test_wandb_and_mlflow_share_one_project_and_run_name(plan_of: PlanOf) -> None:
    """W&B and MLflow get project and run from the same two keys of verl."""
    tracking = {
        "wandb": {"enabled": True, "project": "rl", "name": "first"},
        "mlflow": {"enabled": True, "trackingUri": "http://mlflow:5000", "experiment": "rl", "name": "first"},
    }
    found = plan_of(values={"tracking": tracking})
    trainer = found["config"]["trainer"]
    assert trainer["logger"] == ["console", "tensorboard", "wandb", "mlflow"]
    assert (trainer["project_name"], trainer["experiment_name"]) == ("rl", "first")
    assert found["environment"]["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"
    assert found["environment"]["WANDB_DIR"] == "/data/runs/qwen25-32b-gsm8k/logs"
    with pytest.raises(RenderError, match=r"verl has one project and one name for all loggers.*rl/first.*other/first"):
        plan_of(values={"tracking": {**tracking, "mlflow": {**tracking["mlflow"], "experiment": "other"}}})


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (DEFAULT, {"config": {"data": {"train_files": "gsm8k/train.parquet"}}}, r"data\.train_files: .* is relative"),
    (
        DEFAULT,
        {"config": {"data": {"val_files": ["/data/a.parquet", "b.parquet"]}}},
        r"val_files: b\.parquet is relative",
    ),
    (
        DEFAULT,
        {"config": {"trainer": {"default_local_dir": "/data/mine"}}},
        r"default_local_dir is .* the chart derives",
    ),
    (DEFAULT, {"config": {"trainer": {"nnodes": 4}}}, r"nnodes is 4, and the chart derives 2"),
    (DEFAULT, {"config": {"ray_kwargs": {"ray_init": {"num_cpus": 8}}}}, r"num_cpus is 8, and the chart derives null"),
    (
        "0.9.1",
        {"config": {"custom_reward_function": {"path": "/data/r.py"}}},
        r"verl 0\.9\.1 ignores it .* under reward",
    ),
    ("0.9.1", {"config": {"reward_model": {"reward_manager": "dapo"}}}, r"reward_model: verl 0\.9\.1 ignores it"),
    ("0.6.1", {"config": {"reward": {"num_workers": 4}}}, r"reward: verl 0\.6\.1 ignores it"),
    ("0.9.1", {"runtimeEnv": {"py_executable": "python3"}}, r"verl 0\.9\.1 sets it too"),
    (DEFAULT, {"env": {"X": {"value": "${HOME}/x"}}}, r"job\.env\.X contains \$\{"),
    (DEFAULT, {"env": {"TENSORBOARD_DIR": {"value": "/x"}}}, r"the charts set TENSORBOARD_DIR themselves"),
    (DEFAULT, {"framework": "nemo-rl"}, r"job\.version 0\.7\.1 is a version of verl, but job\.framework is nemo-rl"),
    (DEFAULT, {"version": "v0.7.0"}, r"job\.version v0\.7\.0 is a version of nemo-rl, but job\.framework is verl"),
    (DEFAULT, {"version": "0.8.0"}, r"job\.code\.packages\.verl is 0\.7\.1, but job\.version is 0\.8\.0"),
    (DEFAULT, {"code": {"packages": {"verl": None}}}, r"has no verl in it: set job\.code\.packages\.verl to 0\.7\.1"),
]


@pytest.mark.parametrize(("version", "job", "message"), thin(REFUSED, 3))
def test_settings_that_verl_accepts_but_ignores_are_rejected(
    version: str, job: dict[str, Any], message: str, render_text: Callable[..., Rendered]
) -> None:
    """Before a GPU is taken, and with the way out."""
    with pytest.raises(RenderError, match=message):
        render_text("grpo-job", {"job": job}, files=stack(TRAINED, version))


def test_a_resume_path_is_checked_only_when_verl_reads_it(
    render_text: Callable[..., Rendered], plan_of: PlanOf
) -> None:
    """Only resume_mode: resume_path reads it."""
    trainer = {"resume_from_path": "runs/global_step_3"}
    assert plan_of(values={"job": {"config": {"trainer": trainer}}})["config"]["trainer"].items() >= trainer.items()
    chosen = {"job": {"config": {"trainer": {**trainer, "resume_mode": "resume_path"}}}}
    with pytest.raises(RenderError, match=r"trainer\.resume_from_path: runs/global_step_3 is relative"):
        render_text("grpo-job", chosen, files=stack(TRAINED))


@pytest.mark.parametrize("version", ["0.7.1", "0.8.0"])
def test_both_spellings_of_a_reward_pass_in_versions_that_read_both(version: str, plan_of: PlanOf) -> None:
    """0.7 and 0.8 move the old keys to the new place themselves."""
    for config in ({"custom_reward_function": {"path": "/data/r.py"}}, {"reward": {"num_workers": 4}}):
        assert config.items() <= plan_of(version=version, values={"job": {"config": config}})["config"].items()


def test_too_few_cpus_are_rejected(render_text: Callable[..., Rendered]) -> None:
    """verl waits for its placement group without end: three CPUs a GPU, one before 0.7."""
    values = {"accelerator": {"worker": {"cpu": "20"}}}
    with pytest.raises(RenderError, match=r"verl 0\.7\.1 reserves 24 CPUs on each node"):
        render_text("grpo-job", values, files=stack(TRAINED))
    render_text("grpo-job", values, files=stack(TRAINED, "0.6.1"))


def test_a_moving_tag_is_rejected(render_text: Callable[..., Rendered]) -> None:
    """verl publishes a vllm017.latest beside each pinned tag."""
    with pytest.raises(RenderError, match="a tag that does not move"):
        render_text("grpo-job", {"images": {"training": {"tag": "vllm017.latest"}}}, files=stack(TRAINED))


@pytest.mark.parametrize("version", [DEFAULT, *OTHERS])
def test_the_image_and_the_package_belong_to_the_version(version: str, render: Render) -> None:
    """Each version has the image of its own tests, which holds no verl, and gets the package of that version."""
    objects = render("grpo-job", files=stack(TRAINED, version))
    tags = {"0.6.1": "vllm011.dev7", "0.7.1": "vllm017.dev2", "0.8.0": "vllm020.dev1", "0.9.1": "vllm024.dev2"}
    text = json.dumps([yaml.safe_load(file.read_text("utf-8")) for file in stack(TRAINED, version)[1:-1]])
    assert f'"tag": "{tags[version]}"' in text
    assert f"verl-{version}" in plan(objects)["environment"]["PYTHONPATH"]
    assert rayjob(objects)["spec"]["submissionMode"] == "HTTPMode"


@pytest.mark.parametrize("version", thin([DEFAULT, *OTHERS], 4))
@pytest.mark.parametrize("recipe", thin(RECIPES, len(RECIPES)))
def test_every_layer_renders(recipe: str, version: str, render: Render) -> None:
    """On both machines; the head has no CPU for Ray's actors, so verl's stay on the workers."""
    for accelerator in ACCELERATORS:
        for layer in LAYERS:
            objects = render(layer, files=stack(recipe, version, accelerator))
            for cluster in (item for item in objects if item["kind"] == "RayCluster"):
                assert cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_header_states_what_a_reader_needs(recipe: str) -> None:
    """What it is, where from, what was changed and why, what to expect, and that nobody here ran it."""
    lines = (ROOT / f"values/recipes/{recipe}.yaml").read_text("utf-8").splitlines()
    header = lines[1 : lines.index("images:")]
    starts = [next((i for i, line in enumerate(header) if line.startswith(label)), None) for label in LABELS]
    assert None not in starts
    assert starts == sorted(starts)  # type: ignore[type-var]
    for name in CHANGED:
        assert any(line.startswith(f"#   {name} ") for line in header[starts[3] : starts[4]]), name
    assert max(len(line) for line in lines) <= 140
    assert re.match(SHAPE, yaml.safe_load("\n".join(lines))["job"]["version"])
