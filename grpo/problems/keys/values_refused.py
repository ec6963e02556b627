"""What the chart rejects: misplaced markers, unknown volumes and profiles, parts of the runtime environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpo.problems.checks import quoted
from grpo.problems.topic import Topic
from grpo.values.config import OVERRIDE, overlay_names
from postrender.finding import Finding
from postrender.problem import Fails
from postrender.values import profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from grpo.values.config import RunConfig
    from postrender.types import Json

TOPIC = Topic("job", framework="", source="charts/")


@TOPIC.problem("", fails=Fails.AT_RENDER, source="grpo-job/templates/_config.tpl at 0.1.0")
def override_misplaced(run: RunConfig) -> Iterator[Finding]:
    """the marker _override_ is misplaced, or is not true or false

    Fix: move it to the section, together with all keys that the section needs, or remove it
    """
    trees = {"job.config": run.value("job.config")}
    overlays = run.value("job.configFor")
    if isinstance(overlays, dict):
        names = (name for name in overlay_names(run.values) if name in overlays)
        trees |= {f"job.configFor.{name.replace('.', _DOT)}": overlays[name] for name in names}
    for root, tree in trees.items():
        if isinstance(tree, dict):
            if OVERRIDE in tree:
                key = f"{root}.{OVERRIDE}"
                yield _finding(key, f"{_plain(key)} is at the top level, and only single sections can be replaced")
            for name, value in tree.items():
                yield from _below(f"{root}.{name.replace('.', _DOT)}", value, is_overlay=root != "job.config", depth=1)


_DOT = "\\."


def _plain(key: str) -> str:
    return key.replace(_DOT, ".")


def _finding(key: str, what: str) -> Finding:
    return Finding(what, keys=[f"={key}"])


def _below(key: str, value: Json, *, is_overlay: bool, depth: int) -> Iterator[Finding]:
    """Find mistakes at a key and below it; an overlay (job.configFor) may replace sections at every depth."""
    if isinstance(value, list):
        # A finding needs a key, and list items have none.
        yield from (
            _finding(key, f"{place} is in a list, which is always replaced as a whole") for place in _listed(key, value)
        )
    elif isinstance(value, dict):
        if OVERRIDE in value:
            marker = f"{key}.{OVERRIDE}"
            if depth > 1 and not is_overlay:
                yield _finding(marker, f"{_plain(marker)} is below a section, and NeMo RL replaces only whole sections")
            elif not isinstance(value[OVERRIDE], bool):
                given = "a map" if isinstance(value[OVERRIDE], dict) else quoted(value[OVERRIDE])
                yield _finding(marker, f"{_plain(marker)} is {given}, expected true or false")
        for name, inner in value.items():
            yield from _below(f"{key}.{name.replace('.', _DOT)}", inner, is_overlay=is_overlay, depth=depth + 1)


def _listed(path: str, value: Json) -> Iterator[str]:
    """Yield the markers in a list, at any depth."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _listed(f"{path}[{number}]", item)
    elif isinstance(value, dict):
        if OVERRIDE in value:
            yield f"{_plain(path)}.{OVERRIDE}"
        for name, inner in value.items():
            yield from _listed(f"{path}.{name}", inner)


@TOPIC.problem("", fails=Fails.AT_RENDER, source="common/templates/_values.tpl at 0.1.0")
def unknown_profile(run: RunConfig) -> Iterator[Finding]:
    """an overlay of job.configFor is for an unknown machine

    Fix: correct the name, or remove the overlay
    """
    overlays, known = run.value("job.configFor"), sorted({*profiles.names(), run.accelerator})
    for name in overlays if isinstance(overlays, dict) else ():
        # A name with a dot is a version, which the schema checks.
        if "." not in name and name not in known:
            what = f"job.configFor.{name} is not for a known machine; the machines are: {', '.join(known)}"
            yield _finding(f"job.configFor.{name}", what)


@TOPIC.problem("", fails=Fails.AT_RENDER, source="common/templates/_storage.tpl at 0.1.0")
def volume_absent(run: RunConfig) -> Iterator[Finding]:
    """a volume that the job names does not exist, or the run's volume is not persistent

    Fix: add it to storage, or use another volume
    """
    storage = run.value("storage")
    volumes: Mapping[str, Any] = storage if isinstance(storage, dict) else {}
    has = ", ".join(sorted(volumes)) or "none"
    absent: dict[str, list[str]] = {}
    for key in _named_volumes(run):
        name = run.value(key)
        if isinstance(name, str) and name and name not in volumes:
            absent.setdefault(name, []).append(key)
    for name, keys in absent.items():
        what = f"{' and '.join(keys)} {'is' if len(keys) == 1 else 'are'} {name}, and storage has {has}"
        yield Finding(what, keys=[*(f"={key}" for key in keys), f"=storage.{name}", "=storage"])
    own = volumes.get(str(run.value("job.volume")))
    if isinstance(own, dict) and "ephemeral" in own:
        what = f"job.volume is {run.value('job.volume')}, a local disk: checkpoints there are lost with the pod"
        yield Finding(what, keys=["=job.volume", "=storage"], fix="name a persistent volume")


def _named_volumes(run: RunConfig) -> Iterator[str]:
    yield from ("job.volume", "huggingface.cache.volume")
    if run.value("job.code.packages") or run.value("job.code.repository"):
        yield "job.code.volume"


@TOPIC.problem("", fails=Fails.AT_RENDER, source="grpo-job/templates/_entrypoint.tpl at 0.1.0")
def runtime_env_twice(run: RunConfig) -> Iterator[Finding]:
    """job.runtimeEnv sets what the framework itself sets

    Fix: set variables under job.env, and leave the interpreter to the framework
    """
    given = run.value("job.runtimeEnv")
    if not isinstance(given, dict):
        return
    variables = given.get("env_vars")
    if variables:
        names = ", ".join(map(str, variables)) if isinstance(variables, dict) else "something"
        yield Finding(
            f"job.runtimeEnv.env_vars has {names}, the framework sets env_vars too, and Ray does not merge them",
            keys=["=job.runtimeEnv.env_vars"],
        )
    trains = run.trains
    if trains and run.framework == "verl" and run.since("0.9.0") and "py_executable" in given:
        what = f"job.runtimeEnv.py_executable is set, verl {run.version} sets it too, and Ray does not merge them"
        yield Finding(what, keys=["=job.runtimeEnv.py_executable"])
