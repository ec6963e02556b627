"""Data, rewards, logging, resuming, and the 0.9 trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import one_of, quoted
from grpo.problems.frameworks.verl import TOPIC
from grpo.values.config import overlay_names
from grpo.values.derived import mapping
from grpo.values.frameworks.verl import BATCH, MINI, ROLLOUT, has_new_trainer, validates
from grpo.values.reference_errors import UnknownError
from postrender.finding import WARNING, Finding
from postrender.problem import Fails
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

_TRUNCATION = "data.truncation"
_RESUME = "trainer.resume_mode"
_FROM = "trainer.resume_from_path"
_OF_SCHEME = "abcdefghijklmnopqrstuvwxyz0123456789+"
_REWARD = "custom_reward_function.path"
_ABSOLUTE = (
    *("data.train_files", "data.val_files", _FROM, "trainer.rollout_data_dir", "trainer.validation_data_dir"),
    *(_REWARD, f"reward.{_REWARD}"),
)
_ON_VOLUME: Final = "write an absolute path on a volume"
# By the section of the key.
_FIX_OF: Final = {
    "data": "write a path on a volume, such as ${oc.env:GRPO_DATASETS}/gsm8k/train.parquet",
    "reward": "give the function as job.rewards (--set-file), or write the absolute path of a file on a volume",
    "custom_reward_function": "give it as job.rewards (--set-file), or write the absolute path of a file on a volume",
}


@TOPIC.problem(
    "data.train_files data.val_files",
    fails=Fails.AT_SETUP,
    source="utils/dataset/rl_dataset.py:178 at 0.9.1",
    logs="Unsupported file format",
)
def data_files(run: RunConfig) -> Iterator[Finding]:
    """data.train_files or data.val_files is empty, or has a file of the wrong type

    Why: the run ends when it reads its data, with the cluster already running and billing
    Fix: run the prepare-data task, which writes Parquet
    """
    if run.at("data.custom_cls.path") is not None:
        return
    for path in ("data.train_files", "data.val_files"):
        if run.given_has(path) and (given := value_at(run.given, tuple(path.split(".")))) in ([], None):
            # Also without a validation verl reads both.
            what = f"{path} is {quoted(given)}, and verl reads at least one file"
            fix = (
                f"name a file, such as ${{oc.env:GRPO_DATASETS}}/gsm8k/{'train' if 'train' in path else 'test'}.parquet"
            )
            yield Finding(what, keys=[path], fix=fix)
        for file in _texts(run, path):
            json = file.endswith((".json", ".jsonl"))
            # 0.6.1 takes every file for Parquet, whatever its name.
            known = json or file.endswith(".parquet") if run.since("0.7.1") else not json
            if not known:
                wanted = ".parquet, .json or .jsonl" if run.since("0.7.1") else ".parquet"
                yield Finding(f"{path} is {quoted(file)}, expected a name that ends in {wanted}", keys=[path])


def _texts(run: RunConfig, path: str) -> list[str]:
    """Return the file names at a path. A name may begin with a folder that only the running job knows."""
    try:
        given = run.at(path)
    except UnknownError:
        section, _, key = path.partition(".")
        given = run.config[section][key]
    names = given if isinstance(given, list) else [given]
    return [name for name in names if isinstance(name, str) and not name.endswith("}")]


@TOPIC.problem(
    "",
    fails=Fails.AT_RENDER,
    fix=_ON_VOLUME,
    source="utils/dataset/rl_dataset.py:178 at 0.9.1",
    logs="Unsupported file format",
)
def relative_path(run: RunConfig) -> Iterator[Finding]:
    """a path is relative, but each process runs in its own pod"""
    if not run.trains:
        return
    for path in _ABSOLUTE:
        if not run.given_has(path) or (path == _FROM and run.at(_RESUME) in ("auto", "disable")):
            continue
        given = value_at(run.given, tuple(path.split(".")))
        for name in given if isinstance(given, list) else [given]:
            if name and not _is_absolute(str(name)):
                fix = _FIX_OF.get(path.partition(".")[0], _ON_VOLUME)
                yield Finding(f"{path} has {quoted(name)}, which is relative", keys=[path], fix=fix)


def _is_absolute(name: str) -> bool:
    """Return whether a path means the same in every pod, as the chart decides it: absolute, a reference, or a URL."""
    scheme, is_address, _ = name.partition("://")
    return name.startswith(("/", "${")) or bool(is_address and scheme and not scheme.strip(_OF_SCHEME))


@TOPIC.problem(_TRUNCATION, fails=Fails.AT_FIRST_STEP, source="utils/torch_functional.py:352 at 0.6.1", before="0.7.1")
def truncation(run: RunConfig) -> str | None:
    """data.truncation is unknown to verl

    Why: the run fails when it reads the first prompt, after the model is loaded on all GPUs
    Fix: use error, left, right or middle
    """
    return one_of(_TRUNCATION, ("error", "left", "right", "middle"))(run)


@TOPIC.problem(
    "data.filter_overlong_prompts data.truncation",
    fails=Fails.SILENT,
    source="utils/dataset/rl_dataset.py:118 at 0.9.1",
    severity=WARNING,
    since="0.7.1",
)
def long_prompts_cut(run: RunConfig) -> str | None:
    """data.truncation is set, but prompts that are too long are not filtered out

    Why: from 0.7.1 on, verl ignores data.truncation and cuts off the start of such prompts
    Fix: set data.filter_overlong_prompts to true
    """
    silent = run.given_has(_TRUNCATION) and not run.on("data.filter_overlong_prompts")
    return f"data.truncation is {quoted(run.at(_TRUNCATION))}, and filter_overlong_prompts is off" if silent else None


@TOPIC.problem(
    "reward.reward_manager.name reward_model.reward_manager",
    fails=Fails.AT_SETUP,
    source="trainer/ppo/reward.py:95 at 0.9.1",
)
def reward_manager(run: RunConfig) -> Iterator[Finding]:
    """the reward manager or its source is unknown to this version

    Why: the reward workers reject it only at startup, when the cluster is already running and billing
    Fix: use naive, the default
    """
    source = "reward.reward_manager.source"
    unknown = one_of(source, ("register", "importlib"))(run) if run.since("0.7.1") else None
    if unknown:
        yield Finding(unknown, keys=[source])
    older = not run.since("0.9.1") and run.at("reward_model.reward_manager") is not None
    sources = [run.at("reward.reward_manager.source", "register")]
    sources += [] if run.since("0.9.1") else [run.at("reward_model.reward_loop_source") or "register"]
    if sources.count("register") < len(sources):
        return
    path = "reward_model.reward_manager" if older else "reward.reward_manager.name"
    what = one_of(path, run.catalogue.names["rewardManagers"])(run)
    if what:
        yield Finding(what, keys=[path])


@TOPIC.problem(
    "reward.custom_reward_function.name custom_reward_function.name",
    fails=Fails.AT_SETUP,
    source="trainer/ppo/reward.py:76 at 0.9.1",
)
def reward_function_without_name(run: RunConfig) -> Iterator[Finding]:
    """a custom reward function has no name

    Why: the reward workers look for it only at startup, when the cluster is already running and billing
    Fix: set the function's name, or remove the line: compute_score is the default
    """
    for section in ("reward.custom_reward_function", "custom_reward_function"):
        read = section.startswith("reward.") == run.since("0.7.1")
        if read and run.on(f"{section}.path") and run.at(f"{section}.name") is None:
            yield Finding(f"{section}.path is given, and its name is null", keys=[f"{section}.name"])


@TOPIC.problem(
    "=job.rewards reward.custom_reward_function.path custom_reward_function.path",
    fails=Fails.SILENT,
    source="trainer/ppo/reward.py:70 at 0.9.1",
    severity=WARNING,
)
def reward_function_not_used(run: RunConfig) -> Iterator[Finding]:
    """a custom reward function is set, but job.rewards replaces it

    Why: the function in the configuration scores nothing, because job.rewards replaces it
    Fix: remove it, or remove job.rewards
    """
    if not run.trains or not any(entry is not None for entry in mapping(run.value("job.rewards")).values()):
        return
    job = mapping(run.value("job"))
    overlays = (mapping(mapping(job.get("configFor")).get(name)) for name in overlay_names(run.values))
    for layer in (mapping(job.get("config")), *overlays):
        for section in (mapping(layer.get("reward")), layer):
            path = mapping(section.get("custom_reward_function")).get("path")
            if path:
                key = f"{'' if section is layer else 'reward.'}custom_reward_function.path"
                yield Finding(f"{key} is {quoted(path)}, and job.rewards are given", keys=[key])


@TOPIC.problem(
    "custom_reward_function reward_model sandbox_fusion",
    fails=Fails.SILENT,
    source="trainer/ppo/reward.py:70 at 0.9.1",
    since="0.9.1",
)
def legacy_reward(run: RunConfig) -> Iterator[Finding]:
    """a reward section from older versions is set, but this version does not read it

    Why: this version ignores the old section, and uses the default reward
    Fix: use reward.custom_reward_function, or job.rewards in the values
    """
    for section in ("custom_reward_function", "reward_model", "sandbox_fusion"):
        if run.given_has(section):
            names = [f"{section}.{key}" for key in mapping(value_at(run.given, (section,)))]
            moved = [f"{name} as {_of_today(name)}" for name in names]
            fix = f"write {', '.join(moved)}" if moved else ""
            yield Finding(f"{section} is not read by verl {run.version}", keys=[section], fix=fix)


def _of_today(path: str) -> str:
    """Return the current place of a key from the old reward sections, as in verl's migrate_legacy_reward_impl."""
    if path == "reward_model.model":
        return "reward.reward_model.model_path"
    name = path.removeprefix("reward_model.")
    if name in ("num_workers", "reward_kwargs", "sandbox_fusion"):
        return f"reward.{name}"
    return "reward.reward_manager.name" if name == "reward_manager" else f"reward.{path}"


