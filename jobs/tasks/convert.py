"""Convert a run's checkpoint to a Hugging Face folder: <runDirectory>/hf/step_<N>, for verl hf/global_step_<N>.

The argument is the path of a JSON file: framework, version, runDirectory, workingDirectory, model, step (best,
latest or a number), dtype (optional; by default the weights keep their type). If the framework has a conversion
script, this program runs it, and then does what the script does not: merge safetensors shards, add model files,
check the result.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import checkpoints
from base_names import examples, use_base_names
from checkpoints import Checkpoint, entries, header, read_json
from files import fail, gib, sync, write_json
from runtime import JobError, Record, say
from task import run_task
from tensors import DERIVED, INDEX, Pieces, from_torch_save, needed, shapes_in

RECORD = "grpo.json"
DTYPES = ("", "bfloat16", "float16", "float32")
# The folder on a local disk below which the chart puts the copies of job.stage.
COPIES = "grpo-models"
# What a model's folder needs beside its weights: configuration, tokenizer, processor, code. No weights, no index.
SMALL = ("*.json", "*.jinja", "*.model", "*.txt", "*.py")


def script(words: list[str], task: Record, found: Checkpoint) -> None:
    """Run a framework's script with its output shown; raise JobError if the script fails."""
    name = next(word for word in words[1:] if not word.startswith("-"))
    say(f"in {task['workingDirectory']}: {' '.join(words)}")
    try:
        code = subprocess.run(words, check=False, cwd=task["workingDirectory"], stdin=subprocess.DEVNULL).returncode
    except OSError as error:
        raise JobError(f"cannot run {error.filename or words[0]}: {error.strerror}") from None
    if code == -signal.SIGKILL:
        parts = [Path(found.path, "policy/weights"), *Path(found.path, "actor").glob("model*")]
        memory = gib(sum(map(checkpoints.size_of, parts)))
        key = "ray.head.memory, or accelerator.worker.memory for a head with GPUs"
        raise JobError(f"{name} was killed, probably out of memory: the weights have {memory}; raise {key}")
    if code:
        raise JobError(f"{name} ended with exit code {code}; its output above says why")


# The scripts' command lines. tests/jobs/test_convert.py checks them with the scripts' own parsers in every version.
def dcp_command(config: Path, step: Path, out: Path) -> list[str]:
    paths = ["--config", config, "--dcp-ckpt-path", step / "policy/weights", "--hf-ckpt-path", out]
    return ["python3", "examples/converters/convert_dcp_to_hf.py", *map(str, paths)]


def megatron_command(config: Path, step: Path, out: Path) -> list[str]:
    """Return the command for Megatron weights, which runs in the worker's environment, the only one with Megatron."""
    folder = step / "policy/weights"
    last = max(name for name in entries(folder) if name.startswith("iter_"))
    paths = ["--config", config, "--megatron-ckpt-path", folder / last, "--hf-ckpt-path", out]
    pythons = sorted(
        Path(os.environ.get("NEMO_RL_VENV_DIR", "/opt/ray_venvs")).glob("*.MegatronPolicyWorker/bin/python")
    )
    python = str(pythons[0]) if pythons else "python3"
    return [python, "examples/converters/convert_megatron_to_hf.py", *map(str, paths)]


def verl_command(step: Path, out: Path, backend: str) -> list[str]:
    paths = ["--local_dir", str(step / "actor"), "--target_dir", str(out)]
    return ["python3", "-m", "verl.model_merger", "merge", "--backend", backend, *paths]


def copy_missing(source: Path, folder: Path, patterns: tuple[str, ...] = ("*",), *, replace: bool = False) -> None:
    """Copy files that the folder lacks; in a cache, the files are links."""
    for path in sorted({path for pattern in patterns for path in source.glob(pattern)}):
        target = folder / path.name
        if path.is_file() and not path.name.endswith(".index.json") and (replace or not target.exists()):
            shutil.copyfile(path, target)


