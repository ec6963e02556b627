"""List a run's checkpoints: which are complete, their size and metric, and which one a resume loads.

usage: checkpoints.py RUN_DIRECTORY [--framework nemo-rl|verl] [--metric NAME] [--json]
Exit codes: 0 listed, 1 no such checkpoint or metric, 2 wrong usage, 3 the directory cannot be read. Other programs
import list_checkpoints and choose. The program reads names, sizes, headers, JSON and the .metadata of
torch.distributed.checkpoint, and needs only the standard library.
Sources: NeMo RL v0.4.0 to v0.7.0 nemo_rl/utils/checkpoint.py and its Automodel's components/checkpoint; verl v0.6.1
to v0.9.0 verl/utils/checkpoint/fsdp_checkpoint_manager.py and verl/trainer/ppo/ray_trainer.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import re
import signal
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

NEMO_RL, VERL = "nemo-rl", "verl"
NAME = re.compile(r"(?P<state>tmp_|old_|incomplete_)?step_(?P<step>[0-9]+)|global_step_(?P<global>[0-9]+)")
TRACKER = "latest_checkpointed_iteration.txt"
SHARD = re.compile(r"(?P<rank>shard-[0-9]+-)?model-(?P<part>[0-9]+)-of-(?P<parts>[0-9]+)\.safetensors")
RANK = re.compile(r"(?P<kind>model|optim|extra_state)_world_size_(?P<size>[0-9]+)_rank_(?P<rank>[0-9]+)\.pt")
# Folders that are no step: what NeMo RL leaves while it saves, and what resume.py has renamed.
OF_STATE = {
    "tmp_": "being written, or left by an interrupted save",
    "old_": "being replaced",
    "incomplete_": "set aside before a start, because it was not complete: delete it to free the disk",
}
GIB = 1 << 30


class CheckpointError(Exception):
    """The requested checkpoint does not exist; the message lists those that do."""


@dataclass(frozen=True)
class Checkpoint:
    """The folder of one step. `reason` says why it is incomplete; `metric` is the name of what `value` measures.

    `format`: dcp (policy/weights), dcp-v2 (policy/weights/model), safetensors, consolidated, lora, megatron, fsdp.
    """

    step: int
    path: str
    complete: bool
    reason: str
    format: str
    bytes: int
    metric: str
    value: float | None
    higher_is_better: bool
    resume: bool = False


def entries(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.is_dir() else []


def fail(error: OSError) -> NoReturn:
    """Raise an error from os.walk, which would otherwise skip a folder that it cannot list."""
    raise error


def size_of(folder: Path) -> int:
    """Return the size in bytes of a file, or of all files below a folder; ignore what cannot be read."""
    total = folder.stat().st_size if folder.is_file() else 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or {} for anything else: a save may have been interrupted at any point."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def header(path: Path) -> dict[str, Any]:
    """Return a safetensors file's header; raise ValueError if the file is shorter than the header says."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= size - 8:
            raise ValueError(f"{path.name} is cut off")
        head = file.read(length)
    try:
        found: dict[str, Any] = json.loads(head)
        ends = [value["data_offsets"][1] for key, value in found.items() if key != "__metadata__"]
    except (AttributeError, KeyError, TypeError, RecursionError):
        raise ValueError("no header of safetensors") from None
    if size != 8 + length + max(ends, default=0):
        raise ValueError(f"{path.name} is cut off")
    return found


def problem_of_shards(folder: Path, names: list[str]) -> str:
    """Return what is wrong with safetensors files: one is truncated, or there are fewer than their names imply."""
    found: dict[str, tuple[int, set[int]]] = {}
    for name in names:
        try:
            header(folder / name)
        except ValueError as error:
            return str(error) if "cut off" in str(error) else f"{name} has no readable header"
        if match := SHARD.fullmatch(name):
            found.setdefault(match["rank"] or "", (int(match["parts"]), set()))[1].add(int(match["part"]))
    for rank, (parts, have) in sorted(found.items()):
        if missing := set(range(1, parts + 1)) - have:
            return f"{len(missing)} of {parts} files {rank}model-* are missing"
    return ""


