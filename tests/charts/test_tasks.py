"""The tasks of a run: what each job's plan says, what travels with it, and what it is refused for."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grpo.generate.programs import code
from grpo.helm.engines import Rendered
from grpo.values.config import RunConfig
from grpo.values.frameworks import data as frameworks_data
from postrender.errors import RenderError
from postrender.values import merge
from tests.charts.test_grpo_job import plan, rayjob
from tests.conftest import ACCELERATORS, ROOT, Render, stack_files, thin
from tests.programs import PROGRAMS, carried

RenderText = Callable[..., Rendered]
TASKS = ("fetch", "prepare-data", "convert", "evaluate", "clean")
NEEDED: dict[str, Any] = {
    "prepareData": {"gsm8k": {"repository": "openai/gsm8k"}},
    "evaluate": {"benchmarks": {"math500": {}}},
}
VERL = [*stack_files(recipe="qwen2.5-32b-gsm8k-verl")]
CODE = {"packages": {"verl": "0.7.1", "orjson": "3.11.4"}}


def job(task: str, **more: Any) -> dict[str, Any]:
    return {"job": {"name": "probe", "task": task, **NEEDED, **more}}


def imported(name: str, framework: str = "nemo_rl") -> set[str]:
    """Return the modules of jobs/ that a program imports, itself and theirs included; evaluate chooses one of two."""
    found, todo = {name}, [name]
    while todo:
        tree = ast.parse(PROGRAMS[todo.pop()].read_text(encoding="utf-8"))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        if name == "evaluate":
            names.add(f"{framework}_evaluation")
        new = names & PROGRAMS.keys() - found
        found |= new
        todo += new
    return found


@pytest.mark.parametrize("task", TASKS)
def test_each_task_renders_its_own_rayjob(task: str, render: Render) -> None:
    objects = render("grpo-job", job(task, attempt=2))
    assert rayjob(objects)["metadata"]["name"] == f"probe-{task}-2"
    found = plan(objects)
    folder = f"/data/runs/probe/tasks/{task}"
    program = task.replace("-", "_")
    assert found["runDirectory"] == folder
    assert found["command"] == ["python3", f"{{programs}}/{program}.py", f"{folder}/attempts/2/task.json"]
    assert found["task"]["runDirectory"] == "/data/runs/probe"
    assert found["task"]["model"] == "google/gemma-3-27b-it"
    assert "config" not in found
    knows = task in ("convert", "evaluate", "clean")
    assert found.get("of") == ("/data/runs/probe" if knows else None)
    assert found.get("identity") == (plan(render("grpo-job", job("train")))["identity"] if knows else None)


@pytest.mark.parametrize("task", thin(["train", *TASKS], 3))
def test_a_job_carries_only_the_files_its_programs_import(task: str, render: Render) -> None:
    entrypoint = rayjob(render("grpo-job", job(task)))["spec"]["entrypoint"]
    rewards = (f"{path.stem}" for path in (ROOT / "jobs/rewards").glob("*.py"))
    starts = rewards if task == "train" else (task.replace("-", "_"),)
    own = set().union(*(imported(name, framework) for name in starts for framework in ("nemo_rl", "verl")))
    of_training = {"local_model", "model_staging", *({"code_digest"} if task != "fetch" else ())}
    of_training |= {"resume", "checkpoints"}
    # The guard of a training starts a program that collects evidence.
    of_training |= imported("guard") - imported("trainer")
    launcher = imported("launch") - (of_training if task != "train" else set())
    launcher |= {"evidence", "node_evidence", "ray_deaths", "flight_recorder"} if task == "train" else set()
    wanted = {f"{name}.py" for name in {*launcher, "ray_nodes", "task", *own}} - {"launch.py"} | {"__main__.py"}
    programs = carried(entrypoint)
    assert programs.keys() == wanted
    assert programs["__main__.py"] == code(PROGRAMS["launch"].read_text("utf-8"))


@pytest.mark.parametrize("task", ["train", *TASKS])
def test_the_programs_are_small_enough_for_the_plan_and_for_log_agents(task: str, render: Render) -> None:
    """Fluent Bit stops reading a file at a line of 32 KiB, and Ray writes the entrypoint into the driver's log."""
    entrypoint = rayjob(render("grpo-job", job(task)))["spec"]["entrypoint"]
    packed = entrypoint.partition("GRPO_PROGRAMS")[2]
    # At least a quarter of the 96 KiB that the chart allows is free for the plan and the user's files.
    assert len(packed) <= 0.75 * 96 * 1024
    assert max(map(len, packed.splitlines())) <= 4096


