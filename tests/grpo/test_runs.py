"""What a change of rendered objects does to the runs that are there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from grpo.manifests import restored, runs
from postrender.values.merge import overlay
from tests.conftest import ROOT

VERL = {
    "identity": {"framework": "verl", "model": "org/model", "run": "a", "stack": "s"},
    "config": {
        "defaults": ["ppo_trainer", "_self_"],
        "trainer": {"nnodes": 2, "n_gpus_per_node": 8, "save_freq": 10},
    },
}
NEMO_RL = {
    "identity": {"framework": "nemo-rl", "model": "org/model", "run": "a", "stack": "s"},
    "config": {"defaults": "/opt/nemo-rl/examples/configs/grpo_math_1B.yaml", "cluster": {"num_nodes": 2}},
}


def rayjob(plan: Mapping[str, Any], attempt: int = 1, name: str = "a", change: Mapping[str, Any] | None = None) -> Any:
    """Return a training of ours."""
    base = {
        "run": name,
        "attempt": attempt,
        "runDirectory": f"/data/runs/{name}",
        "facts": {"mounts": {"/data": "s-data"}},
    }
    text = json.dumps(overlay({**base, **plan}, change or {}))
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": f"{name}-{attempt}", "namespace": "rl", "labels": {"app.kubernetes.io/name": "grpo-job"}},
        "spec": {"entrypoint": f"set -eu\nexec 3<<'GRPO_PLAN'\n{text}\nGRPO_PLAN\n"},
    }


def config(*path: str, value: Any) -> dict[str, Any]:
    """Return the change of one value of the configuration."""
    for key in reversed(("config", *path)):
        value = {key: value}
    return dict(value)


LORA = ("policy", "dtensor_cfg", "lora_cfg")
REFUSED: list[tuple[Mapping[str, Any], Mapping[str, Any], str]] = [
    (VERL, config("trainer", "nnodes", value=4), "the number of GPUs was 16 and would be 32"),
    (VERL, config("trainer", "n_gpus_per_node", value=4), "would be 8"),
    (VERL, config("actor_rollout_ref", "model", "lora_rank", value=32), "LoRA was off and would be of rank 32"),
    (VERL, {"identity": {"model": "org/other"}}, "the model was org/model and would be org/other"),
    (NEMO_RL, {"identity": {"framework": "verl"}}, "job.framework was nemo-rl and would be verl"),
    (NEMO_RL, {"identity": {"stack": "t"}}, "stack.name was s and would be t"),
    (
        NEMO_RL,
        config("policy", "megatron_cfg", "enabled", value=True),
        "the training backend was DTensor and would be Megatron",
    ),
    (NEMO_RL, config(*LORA, value={"enabled": True, "dim": 8}), "LoRA was off and would be of rank 8"),
]


@pytest.mark.parametrize(("plan", "change", "said"), REFUSED)
def test_an_attempt_that_cannot_resume_is_rejected(
    plan: Mapping[str, Any], change: Mapping[str, Any], said: str
) -> None:
    (found,) = runs.refusals([rayjob(plan)], [rayjob(plan, 2, change=change)])
    assert found.object == "RayJob/a-1"
    assert found.why.startswith("attempt 2 cannot resume: ")
    assert said in found.why
    assert "another job.name" in found.fix
    # The lock refuses the same attempt, and its fix alone would be a dead end.
    (found,) = runs.refusals([rayjob(plan)], [rayjob(plan, change=change)])
    assert found.why.startswith("the next attempt cannot resume: ")


NO_STEP = config("trainer", "save_freq", value=-1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (rayjob(NEMO_RL), rayjob(NEMO_RL, 2, change=config("cluster", "num_nodes", value=4))),
        (rayjob(NEMO_RL), rayjob(NEMO_RL, 2, change=config("grpo", "num_prompts_per_step", value=4))),
        (rayjob(VERL, change=NO_STEP), rayjob(VERL, 2, change=config("trainer", "nnodes", value=4))),
        (
            rayjob(VERL),
            rayjob(VERL, 2, change=config("trainer", value={"nnodes": 4, "resume_mode": "disable"})),
        ),
        (
            rayjob(VERL, change=config("actor_rollout_ref", "actor", "strategy", value="megatron")),
            rayjob(VERL, 2, change=config("trainer", "nnodes", value=4)),
        ),
        (rayjob(VERL), rayjob(VERL, name="b", change=config("trainer", "nnodes", value=4))),
        # A base file that is not known may say anything of the backend.
        (
            rayjob(NEMO_RL, change=config("defaults", value="/mine.yaml")),
            rayjob(NEMO_RL, 2, change=config("policy", "megatron_cfg", "enabled", value=True)),
        ),
        (rayjob(VERL), rayjob(VERL, 2, change={"of": "/data/runs/a", "identity": {"model": "org/other"}})),
    ],
)
def test_resumable_and_unknown_runs_have_no_findings(before: Any, after: Any) -> None:
    assert runs.refusals([before], [after]) == []


@pytest.mark.parametrize("change", [{"runDirectory": "/other/runs/a"}, {"facts": {"mounts": {"/data": "t-data"}}}])
def test_a_run_in_a_different_place_starts_at_step_0(change: Mapping[str, Any]) -> None:
    """Whoever has copied the folder knows it."""
    before, after = [rayjob(NEMO_RL)], [rayjob(NEMO_RL, 2, change={"identity": {"stack": "t"}, **change})]
    assert runs.refusals(before, after) == []
    (found,) = runs.endings(before, after)
    assert found.why.startswith("attempt 2 starts at step 0: it looks for steps in ")
    assert found.why.endswith(", and those are in /data/runs/a on claim s-data")
    assert runs.endings(before, before) == []


def test_a_renamed_run_is_a_new_run() -> None:
    before = [rayjob(NEMO_RL)]
    (found,) = runs.endings(before, [rayjob(NEMO_RL, name="b")])
    assert (found.object, found.why) == (
        "RayJob/a-1",
        "run a ends, because a tool that prunes deletes its RayJob, and b starts at step 0",
    )
    assert found.fix == "keep job.name, stack.name and the namespace to go on; its steps stay in /data/runs/a"
    (found,) = runs.endings(before, [])
    assert found.why == "run a ends, because a tool that prunes deletes its RayJob"
    assert runs.endings(before, [rayjob(NEMO_RL, 2)]) == []
    assert runs.endings(before, [], elsewhere=before) == []
    # Two sites that are compared are no change of a cluster.
    assert runs.endings(before, [rayjob(NEMO_RL, name="b")], is_there=False) == []


def cluster(labels: Mapping[str, str] | None = None, **spec: Any) -> Any:
    """Return a RayCluster of one group."""
    group = {"groupName": "gpus", "replicas": 4, "template": {"spec": {"containers": [{"image": "a"}]}}}
    metadata = {"name": "r", "namespace": "rl", "labels": dict(labels or {})}
    whole = {"upgradeStrategy": {"type": "Recreate"}, "rayVersion": "2", "workerGroupSpecs": [group]}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": {**whole, **spec}}


MANUAL: dict[str, Any] = {"upgradeStrategy": None}


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (cluster(rayVersion="3"), "its pods are recreated (spec.rayVersion)"),
        (cluster(workerGroupSpecs=[{"groupName": "gpus", "replicas": 2}]), "recreated (spec.workerGroupSpecs)"),
        (cluster(**MANUAL, workerGroupSpecs=[{"groupName": "gpus", "replicas": 2}]), "it loses pods of the group gpus"),
        (cluster(**MANUAL, workerGroupSpecs=[]), "it loses pods of the group gpus"),
        (cluster({"kueue.x-k8s.io/queue-name": "q"}, **MANUAL, rayVersion="3"), "recreated (spec.rayVersion)"),
        (cluster(suspend=True), "its pods are deleted (spec.suspend)"),
        (cluster(), ""),
        (cluster(**MANUAL, rayVersion="3"), ""),
        (cluster(workerGroupSpecs=[{**cluster()["spec"]["workerGroupSpecs"][0], "replicas": 8}]), ""),
    ],
)
def test_a_change_that_replaces_a_runs_pods_is_reported(after: Any, said: str) -> None:
    found = runs.endings([cluster()], [after], is_there=False)
    assert [said in each.why for each in found] == [True] * bool(said)
    for each in found:
        assert each.why.endswith(": a run on it stops, and loses what it did after its last saved step")
        assert ("ray.upgrade to manual" in each.fix) == ("recreated" in said and not after["metadata"]["labels"])


def test_a_removed_cluster_or_claim_is_reported() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "rl"}}
    found = runs.endings([cluster(), claim], [])
    assert [each.object for each in found] == ["RayCluster/r", "PersistentVolumeClaim/c"]
    assert runs.endings([cluster(), claim], [cluster(), claim]) == []
    assert runs.endings([cluster(), claim], [], is_there=False) == []


def test_a_claim_on_a_volume_that_is_written_keeps_its_files() -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "rl"}}
    (made,) = runs.endings([claim], [])
    (bucket,) = runs.endings([{**claim, "spec": {"volumeName": "rl-c", "storageClassName": ""}}], [])
    assert "deletes it, and the files of a volume that was made for it" in made.why
    assert "the files of its volume stay" in bucket.why


def test_networks_that_pods_of_another_stack_name_are_said() -> None:
    gone = [{"apiVersion": "networking.gke.io/v1", "kind": "Network", "metadata": {"name": f"n-{at}"}} for at in (1, 2)]
    listed = '[{"interfaceName":"eth0","network":"default"},{"interfaceName":"eth1","network":"n-NUMBER"}]'

    def pod(name: str, number: int) -> dict[str, Any]:
        annotations = {"networking.gke.io/interfaces": listed.replace("NUMBER", str(number))}
        metadata = {"name": name, "namespace": "rl", "annotations": annotations}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}

    (one,) = runs.endings(gone, [], elsewhere=[pod("a", 1), pod("b", 3)])
    assert (one.object, "and pods of Pod/a name it: new pods do not start" in one.why) == ("Network/n-1", True)
    (both,) = runs.endings(gone, [], elsewhere=[pod("a", 1), pod("b", 2)])
    assert "deletes it and 1 other network, and pods of Pod/a, Pod/b name them" in both.why
    assert runs.endings(gone, gone[:1], elsewhere=[pod("a", 1)]) == []
    assert runs.endings(gone, [], elsewhere=[pod("a", 1)], is_there=False) == []


LR = ("policy", "optimizer", "kwargs", "lr")
SCHEDULER = ("policy", "megatron_cfg", "scheduler")
MEGATRON_LR = ("policy", "megatron_cfg", "optimizer", "lr")
ACTOR = ("actor_rollout_ref", "actor")


def both(*changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return several changes as one."""
    whole: dict[str, Any] = {}
    for change in changes:
        whole = dict(overlay(whole, change))
    return whole


