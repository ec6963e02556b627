"""Find the newest attempt of each training among rendered objects, and read what it is given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from grpo.manifests import entrypoint
from postrender.manifests import apiserver
from postrender.manifests.apiserver import Object
from postrender.manifests.pods import mapping
from postrender.types import Json

# The files from which a configuration takes what it does not say, and what they say of the switches below.
_BASES: Final = ("grpo_math_1B.yaml", "ppo_trainer")
_SAVED_BY: Final = {"nemo-rl": ("checkpointing", "enabled"), "verl": ("trainer", "save_freq")}


class Training(NamedTuple):
    """An attempt of a training: its RayJob, and the plan in it."""

    object: str
    attempt: int
    plan: Mapping[str, Any]

    @property
    def framework(self) -> str:
        return str(self.plan["identity"].get("framework"))

    @property
    def place(self) -> tuple[str, str]:
        """Return the directory of the run, and the claim that it is on."""
        directory = str(self.plan.get("runDirectory", ""))
        mounts = mapping(mapping(self.plan.get("facts")).get("mounts"))
        above = [path for path in mounts if f"{directory}/".startswith(f"{path.rstrip('/')}/")]
        return directory, str(mounts[max(above, key=len)]) if above else ""

    def at(self, *path: str) -> Json:
        """Return a value of the configuration; None if it says nothing."""
        node: Json = self.plan.get("config")
        for key in path:
            node = mapping(node).get(key)
        return node

    def switch(self, *path: str) -> Json:
        """Return a value that is off in the files from which a configuration takes the rest; None if unknown."""
        given, base = self.at(*path), self.at("defaults")
        named = [str(each).rpartition("/")[2] for each in (base if isinstance(base, list) else [base])]
        return False if given is None and any(each in _BASES for each in named) else given


def newest(items: Iterable[Object]) -> dict[tuple[str, str], Training]:
    """Return the newest attempt of each training of ours, by namespace and name of the run."""
    found: dict[tuple[str, str], Training] = {}
    for item in items:
        _, kind, namespace, name = apiserver.identity(item)
        plan = entrypoint.plan(item) if kind == "RayJob" else {}
        attempt = plan.get("attempt")
        # A task that reads a run has its identity, and names its directory under `of`.
        if not isinstance(plan.get("identity"), Mapping) or "of" in plan or not isinstance(attempt, int):
            continue
        key = namespace, str(plan.get("run"))
        if key not in found or found[key].attempt < attempt:
            found[key] = Training(f"{kind}/{name}", attempt, plan)
    return found


def saves(run: Training) -> bool:
    """Return whether a training saves steps."""
    found = run.at(*_SAVED_BY.get(run.framework, ("",)))
    return isinstance(found, int) and found > 0 if run.framework == "verl" else found is not False


def backend(run: Training) -> Json:
    """Return the training backend of NeMo RL; None if unknown."""
    found = run.switch("policy", "megatron_cfg", "enabled")
    return None if found is None else "Megatron" if found else "DTensor"
