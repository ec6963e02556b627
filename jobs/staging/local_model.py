"""Give training a local copy of its model: copy the model to every node, and point the trainer's command at the copy.

Only the command names the copy. The attempt's configuration and the run's identity keep the model's own name,
because other tasks and other clusters read them.
"""

from __future__ import annotations

import json
import os
import sys

import model_staging
from files import read_json
from runtime import JobError, Record, run_program


def lacking(model: str, source: str) -> str:
    """Return why a model's folder is not a model that can be copied; an empty text if it is."""
    if not source:
        return "it is neither a folder nor in the Hugging Face cache"
    files = model_staging.files_of(source)
    if not any(path.endswith(model_staging.WEIGHTS) for path in files):
        return f"{source} has no weights"
    # Task fetch leaves out the weights of PyTorch where there are safetensors, and not their index.
    lost = {index: missing(source, index, files) for index in sorted(files) if index.endswith(".index.json")}
    if lost and all(lost.values()):
        index, names = next(iter(lost.items()))
        return f"{source} lacks {len(names)} files of its {index}, the first is {names[0]}"
    return ""


def missing(source: str, index: str, files: model_staging.Files) -> list[str]:
    """Return the files that a weights index names but the model lacks."""
    wanted = set((read_json(os.path.join(source, index)).get("weight_map") or {}).values())
    return sorted(name for name in wanted if os.path.join(os.path.dirname(index), name) not in files)


def with_local_model(words: list[str], stage: Record) -> list[str]:
    """Copy the model in plan["stage"] to every node unless it is there; return the command that reads the copy.

    Raises JobError if a node has no copy.
    """
    model, room = stage["model"], stage["room"]
    source = model_staging.local_folder(model)
    if problem := lacking(model, source):
        raise JobError(f"job.stage cannot copy {model}: {problem}. Run job.task fetch of the same values files first")
    target = model_staging.target_of(source, room["directory"], model.strip("/").split("/")[-1])
    # A separate process, because Ray's client keeps threads and connections that the launcher must not have.
    if run_program([sys.executable, model_staging.__file__, source, target, json.dumps(room)]):
        raise JobError(f"job.stage could not copy {model} to every node; the lines above say why")
    # Both frameworks read Hydra's overrides, in which a quoted value may contain any character.
    return [*words, f"{stage['key']}={json.dumps(target)}"]