@pytest.mark.parametrize("task", TASKS)
def test_only_gpu_tasks_wait_for_gpus(task: str, render: Render) -> None:
    assert ("workers" in plan(render("grpo-job", job(task)))) == (task == "evaluate")


@pytest.mark.parametrize(("task", "replicas"), [("train", 2), ("evaluate", 1), ("fetch", 0), ("convert", 0)])
def test_an_ephemeral_cluster_has_only_the_nodes_its_task_needs(task: str, replicas: int, render: Render) -> None:
    spec = rayjob(render("grpo-job", job(task, cluster={"mode": "ephemeral"})))["spec"]["rayClusterSpec"]
    assert sum(group["replicas"] for group in spec["workerGroupSpecs"]) == replicas


def test_fetch_downloads_the_model_named_in_the_config(render: Render) -> None:
    datasets = {"openai/gsm8k": {"revision": "main"}}
    found = plan(render("grpo-job", job("fetch", fetch={"datasets": datasets})))["task"]
    assert "google/gemma-3-27b-it" in found["models"]
    assert found["datasets"] == datasets
    assert not found["code"]


def test_a_model_on_a_volume_is_not_fetched(render: Render) -> None:
    config = {"policy": {"model_name": "/data/models/gemma"}}
    found = plan(render("grpo-job", job("fetch", config=config, fetch={"models": {"google/gemma-3-27b-it": None}})))
    assert found["task"]["models"] == {}


def test_code_has_one_folder_per_version_and_is_required_by_tasks_using_it(render: Render) -> None:
    folder = "/data/code/orjson-3.11.4+verl-0.7.1"
    fetch = plan(render("grpo-job", job("fetch", code=CODE), files=VERL))
    assert fetch["task"]["code"]["directory"] == folder
    assert fetch["task"]["code"]["packages"] == CODE["packages"]
    assert "neededFiles" not in fetch or not fetch["neededFiles"]
    for task in ("train", "convert"):
        found = plan(render("grpo-job", job(task, code=CODE), files=VERL))
        assert found["neededFiles"][f"{folder}/grpo.json"] == "fetch"
        assert found["environment"]["PYTHONPATH"] == folder
        if task == "train":
            assert found["code"] == folder


def test_code_from_a_commit_goes_into_a_folder_named_after_it(render: Render) -> None:
    code = {
        "repository": "https://github.com/verl-project/verl.git",
        "revision": "a" * 40,
        "packages": {"verl": None, "orjson": None},
    }
    found = plan(render("grpo-job", job("fetch", code=code), files=VERL))["task"]["code"]
    assert found["directory"] == f"/data/code/verl-{'a' * 12}"


def test_prepared_data_is_required_when_the_config_names_it(render: Render) -> None:
    found = plan(render("grpo-job", job("train"), files=VERL))
    assert found["neededFiles"]["/data/datasets/gsm8k/train.parquet"] == "prepare-data"
    assert found["environment"]["GRPO_DATASETS"] == "/data/datasets"
    prepare = plan(render("grpo-job", job("prepare-data"), files=VERL))["task"]
    assert prepare["directory"] == "/data/datasets"
    assert prepare["format"] == "parquet"
    assert prepare["datasets"]["gsm8k"]["answer"] == "answer"


def test_evaluation_defaults_are_those_used_in_the_guides(render: Render) -> None:
    found = plan(render("grpo-job", job("evaluate", evaluate={"benchmarks": {"aime2025": {}}})))["task"]
    expected = {"temperature": 0, "topP": 1, "maxNewTokens": 8192, "samples": 1, "seed": 42}
    assert found["benchmarks"]["aime2025"] == expected
    assert found["models"] == ["base", "checkpoint"]
    assert found["nodes"] == 1


