"""Data, reward and prompt: a run names its own, and other data is not scored as mathematics by default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grpo.problems.checks import quoted
from grpo.problems.storage import values_paths as inputs
from grpo.problems.topic import Topic
from grpo.values.derived import mapping
from grpo.values.frameworks.nemo_rl import data_sections
from postrender.finding import INFO, WARNING, Finding
from postrender.problem import Fails

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
_FILES: Final = ("data.train_files", "data.val_files")
_PREPARED: Final = "${oc.env:GRPO_DATASETS}/"
_SECTIONS: Final = ("data.train", "data.default", "data")
_OF_IMAGE: Final = "examples/"
_OWN_PROMPT: Final = "${oc.env:GRPO_PROMPTS}/NAME.txt of job.prompts"
# Data sets of questions with one answer, which NeMo RL's base configuration is written for.
_MATHEMATICS: Final = frozenset(
    (
        *("AIME2024", "AIME2025", "AIME2026", "DAPOMath17K", "DAPOMathAIME2024", "DeepScaler", "GSM8K", "gsm8k"),
        *("NuminaMath-1.5", "OpenMathInstruct-2", "OpenR1-Math-220k", "openmathinstruct2"),
    )
)
# Where they lie on the hub.
_REPOSITORIES: Final = frozenset(inputs.REPOSITORIES[name] for name in _MATHEMATICS & inputs.REPOSITORIES.keys())


@TOPIC.problem(
    "data.train.dataset_name data.dataset_name data.train_files data.val_files data",
    fails=Fails.SILENT,
    source="examples/configs/grpo_math_1B.yaml:377 at v0.7.0; verl/trainer/config/data/legacy_data.yaml:11 at 0.9.1",
)
def data_not_chosen(run: RunConfig) -> Iterator[Finding]:
    """the values do not name the run's data

    Why: the framework trains on the data set in its own base configuration for the entire run
    Fix: name the data set
    """
    if not run.trains:
        return
    if run.framework == "verl":
        yield from _chosen_of_verl(run)
        return
    newer = run.since("v0.6.0")
    key = "data.train.dataset_name" if newer else "data.dataset_name"
    is_other = newer and run.has("data.train") and not isinstance(run.at("data.train"), dict)
    default = None if is_other else run.at(key)
    # Other rules report data that is not there at all.
    if default is not None and not run.given_has(key):
        files = "write ResponseDataset with a data_path" if newer else "write ResponseDataset with a train_data_path"
        fix = f"write job.config.{key}: {default} if you mean it, or name your own; for a file {files}"
        yield Finding(_default(run, key), keys=[key, "data", "=job.config"], fix=fix)


def _chosen_of_verl(run: RunConfig) -> Iterator[Finding]:
    why = "the run ends when it reads its data, which is in no pod: the cluster is up, and its GPUs are paid for"
    if run.at("data.custom_cls.path") is not None:
        return
    for key in _FILES:
        if run.at(key) is not None and not run.given_has(key):
            file = f"{_PREPARED}NAME/{_split(key)}.parquet"
            fix = f"write job.config.{key}: a file on a volume, such as {file} of task prepare-data"
            yield Finding(_default(run, key), keys=[key, "data", "=job.config"], why=why, fix=fix)


def _split(key: str) -> str:
    return "train" if key == _FILES[0] else "test"


def _default(run: RunConfig, key: str) -> str:
    return f"{key} is not set, and the base configuration of {run.framework} {run.version} has {run.at(key)}"


def _own_data(run: RunConfig) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the NeMo RL training data sections that are not known to contain mathematics questions."""
    for path, section in data_sections(run):
        files = [str(section.get(key)) for key in ("data_path", "train_data_path")]
        # Task prepare-data writes numbers as answers.
        prepared = any(file.startswith(_PREPARED) for file in files)
        known = str(section.get("dataset_name")) in _MATHEMATICS or not _REPOSITORIES.isdisjoint(files)
        if path != "data.validation" and not known and not prepared:
            yield path, section


