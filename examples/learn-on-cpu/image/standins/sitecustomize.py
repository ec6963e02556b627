"""Python reads this file at its start when its folder is on PYTHONPATH: change modules as soon as they are imported.

Nothing is imported for its own sake, so a process that never needs torch or NeMo RL starts as fast as before.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

INTERPRETERS = {"nemo_rl.distributed.ray_actor_environment_registry": "cpu_interpreters"}
PHASES = {
    "nemo_rl.models.policy.lm_policy": "cuda_phases",
    "nemo_rl.models.generation.vllm.vllm_generation": "cuda_phases",
}
# What LEARN_ON says → the module that is changed → the module here whose function `change` gets it.
CHANGES = {
    "cpu": {
        **INTERPRETERS,
        "torch": "cpu_devices",
        "nemo_rl.models.policy.workers.dtensor_policy_worker": "cpu_worker",
        "nemo_rl.algorithms.grpo": "cpu_training",
        "nemo_rl.evals.eval": "cpu_evaluation",
    },
    "cuda-image": PHASES,
    "cuda-environment": {**INTERPRETERS, **PHASES},
    "verl": {},  # verl itself imports what replaces its parts: cpu_verl
}[os.environ.get("LEARN_ON", "cpu")]


class ChangedLoader(importlib.abc.Loader):
    """Load a module as its own loader does, then change it."""

    def __init__(self, loader: importlib.abc.Loader, change: str) -> None:
        self.loader = loader
        self.change = change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        importlib.import_module(self.change).change(module)

    def __getattr__(self, name: str) -> object:
        # runpy and inspect ask a loader for its source.
        return getattr(self.loader, name)


class Finder(importlib.abc.MetaPathFinder):
    """Find the modules of CHANGES as the other finders do, with a loader that changes them."""

    def __init__(self) -> None:
        self.searching: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in CHANGES or fullname in self.searching:
            return None
        self.searching.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self.searching.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = ChangedLoader(spec.loader, CHANGES[fullname])
        return spec


sys.meta_path.insert(0, Finder())