@pytest.mark.parametrize(
    ("values", "text"),
    thin(
        [
            (job("trian"), "job.task"),
            (job("train", framework="trl"), "job.framework"),
            (job("train", name="two words"), "job.name"),
            (job("train", name="a" * 33), "job.name"),
            (job("train", name="a" * 32, attempt=100), "shorten job.name"),
            (job("prepare-data", prepareData={"gsm8k": None}), "job.prepareData names no data set"),
            (job("evaluate", evaluate={"benchmarks": {"math500": None}}), "name one, such as math500"),
            (job("evaluate", evaluate={"benchmarks": {"gsm9k": {}}}), "gsm9k"),
            (job("evaluate", evaluate={"benchmarks": {"aime2025": {"samples": 4}}}), "set temperature above 0"),
            (
                job(
                    "evaluate",
                    evaluate={**NEEDED["evaluate"], "base": {"enabled": False}, "checkpoint": {"enabled": False}},
                ),
                "job.evaluate.base",
            ),
            (job("convert", step="newest"), "job.step"),
            (job("fetch", code={"repository": "https://github.com/a/b"}), "only one of repository and revision"),
            (job("fetch", code={"repository": "https://github.com/a/b", "revision": "main"}), "job.code.revision"),
            (
                {**job("fetch"), "huggingface": {"cache": {"volume": ""}}},
                "task fetch downloads into the cache: name a volume",
            ),
        ],
        3,
    ),
)
def test_bad_values_are_refused_before_anything_starts(values: dict[str, Any], text: str, render: Render) -> None:
    with pytest.raises(RenderError) as caught:
        render("grpo-job", values)
    message = str(caught.value).replace("/", ".").replace("at '.", "'")
    assert text in message


LENGTH = 'BOUNDS = (-1.0, 0.0)\n\n\ndef reward(ground_truth, response):\n    return -1.0, None  # "$HOME" `id`\n'
REWARDS = {
    "right": {"weight": 0.8, "builtin": "exact_answer", "kwargs": {"markers": ["boxed"]}},
    "short": {"file": LENGTH},
}


def test_rewards_are_passed_as_files_and_named_in_the_config(render: Render) -> None:
    objects = render("grpo-job", job("train", rewards=REWARDS, prompts={"tags": "Answer {}\n"}))
    found, entrypoint = plan(objects), rayjob(objects)["spec"]["entrypoint"]
    folder = "/data/runs/probe/attempts/1/code"
    assert found["config"]["data"]["default"]["env_name"] == "rewards"
    assert found["config"]["env"]["rewards"] == {"num_workers": 8}
    assert found["command"][1] == f"{folder}/nemo_rl_rewards.py"
    assert found["environment"]["PYTHONPATH"] == folder
    assert found["environment"]["GRPO_PROMPTS"] == f"{folder}/prompts"
    assert found["shared"] == ["prompts/tags.txt", "rewards.json", "rewards/short.py"]
    text = entrypoint.split("cat >\"$programs/rewards/short.py\" <<'GRPO_FILE'\n")[1].split("\nGRPO_FILE\n")[0]
    assert text + "\n" == LENGTH
    table = entrypoint.split("cat >\"$programs/rewards.json\" <<'GRPO_FILE'\n")[1].split("\nGRPO_FILE\n")[0]
    assert json.loads(table)["short"] == {"weight": 1, "kwargs": {}, "file": "short.py"}


def test_older_nemo_rl_gets_the_environment_name_directly_under_data(render: Render) -> None:
    files = [*stack_files(), ROOT / "values/frameworks/nemo-rl-v0.5.0.yaml"]
    config = plan(render("grpo-job", job("train", rewards=REWARDS), files=files))["config"]
    assert config["data"]["env_name"] == "rewards"
    assert "default" not in config["data"]


