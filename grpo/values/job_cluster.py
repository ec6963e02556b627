"""What a job's values expect of the RayCluster that it runs on: the facts of `common.facts` in the charts.

The charts write the same facts to the head and into the job, whose entrypoint compares them; tests compare this
module with the charts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from postrender.types import Json
from postrender.values import merge
from postrender.values.merge import Values
from postrender.values.quantity import whole
from postrender.wiring import inputs
from postrender.wiring.plan import Wiring, from_secret

# The variable of the head with the facts, as JSON.
VARIABLE: Final = "GRPO_CLUSTER_FACTS"
LOCAL: Final = "local disk"
# The values that decide a fact, for messages. Those of mounts and variables depend on their names.
_KEYS: Final = {
    "accelerator": "accelerator.name",
    "gpusPerNode": "accelerator.gpusPerNode",
    "image": "images.training",
    "rayVersion": "images.training.rayVersion",
    "headCpus": "ray.head.numCpus",
}
_KEYS_OF_VARIABLES: Final = {
    "HF_TOKEN": "huggingface.secret",
    "HF_HUB_OFFLINE": "huggingface.offline.enabled",
    "HF_HOME": "huggingface.cache",
    "WANDB_API_KEY": "tracking.wandb.secret",
    "LD_LIBRARY_PATH": "accelerator.libraryPath",
}


class Cluster:
    """The RayCluster that the values' job looks for, and what the job expects of it.

    `named` is true if stack.names.cluster sets its name. `nodes` is the number of GPU nodes that the job waits for.
    """

    def __init__(self, tree: Mapping[str, Any], wiring: Wiring) -> None:
        self._tree = tree
        self._wiring = wiring
        stack = str(self.value("stack.name") or "")
        own = str(self.value("stack.names.cluster") or "")
        self.named = bool(own)
        self.name = own or (f"{stack}-ray" if stack else "")
        self.version = str(self.value("job.version") or "")
        self.facts = self._facts()
        self.nodes = self._nodes()
        self.shared_memory = str(self.value("accelerator.sharedMemory"))
        # The variables of the facts that only the head needs.
        self.only_head = _map(self.value("ray.head.env")).keys() - _map(self.value("ray.env")).keys()
        # The folders of the machine that GPU pods mount.
        self.folders = [mount for mount in wiring.mounts if mount.get("readOnly")]

    def value(self, path: str) -> Json:
        """Return a value by its dotted path, or None."""
        try:
            return merge.value_at(self._tree, path.split("."))
        except KeyError:
            return None

    def key(self, fact: str, name: str = "") -> str:
        """Return the key of the values that determines a fact; `name` is a mount path or a variable."""
        if fact == "mounts":
            volume = next((each for each, entry in self._volumes().items() if entry.get("mountPath") == name), "NAME")
            return f"storage.{volume}"
        return _KEYS.get(fact) or _KEYS_OF_VARIABLES.get(name) or f"ray.env.{name}"

    def _nodes(self) -> int:
        task = self.value("job.task")
        if task == "train":
            return whole(self.value("job.nodes")) or self._gpu_nodes()
        return int(task == "evaluate")

    def _gpu_nodes(self) -> int:
        return whole(self.value("ray.workers.replicas")) + (self.value("ray.head.gpus.enabled") is True)

    def _facts(self) -> dict[str, Any]:
        head = self.value("ray.head.gpus.enabled") is True
        cpus = self.value("accelerator.worker.cpu" if head else "ray.head.numCpus")
        return {
            "accelerator": self._wiring.profile,
            "gpusPerNode": self._wiring.gpus,
            "image": self._wiring.image,
            "rayVersion": self.value("images.training.rayVersion"),
            "headCpus": whole(cpus),
            "environment": {each["name"]: described(each) for each in self._variables()},
            "mounts": {str(each.get("mountPath")): self._source(name) for name, each in self._volumes().items()},
        }

    def _volumes(self) -> dict[str, dict[str, Any]]:
        return {name: each for name, each in _map(self.value("storage")).items() if isinstance(each, dict)}

    def _source(self, name: str) -> str:
        volume = self._volumes()[name]
        if "ephemeral" in volume:
            return LOCAL
        return str(_map(volume.get("existingClaim")).get("name") or f"{self.value('stack.name')}-{name}")

    def _variables(self) -> Sequence[Mapping[str, Any]]:
        """Return the head's variables, as entries of a pod's env."""
        wiring = self._wiring
        found = [*wiring.libraries(wiring.image), *wiring.secrets]
        if cache := _map(self.value("huggingface.cache")).get("volume"):
            mount = _map(self._volumes().get(str(cache))).get("mountPath")
            found.append({"name": "HF_HOME", "value": f"{mount}/{self.value('huggingface.cache.path')}"})
        own = {**_map(self.value("ray.env")), **_map(self.value("ray.head.env"))}
        return [*found, *(_variable(name, entry) for name, entry in own.items() if isinstance(entry, dict))]


def described(entry: Mapping[str, Any]) -> str:
    """Return the value of a pod's env entry, or the name and key of the Secret that it comes from."""
    secret = _map(_map(entry.get("valueFrom")).get("secretKeyRef"))
    return f"key {secret.get('key')} of Secret {secret.get('name')}" if secret else str(entry.get("value", ""))


def flat(facts: Mapping[str, Any]) -> dict[tuple[str, str], Json]:
    """Return facts by name and, for facts that are maps, by entry name."""
    parts = {key: value if isinstance(value, dict) else {"": value} for key, value in facts.items()}
    return {(key, name): value for key, part in parts.items() for name, value in part.items()}


class StackWiring(Wiring):
    """The wiring of a stack, with its name and the RayCluster that its job looks for, if they are known."""

    stack: str = ""
    cluster: Cluster | None = None


def wiring_of(values: Values) -> StackWiring:
    """Return a stack's wiring, with the cluster that its job looks for; raise InputError as inputs.sections does.

    There is no such cluster if the job creates its own cluster, or if the stack has no name.
    """
    wiring = StackWiring(inputs.sections(values))
    cluster = Cluster(merge.over_defaults(values), wiring)
    wiring.stack = str(cluster.value("stack.name") or "")
    if cluster.name and cluster.value("job.cluster.mode") != "ephemeral":
        wiring.cluster = cluster
    return wiring


def _variable(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    secret = entry.get("secret")
    return from_secret(name, secret) if isinstance(secret, dict) else {"name": name, "value": entry.get("value")}


def _map(value: Json) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
