"""Let verl run without a GPU: a platform for the CPU, and plain sampling in the place of vLLM.

verl imports this module, because VERL_USE_EXTERNAL_MODULES names it.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.workers.rollout import base, replica

MEMORY = 1 << 30


class CpuDevices(types.ModuleType):
    """torch.cpu, with functions that do nothing and return 0 for what only GPUs have."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(torch.cpu, name, None) or (lambda *_args, **_kwargs: 0)

    def get_device_name(self, *_args: Any) -> str:
        return "cpu"

    def mem_get_info(self, *_args: Any) -> tuple[int, int]:
        return MEMORY, MEMORY

    def get_device_properties(self, *_args: Any) -> Any:
        return types.SimpleNamespace(total_memory=MEMORY, name="cpu")


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """A machine whose only device is the CPU, and which Ray nevertheless counts as a GPU."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = CpuDevices("cpu")

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def nvtx_range(self, msg: str) -> Any:
        return contextlib.nullcontext()

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_resource_options(self, num_gpus: float) -> dict[str, Any]:
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return ["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"]

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def load_replica() -> Any:
    """Return the class of the replicas; imported late, because it imports what imports this module."""
    from cpu_verl_rollout import CpuReplica

    return CpuReplica


def communicate_by_gloo() -> None:
    """Replace the backend that verl asks for, cpu:gloo,cpu:gloo, which torch refuses."""
    start = torch.distributed.init_process_group
    torch.distributed.init_process_group = lambda backend=None, *args, **kwargs: start("gloo", *args, **kwargs)


def keep_memory() -> None:
    """Leave tensors where they are: verl keeps the reference model in pinned memory, which needs a GPU."""
    torch.Tensor.pin_memory = lambda tensor, *_args, **_kwargs: tensor


base._ROLLOUT_REGISTRY["vllm", "async"] = "cpu_verl_rollout.CpuAdapter"
replica.RolloutReplicaRegistry.register("vllm", load_replica)
communicate_by_gloo()
keep_memory()