@TOPIC.problem("=accelerator.worker.cpu", fails=Fails.PENDING, source="single_controller/ray/base.py:146 at 0.9.1")
def cpus_for_gpus(run: RunConfig) -> str | None:
    """a worker has fewer CPUs than verl reserves for its GPUs

    Why: the job waits forever for a placement group that fits on no node
    Fix: set accelerator.worker.cpu to three CPUs per GPU, or one for 0.6.1
    """
    cpus, share = str(run.value("accelerator.worker.cpu")), 3 if run.since("0.7.1") else 1
    few = cpus.isdecimal() and int(cpus) < share * run.gpus
    return f"a worker has {cpus} CPUs, and verl reserves {share} for each of its {run.gpus} GPUs" if few else None


@TOPIC.problem(
    f"{_RESUME} {_FROM}",
    fails=Fails.AT_CHECKPOINT,
    source="trainer/ppo/v1/trainer_base.py:866 at 0.9.1",
    logs="resume ckpt must be str type",
)
def resume_mode(run: RunConfig) -> Iterator[Finding]:
    """resume_mode is unknown, or resume_path has no folder global_step_N

    Why: the run fails when it looks for checkpoints, after the model is loaded on all GPUs
    Fix: use auto, disable, or resume_path with a folder called global_step_N
    """
    what = one_of(_RESUME, ("auto", "disable", "resume_path"))(run)
    if what:
        yield Finding(what, keys=[_RESUME])
    elif run.at(_RESUME) == "resume_path":
        folder = run.at(_FROM)
        mark, step = str(folder).rpartition("global_step_")[1:]
        if not (isinstance(folder, str) and mark and step.strip().isdecimal()):
            yield Finding(f"{_FROM} is {quoted(folder)}, expected .../global_step_N", keys=[_FROM])