@pytest.mark.parametrize(("version", "section"), [("0.7.1", "reward"), ("0.6.1", "")])
def test_verl_finds_the_rewards_where_its_version_looks(version: str, section: str, render: Render) -> None:
    more = [ROOT / f"values/frameworks/verl-{version}.yaml"] if version != "0.7.1" else []
    objects = render("grpo-job", job("train", rewards=REWARDS), files=[*VERL, *more])
    config = plan(objects)["config"]
    function = (config[section] if section else config)["custom_reward_function"]
    assert function == {"path": "/data/runs/probe/attempts/1/code/verl_reward.py", "name": "compute_score"}


@pytest.mark.parametrize(
    ("rewards", "text"),
    [
        ({"both": {"builtin": "length", "file": LENGTH}}, "exactly one of builtin and file"),
        ({"none": {"weight": 1}}, "exactly one of builtin and file"),
        ({"end": {"file": "x = 1\nGRPO_FILE\ny = 2\n"}}, r"job\.rewards\.end\.file has a line GRPO_FILE"),
        ({"bell": {"file": "x = '\x07'\n"}}, r"job\.rewards\.bell\.file contains a control character"),
        ({"minus": {"builtin": "length", "weight": -1}}, "weight"),
        ({"typo": {"builtin": "exact_anser"}}, "builtin"),
    ],
)
def test_bad_rewards_are_refused(rewards: dict[str, Any], text: str, render: Render) -> None:
    with pytest.raises(RenderError, match=text):
        render("grpo-job", job("train", rewards=rewards))


def test_rewards_need_nemo_rl_v0_5_or_newer(render: Render) -> None:
    files = [*stack_files(), ROOT / "values/frameworks/nemo-rl-v0.4.0.yaml"]
    values = {**job("train", rewards=REWARDS), "ray": {"head": {"numCpus": 1}}}
    with pytest.raises(RenderError, match=r"needs NeMo RL v0\.5\.0 or newer"):
        render("grpo-job", values, files=files)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_a_stopping_driver_has_time_to_save(accelerator: str, render: Render) -> None:
    objects = render("raycluster", {"ray": {"head": {"jobStopSeconds": 45}}}, files=stack_files(accelerator))
    cluster = next(item for item in objects if item["kind"] == "RayCluster")
    head = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    workers = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    assert {"name": "RAY_JOB_STOP_WAIT_TIME_S", "value": "45"} in head["containers"][0]["env"]
    assert (head["terminationGracePeriodSeconds"], workers["terminationGracePeriodSeconds"]) == (75, 75)
    for pod, part in ((head, "head"), (workers, "worker")):
        command = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
        assert command == ["python3", "-I", "-c", PROGRAMS["pre_stop"].read_text(encoding="utf-8"), part]


def test_timeouts_are_part_of_the_plan(render: Render) -> None:
    found = plan(render("grpo-job", job("train", takeoverSeconds=900, workersTimeoutSeconds=7200)))
    assert found["takeoverSeconds"] == 900
    assert found["workers"] == {"nodes": 2, "gpus": 8, "timeoutSeconds": 7200}


def test_the_values_set_how_long_a_volume_may_hang(render: Render) -> None:
    """The entrypoint hands it to the launcher and to the programs that the launcher starts."""
    for values, expected in ((job("train"), 240), (job("convert", lapseSeconds=500), 500)):
        (rayjob,) = (item for item in render("grpo-job", values) if item["kind"] == "RayJob")
        line = f'export GRPO_OWNER_LAPSE_SECONDS="${{GRPO_OWNER_LAPSE_SECONDS:-{expected}}}"\n'
        assert line in rayjob["spec"]["entrypoint"]


def test_an_attempt_and_its_cluster_can_each_have_a_deadline(render: Render) -> None:
    for mode in ("existing", "ephemeral"):
        cluster = {"mode": mode, "timeoutSeconds": 600}
        objects = render("grpo-job", job("train", deadlineSeconds=7200, cluster=cluster))
        spec = next(item for item in objects if item["kind"] == "RayJob")["spec"]
        assert (spec["activeDeadlineSeconds"], spec["preRunningDeadlineSeconds"]) == (7200, 600)
        assert plan(objects)["deadline"] == {"SIGTERM": 7200, "SIGKILL": 7320}