NEMO_MEGATRON = both(NEMO_RL, config("policy", "megatron_cfg", "enabled", value=True))
VERL_MEGATRON = both(VERL, config(*ACTOR, "strategy", value="megatron"))


def schedulers(name: str, **kwargs: Any) -> dict[str, Any]:
    """Return a schedule of DTensor that begins with a scheduler of this class."""
    return config("policy", "scheduler", value=[{"name": name, "kwargs": kwargs}, {"milestones": [5]}])


NEMO_LINEAR = both(NEMO_RL, schedulers("LinearLR"))
IGNORED: list[tuple[Mapping[str, Any], Mapping[str, Any], str]] = [
    (NEMO_RL, config(*LR, value=1e-6), "policy.optimizer.kwargs.lr (not set → 1e-06)"),
    (NEMO_RL, config("policy", "optimizer", "kwargs", "betas", value=[0.9, 0.99]), "kwargs.betas"),
    (NEMO_LINEAR, schedulers("LinearLR", total_iters=9), "policy.scheduler (a list of 2 → a list of 2)"),
    (NEMO_MEGATRON, config("policy", "megatron_cfg", "optimizer", "adam_beta2", value=0.95), "optimizer.adam_beta2"),
    (
        NEMO_MEGATRON,
        both(config(*MEGATRON_LR, value=1e-6), config(*SCHEDULER, "use_checkpoint_opt_param_scheduler", value=True)),
        "policy.megatron_cfg.optimizer.lr",
    ),
    (
        NEMO_MEGATRON,
        both(config(*MEGATRON_LR, value=1e-6), config(*SCHEDULER, "override_opt_param_scheduler", value=True)),
        "policy.megatron_cfg.optimizer.lr",
    ),
    (VERL, config(*ACTOR, "optim", "lr", value=1e-6), "actor_rollout_ref.actor.optim.lr"),
    (VERL, config(*ACTOR, "optim", "weight_decay", value=0.1), "actor_rollout_ref.actor.optim.weight_decay"),
    (VERL_MEGATRON, config(*ACTOR, "optim", "lr", value=1e-6), "actor_rollout_ref.actor.optim.lr"),
]