@TOPIC.problem(
    "trainer.default_hdfs_dir",
    fails=Fails.AT_CHECKPOINT,
    source="trainer/ppo/ray_trainer.py:929 at 0.7.1",
    logs="load from hdfs is not implemented yet",
)
def hdfs_resume(run: RunConfig) -> str | None:
    """trainer.default_hdfs_dir is set, but verl cannot resume from HDFS

    Why: the run fails when it looks for checkpoints, after the model is loaded on all GPUs
    Fix: remove trainer.default_hdfs_dir
    """
    given = run.at("trainer.default_hdfs_dir")
    if given is None or run.at(_RESUME) == "disable" or has_new_trainer(run):
        return None
    return f"trainer.default_hdfs_dir is {quoted(given)}, and resume_mode {quoted(run.at(_RESUME))}"


@TOPIC.problem(
    "trainer.v1.trainer_mode",
    fails=Fails.AT_SETUP,
    source="trainer/ppo/v1/trainer_base.py:2023 at 0.9.1",
    since="0.9.1",
)
def trainer_mode(run: RunConfig) -> str | None:
    """the trainer mode is unknown to verl

    Why: the run fails when it creates the trainer, with the cluster already running and billing
    Fix: use sync, the default
    """
    known = ("sync", "colocate_async", "separate_async")
    return one_of("trainer.v1.trainer_mode", known)(run) if has_new_trainer(run) else None


