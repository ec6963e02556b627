"""Write weights as safetensors: merge several ranks' shards, convert a torch.save file, read names and shapes.

The image's libraries are imported only when needed; names, shapes and sizes can be read without them.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any

from checkpoints import header
from runtime import JobError, say

INDEX = "model.safetensors.index.json"
FILE_BYTES = 5 * 10**9
# Not required in a checkpoint: a head that is tied to the embedding, and buffers that are computed.
DERIVED = ("lm_head.weight", "rotary_emb.inv_freq", "_extra_state")


def needed(name: str) -> Any:
    """Import a library from the training image."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise JobError(f"{error}: convert needs the training image (torch, safetensors, huggingface_hub)") from None


def files_of(sizes: dict[str, int]) -> Iterator[list[str]]:
    """Yield each file's tensor names: in order, up to FILE_BYTES per file."""
    group: list[str] = []
    total = 0
    for name, size in sizes.items():
        if group and total + size > FILE_BYTES:
            yield group
            group, total = [], 0
        group.append(name)
        total += size
    yield group


def write_model(folder: Path, sizes: dict[str, int], get: Callable[[str], Any], dtype: str = "") -> None:
    """Write tensors as safetensors with an index, holding only one file in memory at a time."""
    torch, save = needed("torch"), needed("safetensors.torch").save_file
    groups, weight_map, total = list(files_of(sizes)), dict[str, str](), 0
    for number, names in enumerate(groups, 1):
        file = f"model-{number:05}-of-{len(groups):05}.safetensors"
        tensors = {name: get(name) for name in names}
        if dtype:
            wanted = getattr(torch, dtype)
            tensors = {name: one.to(wanted) if one.is_floating_point() else one for name, one in tensors.items()}
        # Copy each tensor, because two names may share one storage.
        tensors = {name: one.clone().contiguous() for name, one in tensors.items()}
        save(tensors, folder / file, {"format": "pt"})
        weight_map.update(dict.fromkeys(names, file))
        total += sum(one.numel() * one.element_size() for one in tensors.values())
        say(f"{file}: {len(names)} tensors")
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2)
    (folder / INDEX).write_text(text + "\n", encoding="utf-8")


def from_torch_save(file: Path, folder: Path, dtype: str = "") -> None:
    """Convert a torch.save file to safetensors, because every server process would read the entire torch.save file."""
    # Map the file instead of reading it: it is as large as the model in float32.
    state = needed("torch").load(file, map_location="cpu", mmap=True, weights_only=True)
    state = state["model"] if set(state) == {"model"} else state
    sizes = {name: one.numel() * one.element_size() for name, one in state.items() if hasattr(one, "numel")}
    write_model(folder, sizes, state.__getitem__, dtype)
    del state
    file.unlink()


class Pieces:
    """The tensors in safetensors shards; each shard's metadata has its offset in the complete tensor.

    Raises JobError if a tensor's pieces leave a gap or overlap. torch can merge such shards too, but only in a
    private module that torch 2.7 (NeMo RL v0.4.0) does not have, and that module fills gaps with zeros.
    """

    def __init__(self, folder: Path) -> None:
        self.pieces: dict[str, list[tuple[Path, list[int], list[int]]]] = {}
        self.sizes: dict[str, int] = {}
        for file in sorted(folder.glob("*.safetensors")):
            head = header(file)
            places = json.loads(head.pop("__metadata__", {}).get("DCP_SHARDING_INFO", "{}"))
            for name, one in head.items():
                offsets = places[name]["saved_offsets"] if name in places else [0] * len(one["shape"])
                self.pieces.setdefault(name, []).append((file, offsets, one["shape"]))
                start, end = one["data_offsets"]
                self.sizes[name] = self.sizes.get(name, 0) + end - start
        self.shapes = {name: self.shape(name) for name in self.pieces}
        self.opened: dict[Path, Any] = {}

    def shape(self, name: str) -> list[int]:
        """Return a complete tensor's shape; check that its pieces cover each element exactly once."""
        boxes = [list(zip(offsets, shape, strict=True)) for _, offsets, shape in self.pieces[name]]
        full = [max(start + length for start, length in ends) for ends in zip(*boxes, strict=True)]
        for one, other in combinations(boxes, 2):
            if all(a < c + d and c < a + b for (a, b), (c, d) in zip(one, other, strict=True)):
                raise JobError(f"the shards of {name} overlap: the folder has files of two saves")
        if sum(math.prod(length for _, length in box) for box in boxes) != math.prod(full):
            raise JobError(f"the shards of {name} leave a gap: a file of a rank is missing")
        return full

    def read(self, name: str) -> Any:
        """Return a complete tensor."""
        pieces = self.pieces[name]
        tensors = [(offsets, self.opened[file].get_tensor(name)) for file, offsets, _ in pieces]
        whole = needed("torch").empty(self.shapes[name], dtype=tensors[0][1].dtype)
        for offsets, tensor in tensors:
            part = whole
            for axis, (start, length) in enumerate(zip(offsets, tensor.shape, strict=True)):
                part = part.narrow(axis, start, length)
            part.copy_(tensor)
        return whole

    def write(self, folder: Path, dtype: str = "") -> None:
        """Write the complete tensors into a folder."""
        library = needed("safetensors")
        with ExitStack() as stack:
            for file in {file for pieces in self.pieces.values() for file, _, _ in pieces}:
                self.opened[file] = stack.enter_context(library.safe_open(file, framework="pt"))
            write_model(folder, self.sizes, self.read, dtype)


def shapes_in(folder: Path) -> dict[str, list[int]]:
    """Return the names and shapes of all tensors in a folder's safetensors files."""
    heads = [header(path) for path in sorted(folder.glob("*.safetensors"))]
    return {name: one["shape"] for head in heads for name, one in head.items() if name != "__metadata__"}