def problem_of_index(folder: Path) -> str:
    """Return which file in a consolidated model's index is missing from the folder."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return ""
    named = set(read_json(index).get("weight_map", {}).values())
    absent = sorted(name for name in named if not (folder / name).is_file())
    return f"{absent[0]} is missing" if absent else "" if named else f"{index.name} cannot be read"


class Inert(dict[Any, Any]):
    """Replace everything that a pickle names: keep its attributes and do nothing."""

    state: dict[str, Any] | None = None

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __init__(self, *_: object) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        self.state = state if isinstance(state, dict) else None


class InertUnpickler(pickle.Unpickler):
    """Read a pickle without torch and without running anything that it names."""

    def find_class(self, module: str, name: str) -> type[Inert]:
        """Return Inert without importing anything."""
        return Inert


def extents(metadata: Path) -> dict[str, int]:
    """Return the size in bytes that each file of a torch.distributed.checkpoint must have, by its name in .metadata.

    Raises ValueError if .metadata is not a complete pickle. If it has no tensor locations, the result is empty.
    """
    try:
        with metadata.open("rb") as file:
            root = InertUnpickler(file).load()
    except OSError:
        raise
    except Exception:
        raise ValueError(".metadata cannot be read: it is cut off or damaged") from None
    stored = (getattr(root, "state", None) or {}).get("storage_data")
    found: dict[str, int] = {}
    for place in stored.values() if isinstance(stored, dict) else ():
        known = getattr(place, "state", None) or {}
        name, offset, length = (known.get(key) for key in ("relative_path", "offset", "length"))
        if isinstance(name, str) and isinstance(offset, int) and isinstance(length, int):
            found[name] = max(found.get(name, 0), offset + length)
    return found


def problem_of_dcp(folder: Path) -> str:
    """Return what is wrong with a torch.distributed.checkpoint's files: missing, or shorter than .metadata says."""
    try:
        wanted = extents(folder / ".metadata")
    except FileNotFoundError:
        return f"{folder.name}/ has no .metadata: the save was interrupted"
    except ValueError as error:
        return f"{folder.name}/{error}"
    for name, size in sorted(wanted.items()):
        path = folder / name
        if not path.is_file():
            return f"{folder.name}/{name} is missing"
        if (have := path.stat().st_size) < size:
            return f"{folder.name}/{name} is cut off: it has {have} of {size} bytes"
    return ""


def problem_of_optimizer(folder: Path) -> str:
    """Return what is wrong with policy/optimizer, which a resume loads too."""
    for parent, _, names in os.walk(folder, onerror=fail) if folder.is_dir() else ():
        if any(name == ".metadata" or name.endswith(".distcp") for name in names) and (
            problem := problem_of_dcp(Path(parent))
        ):
            return problem
    return ""


def weights(folder: Path) -> tuple[str, str]:
    """Return the format of policy/weights, and what is wrong with them."""
    model = folder / "model"
    flat, deep = entries(folder), entries(model)
    for kind, place, names in (("dcp", folder, flat), ("dcp-v2", model, deep)):
        if any(name == ".metadata" or name.endswith(".distcp") for name in names):
            return kind, problem_of_dcp(place)
    if "adapter_model.safetensors" in deep:
        return "lora", problem_of_shards(model, ["adapter_model.safetensors"])
    consolidated = model / "consolidated"
    if names := [name for name in entries(consolidated) if name.endswith(".safetensors")]:
        problem = problem_of_shards(consolidated, names) or problem_of_index(consolidated)
        if not problem:
            return "consolidated", ""
    if names := [name for name in deep if name.endswith(".safetensors")]:
        return "safetensors", problem_of_shards(model, names)
    if iterations := [name for name in flat if re.fullmatch("iter_[0-9]+", name)]:
        inside = entries(folder / iterations[-1])
        if "metadata.json" not in inside or not any(name.endswith(".distcp") for name in inside):
            return "megatron", f"{iterations[-1]} lacks metadata.json or *.distcp"
        return "megatron", problem_of_dcp(folder / iterations[-1])
    return "", "policy/weights is missing or holds no weights"