@pytest.mark.parametrize(("plan", "change", "said"), IGNORED)
def test_what_the_optimizer_of_a_checkpoint_restores_has_no_effect(
    plan: Mapping[str, Any], change: Mapping[str, Any], said: str
) -> None:
    before, after = [rayjob(plan)], [rayjob(plan, 2, change=change)]
    assert runs.refusals(before, after) == []
    (found,) = runs.endings(before, after)
    assert found.kind == "ignored"
    assert found.why.startswith("has no effect on attempt 2: ")
    assert said in found.why
    assert "job.name" in found.fix
    assert ("checkpoint.load_contents" in found.fix) == (plan in (VERL, VERL_MEGATRON))
    # Another run starts with an optimizer of its own.
    assert all(each.kind == "ends" for each in runs.endings(before, [rayjob(plan, name="b", change=change)]))


MODEL_ONLY = config(*ACTOR, "checkpoint", "load_contents", value=["model"])
EFFECTIVE: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [
    (NEMO_RL, config("grpo", "max_num_steps", value=500)),
    (NEMO_RL, config("policy", "max_grad_norm", value=0.5)),
    (both(NEMO_RL, config("checkpointing", "save_optimizer", value=False)), config(*LR, value=1e-6)),
    (both(NEMO_RL, config("checkpointing", "enabled", value=False)), config(*LR, value=1e-6)),
    (both(NEMO_RL, config("defaults", value="/mine.yaml")), config(*LR, value=1e-6)),
    (NEMO_MEGATRON, config(*SCHEDULER, "lr_warmup_init", value=1e-7)),
    (VERL, both(config(*ACTOR, "optim", "lr", value=1e-6), MODEL_ONLY)),
    (VERL, config(*ACTOR, "optim", "lr_warmup_steps", value=5)),
    (VERL, both(config(*ACTOR, "optim", "lr", value=1e-6), config("trainer", "resume_mode", value="disable"))),
    (VERL_MEGATRON, config(*ACTOR, "optim", "weight_decay", value=0.1)),
]