def test_a_timeout_of_zero_sets_no_deadline(render: Render) -> None:
    objects = render("grpo-job", job("train", cluster={"timeoutSeconds": 0}))
    spec = next(item for item in objects if item["kind"] == "RayJob")["spec"]
    assert not {"activeDeadlineSeconds", "preRunningDeadlineSeconds"} & spec.keys()
    assert "deadline" not in plan(objects)


def test_every_program_is_used_by_some_job() -> None:
    """A file of jobs/ that no chart and no command reads would be dead."""
    starts = {
        "launch",
        "ray_nodes",
        "ray_deaths",
        "evidence",
        "check_cluster",
        "check_idle",
        "probe",
        "samples",
        "ray_jobs",
        "receive_file",
        "pre_stop",
    }
    starts |= {
        "nemo_rl_environment",
        "nemo_rl_rewards",
        "verl_reward",
        "try_rewards",
        *(task.replace("-", "_") for task in TASKS),
    }
    used = set().union(*(imported(name, framework) for name in starts for framework in ("nemo_rl", "verl")))
    assert set(PROGRAMS) == used


@pytest.mark.parametrize(
    ("evaluate", "files", "text"),
    [
        ({"benchmarks": {"gsm8k": None, "math500": {}}}, VERL, "validation knows only gsm8k"),
        ({"benchmarks": {"gsm8k": None}}, VERL, "such as gsm8k"),
        ({"tensorParallelSize": 2}, VERL, "have no effect, because verl evaluates"),
        ({"tensorParallelSize": 3}, stack_files(), "is 3, which does not divide the 8 GPUs of a node"),
        (
            {"benchmarks": {"aime2026": {}}},
            [*stack_files(), ROOT / "values/frameworks/nemo-rl-v0.6.0.yaml"],
            "v0.6.0 lacks it",
        ),
    ],
)
def test_unsupported_evaluation_settings_are_refused_at_render_time(
    evaluate: dict[str, Any], files: list[Path], text: str, render: Render
) -> None:
    """The program would refuse it too, on a GPU node that had to come first."""
    with pytest.raises(RenderError, match=text):
        render("grpo-job", {"job": {"name": "probe", "task": "evaluate", "evaluate": evaluate}}, files=files)


@pytest.mark.parametrize(
    ("task", "mode", "has_token"),
    [("fetch", "ephemeral", True), ("train", "ephemeral", False), ("prepare-data", "ephemeral", False)],
)
@pytest.mark.parametrize("wired", [True, False])
def test_an_offline_stack_gives_its_token_to_the_fetch_task_only(
    task: str, mode: str, has_token: bool, wired: bool, render_text: RenderText
) -> None:
    """A gated model needs it, and what the training runs must not have it."""
    values = {
        **job(task, cluster={"mode": mode}),
        "huggingface": {"offline": {"enabled": True}},
        "stack": {"wiring": {"enabled": wired}},
    }
    done = render_text("grpo-job", values)
    groups = rayjob([*done.documents])["spec"]["rayClusterSpec"]
    pods = [each["template"]["spec"] for each in (groups["headGroupSpec"], *groups.get("workerGroupSpecs", []))]
    tokens = [one for pod in pods for box in pod["containers"] for one in box["env"] if one["name"] == "HF_TOKEN"]
    secret = {"name": "hf-secret", "key": "hf_api_token"}
    assert [one["valueFrom"]["secretKeyRef"] for one in tokens] == [secret] * has_token
    assert ("kubectl create secret generic hf-secret" in " ".join((done.notes or "").split())) == has_token


@pytest.mark.parametrize(("model", "is_told"), [(None, True), ("google/gemma-3-27b-it", True), ("a/b", False)])
def test_the_notes_have_the_step_time_of_the_runs_model(
    model: str | None, is_told: bool, render_text: RenderText
) -> None:
    time = {"seconds": 9, "nodes": 2, "source": "ours"} | ({"model": model} if model else {})
    notes = render_text("grpo-job", {"job": {"stepTimes": {"b200": time}}}).notes or ""
    assert ("A step took 9 s on these machines" in notes) == is_told