def nemo_rl_problem(path: Path, state: str) -> tuple[str, str]:
    """Return a NeMo RL step's format and what is wrong with it."""
    kind, problem = weights(path / "policy" / "weights")
    step = path.with_name(path.name.removeprefix(state))
    if state == "old_" and not step.exists() and not problem:
        return kind, f"a save was interrupted between two renames: mv {path.name} {step.name} restores it"
    if state:
        return kind, OF_STATE[state]
    if not read_json(path / "training_info.json"):
        return kind, "training_info.json is missing or cannot be read"
    config = path / "config.yaml"
    if not config.is_file() or not config.stat().st_size:
        return kind, "config.yaml is missing or empty"
    return kind, problem or problem_of_optimizer(path / "policy" / "optimizer")


def verl_problem(path: Path) -> tuple[str, str]:
    """Return a verl step's format and what is wrong with it; every rank writes its own files."""
    actor = path / "actor"
    ranks: dict[tuple[str, int], set[int]] = {}
    for name in entries(actor):
        if match := RANK.fullmatch(name):
            if not zipfile.is_zipfile(actor / name):
                return "fsdp", f"actor/{name} is cut off"
            ranks.setdefault((match["kind"], int(match["size"])), set()).add(int(match["rank"]))
    if any((actor / name).is_dir() for name in ("dist_ckpt", "model/dist_ckpt")):
        return "megatron", "" if (path / "data.pt").is_file() else "data.pt is missing: the save was interrupted"
    world = read_json(actor / "fsdp_config.json").get("world_size")
    sizes = {size for _, size in ranks} | ({world} if isinstance(world, int) else set())
    if not any(kind == "model" for kind, _ in ranks):
        return "fsdp" if ranks else "", "actor/ holds no model_world_size_*_rank_*.pt"
    if len(sizes) != 1:
        return "fsdp", f"actor/ has files of several world sizes ({', '.join(map(str, sorted(sizes)))})"
    for (kind, size), have in sorted(ranks.items()):
        if len(have) != size:
            return "fsdp", f"{size - len(have)} of {size} files actor/{kind}_world_size_{size}_rank_* are missing"
    for needed in ("actor/fsdp_config.json", "actor/huggingface/config.json", "data.pt"):
        if not (path / needed).is_file():
            return "fsdp", f"{needed} is missing: the save was interrupted"
    return "fsdp", ""


def of_config(path: Path) -> tuple[str, bool]:
    """Return checkpointing.metric_name and .higher_is_better from a step's config.yaml.

    NeMo RL writes it with yaml.safe_dump: block style, two spaces. A regular expression reads it, because not every
    Python has a YAML library.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return "", True
    section = re.search(r"^checkpointing:\n((?:[ ].*\n|\n)*)", text + "\n", re.MULTILINE)
    found = dict(re.findall(r"^  (metric_name|higher_is_better): *(.*?) *$", section[1] if section else "", re.M))
    metric = found.get("metric_name", "").strip("'\"")
    return "" if metric in ("null", "~") else metric, found.get("higher_is_better") != "false"


def number(value: Any) -> float | None:
    """Return a metric as a finite number, or None."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def logged(run: Path, metric: str) -> tuple[str, dict[int, float]]:
    """Return a metric's values in a verl run's output, by step; later attempts replace earlier ones.

    verl stores no metric with a checkpoint. The default metric is the mean of the validation's first core metric.
    """
    found: dict[int, float] = {}
    for step, values in measured_by_verl(run, metric or "val-core/"):
        core = sorted((name for name in values if name.startswith("val-core/")), key=lambda name: "/mean@" not in name)
        metric = metric or (core[0] if core else "")
        value = number(values.get(metric))
        if value is not None:
            found[step] = value
    return metric, found


def measured_by_verl(run: Path, word: str = "val-") -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the step and metrics in every line of the run's output that contains a word, the oldest attempt first."""
    attempts = sorted((name for name in entries(run / "attempts") if name.isdigit()), key=int)
    for line in (line for name in attempts for line in lines(run / "attempts" / name / "output.log")):
        step = re.search(r"\bstep:([0-9]+) - ", line)
        if step and word in line:
            found = re.findall(r" - (\S+?):(?:np\.\w+\()?(-?[0-9][^\s)]*)", line[step.end() - 3 :])
            yield int(step[1]), dict(found)


def lines(path: Path) -> Iterator[str]:
    if path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file