@pytest.mark.parametrize(("plan", "change"), EFFECTIVE)
def test_what_a_resume_reads_is_no_finding(plan: Mapping[str, Any], change: Mapping[str, Any]) -> None:
    before, after = [rayjob(plan)], [rayjob(plan, 2, change=change)]
    assert runs.refusals(before, after) == []
    assert runs.endings(before, after) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (config(*MEGATRON_LR, value=1e-6), "policy.megatron_cfg.optimizer.lr"),
        (config(*SCHEDULER, "lr_warmup_iters", value=1), "policy.megatron_cfg.scheduler.lr_warmup_iters"),
        (config("policy", "train_global_batch_size", value=256), "policy.train_global_batch_size"),
    ],
)
def test_megatron_refuses_another_schedule_than_that_of_its_checkpoint(change: Mapping[str, Any], said: str) -> None:
    (found,) = runs.refusals([rayjob(NEMO_MEGATRON)], [rayjob(NEMO_MEGATRON, 2, change=change)])
    assert found.why.startswith(f"attempt 2 cannot resume: {said}")
    assert "use_checkpoint_opt_param_scheduler" in found.fix
    keeps = both(change, config(*SCHEDULER, "use_checkpoint_opt_param_scheduler", value=True))
    assert runs.refusals([rayjob(NEMO_MEGATRON)], [rayjob(NEMO_MEGATRON, 2, change=keeps)]) == []


def test_more_steps_may_stop_a_resume_with_megatron() -> None:
    """The steps of the schedule are the lesser of the steps and those of the epochs, which the values do not say."""
    after = [rayjob(NEMO_MEGATRON, 2, change=config("grpo", "max_num_steps", value=500))]
    (found,) = runs.endings([rayjob(NEMO_MEGATRON)], after)
    assert found.why.startswith("attempt 2 may not resume: grpo.max_num_steps")


def test_schedulers_of_other_classes_may_not_take_the_state_of_the_saved_step() -> None:
    for plan in (NEMO_LINEAR, NEMO_RL):
        after = [rayjob(plan, 2, change=schedulers("CosineAnnealingLR"))]
        (found,) = runs.endings([rayjob(plan)], after)
        assert found.why.startswith("attempt 2 may not resume: policy.scheduler ("), found.why
        assert "other classes of schedulers" in found.why
        assert found.kind == "ends"


def test_the_page_about_the_learning_rate_names_what_is_restored() -> None:
    page = (ROOT / "docs/howto/learning-rate.md").read_text("utf-8")
    for row in restored.ROWS:
        for key in row.shown:
            assert key.rpartition(".")[2] in page


def test_the_page_about_resuming_has_every_row() -> None:
    page = (ROOT / "docs/howto/resume.md").read_text("utf-8")
    for row in runs.KEPT:
        assert row.name.removeprefix("the ") in page
