"""Rename a converted model's tensors to the base model's names, which are the names that a server looks for.

A transformers version may name tensors differently from the model on the Hub: 5.6 and newer drop `vision_model`
from the vision tower of Gemma 3, and vLLM 0.20 then fails on the first of these tensors.
Sources: transformers v5.8.1 models/siglip; NVIDIA-NeMo/Megatron-Bridge PR 4220; vLLM v0.20.0 models/siglip.py.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from checkpoints import header, read_json
from runtime import JobError, Record, say
from tensors import DERIVED, INDEX, needed, shapes_in

Shapes = dict[str, list[int]]
# Parts of a name that versions of transformers add, drop and swap.
MOVING = ("model", "language_model", "vision_model")


def plain(name: str) -> str:
    """Return a tensor's name without the parts that differ between transformers versions."""
    return ".".join(word for word in name.split(".") if word not in MOVING)


def matching(ours: Shapes, theirs: Shapes) -> dict[str, str]:
    """Return the base model's name for each of our names that it lacks, if only one pairing is possible."""
    mine, base = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for names, found in ((ours, mine), (theirs, base)):
        for name in names:
            found[plain(name)].append(name)
    pairs = ((one[0], base[key][0]) for key, one in mine.items() if len(one) == len(base.get(key, ())) == 1)
    return {old: new for old, new in pairs if old != new}


def rename(folder: Path, names: dict[str, str]) -> None:
    """Rename tensors in a folder's safetensors files and in their index; the weights are copied unchanged."""
    for file in sorted(folder.glob("*.safetensors")):
        head = header(file)
        if not names.keys() & head.keys():
            continue
        text = json.dumps({names.get(name, name): one for name, one in head.items()}).encode()
        text += b" " * (-len(text) % 8)
        draft = file.with_name(f".{file.name}.new")
        with file.open("rb") as source, draft.open("wb") as target:
            source.seek(8 + int.from_bytes(source.read(8), "little"))
            target.write(len(text).to_bytes(8, "little") + text)
            shutil.copyfileobj(source, target, 1 << 24)
        draft.replace(file)
    index = read_json(folder / INDEX)
    if weight_map := index.get("weight_map"):
        index["weight_map"] = {names.get(name, name): file for name, file in weight_map.items()}
        (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def on_the_hub(model: str) -> Shapes:
    """Return the names and shapes of a model's tensors from the Hub, downloading only its files' headers."""
    try:
        found = needed("huggingface_hub").get_safetensors_metadata(model)
        heads = [file.tensors for file in found.files_metadata.values()]
        return {name: list(one.shape) for head in heads for name, one in head.items()}
    except Exception:
        return {}


def may_lack(name: str, config: Record) -> bool:
    """Return whether a model works without a base model's tensor: tied, computed, or for speculation only."""
    if name.endswith("lm_head.weight") and config.get("tie_word_embeddings") is False:
        return False
    layers = config.get("num_hidden_layers") or (config.get("text_config") or {}).get("num_hidden_layers")
    layer = re.match(r"(?:model\.|language_model\.)*layers\.([0-9]+)\.", name)
    extra = layer is not None and isinstance(layers, int) and int(layer[1]) >= layers
    return name.endswith(DERIVED) or name.startswith("mtp.") or extra


def examples(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def compare_shapes(ours: Shapes, theirs: Shapes, names: dict[str, str]) -> None:
    """Raise JobError if a tensor's shape differs from the base model's, because a rank's shards are then missing."""
    for name in sorted(ours):
        base = names.get(name, name)
        if base in theirs and ours[name] != theirs[base]:
            raise JobError(f"{base} has shape {ours[name]}, and {theirs[base]} in the base model: a file is missing")


def incomparable(config: Record, base: Record) -> str:
    """Return why two models with the same base do not have the same tensors; an empty text if they should."""
    if base.get("quantization_config"):
        return "the base model is quantized and the result is not"
    kinds = [tuple(one.get("architectures") or ()) for one in (config, base)]
    return (
        f"the result is a {kinds[0][0]} and the base model a {kinds[1][0]}" if all(kinds) and len({*kinds}) == 2 else ""
    )


def without_vision_model(names: Iterable[str], config: Record) -> str:
    """Return the first tensor of a SigLIP tower whose name lacks the part `vision_model`, or an empty text.

    Other towers (Gemma 4, InternVL) never have that part.
    """
    tower = (config.get("vision_config") or {}).get("model_type")
    gone = (name for name in names if re.search(r"(^|\.)vision_tower\.(?!vision_model\.)", name))
    return min(gone, default="") if tower == "siglip_vision_model" else ""


def use_base_names(folder: Path, base: Path | None, model: str) -> None:
    """Rename the tensors to the base model's names; raise JobError if the two models have different tensors.

    If the base model's names are unknown, raise JobError for any name known to be wrong.
    """
    ours, config = shapes_in(folder), read_json(folder / "config.json")
    # Without any weights of ours, the check of the whole result says more.
    if not ours:
        return
    theirs = (shapes_in(base) if base else {}) or on_the_hub(model)
    if not theirs:
        away = f"the weights of {model} are neither here nor on the Hub"
        if name := without_vision_model(ours, config):
            fix = f"put its safetensors files into {model}" if Path(model).is_dir() else "run the task fetch for it"
            raise JobError(
                f"{name} lacks vision_model in its name, so vLLM would not load it, and {away}, "
                f"which have the right names: {fix}, then this task again"
            )
        say(f"warning: {away}: the tensors' names are not compared")
        return
    names = matching(ours, theirs)
    compare_shapes(ours, theirs, names)
    have = {names.get(name, name) for name in ours}
    unknown = sorted(name for name in have - theirs.keys() if not name.endswith(DERIVED))
    lost = sorted(name for name in theirs.keys() - have if not may_lack(name, config))
    wrong = [f"the base model lacks {len(unknown)} of its tensors ({examples(unknown)})"] if unknown else []
    wrong += [f"it lacks {len(lost)} of the base model ({examples(lost)})"] if lost else []
    if wrong and (why := incomparable(config, read_json(base / "config.json") if base else {})):
        say(f"warning: {' and '.join(wrong)}; {why}")
    elif wrong:
        raise JobError(f"the result has not the tensors of {model}, so a server would not load it: {'; '.join(wrong)}")
    if names:
        old, new = min(names.items())
        say(f"{len(names)} tensors get the names of {model}, for instance {old} becomes {new}")
        rename(folder, names)
