"""Compute what the guide says about training: jobs and directories, model, data, steps, the recipe's header."""

from __future__ import annotations

import contextlib
import math
import re
import shlex
from collections.abc import Mapping

from grpo.plan import cost, planner
from grpo.plan.cost import StepTime
from grpo.plan.setup import NotModelledError
from grpo.plan.units import Bytes
from grpo.problems.storage import values_paths as inputs
from grpo.start.words import Names, Tree, gpu_nodes, listed, only, volume
from grpo.values.config import RunConfig
from grpo.values.reference_errors import UnknownError
from postrender.counting import counted

# A run with at most this many steps only shows that the chain works.
_FEW_STEPS = 10
_GATED = ("google/gemma", "meta-llama/")
# A time in a recipe's comment, and whose it is.
_SECONDS = r"(?<![0-9.])([0-9.]+) s a step"
_WRITTEN_FOR = "the machines that the recipe was written for"


def jobs(tree: Tree) -> Names:
    """Return the names and directories of the run and its tasks."""
    job, mount = tree["job"], volume(tree)["mountPath"]
    found = {
        "next_attempt": str(job["attempt"] + 1),
        "run": job["name"],
        "mount": mount,
        "directory": f"{mount}/runs/{job['name']}",
    }
    for task in ("train", "fetch", "prepare-data", "convert", "evaluate"):
        middle = "" if task == "train" else f"-{task}"
        found[f"{task.replace('-', '_')}_job"] = f"{job['name']}{middle}-{job['attempt']}"
    outputs = {"train_output": mount + _output(tree, "train")}
    return found | outputs | {f"{task}_output": _output(tree, task) for task in ("fetch", "evaluate")}


def _output(tree: Tree, task: str) -> str:
    """Return the path of a job's output on its volume."""
    folder = "" if task == "train" else f"tasks/{task}/"
    return f"/runs/{tree['job']['name']}/{folder}attempts/{tree['job']['attempt']}/output.log"


def settings(tree: Tree, files: Mapping[str, str]) -> Names:
    """Return what the recipe trains, for how long, and its benchmarks."""
    job = tree["job"]
    only(
        job["task"] == "train",
        f"job.task {job['task']}, only for a training with its other tasks",
        "set job.task to train",
    )
    found = _of_verl(job["config"]) if job["framework"] == "verl" else _of_nemo_rl(job["config"])
    if reads_own_data(tree, files) and "epoch" not in found["steps"]:
        # Both frameworks end with the last epoch, and nobody has counted the rows.
        found["steps"] = f"up to {found['steps']}, and fewer where the rows of its epochs give fewer"
    model = _model(tree)
    gated = f"{model} is gated: the owner of the token must accept its licence on the hub. "
    # As the task fetch has it: the model is fetched where no entry names it, unless it is a folder on a volume.
    models = dict.fromkeys([*job["fetch"]["models"], *([] if model.startswith("/") else [model])])
    useless = _unread(tree, files)
    data_sets = [name for name in job["fetch"]["datasets"] if name not in useless]
    fetched = [*models, *data_sets, *(f"{name} {given}" for name, given in job["code"]["packages"].items())]
    return {
        **found,
        "model": model,
        "version": str(job["version"]),
        "gated": gated if model.startswith(_GATED) else "",
        "downloads": listed(fetched),
        "useless": "".join(f" --set 'job.fetch.datasets.{_escaped(name)}=null'" for name in useless),
        "own_files": listed([f"`{file}`" for file in own_files(files)]),
        "benchmarks": "; ".join(
            f"{name}, {counted(one.get('samples', 1), 'answer')} to each question"
            f" at temperature {one.get('temperature', 0)}"
            for name, one in job["evaluate"]["benchmarks"].items()
        ),
    }