def base_model(model: str) -> Path | None:
    """Return the base model's folder: its path, its snapshot in the cache, or a download of its small files."""
    if Path(model).is_dir():
        return Path(model)
    library = needed("huggingface_hub")
    try:
        return Path(library.snapshot_download(model, local_files_only=True))
    except Exception:
        say(f"{model} is not in the cache on the volume; downloading its small files from the Hub")
    try:
        return Path(library.snapshot_download(model, allow_patterns=list(SMALL), ignore_patterns=["*.index.json"]))
    except Exception as error:
        say(f"warning: cannot download {model}: {(str(error).strip().splitlines() or [type(error).__name__])[0]}")
        return None


def settings(path: Path) -> Record:
    """Return the policy section of a step's config.yaml; {} for verl."""
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8") as file:
        return dict((needed("yaml").safe_load(file) or {}).get("policy") or {})


@contextmanager
def portable_config(step: Path, task: Record) -> Iterator[Path]:
    """Yield the step's config.yaml with the model's own name; with job.stage, it names a copy on the run's nodes."""
    path = step / "config.yaml"
    name = str(settings(path).get("model_name"))
    if COPIES not in Path(name).parts:
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        portable = Path(folder, path.name)
        portable.write_text(path.read_text(encoding="utf-8").replace(name, task["model"]), encoding="utf-8")
        yield portable


def overlay(under: Record, over: Record) -> Record:
    both = {key: overlay(under[key], over[key]) for key in over if isinstance(under.get(key), dict) and over[key]}
    return {**under, **over, **both}


def complete_config(folder: Path, policy: Record) -> None:
    """Add to config.json what the converters omit: the run's overrides, and the data type that it computes in.

    Converters read policy.hf_overrides, trainers policy.hf_config_overrides; trainers load weights as float32.
    """
    path = folder / "config.json"
    config = overlay(read_json(path), policy.get("hf_config_overrides") or {})
    if precision := policy.get("precision"):
        config.setdefault("dtype" if "dtype" in config else "torch_dtype", precision)
        for section in (config, *(value for value in config.values() if isinstance(value, dict))):
            section.update(dict.fromkeys({"torch_dtype", "dtype"} & section.keys(), precision))
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def problem(folder: Path) -> str:
    """Return what a Hugging Face folder lacks; an empty text if it can be loaded."""
    config = read_json(folder / "config.json")
    if not config.get("model_type"):
        return "config.json is missing or has no model_type"
    single = "model.safetensors"
    wanted: dict[str, str] = read_json(folder / INDEX).get("weight_map") or {}
    try:
        have = {file: header(folder / file) for file in set(wanted.values()) or {single}}
    except (OSError, ValueError) as error:
        return f"weights are missing or cut off: {error}"
    if lost := sorted(name for name, file in wanted.items() if name not in have[file]):
        return f"{wanted[lost[0]]} lacks {lost[0]}"
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")):
        return "it has no tokenizer"
    processors = ("preprocessor_config.json", "processor_config.json")
    if "vision_config" in config and not any((folder / name).is_file() for name in processors):
        return "the model takes images and the folder has no preprocessor_config.json"
    return ""


def mark(found: Checkpoint, task: Record) -> Record:
    """Return what identifies a particular save of a step."""
    file = "data.pt" if task["framework"] == checkpoints.VERL else "training_info.json"
    saved = int((Path(found.path) / file).stat().st_mtime)
    return {"source": found.path, "step": found.step, "format": found.format, "bytes": found.bytes, "saved": saved}


def sizes_in(folder: Path) -> dict[str, int]:
    """Return the size of each file below a folder except its record; raise OSError if a subfolder cannot be listed."""
    found = dict[str, int]()
    for parent, folders, names in os.walk(folder, onerror=fail):
        paths = (Path(parent, name) for name in folders + names)
        kept = (path for path in paths if path.is_symlink() or not path.is_dir())
        found |= {str(path.relative_to(folder)): path.lstat().st_size for path in kept}
    found.pop(RECORD, None)
    return found


def files_of(folder: Path) -> dict[str, int]:
    """Return the files named in a result's record, with their sizes."""
    found = read_json(folder / RECORD).get("files")
    return found if isinstance(found, dict) else {}


