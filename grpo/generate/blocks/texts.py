"""The texts of the blocks in pages, each generated from its source: values, catalogues, causes, results."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

from grpo.generate.markdown import table_row
from grpo.generate.sources import Schema, read_yaml
from grpo.plan import phase
from grpo.problems import registry
from grpo.runlog.shared import Limits
from grpo.start import shipped
from grpo.values.catalogue import sentence
from postrender.manifests.schemas import DEFAULT, VERSIONS
from postrender.problem import FAILURE
from postrender.registry import problems_of
from postrender.yaml import reader

# Which answers of tests/jobs/answers.yaml a judge of a framework is asked about: those with its mark.
MARKS: Final = {"nemo-rl": "", "verl-gsm8k": "####", "verl-math": "box"}
_ANSWERS = "tests/jobs/answers.yaml"
# A recipe of each framework: all are written for the same version. And the page about the others.
_RECIPES = {"nemo-rl": "gemma3-27b-gsm8k", "verl": "qwen2.5-32b-gsm8k-verl"}
_VERSIONS = {
    "nemo-rl": "[NeMo RL](howto/older-versions.md)",
    "verl": "[verl](howto/verl.md), [FSDP only](howto/verl.md#megatron)",
}
_SHARES = {"gpu": phase.SHARE, "wide": phase.WIDE_SHARE}
_SILENCES = {
    "factor": Limits.silent_factor,
    "minutes": Limits.silent_seconds / 60,
    "hours": Limits.validation_seconds / 3600,
}
# How many steps at the beginning and at the end of a run are compared.
_WINDOW = 10


class Facts(NamedTuple):
    """The sources of the texts: the files below the root, and the charts' defaults."""

    root: Path
    defaults: Schema


def _at(tree: Mapping[str, Any], path: str) -> object:
    found: Any = tree
    for key in path.split("."):
        found = found[key]
    return found


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _value(facts: Facts, argument: str) -> str:
    file, path = argument.split()
    return str(_at(read_yaml(facts.root / file), path))


def _kubernetes(_: Facts, what: str) -> str:
    return {"default": f"1.{DEFAULT}", "versions": f"1.{VERSIONS[0]} to 1.{VERSIONS[-1]}"}[what]


def _causes(_: Facts, __: str) -> str:
    lines = ["| subject | causes |", "|---|---|"]
    ids: dict[str, list[str]] = {}
    for module in registry.modules(FAILURE):
        subject = (sys.modules[module.__name__.rpartition(".")[0]].__doc__ or "").splitlines()[0].removesuffix(".")
        ids.setdefault(subject, []).extend(each.id for each in problems_of(module))
    lines += [table_row([subject, " ".join(f"`{name}`" for name in sorted(found))]) for subject, found in ids.items()]
    return "\n".join(lines)


def _files(facts: Facts, framework: str) -> dict[str, Path]:
    """Return the values files that switch a stack to another version, by version, oldest first."""
    files = (facts.root / "values/frameworks").glob(f"{framework}-*.yaml")
    found = {path.stem.removeprefix(f"{framework}-"): path for path in files}
    return dict(sorted(found.items(), key=lambda item: _number(item[0])))


def _number(version: str) -> list[int]:
    return [int(part) for part in version.strip("v").split(".")]


def _recipe(facts: Facts, framework: str) -> Schema:
    return read_yaml(facts.root / f"values/recipes/{_RECIPES[framework]}.yaml")


def _described(folder: str, title: str) -> Callable[[Facts, str], str]:
    """Return a function that writes the table of a folder's profiles or recipes."""

    def table(facts: Facts, _: str) -> str:
        files = sorted((facts.root / folder).glob("*.yaml"))
        rows = [(f"[{each.stem}](../{folder}/{each.name})", shipped.description(str(each))) for each in files]
        return "\n".join([table_row([title, "for"]), "|---|---|", *map(table_row, rows)])

    return table