def test_the_cluster_of_an_offline_stack_has_no_token(render: Render) -> None:
    for item in render("raycluster", {"huggingface": {"offline": {"enabled": True}}}):
        assert "HF_TOKEN" not in str(item.get("spec"))


def test_a_benchmark_that_must_be_downloaded_is_refused_offline(render: Render) -> None:
    values = {**job("evaluate"), "huggingface": {"offline": {"enabled": True}}}
    with pytest.raises(RenderError, match="downloads it"):
        render("grpo-job", values)


@pytest.mark.parametrize(("files", "ending"), [(VERL, "parquet"), (stack_files(recipe="smoke"), "jsonl")])
def test_evaluation_on_gsm8k_needs_the_prepared_file(files: list[Path], ending: str, render: Render) -> None:
    found = plan(render("grpo-job", {"job": {"name": "probe", "task": "evaluate"}}, files=files))
    assert found["neededFiles"][f"/data/datasets/gsm8k/test.{ending}"] == "prepare-data"


@pytest.mark.parametrize(
    ("files", "data", "words"),
    [
        (VERL, {}, "Qwen/Qwen2.5-32B-Instruct on gsm8k/train.parquet"),
        (stack_files(recipe="smoke"), {}, "Qwen/Qwen2.5-0.5B-Instruct on gsm8k"),
        (
            stack_files(recipe="smoke"),
            {"train": [{"dataset_name": "gsm8k"}, {"dataset_name": "ResponseDataset", "data_path": "/data/a.jsonl"}]},
            "Qwen/Qwen2.5-0.5B-Instruct on gsm8k, /data/a.jsonl",
        ),
    ],
)
def test_the_first_line_of_the_notes_names_model_and_data(
    files: list[Path], data: dict[str, Any], words: str, render_text: RenderText
) -> None:
    """The same as the plan says."""
    values = {"job": {"config": {"data": data}}}
    notes = render_text("grpo-job", values, files=files).notes or ""
    assert f"attempt 1: {words}, with " in notes.splitlines()[0]
    tree = merge.overlay(merge.over_defaults(merge.load([*map(str, files)])), values)
    assert words.endswith(f" on {frameworks_data.words(RunConfig(tree))}")


@pytest.mark.parametrize("mode", thin(["existing", "ephemeral"], 2))
@pytest.mark.parametrize("task", ["train", *TASKS])
def test_the_notes_name_what_the_job_needs(task: str, mode: str, render_text: RenderText) -> None:
    """A task without GPUs asks for none, and every command names the namespace."""
    values = job(task, cluster={"mode": mode}, evaluate={"benchmarks": {"gsm8k": {}}})
    notes = render_text("grpo-job", values).notes or ""
    assert ("check-node" in notes) == (mode == "ephemeral" and task in ("train", "evaluate"))
    assert ("this runs on the head alone" in notes) == (mode == "ephemeral" and task not in ("train", "evaluate"))
    assert ("from task prepare-data" in notes) == (task == "evaluate")
    assert ("run task fetch first" in notes) == (task == "prepare-data")
    assert ("It deletes /data/runs/probe/checkpoints" in notes) == (task == "clean")
    commands = [line for line in notes.splitlines() if line.strip().startswith(("helm install", "helm upgrade"))]
    assert all("--namespace" in line for line in commands)


def test_a_reward_applies_to_each_dataset_in_a_list(render: Render) -> None:
    """An entry's own env_name would win over the default one, and train on the framework's reward."""
    config = {"data": {"train": [{"dataset_name": "gsm8k", "split": "train", "env_name": "math"}]}}
    found = plan(render("grpo-job", job("train", rewards=REWARDS, config=config)))["config"]
    assert found["data"]["train"] == [{"dataset_name": "gsm8k", "split": "train"}]
    assert found["data"]["default"]["env_name"] == "rewards"