def is_good(folder: Path, about: Record) -> bool:
    """Return whether a folder has all files in its record, and maybe others, made from this save with this dtype."""
    record, files = read_json(folder / RECORD), files_of(folder)
    return bool(files) and about.items() <= record.items() and files.items() <= sizes_in(folder).items()


def weights(found: Checkpoint, task: Record, out: Path) -> None:
    """Write a checkpoint's weights into a new folder, with the files that the script adds."""
    step, kind, dtype = Path(found.path), found.format, task.get("dtype") or ""
    ready = step / (
        "actor/huggingface" if task["framework"] == checkpoints.VERL else "policy/weights/model/consolidated"
    )
    if kind == "consolidated" and dtype:
        out.mkdir()
        Pieces(ready).write(out, dtype)
        copy_missing(ready, out, SMALL)
    elif kind == "consolidated" or not problem(ready):
        shutil.copytree(ready, out, copy_function=shutil.copyfile)
    elif task["framework"] == checkpoints.VERL:
        script(verl_command(step, out, "fsdp" if kind == "fsdp" else "megatron"), task, found)
    elif kind == "safetensors":
        out.mkdir()
        Pieces(step / "policy/weights/model").write(out, dtype)
        metadata = step / "policy/weights/model/.hf_metadata"
        copy_missing(metadata, out)
        (out / "fqn_to_file_index_mapping.json").unlink(missing_ok=True)
        mapped = read_json(metadata / "fqn_to_file_index_mapping.json").keys() - shapes_in(out).keys()
        if lost := sorted(name for name in mapped if not name.endswith(DERIVED)):
            raise JobError(f"{len(lost)} tensors are in no shard, the first is {lost[0]}: a file of a rank is missing")
    elif kind == "megatron":
        with portable_config(step, task) as config:
            script(megatron_command(config, step, out), task, found)
    elif kind == "dcp" or (kind == "dcp-v2" and task["version"] not in ("v0.4.0", "v0.5.0")):
        with portable_config(step, task) as config:
            script(dcp_command(config, step, out), task, found)
    elif kind == "dcp-v2":
        # The script of these versions supports only the other layout.
        out.mkdir()
        merge = needed("torch.distributed.checkpoint.format_utils").dcp_to_torch_save
        merge(str(step / "policy/weights/model"), str(out / "pytorch_model.bin"))
    else:
        raise JobError(
            f"step {found.step} has {kind or 'unknown'} weights: merge an adapter with convert_lora_to_hf.py"
        )
    if (out / "pytorch_model.bin").is_file():
        from_torch_save(out / "pytorch_model.bin", out, dtype)


def complete(found: Checkpoint, task: Record, out: Path) -> None:
    """Add the other files that a server needs, from the checkpoint, then from the base model; check the result."""
    step, base = Path(found.path), base_model(task["model"])
    verl = task["framework"] == checkpoints.VERL
    copy_missing(step / ("actor/huggingface" if verl else "policy/tokenizer"), out, SMALL, replace=not verl)
    if base:
        copy_missing(base, out, SMALL)
    use_base_names(out, base, task["model"])
    if not (out / "config.json").is_file():
        raise JobError(f"no config.json of {task['model']} was found: run the task fetch first")
    complete_config(out, settings(step / "config.yaml"))
    if (out / "lora_adapter").is_dir():
        say("warning: the adapter in lora_adapter/ is not merged into these weights")
    if lack := problem(out):
        raise JobError(f"the result cannot be used: {lack}. Run the task fetch first, for the files of {task['model']}")


@contextmanager
def draft(final: Path) -> Iterator[Path]:
    """Yield the path of a temporary folder, which replaces the final folder at the end; delete it after an error."""
    new, old = beside(final)
    final.parent.mkdir(parents=True, exist_ok=True)
    refuse_changed(final)
    delete_leftovers(final)
    try:
        yield new
        # On the disk, before the old one goes: the node may die.
        for name in sizes_in(new):
            sync(new / name)
        if os.path.lexists(final):
            refuse_changed(final)
            rename(final, old)
        rename(new, final)
    finally:
        put_back(final)
        shutil.rmtree(new, ignore_errors=True)
    delete_leftovers(final)