def tracked(folder: Path) -> int:
    """Return the step in verl's tracker file; -1 if there is no file."""
    try:
        return int((folder / TRACKER).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return -1


def place(directory: str | Path) -> Path:
    """Return the folder with the steps: checkpoints/ in a run directory, or the directory itself."""
    inner = Path(directory) / "checkpoints"
    return inner if inner.is_dir() else Path(directory)


def detect(directory: str | Path) -> str:
    """Return the framework that wrote a run directory, from its run.json or else its file names, or an empty text."""
    if (known := read_json(Path(directory) / "run.json").get("framework")) in (NEMO_RL, VERL):
        return str(known)
    names = entries(place(directory))
    found = [match for name in names if (match := NAME.fullmatch(name))]
    if TRACKER in names or (found and all(match["global"] for match in found)):
        return VERL
    return NEMO_RL if found else ""


def examine(path: Path, state: str, framework: str) -> tuple[str, str]:
    try:
        return verl_problem(path) if framework == VERL else nemo_rl_problem(path, state)
    except OSError as error:
        return "", f"cannot be read: {error.strerror}"


def list_checkpoints(directory: str | Path, framework: str = "", metric: str = "") -> list[Checkpoint]:
    """Return every step of a run, lowest first, including those left by an interrupted save.

    Raises OSError if the directory cannot be read.
    """
    folder = place(directory)
    framework = framework or detect(directory)
    name_of, values = logged(Path(directory), metric) if framework == VERL else (metric, {})
    found = []
    for name in os.listdir(folder):
        match = NAME.fullmatch(name)
        if not match or bool(match["global"]) != (framework == VERL) or not (folder / name).is_dir():
            continue
        path, state, step = folder / name, match["state"] or "", int(match["global"] or match["step"])
        kind, problem = examine(path, state, framework)
        measured, higher = (name_of, True) if framework == VERL else of_config(path / "config.yaml")
        measured = metric or measured
        value = values.get(step) if framework == VERL else number(read_json(path / "training_info.json").get(measured))
        found.append(Checkpoint(step, str(path), not problem, problem, kind, size_of(path), measured, value, higher))
    resumed = resumes(folder, found, framework)
    found = [Checkpoint(**{**vars(one), "resume": one.path == resumed}) for one in found]
    return sorted(found, key=lambda one: (one.step, one.path))


def resumes(folder: Path, found: list[Checkpoint], framework: str) -> str:
    """Return the path that a resume loads: verl's tracker names it, NeMo RL uses the highest step, complete or not."""
    steps = [one for one in found if re.match("global_|step_", Path(one.path).name)]
    if framework == VERL:
        steps = [one for one in steps if one.step == tracked(folder)]
    return max(steps, key=lambda one: one.step).path if steps else ""


def unknown(step: Checkpoint) -> bool:
    """Return whether a step's weights are in a format unknown to this program."""
    return not step.format and any(entries(Path(step.path, part)) for part in ("policy/weights", "actor"))


def broken_target(found: list[Checkpoint]) -> list[Checkpoint]:
    """Return the step that a resume would try to load but cannot; resume.py checks this before the trainer starts."""
    return [one for one in found if one.resume and not one.complete and not unknown(one)]


def choose(found: list[Checkpoint], step: str) -> Checkpoint:
    """Return the checkpoint named by "best", "latest" or a number.

    Raises CheckpointError if it does not exist or is incomplete, or if no metric tells which one is the best.
    """
    complete = [one for one in found if one.complete]
    have = ", ".join(str(one.step) for one in complete) or "none"
    if step.isdecimal():
        named = [one for one in found if one.step == int(step)]
        for one in named:
            if one.complete:
                return one
        why = f"step {step} is not complete ({named[-1].reason})" if named else f"there is no step {step}"
        raise CheckpointError(f"{why}; complete steps: {have}")
    if step not in ("best", "latest"):
        raise CheckpointError(f"step is {step!r}, expected best, latest or a number")
    if not complete:
        broken = f": {found[-1].path}: {found[-1].reason}" if found else ""
        raise CheckpointError(f"no checkpoint is complete{broken}")
    if step == "latest":
        return complete[-1]
    measured = [one for one in complete if one.value is not None]
    if not measured:
        metric = complete[-1].metric
        lack = f"none has a value of {metric}" if metric else "the run names no metric (checkpointing.metric_name)"
        raise CheckpointError(f"the best step is unknown: {lack}. Use latest, or one of: {have}")
    sign = 1 if measured[-1].higher_is_better else -1
    return max(measured, key=lambda one: (sign * (one.value or 0.0), one.step))


def chosen(found: list[Checkpoint], step: str) -> str:
    try:
        return choose(found, step).path
    except CheckpointError:
        return ""


def as_json(directory: str, framework: str, found: list[Checkpoint]) -> str:
    picks = {word: chosen(found, word) for word in ("best", "latest")}
    picks["resume"] = next((one.path for one in found if one.resume), "")
    listed = [asdict(one) for one in found]
    return json.dumps({"directory": directory, "framework": framework, **picks, "checkpoints": listed}, indent=2)


def advice(found: list[Checkpoint]) -> list[str]:
    """Describe what happens to an incomplete step that a resume would load."""
    sentences = []
    for one in broken_target(found):
        what = f"no other is. Restore its files, or move it out of {Path(one.path).parent} to start at step 0"
        if whole := chosen(found, "latest").rpartition("_")[2]:
            what = f"the next start goes back to step {whole}"
        sentences.append(f"{one.path} is not complete: {what}")
    return sentences


def as_text(found: list[Checkpoint]) -> str:
    """Return a table with one line per step and its remarks (best, resume, why incomplete), followed by advice."""
    best, metric = chosen(found, "best"), found[-1].metric or "metric"
    width = max(len(metric), 8)
    rows = [f"{'step':>8}  {'complete':8}  {'GiB':>8}  {metric:>{width}}"]
    for one in found:
        words = [one.reason] if one.reason else []
        words += ["best"] if one.path == best else []
        words += ["a resume loads it"] if one.resume and one not in broken_target(found) else []
        value = "-" if one.value is None else f"{one.value:.4f}"
        known = "yes" if one.complete else "no"
        rows.append(f"{one.step:>8}  {known:8}  {one.bytes / GIB:>8.2f}  {value:>{width}}  {'; '.join(words)}".rstrip())
    return "\n".join([*rows, *advice(found)])


def metrics(directory: str | Path, found: list[Checkpoint], framework: str) -> list[str]:
    """Return the names of all the run's metrics: those stored in NeMo RL's steps, or those of verl's validation."""
    if framework == VERL:
        names = {name for _, values in measured_by_verl(Path(directory)) for name in values if name.startswith("val-")}
    else:
        read = (read_json(Path(one.path) / "training_info.json").items() for one in found)
        names = {name for items in read for name, value in items if number(value) is not None}
    return sorted(names)


def lacking(given: argparse.Namespace, found: list[Checkpoint], framework: str) -> str:
    """Return what the run lacks: a checkpoint to resume from, or a value of the requested metric; else ""."""
    if not found:
        return f"no checkpoint in {place(given.directory)}"
    if broken_target(found) and not any(one.complete for one in found):
        return "no step is complete, so the launcher refuses to start"
    if not given.metric or any(one.value is not None for one in found):
        return ""
    have = ", ".join(metrics(given.directory, found, framework)) or "none"
    return f"no step has a value of {given.metric}; available metrics: {have}"


def main(arguments: list[str]) -> int:
    """Print a run directory's checkpoints."""
    parser = argparse.ArgumentParser("checkpoints.py", description="List the checkpoints of a run.")
    parser.add_argument("directory", help="run directory, or the folder of its steps")
    parser.add_argument("--framework", choices=(NEMO_RL, VERL), default="")
    parser.add_argument(
        "--metric",
        default="",
        help="metric that decides which step is best, instead of the one in the run's configuration",
    )
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if not os.path.isdir(given.directory):
        where = "name the run directory, <mountPath>/runs/<job.name>"
        print(f"grpo: {given.directory} is no directory: {where}", file=sys.stderr)
        return 2
    try:
        framework = given.framework or detect(given.directory)
        found = list_checkpoints(given.directory, framework, given.metric)
        lack = lacking(given, found, framework)
    except OSError as error:
        print(f"grpo: {given.directory} cannot be read: {error.strerror}", file=sys.stderr)
        return 3
    if given.json or found:
        print(as_json(given.directory, framework, found) if given.json else as_text(found))
    if lack:
        print(f"grpo: {lack}", file=sys.stderr)
    return 1 if lack else 0


if __name__ == "__main__":
    # A reader that goes away ends the program, as it does any other.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
