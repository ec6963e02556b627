"""What `init` needs to know: a question for each value, with its default and the condition for asking it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo.start import keys, recipes
from grpo.start.site_file import LATER, Answers
from grpo.values import capacity, machine_names
from postrender import paths, spelling
from postrender.errors import UsageError
from postrender.types import Path
from postrender.values import merge, profiles

_PLATFORMS = ("gke-standard", "gke-autopilot", "kubernetes")
_MODES = ("multiNetwork", "dranet", "devices", "none")


def _always(_: Answers) -> bool:
    return True


def _nothing(_: Answers) -> str:
    return ""


@dataclass(frozen=True)
class Question:
    """One value: its option's name, what it is, and its place in the values.

    An empty default means that the value cannot be guessed. `asked` is false if the default is almost always right: the
    default is then reported, and the question not asked. `needed` tells from the answers so far whether the value is
    still open. `is_shipped` means that the choices are the shipped profiles and recipes, which have to be read first.
    `meant` returns the answer for a word, and raises UsageError if there is none. `fix` says what to do if the choices
    are not enough.
    """

    name: str
    what: str
    path: Path = ()
    choices: Callable[[Answers], Sequence[str]] | None = None
    default: Callable[[Answers], str] = _nothing
    needed: Callable[[Answers], bool] = _always
    asked: bool = True
    is_shipped: bool = False
    meant: Callable[[str], str] = str
    fix: str = "see grpo init --help"

    @property
    def flag(self) -> str:
        """Return the option that sets the value."""
        return f"--{self.name}"

    def refusal(self, value: str, answers: Answers) -> str:
        """Return why a value cannot be the answer; an empty text if it can be."""
        try:
            value = self.meant(value)
        except UsageError as error:
            return f"{error.message}; {error.fix}"
        if self.choices and value not in (known := self.choices(answers)):
            return f"{value!r} is not one of {', '.join(known)}{suggestion(value, known)}"
        return keys.refusal(self.path, value) if self.path else ""


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return a "did you mean" question with the one known word that can be meant, or an empty text."""
    meant = spelling.meant(word, known, is_value=True)
    return f"; did you mean {meant}?" if meant else ""


def machines() -> list[str]:
    """Return the accelerator profiles with GPUs, on which recipes can train."""
    return [name for name in paths.accelerators() if _profile(name)["accelerator"]["gpusPerNode"]]


def _profile(name: str) -> Mapping[str, Any]:
    return merge.load([paths.accelerator(name)]).effective()


def _is_google(answers: Answers) -> bool:
    return answers["platform"] != "kubernetes"


def _given(answers: Answers, key: str) -> str:
    """Return a value from the machine's profile; empty if it is not set or the machine is not known yet."""
    machine = answers["accelerator"]
    return str(merge.load([paths.accelerator(machine)]).get(key, "")) if machine else ""


def _platforms(answers: Answers) -> Sequence[str]:
    """Return the kinds of cluster that have the machine; all kinds if the machine is not known yet."""
    machine = answers.get("accelerator")
    refused = (_profile(machine)["accelerator"].get("refuses") or {}) if machine else {}
    return [each for each in _PLATFORMS if each not in refused]


def _modes(answers: Answers) -> Sequence[str]:
    """Return the machine's network modes; all modes if the machine is not known yet."""
    machine = answers.get("accelerator")
    return [*profiles.modes(_profile(machine)["accelerator"]), "none"] if machine else _MODES


def _platform(answers: Answers) -> str:
    return _given(answers, "platform.kind") or _PLATFORMS[0]


def _mode(answers: Answers) -> str:
    """Return the profile's own network mode, or the first mode that the machine has."""
    return _given(answers, "network.mode") or _modes(answers)[0]


def _capacities(answers: Answers) -> Sequence[str]:
    """Return how the machine is sold where that is not on demand; a queue of Kueue takes more than a name."""
    sold = capacity.kinds(_profile(answers["accelerator"])["accelerator"]) if answers.get("accelerator") else ()
    return [*(kind for kind in sold if kind != "queued"), LATER] if sold else ()


def _is_not_sold_on_demand(answers: Answers) -> bool:
    return _is_google(answers) and bool(_capacities(answers))


def _has_vpcs(answers: Answers) -> bool:
    return answers["network"] == "multiNetwork"


def _storages(answers: Answers) -> Sequence[str]:
    return ("bucket", "claim", "class") if _is_google(answers) else ("claim", "class")


