"""A RayJob's runtime environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from grpo.problems.pods.objects_start import unpinned
from grpo.problems.ray.rayspec import Job, each_job
from postrender.errors import InputError
from postrender.finding import ERROR, WARNING
from postrender.manifests.pods import mapping, sequence
from postrender.problem import OBJECTS, Fails, Problem
from postrender.yaml import reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.problems.ray.rayspec import Found

_PATH: Final = ("spec", "runtimeEnvYAML")
_SOURCE: Final = "ray/python/ray/runtime_env/runtime_env.py at ray-2.52.0"
_KNOWN: Final = frozenset(
    (
        *("py_modules", "py_executable", "java_jars", "working_dir", "conda", "pip", "uv", "container", "excludes"),
        *("env_vars", "_ray_release", "_ray_commit", "_inject_current_ray", "config", "worker_process_setup_hook"),
        *("_nsight", "nsight", "mpi", "image_uri", "rocprof_sys", "_rocprof_sys"),
    )
)


def _environment(job: Job) -> dict[str, Any]:
    text = job.spec.get("runtimeEnvYAML")
    if not isinstance(text, str):
        return {}

    try:
        roots = list(reader.parse(text.encode("utf-8"), "runtimeEnvYAML"))
    except (InputError, UnicodeEncodeError):
        # ray/runtime-env-not-a-map reports it.
        return {}
    return mapping(roots[0].plain()) if roots else {}


def _unknown(job: Job) -> Found:
    for key in _environment(job):
        if key not in _KNOWN:
            yield _PATH, f"runtimeEnvYAML has the key {key}, which Ray does not know"


def _requirements(environment: dict[str, Any]) -> Iterator[str]:
    for name in ("pip", "uv"):
        given = environment.get(name)
        packages = sequence(mapping(given).get("packages")) if isinstance(given, dict) else sequence(given)
        yield from (each for each in packages if isinstance(each, str))


def _moving(job: Job) -> Found:
    names = [each for each in _requirements(_environment(job)) if unpinned(each)]
    if names:
        yield _PATH, f"runtimeEnvYAML installs {', '.join(names)} without a version"


RULES = (
    Problem(
        "ray/runtime-env-key",
        target=OBJECTS,
        severity=ERROR,
        fails=Fails.SILENT,
        title="the runtime environment of a RayJob has a key that Ray does not know",
        why="Ray only logs a warning and ignores the key: no working directory, no packages, no hook",
        fix="correct the spelling; a stray quote is part of the key",
        source=_SOURCE,
        check=each_job(_unknown),
    ),
    Problem(
        "ray/runtime-env-unpinned",
        target=OBJECTS,
        severity=WARNING,
        fails=Fails.SILENT,
        title="the runtime environment of a RayJob installs packages without versions",
        why="every job may get other versions, and torch from the index replaces the image's build for its CUDA",
        fix="write name==version, or build the packages into the image",
        source=_SOURCE,
        check=each_job(_moving),
    ),
)