def test_the_user_can_set_the_number_of_reward_workers(render: Render) -> None:
    config = {"env": {"rewards": {"num_workers": 2}}}
    found = plan(render("grpo-job", job("train", rewards=REWARDS, config=config)))["config"]
    assert found["env"]["rewards"] == {"num_workers": 2}


@pytest.mark.parametrize(
    ("values", "files", "text"),
    [
        (
            {
                "config": {"data": {"default": {"prompt_file": "${oc.env:GRPO_PROMPTS}/tgas.txt"}}},
                "prompts": {"tags": "{}"},
            },
            stack_files(),
            "job.prompts has tags, but job.config names the prompt tgas.txt",
        ),
        ({"prompts": {"tags": "{}"}}, VERL, "verl reads no prompt files"),
        ({"prompts": {"odd": "a\u2028b {}"}}, stack_files(), r"job\.prompts\.odd contains a control character"),
    ],
)
def test_prompts_the_framework_would_never_read_are_refused(
    values: dict[str, Any], files: list[Path], text: str, render: Render
) -> None:
    with pytest.raises(RenderError, match=text):
        render("grpo-job", job("train", **values), files=files)


@pytest.mark.parametrize("task", ["evaluate", "clean"])
@pytest.mark.parametrize("folder", ["/data", "/data/runs", "/data/../data"])
def test_node_local_copies_are_refused_on_a_shared_volume(task: str, folder: str, render: Render) -> None:
    """Task clean deletes them by the name of the run."""
    with pytest.raises(RenderError, match="stageDirectory"):
        render("grpo-job", job(task, evaluate={**NEEDED["evaluate"], "stageDirectory": folder}))


def test_files_on_a_volume_are_checked_before_waiting_for_gpus(render_text: RenderText) -> None:
    """Names that OmegaConf resolves later are nobody's to look for; no task makes the user's own files."""
    config = {
        "policy": {"model_name": "/data/models/gemma"},
        "data": {"train": {"data_path": "/data/mine.jsonl"}, "other": "${oc.env:GRPO_DATASETS}/a/${x}.jsonl"},
    }
    rendered = render_text("grpo-job", job("train", config=config))
    assert plan(rendered.documents)["neededFiles"] == {"/data/models/gemma": "", "/data/mine.jsonl": ""}
    notes = rendered.notes or ""
    assert "no task makes. Put what is not there on its volume (grpo upload puts data into datasets/):\n" in notes
    assert "datasets/):\n  /data/mine.jsonl\n  /data/models/gemma\n" in notes
    assert "from task" not in notes
    assert not re.search(r"job\.task=\s|-\s+charts/", notes)


def test_checks_run_before_waiting_for_gpus(render: Render) -> None:
    evaluate = plan(render("grpo-job", job("evaluate")))
    assert evaluate["checks"] == [[*evaluate["command"], "--check"]]
    assert "find_spec('verl')" in plan(render("grpo-job", job("train"), files=VERL))["checks"][0][2]
    rewards = plan(render("grpo-job", job("train", rewards=REWARDS)))
    assert rewards["checks"] == [["python3", "/data/runs/probe/attempts/1/code/rewards.py"]]


def test_a_custom_reward_function_or_checkpoint_must_be_on_the_volume(render: Render) -> None:
    trainer = {"resume_mode": "resume_path", "resume_from_path": "/data/old/global_step_10"}
    config = {"reward": {"custom_reward_function": {"path": "/data/reward.py"}}, "trainer": trainer}
    needed = plan(render("grpo-job", job("train", config=config, code=CODE), files=VERL))["neededFiles"]
    assert {"/data/reward.py", "/data/old/global_step_10"} <= needed.keys()
    config = {**config, "trainer": {"resume_mode": "auto", "resume_from_path": "/data/old/global_step_10"}}
    rewards = {"mine": {"weight": 1.0, "file": "def reward(response, answer):\n    return 1.0\n"}}
    needed = plan(render("grpo-job", job("train", config=config, code=CODE, rewards=rewards), files=VERL))[
        "neededFiles"
    ]
    assert not {"/data/reward.py", "/data/old/global_step_10"} & needed.keys()