def own_training_data(run: RunConfig) -> str:
    """Return the training data if it is not known to consist of mathematics questions; otherwise an empty text."""
    if run.framework == "verl":
        given = run.config.get("data", {}).get("train_files")
        files = [str(each) for each in (given if isinstance(given, list) else [given]) if each]
        return next((quoted(file) for file in files if not file.startswith(_PREPARED)), "")
    return next((_named(section) for _, section in _own_data(run)), "")


def _given(run: RunConfig, name: str) -> list[str]:
    """Return where the files set one of NeMo RL's data keys: in a section, or for all sections."""
    found = [key for key in (f"{section}.{name}" for section in _SECTIONS) if run.given_has(key)]
    train = mapping(run.given.get("data")).get("train")
    is_entry = isinstance(train, list) and any(name in mapping(each) for each in train)
    return ["data.train", *found] if is_entry else found


def _chosen_key(path: str, section: Mapping[str, object], run: RunConfig) -> str:
    """Return the key that names a section's data."""
    names = ("data_path", "train_data_path", "dataset_name")
    return next((key for key in (f"{path}.{name}" for name in names if section.get(name)) if run.given_has(key)), path)


def _inherited(run: RunConfig, keys: list[str]) -> str:
    """Return the recipe's key that applies to data named in a later file; empty if there is none."""
    own = [_chosen_key(path, section, run) for path, section in _own_data(run)][:1]
    all_are = bool(own and keys) and all(run.inherits(key, own[0]) for key in keys)
    return keys[0] if all_are else ""


def _named(section: Mapping[str, object]) -> str:
    return quoted(section.get("data_path") or section.get("train_data_path") or section.get("dataset_name"))


def _rewards(run: RunConfig) -> list[str]:
    return [name for name, entry in mapping(run.value("job.rewards")).items() if entry is not None]


@TOPIC.problem(
    "data.default.env_name data.env_name data",
    fails=Fails.SILENT,
    source="examples/configs/grpo_math_1B.yaml:386 at v0.7.0",
    severity=WARNING,
)
def reward_not_chosen(run: RunConfig) -> Iterator[Finding]:
    """a reward that you did not choose scores data that may not be mathematics

    Why: the base configuration's reward compares the last boxed answer, so other answers score 0
    Fix: name an environment in data.default.env_name (before v0.6.0 data.env_name), or set job.rewards
    """
    if not _judges(run):
        return
    rewards = [f"=job.rewards.{name}" for name in _rewards(run)]
    given = rewards or _given(run, "env_name")
    inherited = _inherited(run, given)
    if given and not inherited:
        return
    key = "data.default.env_name" if run.since("v0.6.0") else "data.env_name"
    for path, section in list(_own_data(run))[:1]:
        named, place = _named(section), _chosen_key(path, section, run)
        if rewards:
            what = f"{inherited[1:]} is that of the recipe, and it scores the answers to {named}"
            fix = (
                f"write {inherited[1:]} into your own file if you mean it, or another reward and {inherited[1:]}: null"
            )
            yield Finding(what, keys=[place, inherited], fix=fix)
        else:
            how = f"{inherited} is that of the recipe" if inherited else f"{key} is not set"
            what = f"{how}, so {quoted(run.at(inherited or key))} scores the answers to {named}"
            fix = f"write job.config.{inherited or key}: {run.at(inherited or key)} if you mean it, or set job.rewards"
            yield Finding(what, keys=[place, inherited] if inherited else [key, path], fix=fix)


