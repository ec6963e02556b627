"""Checkpoints as the trainers leave them: the right names and headers, and next to no weights."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

CONFIG = """\
checkpointing:
  checkpoint_dir: /data/runs/x/checkpoints
  enabled: true
  higher_is_better: {higher}
  metric_name: {metric}
cluster:
  metric_name: not this one
policy:
  model_name: example/toy
  tokenizer:
    name: example/toy
"""


def safetensors(path: Path, tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str]) -> None:
    """Write a safetensors file by hand: name -> (dtype, shape, bytes)."""
    head: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    body = b""
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


# The names that torch.distributed.checkpoint has for the classes below.
UPSTREAM = {"Metadata": "metadata\nMetadata", "Index": "metadata\nMetadataIndex", "Place": "filesystem\n_StorageInfo"}


class Metadata:
    """The root of .metadata."""


class Place:
    """Where a piece of a tensor is: relative_path, offset, length."""


class Index:
    """The key of a piece."""


def dcp_metadata(ends: dict[str, int]) -> bytes:
    """Return the .metadata of files that have two pieces each and end at these bytes."""
    root, places = Metadata(), {}
    for file, end in ends.items():
        for start, stop in ((0, end // 2), (end // 2, end)):
            key, place = Index(), Place()
            vars(key).update(fqn=f"{file}.{start}", index=0)
            vars(place).update(relative_path=file, offset=start, length=stop - start)
            places[key] = place
    vars(root).update(state_dict_metadata={}, planner_data={}, storage_data=places, version="1.0.0")
    text = pickle.dumps(root, protocol=2)
    for ours, theirs in UPSTREAM.items():
        text = text.replace(f"c{__name__}\n{ours}\n".encode(), f"ctorch.distributed.checkpoint.{theirs}\n".encode())
    return text


def dcp(folder: Path, ranks: int = 2) -> None:
    """Write a folder of torch.distributed.checkpoint."""
    folder.mkdir(parents=True)
    names = [f"__{rank}_0.distcp" for rank in range(ranks)]
    (folder / ".metadata").write_bytes(dcp_metadata(dict.fromkeys(names, 7)))
    for name in names:
        (folder / name).write_bytes(b"weights")


def shards(folder: Path, ranks: int = 2) -> None:
    for rank in range(1, ranks + 1):
        info = {"DCP_SHARDING_INFO": json.dumps({"w": {"saved_offsets": [rank - 1]}}), "DCP_VERSION": "1.0"}
        safetensors(folder / f"shard-{rank:05}-model-00001-of-00001.safetensors", {"w": ("F32", [1], b"1234")}, info)


def megatron(folder: Path) -> None:
    dcp(folder / "iter_0000000")
    for name in ("metadata.json", "common.pt", "run_config.yaml"):
        (folder / "iter_0000000" / name).write_text("{}")


def weights(kind: str, folder: Path) -> None:
    """Write policy/weights of a format."""
    if kind == "dcp":
        dcp(folder)
    elif kind == "dcp-v2":
        dcp(folder / "model")
    elif kind == "safetensors":
        shards(folder / "model")
    elif kind == "megatron":
        megatron(folder)
    elif kind == "lora":
        safetensors(folder / "model/adapter_model.safetensors", {"w": ("F32", [1], b"1234")}, {})
    elif kind == "consolidated":
        shards(folder / "model")
        name = "model-00001-of-00001.safetensors"
        safetensors(folder / "model/consolidated" / name, {"w": ("F32", [2], b"12345678")}, {})
        index = json.dumps({"weight_map": {"w": name}})
        (folder / "model/consolidated/model.safetensors.index.json").write_text(index)


def nemo_rl(
    run: Path,
    step: int,
    *,
    kind: str = "dcp",
    value: float | None = None,
    state: str = "",
    metric: str = "val:accuracy",
    higher: bool = True,
) -> Path:
    """Write one step of a NeMo RL run and return its folder."""
    path = run / "checkpoints" / f"{state}step_{step}"
    weights(kind, path / "policy/weights")
    info: dict[str, Any] = {"total_steps": step, **({} if value is None else {metric: value})}
    (path / "training_info.json").write_text(json.dumps(info))
    (path / "config.yaml").write_text(CONFIG.format(metric=metric, higher=str(higher).lower()))
    return path


def verl(run: Path, step: int, *, ranks: int = 2) -> Path:
    """Write one step of a verl run and return its folder."""
    path = run / "checkpoints" / f"global_step_{step}"
    (path / "actor/huggingface").mkdir(parents=True)
    (path / "actor/huggingface/config.json").write_text("{}")
    (path / "actor/fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": ranks}))
    for kind in ("model", "optim", "extra_state"):
        for rank in range(ranks):
            with zipfile.ZipFile(path / f"actor/{kind}_world_size_{ranks}_rank_{rank}.pt", "w") as file:
                file.writestr("archive/data.pkl", "pickle")
    (path / "data.pt").write_bytes(b"state")
    return path