@TOPIC.problem(
    "trainer.v1.trainer_mode",
    fails=Fails.AT_SETUP,
    source="trainer/ppo/v1/trainer_separate_async.py:59 at 0.9.1",
    since="0.9.1",
    logs="train_batch_size must equal parameter_sync_step * ppo_mini_batch_size in separat",
)
def separate_rollout(run: RunConfig) -> Iterator[Finding]:
    """a separate rollout has no GPUs, a wrong batch size, or the naive backend

    Fix: set trainer_mode to sync, or give rollout GPUs, a backend and parameter_sync_step × ppo_mini_batch_size prompts
    """
    if not has_new_trainer(run) or run.at("trainer.v1.trainer_mode") != "separate_async":
        return
    path = "trainer.v1.separate_async.parameter_sync_step"
    steps, mini, batch = run.integer(path), run.integer(MINI), run.integer(BATCH)
    if batch != steps * mini:
        what = f"train_batch_size {batch} is not parameter_sync_step {steps} × ppo_mini_batch_size {mini}"
        yield Finding(what, keys=[path, BATCH])
    for name in ("nnodes", "n_gpus_per_node"):
        if run.integer(f"{ROLLOUT}.{name}") < 1:
            yield Finding(f"rollout.{name} is {run.integer(f'{ROLLOUT}.{name}')}", keys=[f"{ROLLOUT}.{name}"])
    backend = f"{ROLLOUT}.checkpoint_engine.backend"
    if run.at(backend) == "naive":
        yield Finding('rollout.checkpoint_engine.backend is "naive"', keys=[backend])


@TOPIC.problem(
    "trainer.save_freq", fails=Fails.SILENT, source="trainer/ppo/v1/trainer_base.py:481 at 0.9.1", severity=WARNING
)
def no_checkpoint(run: RunConfig) -> str | None:
    """trainer.save_freq is 0 or less, so no checkpoint is saved

    Why: no step is saved, not even the last one, so the trained model is lost when the job ends
    Fix: set a number of steps such as 20; the last step is then saved too
    """
    steps = run.number("trainer.save_freq")
    return f"trainer.save_freq is {quoted(steps)}" if steps <= 0 and not run.on("trainer.val_only") else None


@TOPIC.problem(
    "trainer.test_freq trainer.val_before_train",
    fails=Fails.SILENT,
    source="trainer/ppo/v1/trainer_base.py:491 at 0.9.1",
    severity=WARNING,
)
def no_validation(run: RunConfig) -> str | None:
    """the run never validates, neither before training nor during it

    Why: no step is validated, so nothing tells which checkpoint is good
    Fix: set a number of steps such as 10; the last step is then validated too
    """
    if validates(run):
        return None
    return f"trainer.test_freq is {quoted(run.at('trainer.test_freq'))}, and val_before_train is off"


@TOPIC.problem(
    "trainer.val_only trainer.val_before_train",
    fails=Fails.SILENT,
    source="trainer/ppo/v1/trainer_base.py:439 at 0.9.1",
    severity=WARNING,
)
def validation_only_trains(run: RunConfig) -> str | None:
    """trainer.val_only is on, but trainer.val_before_train is off

    Why: verl checks val_only only after the validation before training; without that validation, it trains the full run
    Fix: set trainer.val_before_train to true
    """
    trains = run.on("trainer.val_only") and run.at("trainer.val_before_train", True) is False
    return "trainer.val_only is on, and val_before_train is off" if trains else None


@TOPIC.problem(
    "trainer.val_only", fails=Fails.SILENT, source="trainer/ppo/v1/trainer_base.py:446 at 0.9.1", severity=WARNING
)
def validation_only(run: RunConfig) -> str | None:
    """trainer.val_only is on, so the run trains nothing

    Why: the run validates the model once, writes no checkpoint and ends with exit code 0
    Fix: remove trainer.val_only; to evaluate a model or a checkpoint, run the evaluate task
    """
    only = run.trains and run.on("trainer.val_only") and run.at("trainer.val_before_train", True) is not False
    return "trainer.val_only is on: the run trains nothing" if only else None