def _versions(facts: Facts, _: str) -> str:
    """Return, for each framework, the version that its recipes are written for, and the other versions."""
    lines = [table_row(["framework", "the recipes are written for", "other versions"]), "|---|---|---|"]
    for framework, name in _VERSIONS.items():
        lines.append(
            table_row([name, _recipe(facts, framework)["job"]["version"], ", ".join(_files(facts, framework))])
        )
    return "\n".join(lines)


def _frameworks(facts: Facts, framework: str) -> str:
    """Return what differs between the versions: those with a values file, and the recipes' version."""
    trees = [*map(read_yaml, _files(facts, framework).values()), _recipe(facts, framework)]
    trees.sort(key=lambda tree: _number(tree["job"]["version"]), reverse=True)
    images = [tree["images"]["training"] for tree in trees]
    rays = [tree.get("ray", {}) for tree in trees]
    tokens = [ray.get("tokenAuth", {}).get("enabled", True) for ray in rays]
    rows = {
        "": [tree["job"]["version"] for tree in trees],
        "Ray": [image["rayVersion"] for image in images],
        "NVIDIA driver from": [image["minimumDriver"] for image in images],
        "CPU of the head for Ray (`ray.head.numCpus`)": [ray.get("head", {}).get("numCpus", 0) for ray in rays],
        "`ray.tokenAuth`": ["yes" if token else "no: see below" for token in tokens],
    }
    lines = [table_row([title, *map(str, cells)]) for title, cells in rows.items()]
    return "\n".join([lines[0], "|---" * (len(trees) + 1) + "|", *lines[1:]])


def _provisional(facts: Facts, argument: str) -> str:
    """Return the sentence about a NeMo RL version whose source was not read, or one of the facts in its entry."""
    version, _, key = argument.partition(" ")
    entry = read_yaml(facts.root / "schemas/catalogues/nemo-rl/provisional.yaml")[version]
    if not key:
        return sentence("NeMo RL", version, entry)
    return str(entry[key])[:8] if key == "commit" else str(entry[key])


def _answers(facts: Facts, judge: str) -> str:
    (table,) = reader.load_all((facts.root / _ANSWERS).read_text("utf-8"), _ANSWERS)
    mark = {"exact_answer": "", **MARKS}[judge]
    asked = [row for row in table if mark in row["response"]]
    return f"{sum(judge not in row.get('differs', ()) for row in asked)} of {len(asked)}"


def _learned(facts: Facts, file: str) -> str:
    """Return the results of `make learn`, one row per run."""
    lines = (facts.root / "examples/learn-on-cpu" / file).read_text("utf-8").splitlines()
    runs = [json.loads(line) for line in lines]
    steps = runs[0]["steps"]
    head = (
        *("seed", f"mean reward of steps 1 to {_WINDOW}", f"of steps {steps - _WINDOW + 1} to {steps}"),
        *(f"right answers: base → step {steps}", "seconds", "load, start → end"),
    )
    return "\n".join([table_row(head), "|---" * len(head) + "|", *map(table_row, map(_run, runs))])


def _run(run: Mapping[str, Any]) -> list[str]:
    first, last = (f"{fmean(rewards):.3f}" for rewards in (run["rewards"][:_WINDOW], run["rewards"][-_WINDOW:]))
    scores = [f"{100 * run['scores'][name]:.1f} %" for name in ("base", f"step_{run['steps']}")]
    load = [f"{each:.0f}" for each in run["load"]]
    return [str(run["seed"]), first, last, " → ".join(scores), str(run["seconds"]), " → ".join(load)]


WRITERS: Final[dict[str, Callable[[Facts, str], str]]] = {
    "answers": _answers,
    "causes": _causes,
    "default": lambda facts, path: str(_at(facts.defaults, path)),
    "frameworks": _frameworks,
    "kubernetes": _kubernetes,
    "learned": _learned,
    "machines": _described("values/accelerators", "profile"),
    "percent": lambda facts, path: _percent(float(str(_at(facts.defaults, path)))),
    "provisional": _provisional,
    "recipes": _described("values/recipes", "recipe"),
    "share": lambda _, name: _percent(_SHARES[name]),
    "silence": lambda _, name: f"{_SILENCES[name]:g}",
    "value": _value,
    "versions": _versions,
}
