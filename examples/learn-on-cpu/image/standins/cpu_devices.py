"""Make torch use the CPU where a program names a GPU, and gloo where it names NCCL."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
# What makes a tensor and takes a device.
FACTORIES = ("tensor", "zeros", "ones", "empty", "full", "arange", "randn", "rand")
COPYING_FACTORIES = ("zeros_like", "ones_like", "empty_like")
NOTHING = ("synchronize", "empty_cache", "reset_peak_memory_stats", "set_device")
MEMORY = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")
FREE_MEMORY = (1 << 30, 1 << 30)


def on_cpu(value: Any) -> Any:
    """Return "cpu" for a GPU as a text or as a torch.device, and everything else as it is."""
    return "cpu" if type(value).__name__ in ("str", "device") and str(value).startswith("cuda") else value


def mapped(function: Function) -> Function:
    """Return the function with each device among its arguments on the CPU; pinned memory needs a GPU too."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs = {key: on_cpu(value) for key, value in kwargs.items()}
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return function(*map(on_cpu, args), **kwargs)

    return call


def constant(value: Any) -> Function:
    """Return a function that ignores its arguments."""
    return lambda *_args, **_kwargs: value


def itself(self: Any, *_args: Any, **_kwargs: Any) -> Any:
    """Return the tensor or the module: it is where it should be."""
    return self


def change(torch: Any) -> None:
    """Change the module torch."""
    # `with torch.device("meta")` acts on functions that torch collects once: on the old ones, which ours call.
    # Otherwise transformers leaves the rotary embedding of a model without values.
    from torch.utils import _device

    _device._device_constructors()
    for kind in (torch.Tensor, torch.nn.Module):
        kind.cuda = itself
        kind.to = mapped(kind.to)
    for name in (*FACTORIES, *COPYING_FACTORIES):
        setattr(torch, name, mapped(getattr(torch, name)))
    for name in NOTHING:
        setattr(torch.cuda, name, constant(None))
    for name in (*MEMORY, "current_device"):
        setattr(torch.cuda, name, constant(0))
    torch.cuda.get_device_name = constant("cpu")
    torch.cuda.mem_get_info = constant(FREE_MEMORY)
    torch.autocast = autocast(torch)
    change_communication(torch)


def autocast(torch: Any) -> type:
    """Return a torch.autocast of the CPU; it is off for float32, which the CPU does not cast to."""

    class CpuAutocast(torch.autocast):  # type: ignore[misc]
        def __init__(self, device_type: str, dtype: Any = None, enabled: bool = True, **kwargs: Any) -> None:
            super().__init__("cpu", dtype=torch.bfloat16, enabled=enabled and dtype == torch.bfloat16, **kwargs)

    return CpuAutocast


def change_communication(torch: Any) -> None:
    """Let processes talk by gloo."""
    import torch.distributed.device_mesh as meshes

    start, mesh = torch.distributed.init_process_group, meshes.init_device_mesh
    torch.distributed.init_process_group = lambda backend=None, *args, **kwargs: start("gloo", *args, **kwargs)
    meshes.init_device_mesh = torch.distributed.init_device_mesh = mapped(mesh)
