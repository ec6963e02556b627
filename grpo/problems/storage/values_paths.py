"""A run's inputs: each is on a volume, is prepared by a task, or is in the Hugging Face hub cache."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.checks import texts
from grpo.problems.topic import Topic
from grpo.values import images
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import data_sections
from postrender.finding import WARNING, Finding
from postrender.problem import Fails
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
_VARIABLE: Final = "${oc.env:GRPO_DATASETS}"
_PREPARED: Final = re.compile(rf"{re.escape(_VARIABLE)}/([^/$]+)/([^/$]+)$")
_SPLITS: Final = ("train", "validation", "test")
# Keys outside of the section data that name a file.
_FUNCTIONS: Final = ("custom_reward_function.path", "reward.custom_reward_function.path")
# Keys that name a model of the hub or its folder.
_MODELS: Final = {
    "nemo-rl": ("policy.model_name", "policy.tokenizer.name"),
    "verl": ("actor_rollout_ref.model.path", "actor_rollout_ref.model.tokenizer_path"),
}
# Those that only another switch of verl loads.
_SWITCHED: Final = {
    "critic.enable": "critic.model.path",
    "reward.reward_model.enable": "reward.reward_model.model_path",
    "reward_model.enable": "reward_model.model.path",
}
_RESUME: Final = "trainer.resume_from_path"
# A folder that depends on the pod, or one that is no name of the hub, which has one slash.
_RELATIVE: Final = re.compile(r"[~.]|\$[^{]|[^/${:]+/[^/]+/")
# Folders that an image brings itself.
_OF_IMAGE: Final = ("/opt", "/usr", "/etc", "/tmp", "/proc", "/dev")  # noqa: S108 - names, no files
# Those of every image, and those of NeMo RL's.
_OF_EVERY: Final = re.compile(r"/(bin|dev|etc|lib|lib64|opt|proc|run|sbin|sys|usr|usr/(bin|lib|local)(/bin|/lib)?|var)")
_OF_NEMO_RL: Final = re.compile(r"/root|/opt/(nemo-rl|ray_venvs|nemo_rl_venv(/.*)?)")
# Keys that name files of data, and their endings.
_DATA: Final = ("data_path", "train_data_path", "val_data_path", "train_files", "val_files")
_FORMATS: Final = (".json", ".jsonl", ".arrow", ".csv", ".parquet", ".txt")
_HUB: Final = re.compile(r"[\w.-]+/[\w.-]+")
# Where NeMo RL's data sets lie: nemo_rl/data/datasets/response_datasets/ at v0.4.0 to v0.7.0.
REPOSITORIES: Final = {
    "AIME2024": "HuggingFaceH4/aime_2024",
    "AIME2025": "opencompass/AIME2025",
    "AIME2026": "MathArena/aime_2026",
    "DAPOMath17K": "BytedTsinghua-SIA/DAPO-Math-17k",
    "DAPOMathAIME2024": "BytedTsinghua-SIA/AIME-2024",
    "DeepScaler": "agentica-org/DeepScaleR-Preview-Dataset",
    "GSM8K": "openai/gsm8k",
    "gsm8k": "openai/gsm8k",
    "HelpSteer3": "nvidia/HelpSteer3",
    "OpenMathInstruct-2": "nvidia/OpenMathInstruct-2",
    "geometry3k": "hiyouga/geometry3k",
    "squad": "rajpurkar/squad",
    "tulu3_sft_mixture": "allenai/tulu-3-sft-mixture",
}
# The repositories that a data set class of a framework loads by its name.
KNOWN: Final = frozenset(REPOSITORIES.values())


def files(run: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield each text of the configuration that may name a file to read, with its key's path."""
    if not run.trains:
        return
    # Another rule tells of a key that the data set does not read.
    unread = {
        f"{path}.{key}"
        for path, section in data_sections(run)
        for key in section
        if not run.catalogue.data_set_reads(str(section.get("dataset_name")), key)
    }
    resumes = run.framework == "verl" and run.at("trainer.resume_mode") == "resume_path"
    for path in ("data", *_FUNCTIONS, *models(run), *([_RESUME] if resumes else [])):
        if run.given_has(path):
            found = texts(value_at(run.given, tuple(path.split("."))), path)
            yield from ((each, text) for each, text in found if each not in unread)