def _of_nemo_rl(config: Tree) -> Names:
    steps, checkpointing = config["grpo"]["max_num_steps"], config["checkpointing"]
    counted_steps = counted(steps, "step")
    return {
        "framework": "NeMo RL",
        "steps": counted_steps,
        "few": f"; {counted_steps} only show that the chain works" if steps <= _FEW_STEPS else "",
        "saves": _every(checkpointing["save_period"]),
        "metric": f"{checkpointing['metric_name']:>8}",
        "converted": "step_N",
    }


def _of_verl(config: Tree) -> Names:
    trainer = config["trainer"]
    steps = trainer.get("total_training_steps")
    return {
        "framework": "verl",
        "steps": counted(steps, "step") if steps else counted(trainer["total_epochs"], "epoch"),
        "few": "",
        "saves": _every(trainer["save_freq"]),
        "converted": "global_step_N",
    }


def _every(period: int) -> str:
    return "step" if period == 1 else f"{period} steps"


def needs_data(tree: Tree, files: Mapping[str, str]) -> bool:
    """Return whether training or evaluation reads files written by task prepare-data.

    `files` are the files that training reads, each with the task that writes it.
    """
    return "prepare-data" in files.values() or "gsm8k" in tree["job"]["evaluate"]["benchmarks"]


def own_files(files: Mapping[str, str]) -> list[str]:
    """Return the files that training reads and that no task writes."""
    return sorted(file for file, task in files.items() if not task)


def uploads(tree: Tree, files: Mapping[str, str], namespace: str) -> str:
    """Return the commands that put the user's files on the volume; a job with an ephemeral cluster has no pod yet."""
    folders: dict[str, list[str]] = {}
    datasets = f"{volume(tree)['mountPath']}/datasets/"
    for file in own_files(files) if tree["job"]["cluster"]["mode"] != "ephemeral" else ():
        if file.startswith(datasets):
            folder, _, name = file.removeprefix(datasets).rpartition("/")
            folders.setdefault(folder, []).append(shlex.quote(name))
    return "\n".join(
        f'grpo upload {" ".join(names)} "${{F[@]}}" --namespace {namespace}'
        + (f" --to {shlex.quote(folder)}" if folder else "")
        for folder, names in folders.items()
    )


def reads_own_data(tree: Tree, files: Mapping[str, str]) -> bool:
    """Return whether any file that no task writes is a data file rather than the model."""
    return any(file != _model(tree) for file in own_files(files))


def _model(tree: Tree) -> str:
    return str(RunConfig(tree).model)


def _unread(tree: Tree, files: Mapping[str, str]) -> list[str]:
    """Return the data sets that the task fetch downloads but that neither training nor another task reads.

    A recipe lists its own data set, even if the run reads other data. A data set that no framework loads may be
    for the user's code.
    """
    prepared = tree["job"]["prepareData"].values() if needs_data(tree, files) else ()
    read = {repository for _, repository in inputs.repositories(RunConfig(tree))}
    read |= {str(each["repository"]) for each in prepared}
    return [name for name in tree["job"]["fetch"]["datasets"] if name in inputs.KNOWN and name not in read]


def _escaped(name: str) -> str:
    """Escape a key for Helm's --set."""
    return re.sub(r"([.,=\[\]{}\\])", r"\\\1", name)


def is_same(tree: Tree, recipe: Tree) -> bool:
    """Return whether a run trains a recipe's model, on the recipe's data and for its rewards.

    Only then does the recipe's information on size, time and result apply to the run.
    """
    job, of_recipe = tree["job"], recipe["job"]
    if not of_recipe["config"]:
        # Another file has what is trained.
        return True
    data = job["config"].get("data") == of_recipe["config"].get("data")
    others = all(job.get(key) == of_recipe.get(key) for key in ("rewards", "prompts", "prepareData"))
    return data and others and RunConfig(tree).model == RunConfig(recipe).model