def beside(final: Path) -> tuple[Path, Path]:
    """Return the path where a result is made, and the path where the replaced one waits until the new one is ready."""
    return final.with_name(f".{final.name}.new"), final.with_name(f".{final.name}.old")


def rename(folder: Path, target: Path) -> None:
    try:
        folder.rename(target)
    except OSError as error:
        needs = "a bucket needs a hierarchical namespace or the mount option rename-dir-limit"
        raise JobError(f"cannot rename {folder} to {target} ({error.strerror}): {needs}") from None


def put_back(final: Path) -> None:
    """Restore a result's name if a task moved the result away but ended before the new one was in place."""
    old = beside(final)[1]
    if os.path.lexists(old) and not os.path.lexists(final):
        rename(old, final)


def refuse_changed(folder: Path) -> None:
    """Raise JobError if a result to be replaced has a file that its task did not write, or that has changed since."""
    if not os.path.lexists(folder):
        return
    record, is_plain = files_of(folder), folder.is_dir() and not folder.is_symlink()
    found = sizes_in(folder) if is_plain else {folder.name: 0}
    if names := sorted(name for name, size in found.items() if record.get(name) != size):
        raise JobError(
            f"{folder} is not replaced, because somebody has added or changed files in it ({examples(names)}): "
            "move it away, then run this task again"
        )


def delete_leftovers(final: Path) -> None:
    """Delete what an earlier task left unfinished, and the result that was replaced."""
    new, old = beside(final)
    if new.exists():
        shutil.rmtree(new)
    refuse_changed(old)
    if os.path.lexists(old):
        # By this name nobody takes a part of it for a result.
        rename(old, new)
        shutil.rmtree(new)


def convert(task: Record) -> Path:
    """Convert the step unless an earlier task has; return its folder. Raises JobError if the conversion fails."""
    run_directory, step = Path(task["runDirectory"]), str(task["step"])
    prefix = "global_step_" if task["framework"] == checkpoints.VERL else "step_"
    dtype = {"dtype": task.get("dtype") or ""}
    if dtype["dtype"] not in DTYPES:
        raise JobError(f"dtype is {dtype['dtype']!r}, expected bfloat16, float16, float32 or nothing")
    try:
        found = checkpoints.choose(checkpoints.list_checkpoints(run_directory, task["framework"]), step)
    except (checkpoints.CheckpointError, OSError) as error:
        # The trainer keeps only the best checkpoints; one converted earlier is still there.
        kept = run_directory / "hf" / f"{prefix}{step}"
        put_back(kept)
        if not is_good(kept, dtype):
            raise JobError(f"{run_directory}: {error}") from None
        say(f"the checkpoint of step {step} no longer exists; {kept} was converted from it")
        return kept
    final = run_directory / "hf" / f"{prefix}{found.step}"
    put_back(final)
    about = {**mark(found, task), **dtype}
    if is_good(final, about):
        delete_leftovers(final)
        say(f"{final} was converted from this checkpoint already")
        return final
    say(f"step {found.step} ({found.format}, {gib(found.bytes)}) to {final}")
    with draft(final) as out:
        weights(found, task, out)
        complete(found, task, out)
        made = {key: task[key] for key in ("framework", "version", "model")}
        write_json(str(out / RECORD), {**about, **made, "files": sizes_in(out)})
    return final


def stop(number: int, _frame: object) -> NoReturn:
    # Unwinding stops the running script and deletes the unfinished folder.
    raise SystemExit(128 + number)


def program(task: Record) -> None:
    """Convert the checkpoint that the task specifies."""
    signal.signal(signal.SIGTERM, stop)
    try:
        say(f"converted: {convert(task)}")
    except ValueError as error:
        raise JobError(f"cannot read a file of the checkpoint or of {task['model']}: {error}") from None


if __name__ == "__main__":
    sys.exit(run_task(program))