def data_files(run: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield each text of the configuration that names data files, with its key's path."""
    for path, text in files(run):
        key = path.removeprefix("data.").split(".")
        if key[-1] in _DATA or key[0] in _DATA:
            yield path, text


def own_data(run: RunConfig) -> list[str]:
    """Return the files of data that the run reads and that task prepare-data does not write."""
    entries = mapping(run.value("job.prepareData"))
    found: list[str] = []
    for _, text in data_files(run):
        prepared = _PREPARED.match(text.replace(_folder(run), _VARIABLE, 1))
        is_file = text.startswith(("/", _VARIABLE))
        if is_file and not (prepared and entries.get(prepared[1]) is not None) and text not in found:
            found.append(text)
    return found


def models(run: RunConfig) -> list[str]:
    """Return the keys of the models that the run loads."""
    return [*_MODELS.get(run.framework, ()), *(key for switch, key in _SWITCHED.items() if run.on(switch))]


def _unmounted(run: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield each absolute path to read that is below none of the stack's mounts and in no folder of all images."""
    if run.value("stack.names.cluster"):
        # A cluster that somebody else made may have other mounts.
        return
    folders = {*_OF_IMAGE, *_mounts(run)}
    for path, file in files(run):
        if file.startswith("/") and not any(file.startswith(f"{folder.rstrip('/')}/") for folder in folders):
            yield path, file


def _relative(run: RunConfig) -> Iterator[Finding]:
    """Yield a finding for each data file with a relative path, which resolves below the image's framework folder."""
    # With verl this has a rule of its own.
    for path, file in data_files(run) if run.framework != "verl" else ():
        is_below = not file.startswith("/") and "${" not in file and "://" not in file
        if is_below and file.endswith(_FORMATS):
            what = f"{path} is {file}, a relative path, which begins in the framework's folder of the image"
            fix = f"write the absolute path on the volume, as grpo upload prints it: {uploaded(run, file)}"
            yield Finding(what, keys=[path], fix=fix)


def uploaded(run: RunConfig, file: str) -> str:
    """Return the path to which grpo upload copies a file."""
    return f"{_folder(run)}/{file.rpartition('/')[2]}"


def _mounts(run: RunConfig) -> Iterator[str]:
    """Yield the pods' mount paths."""
    sections = ("storage", "accelerator.hostPaths", "ray.head", "ray.workers")
    for section in sections:
        for path, text in texts(run.value(section), section):
            if path.endswith(".mountPath"):
                yield text


def _mount_names(run: RunConfig) -> str:
    storage = mapping(run.value("storage"))
    return ", ".join(str(mapping(each).get("mountPath")) for each in storage.values() if each) or "nothing"


def is_official(run: RunConfig) -> bool:
    return images.is_published(run.value("images.training.repository"))


@TOPIC.problem("=storage", fails=Fails.AT_SETUP, source="charts/grpo-job/templates/_needed.tpl at 0.1.0")
def path_not_mounted(run: RunConfig) -> Iterator[Finding]:
    """a file that the run reads is not on a mounted volume

    Why: the run fails when it reads the file, after every pod has started, with the cluster already running and billing
    Fix: use a path below a volume's mountPath, or mount the volume there under storage
    """
    if not is_official(run):
        return
    yield from _relative(run)
    for path, file in _unmounted(run):
        yield Finding(f"{path} is {file}, and storage mounts {_mount_names(run)}", keys=[path])


@TOPIC.problem("=storage", fails=Fails.AT_START, source="NVIDIA-NeMo/RL docker/Dockerfile at v0.7.0")
def mount_hides_image(run: RunConfig) -> Iterator[Finding]:
    """a volume hides a folder that the image needs

    Why: the image's programs are not found, so no container starts
    Fix: choose another folder, such as /data
    """
    for name, volume in mapping(run.value("storage")).items():
        folder = str(mapping(volume).get("mountPath") or "").rstrip("/")
        is_of_nemo_rl = run.framework == "nemo-rl" and is_official(run) and _OF_NEMO_RL.fullmatch(folder)
        if is_of_nemo_rl or _OF_EVERY.fullmatch(folder):
            path = f"storage.{name}.mountPath"
            yield Finding(f"{path} is {folder}, and the image has files there", keys=[f"={path}"])


@TOPIC.problem(
    "=storage", fails=Fails.AT_SETUP, source="charts/grpo-job/templates/_needed.tpl at 0.1.0", severity=WARNING
)
def path_only_in_image(run: RunConfig) -> Iterator[Finding]:
    """a file is on no mounted volume, and the image may not have it

    Why: if the image does not have the file, the run fails on reading it, with the cluster already running and billing
    Fix: use a path below a volume's mountPath; if your image has the file, ignore this finding
    """
    if is_official(run):
        return
    yield from _relative(run)
    for path, file in _unmounted(run):
        what = f"{path} is {file}, storage mounts {_mount_names(run)}, and the image may not have it"
        yield Finding(what, keys=[path])


@TOPIC.problem(
    " ".join(key for keys in (*_MODELS.values(), _SWITCHED.values()) for key in keys),
    fails=Fails.AT_LOADING,
    source="verl/utils/fs.py:212 at 0.9.1",
)
def relative_model(run: RunConfig) -> Iterator[Finding]:
    """a model is neither a hub name nor an absolute path

    Why: each process looks for the path in its own pod, which has no such folder, so the run fails on loading the model
    Fix: use OWNER/NAME of a model on the hub, or the absolute path of a folder on a volume
    """
    for path in models(run) if run.trains else ():
        name = value_at(run.given, tuple(path.split("."))) if run.given_has(path) else None
        if isinstance(name, str) and _RELATIVE.match(name):
            yield Finding(f"{path} is {name}, neither a name of the hub nor an absolute path", keys=[path])


@TOPIC.problem("=job.prepareData", fails=Fails.AT_SETUP, source="jobs/tasks/prepare_data.py at 0.1.0")
def data_not_prepared(run: RunConfig) -> Iterator[Finding]:
    """a file below GRPO_DATASETS is not one that task prepare-data writes

    Why: nothing writes the file, and the driver does not wait for it, so the job fails after every pod has started
    Fix: add it under job.prepareData and run that task, or use the absolute path of your own file (grpo upload)
    """
    names = [name for name, entry in mapping(run.value("job.prepareData")).items() if entry is not None]
    ending = "parquet" if run.framework == "verl" else "jsonl"
    written = [f"{split}.{ending}" for split in _SPLITS]
    for path, text in files(run):
        found = _PREPARED.match(text)
        if found is None:
            # The folder may also hold files of one's own, in other folders than those of prepared data sets.
            found = _PREPARED.match(text.replace(_folder(run), _VARIABLE, 1))
            found = found if found and found[1] in names else None
        if found and found[1] not in names:
            what = f"{path} is in the data set {found[1]}, and job.prepareData has {', '.join(names) or 'none'}"
            yield Finding(what, keys=[path])
        elif found and found[2] not in written:
            what = f"{path} is {found[2]} of {found[1]}, and prepare-data writes {', '.join(written)}"
            yield Finding(what, keys=[path])


def _folder(run: RunConfig) -> str:
    """Return the folder that GRPO_DATASETS names."""
    volume = mapping(mapping(run.value("storage")).get(str(run.value("job.volume"))))
    return f"{volume.get('mountPath')}/datasets"


@TOPIC.problem(
    "=job.fetch.datasets =huggingface.offline.enabled",
    fails=Fails.AT_SETUP,
    source="nemo_rl/data/datasets/response_datasets/__init__.py:57 at v0.7.0",
)
def offline_without_data(run: RunConfig) -> Iterator[Finding]:
    """the run has no access to the hub, but task fetch does not download its data set

    Why: the run fails on loading its data set, after every pod has started, with the cluster already running and
    billing
    Fix: name the data set under job.fetch.datasets and run task fetch, or set huggingface.offline.enabled to false
    """
    trains = run.framework == "nemo-rl" and run.trains
    if not trains or run.value("huggingface.offline.enabled") is not True:
        return
    fetched = [name for name, entry in mapping(run.value("job.fetch.datasets")).items() if entry is not None]
    for path, repository in repositories(run):
        if repository not in fetched:
            what = f"{path} needs {repository}, and job.fetch.datasets has {', '.join(fetched) or 'none'}"
            yield Finding(what, keys=[f"{path}.dataset_name", f"{path}.data_path", path])


def repositories(run: RunConfig) -> Iterator[tuple[str, str]]:
    """Yield each NeMo RL data section that is loaded from the hub by name, with the repository."""
    for path, section in data_sections(run) if run.framework == "nemo-rl" else ():
        if repository := _repository(section):
            yield path, repository


def _repository(section: dict[str, object]) -> str | None:
    """Return a data set's repository on the hub; None if it is unknown or the data set is a file."""
    name = str(section.get("dataset_name"))
    file = section.get("data_path")
    if name == "ResponseDataset" and isinstance(file, str) and _HUB.fullmatch(file):
        return None if file.endswith(_FORMATS) else file
    return REPOSITORIES.get(name)
