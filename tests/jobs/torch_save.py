"""Save a sharded toy as two trainer processes do; run by the Python of .tools/torch. The argument is a folder.

It writes expected.pt (the whole tensors), v1/ (DCP of {"model": …}), v2/ (DCP, flat), shards/ (safetensors, a file a
rank) and merged/, which is what torch itself makes of the shards.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

RANKS = 2


class Toy(torch.nn.Module):
    """Layers that FSDP shards: even rows, odd rows, one row; a half-precision one and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = torch.nn.Embedding(16, 6)
        self.odd = torch.nn.Linear(6, 5)
        self.one = torch.nn.Linear(6, 1)
        self.half = torch.nn.Linear(6, 8, dtype=torch.bfloat16)
        self.register_buffer("steps", torch.tensor([3, 1, 4], dtype=torch.int64))
        self.register_buffer("scale", torch.tensor(0.5))


def whole_tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(7)
    columns = {"model.column.weight": torch.randn(4, 7), "model.both.weight": torch.randn(3, 2, 5)}
    toy = Toy().state_dict()
    return {**{f"model.{name}": tensor.clone() for name, tensor in toy.items()}, **columns}


def sharded_tensors(whole: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the toy as FSDP and tensor parallelism split it: by rows, by columns, not at all."""
    mesh = init_device_mesh("cpu", (RANKS,))
    toy = Toy()
    toy.load_state_dict({name: whole[f"model.{name}"] for name in toy.state_dict()})
    fully_shard(toy, mesh=mesh)
    found = {f"model.{name}": tensor for name, tensor in toy.state_dict().items()}
    found["model.column.weight"] = distribute_tensor(whole["model.column.weight"], mesh, [Shard(1)])
    found["model.both.weight"] = distribute_tensor(whole["model.both.weight"], mesh, [Replicate()])
    return found


def save(rank: int, folder: str) -> None:
    warnings.simplefilter("ignore")
    place = Path(folder)
    dist.init_process_group("gloo", init_method=f"file://{place / 'meet'}", rank=rank, world_size=RANKS)
    whole = whole_tensors()
    state = sharded_tensors(whole)
    dcp.save({"model": state}, checkpoint_id=place / "v1")
    dcp.save(state, checkpoint_id=place / "v2")
    writer = dcp.HuggingFaceStorageWriter(str(place / "shards"), save_distributed=True)
    dcp.save(state, storage_writer=writer)
    dist.barrier()
    if rank == 0:
        torch.save(whole, place / "expected.pt")
        (place / "merged").mkdir()
        consolidate_safetensors_files(
            str(place / "shards"),
            str(place / "merged"),
            dict.fromkeys((name for name in whole if "steps" not in name), 1),
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(save, (sys.argv[1],), nprocs=RANKS)
