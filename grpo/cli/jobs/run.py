"""What the charts render for a stack's run: its RayJob, its folder, and the location of its cluster."""

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
    """A stack's rendered RayJob, with the plan that it contains."""

    values: Values
    rayjob: Mapping[str, Any]
    plan: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the RayJob's name."""
        return str(mapping(self.rayjob.get("metadata")).get("name"))

    @property
    def directory(self) -> str:
        """Return the attempt's folder on the run's volume."""
        return entrypoint.attempt_directory(self.plan)

    @property
    def runtime_env(self) -> dict[str, Any]:
        """Return the job's runtime environment, job.runtimeEnv."""
        text = mapping(self.rayjob.get("spec")).get("runtimeEnvYAML")
        return mapping(next(iter(reader.load_all(text, "runtimeEnvYAML")), {})) if isinstance(text, str) else {}

    def head(self, namespace: str | None, cluster: str | None) -> Head:
        """Return the head pod of the run's cluster, or of another given cluster."""
        return kubectl.head(self.values, str(self.plan.get("run")), namespace=namespace, cluster=cluster)


def render(stack: Stack, helm: str | None, attempt: int | None = None) -> Run:
    """Render a stack's job, or another attempt of it; raise as Stack.render does."""
    change = {"job": {"attempt": attempt}} if attempt else None
    with engines.choose(helm) as engine, explaining(stack):
        rendered = stack.render(engine, "grpo-job", change=change)
    rayjob = next(each for each in rendered.documents if each["kind"] == "RayJob")
    return Run(stack.values, rayjob, entrypoint.plan(rayjob))