@TOPIC.problem(
    "data.default.prompt_file data.prompt_file data",
    fails=Fails.SILENT,
    source="examples/configs/grpo_math_1B.yaml:383 at v0.7.0",
    severity=WARNING,
)
def prompt_not_chosen(run: RunConfig) -> Iterator[Finding]:
    """your own data or rewards get a prompt that you did not choose

    Why: the base configuration's prompt asks for a boxed answer, whatever the reward expects
    Fix: set data.default.prompt_file (before v0.6.0 data.prompt_file); null leaves the question unchanged
    """
    if not _judges(run):
        return
    given = _given(run, "prompt_file")
    inherited = _inherited(run, given)
    if inherited and str(run.at(inherited)).startswith(_OF_IMAGE):
        yield _inherited_prompt(run, inherited)
    if given:
        return
    key = "data.default.prompt_file" if run.since("v0.6.0") else "data.prompt_file"
    own = [(path, _named(section)) for path, section in _own_data(run)]
    own += [("=job.rewards", f"reward {name}") for name in _rewards(run)]
    default = run.at(key)
    if own and default is not None:
        path, name = own[0]
        what = f"{key} is not set, so the model gets {default}, and {name} may need another prompt"
        fix = f"write job.config.{key}: {default} if you mean it, {_OWN_PROMPT}, or null"
        yield Finding(what, keys=[key, path], fix=fix)


def _inherited_prompt(run: RunConfig, key: str) -> Finding:
    path, section = next(_own_data(run))
    prompt = run.at(key)
    what = f"{key} is that of the recipe, so the model gets {prompt}, and {_named(section)} may need another prompt"
    fix = f"write job.config.{key} into your own file: {prompt} if you mean it, {_OWN_PROMPT}, or null"
    return Finding(what, keys=[_chosen_key(path, section, run), key], fix=fix)


def _judges(run: RunConfig) -> bool:
    """Return whether NeMo RL trains with an environment that the configuration names."""
    return run.framework == "nemo-rl" and run.since("v0.5.0") and run.trains


@TOPIC.problem(
    "data.validation data.val_files data.val_dataset_name",
    fails=Fails.SILENT,
    source="examples/configs/grpo_math_1B.yaml:377 at v0.7.0; verl/trainer/config/data/legacy_data.yaml:11 at 0.9.1",
    severity=WARNING,
)
def validation_of_the_recipe(run: RunConfig) -> Iterator[Finding]:
    """your own training data is validated with a recipe's data

    Why: the accuracy that picks the best checkpoint is for a different task than the one the model learns
    Fix: name your own validation rows, or, if this is intended, set the recipe's data set in your own file
    """
    if not run.trains:
        return
    train, validation = _keys_of_data(run)
    if train and validation and run.inherits(validation, train):
        value = run.given
        for name in validation.split("."):
            value = value[name]
        what = f"{validation} is that of the recipe, {quoted(value)}, and the run trains on {own_training_data(run)}"
        yield Finding(what, keys=[train, validation])


def _keys_of_data(run: RunConfig) -> tuple[str, str]:
    """Return the keys that name the user's training data, and the validation data."""
    if not own_training_data(run):
        return "", ""
    if run.framework == "verl":
        return _FILES if all(map(run.given_has, _FILES)) else ("", "")
    path, section = next(_own_data(run))
    names = ("data.validation.data_path", "data.validation.dataset_name", "data.val_data_path", "data.val_dataset_name")
    return _chosen_key(path, section, run), next(filter(run.given_has, names), "")


@TOPIC.problem(
    "=job.config.data.default.env_name =job.config.data.train.env_name =job.config.data.env_name =job.rewards",
    fails=Fails.SILENT,
    source="charts/grpo-job/templates/_nemo_rl.tpl at 0.1.0",
    severity=INFO,
)
def environment_not_used(run: RunConfig) -> Iterator[Finding]:
    """an environment is set, but job.rewards replaces it

    Why: only job.rewards scores the answers, and the environment is not started
    Fix: remove env_name, or remove job.rewards to use the environment
    """
    rewards = _rewards(run)
    for section in (*_SECTIONS, "data.validation") if _judges(run) and rewards else ():
        key = f"job.config.{section}.env_name"
        name = run.value(key)
        # That of a recipe is what the rewards of a later file are to replace.
        is_meant = not any(run.inherits(f"={key}", f"=job.rewards.{reward}") for reward in rewards)
        if isinstance(name, str) and is_meant and name != run.at(f"{section}.env_name"):
            yield Finding(f"{section}.env_name is {quoted(name)}, and job.rewards score the answers", keys=[f"={key}"])
