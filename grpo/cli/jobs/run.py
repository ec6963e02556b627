"""What the charts make of the run of a stack: its RayJob, its folder, and where its cluster is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo.cli.judging import explaining
from grpo.helm import engines, kubectl
from grpo.helm.kubectl import Head
from grpo.helm.stack import Stack
from grpo.manifests import entrypoint
from postrender.manifests.pods import mapping
from postrender.values.merge import Values
from postrender.yaml import reader


@dataclass(frozen=True)
class Run:
    """The rendered RayJob of a stack, with the plan in it."""

    values: Values
    rayjob: Mapping[str, Any]
    plan: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the name of the RayJob."""
        return str(mapping(self.rayjob.get("metadata")).get("name"))

    @property
    def directory(self) -> str:
        """Return the folder of the attempt on the volume of the run."""
        return entrypoint.attempt_directory(self.plan)

    @property
    def runtime_env(self) -> dict[str, Any]:
        """Return the runtime environment of the job, job.runtimeEnv."""
        text = mapping(self.rayjob.get("spec")).get("runtimeEnvYAML")
        return mapping(next(iter(reader.load_all(text, "runtimeEnvYAML")), {})) if isinstance(text, str) else {}

    def head(self, namespace: str | None, cluster: str | None) -> Head:
        """Return the head pod of the cluster that the run uses, or of another one."""
        return kubectl.head(self.values, str(self.plan.get("run")), namespace=namespace, cluster=cluster)


def render(stack: Stack, helm: str | None, attempt: int | None = None) -> Run:
    """Render the job of a stack, or another attempt of it; raise as Stack.render does."""
    change = {"job": {"attempt": attempt}} if attempt else None
    with engines.choose(helm) as engine, explaining(stack):
        rendered = stack.render(engine, "grpo-job", change=change)
    rayjob = next(each for each in rendered.documents if each["kind"] == "RayJob")
    return Run(stack.values, rayjob, entrypoint.plan(rayjob))
