"""What stands where the chart has no use for it: markers, names of volumes, parts of the runtime environment."""

from __future__ import annotations

from postrender.effective import OVERRIDE, overlay_names
from postrender.rules.job import REFUSED
from postrender.rules.values import Book, Said, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from postrender.effective import Effective
    from postrender.plain import Plain

_book = Book("job", "", "charts/")
RULES = _book.rules


@_book.rule(
    "override-misplaced",
    "GKE-R27",
    "",
    title="the marker _override_ is true or false, and stands in a section that it can replace",
    why=REFUSED,
    fix="move it to the section, with all that the section needs, or remove it",
    source="grpo-job/templates/_config.tpl at 1.0.0",
)
def _markers(run: Effective) -> Iterator[Said]:
    trees = {"job.config": run.value("job.config")}
    overlays = run.value("job.configFor")
    if isinstance(overlays, dict):
        names = (name for name in overlay_names(run.values) if name in overlays)
        trees |= {f"job.configFor.{name.replace('.', _DOT)}": overlays[name] for name in names}
    for root, tree in trees.items():
        if isinstance(tree, dict):
            if OVERRIDE in tree:
                key = f"{root}.{OVERRIDE}"
                yield _said(key, f"{_plain(key)} stands above all: one section at a time can be replaced")
            for name, value in tree.items():
                yield from _below(f"{root}.{name.replace('.', _DOT)}", value, is_overlay=root != "job.config", depth=1)


_DOT = "\\."


def _plain(key: str) -> str:
    return key.replace(_DOT, ".")


def _said(key: str, what: str) -> Said:
    return Said(what, keys=[f"={key}"])


def _below(key: str, value: Plain, *, is_overlay: bool, depth: int) -> Iterator[Said]:
    """Find what is wrong at a key and below it; an overlay of the chart's own may replace at every depth."""
    if isinstance(value, list):
        # No finding can stand in a list, whose items have no keys.
        yield from (
            _said(key, f"{place} stands in a list, which is replaced as a whole") for place in _listed(key, value)
        )
    elif isinstance(value, dict):
        if OVERRIDE in value:
            marker = f"{key}.{OVERRIDE}"
            if depth > 1 and not is_overlay:
                yield _said(marker, f"{_plain(marker)} stands below a section, and NeMo RL replaces whole ones only")
            elif not isinstance(value[OVERRIDE], bool):
                given = "a map" if isinstance(value[OVERRIDE], dict) else shown(value[OVERRIDE])
                yield _said(marker, f"{_plain(marker)} is {given}, expected true or false")
        for name, inner in value.items():
            yield from _below(f"{key}.{name.replace('.', _DOT)}", inner, is_overlay=is_overlay, depth=depth + 1)


def _listed(path: str, value: Plain) -> Iterator[str]:
    """Yield the markers that stand somewhere in a list."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _listed(f"{path}[{number}]", item)
    elif isinstance(value, dict):
        if OVERRIDE in value:
            yield f"{_plain(path)}.{OVERRIDE}"
        for name, inner in value.items():
            yield from _listed(f"{path}.{name}", inner)


@_book.rule(
    "volume-absent",
    "GKE-R27",
    "",
    title="the volumes that a job names are there, and the run's own one stays",
    why=REFUSED,
    fix="add it to storage, or name another volume",
    source="common/templates/_storage.tpl at 1.0.0",
)
def _volumes(run: Effective) -> Iterator[Said]:
    storage = run.value("storage")
    volumes: Mapping[str, Any] = storage if isinstance(storage, dict) else {}
    has = ", ".join(sorted(volumes)) or "none"
    for key in _named_volumes(run):
        name = run.value(key)
        if isinstance(name, str) and name and name not in volumes:
            yield Said(f"{key} is {name}, and storage has {has}", keys=[f"={key}", "=storage"])
    own = volumes.get(str(run.value("job.volume")))
    if isinstance(own, dict) and "ephemeral" in own:
        what = f"job.volume is {run.value('job.volume')}, a local disk: checkpoints there end with the pod"
        yield Said(what, keys=["=job.volume", "=storage"], fix="name a volume that stays")


def _named_volumes(run: Effective) -> Iterator[str]:
    yield from ("job.volume", "huggingface.cache.volume")
    if run.value("job.code.packages") or run.value("job.code.repository"):
        yield "job.code.volume"


@_book.rule(
    "runtime-env-twice",
    "GKE-R27",
    "",
    title="job.runtimeEnv leaves to the framework what the framework sets",
    why=REFUSED,
    fix="write variables under job.env, and leave the interpreter to the framework",
    source="grpo-job/templates/_spec.tpl at 1.0.0",
)
def _runtime(run: Effective) -> Iterator[Said]:
    given = run.value("job.runtimeEnv")
    if not isinstance(given, dict):
        return
    variables = given.get("env_vars")
    if variables:
        names = ", ".join(map(str, variables)) if isinstance(variables, dict) else "something"
        yield Said(
            f"job.runtimeEnv.env_vars has {names}, and Ray merges no two of them", keys=["=job.runtimeEnv.env_vars"]
        )
    trains = run.value("job.task") in (None, "train")
    if trains and run.framework == "verl" and run.since("0.9.0") and "py_executable" in given:
        what = f"job.runtimeEnv.py_executable, which verl {run.version} sets too, and Ray merges no two of them"
        yield Said(what, keys=["=job.runtimeEnv.py_executable"])