def storage_of(given: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the option that names a storage, and that storage's kind."""
    kinds = {"bucket": "bucket", "claim": "claim", "storage-class": "class"}
    return next(((f"--{name}", kind) for name, kind in kinds.items() if name in given), None)


def _from_recipe(name: str) -> Callable[[Answers], str]:
    # Without a recipe nothing is written.
    return lambda answers: answers.get(f"recipe-{name}", name)


def _is(name: str, value: str) -> Callable[[Answers], bool]:
    return lambda answers: answers[name] == value


MACHINE = Question(
    "accelerator",
    "Machine: an accelerator profile, or the cloud's name of it",
    choices=lambda _: machines(),
    is_shipped=True,
    meant=machine_names.profile,
)
MODEL = (
    Question(
        "framework", "Framework", ("job", "framework"), lambda _: ("nemo-rl", "verl"), lambda _: "nemo-rl",
    ),
    Question(
        "dataset",
        "Data set",
        choices=lambda answers: recipes.data_sets(answers["framework"]),
        default=lambda _: "gsm8k",
        is_shipped=True,
        fix="for data of your own take one of these, and name your file in the values: docs/howto/own-data.md",
    ),
)  # fmt: skip
SITE = (
    Question("platform", "Kind of cluster", ("platform", "kind"), _platforms, _platform),
    Question("network", "GPU network", ("network", "mode"), _modes, _mode, asked=False),
    Question("stack", "Name of the stack", ("stack", "name"), default=_from_recipe("stack")),
    Question("run", "Name of the run", ("job", "name"), default=_from_recipe("run"), asked=False),
    Question("project", "Google Cloud project (its id)", ("platform", "projectId"), needed=_is_google),
    Question(
        "capacity",
        f"How you buy the machines, which Google does not sell on demand; {LATER} leaves it out",
        (),
        _capacities,
        lambda _: LATER,
        needed=_is_not_sold_on_demand,
    ),
    Question(
        "reservation",
        "Name of the reservation",
        ("platform", "capacity", "reservation"),
        needed=lambda answers: answers.get("capacity") == "reservation",
    ),
    Question(
        "storage", "Storage of weights, checkpoints and logs", (), _storages, lambda answers: _storages(answers)[0]
    ),
    Question(
        "project-number",
        "Number of the project (gcloud projects describe PROJECT --format='value(projectNumber)')",
        ("platform", "projectNumber"),
        needed=_is("storage", "bucket"),
    ),
    Question(
        "bucket",
        "Name of the bucket of the runs, without gs:// (globally unique)",
        ("storage", "data", "gcsfuse", "bucket"),
        needed=_is("storage", "bucket"),
    ),
    Question(
        "weights-bucket",
        "Name of the bucket of models and data sets",
        ("storage", "weights", "gcsfuse", "bucket"),
        default=lambda answers: f"{answers['bucket']}-weights",
        needed=_is("storage", "bucket"),
        asked=False,
    ),
    Question(
        "claim",
        "Name of the existing claim (ReadWriteMany)",
        ("storage", "data", "existingClaim", "name"),
        needed=_is("storage", "claim"),
    ),
    Question(
        "storage-class",
        "Storage class of the new claim (ReadWriteMany)",
        ("storage", "data", "pvc", "storageClassName"),
        needed=_is("storage", "class"),
    ),
    Question(
        "storage-size",
        "Size of the new claim, for instance 4000Gi",
        ("storage", "data", "pvc", "size"),
        needed=_is("storage", "class"),
    ),
    Question(
        "gvnic-prefix",
        "Prefix of the VPC of the second gVNIC",
        ("network", "gvnic", "prefix"),
        default=lambda answers: f"{answers['stack']}-gvnic",
        needed=_has_vpcs,
    ),
    Question(
        "rdma-prefix",
        "Prefix of the VPC with the RoCE profile",
        ("network", "rdma", "prefix"),
        default=lambda answers: f"{answers['stack']}-rdma",
        needed=_has_vpcs,
    ),
    Question(
        "tracking",
        "Tracking of metrics",
        choices=lambda _: ("none", "tensorboard", "wandb", "mlflow"),
        default=lambda _: "tensorboard",
    ),
    Question(
        "mlflow-uri",
        "Address of the MLflow server",
        ("tracking", "mlflow", "trackingUri"),
        needed=_is("tracking", "mlflow"),
    ),
    Question(
        "hf-secret",
        "Secret with the Hugging Face token",
        ("huggingface", "secret", "name"),
        default=lambda _: "hf-secret",
        asked=False,
    ),
    Question(
        "hf-key", "Key in that Secret", ("huggingface", "secret", "key"), default=lambda _: "hf_api_token", asked=False
    ),
    Question(
        "wandb-secret",
        "Secret with the W&B key",
        ("tracking", "wandb", "secret", "name"),
        default=lambda _: "wandb-secret",
        needed=_is("tracking", "wandb"),
        asked=False,
    ),
    Question(
        "wandb-key",
        "Key in that Secret",
        ("tracking", "wandb", "secret", "key"),
        default=lambda _: "api_key",
        needed=_is("tracking", "wandb"),
        asked=False,
    ),
)