def sizes(text: str, tree: Tree) -> Names:
    """Return the sizes of a checkpoint and of the weights that task convert loads; unknown sizes are left out.

    The sizes are those of `grpo plan`. If it does not know the model, the checkpoint size comes from the recipe's
    header.
    """
    run, found = RunConfig(tree), {}
    with contextlib.suppress(UnknownError):
        found["weights"] = str(math.ceil(planner.converted(run).gib))
    written = re.search(r"(?:step|checkpoint) is about ([0-9]+) GiB", _flat(text))
    disk = 0.0
    try:
        each, saved = planner.checkpoints(run)
        disk = each.gib
        if saved.kept:
            total = Bytes(each.count * saved.kept)
            found |= {"kept": str(saved.kept), "kept_disk": str(math.ceil(total.gib))}
            asked, why = planner.claim(run, total)
            found |= {"claim_size": f"{asked}Gi", "claim_why": why} if why else {}
    except NotModelledError:
        # Adapters: much smaller than the model.
        pass
    except UnknownError:
        disk = float(written[1]) if written else disk
    return found | ({"disk": str(max(round(disk), 1))} if disk else {})


def merges_in_pieces(tree: Tree) -> bool:
    """Return whether task convert merges the weights without ever loading all of them at once."""
    return planner.merges_in_pieces(RunConfig(tree))


def header(text: str, tree: Tree) -> Names:
    """Return the time and the expected result, from the comment at the top of a recipe; missing items are left out.

    The step time is the values' own for these machines, if there is one.
    """
    text = _flat(text)
    seconds = re.search(rf"{_SECONDS}(?! on )", text)
    expected = re.search(r"Expected: (.*)", text)
    # The sentence on published runs refers to a table in the header, so drop it.
    result = expected[1].split(" The published")[0].strip() if expected else ""
    said, own = re.search(_SECONDS, result), _own(tree)
    # The comment rounds.
    is_anothers = said and not (own and math.isclose(own.seconds, float(said[1]), rel_tol=0.02))
    whose = f", with the times of {_WRITTEN_FOR}" if is_anothers else ""
    return {
        "time": _time(tree, seconds[1] if seconds else ""),
        "expected": f" Expected{whose}: {result}" if result else "",
    }


def _flat(comment: str) -> str:
    """Return a comment on one line."""
    return re.sub(r"\n#? *", " ", comment)


def _own(tree: Tree) -> StepTime | None:
    """Return the step time that `grpo plan` uses; None if the values have none for these machines."""
    nodes = tree["job"].get("nodes") or gpu_nodes(tree)
    return cost.step_time_of(_step_times(tree), tree["accelerator"]["name"], nodes, RunConfig(tree).model)


def _step_times(tree: Tree) -> Tree:
    return tree["job"].get("stepTimes") or {}


def _time(tree: Tree, written: str) -> str:
    """Describe how long training takes; `written` is the step time in seconds from the recipe's comment."""
    steps, own, model = _steps(tree["job"]["config"]), _own(tree), RunConfig(tree).model
    if own and steps:
        return f"about {_long(steps, own.seconds)} ({counted(steps, 'step')} of {own.seconds:g} s: {own.source})"
    if own:
        return f"hours (a step of {own.seconds:g} s: {own.source})"
    for name, given in _step_times(tree).items():
        nodes = given.get("nodes") or 1
        if other := cost.step_time_of(_step_times(tree), name, nodes, model):
            return f"hours; on {counted(nodes, 'node')} of {name} a step took {other.seconds:g} s ({other.source})"
    if not written or not steps:
        return "hours"
    return f"about {_long(steps, float(written))} on {_WRITTEN_FOR} ({counted(steps, 'step')} of {written} s)"


def _steps(config: Tree) -> int:
    """Return the number of steps; 0 if the configuration does not set it."""
    given = (config.get("grpo") or {}).get("max_num_steps") or (config.get("trainer") or {}).get("total_training_steps")
    return given if isinstance(given, int) else 0


def _long(steps: int, seconds: float) -> str:
    minutes = math.ceil(steps * seconds / 60)
    return f"{minutes / 60:.1f} hours" if minutes >= 60 else counted(minutes, "minute")
