"""A stack: one list of values files and what the four charts make of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from postrender import paths
from postrender.errors import RenderError
from postrender.helm.engines import Engine, Rendered
from postrender.values import merge
from postrender.values.merge import Values

# How a release of the stack ends; the release of a run is called as the run.
_SUFFIX = {"network": "network", "storage": "storage", "raycluster": "ray"}
# What Helm takes; a name that is wrong is for the schema to refuse, with the key's name.
_RELEASE = re.compile("[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?")


@dataclass(frozen=True)
class Stack:
    """Hold the values files of one training set-up, merged, with the names as they were given."""

    files: tuple[str, ...]
    values: Values

    @classmethod
    def load(cls, files: Sequence[str], *, accelerator: str | None = None) -> Stack:
        """Read the files, the profile of an accelerator before them; raise as values.load and paths.accelerator do."""
        profile = [paths.accelerator(accelerator)] if accelerator else []
        names = (*profile, *files)
        return cls(names, merge.load(names))

    def layers(self) -> tuple[str, ...]:
        """Return the layers that are installed, in order: a job that brings its own cluster needs no other."""
        ephemeral = self.values.get("job.cluster.mode") == "ephemeral"
        return tuple(layer for layer in paths.LAYERS if not (ephemeral and layer == "raycluster"))

    def release(self, layer: str) -> str:
        """Return what the README calls the release of a layer, or the layer where the values do not say its name."""
        job = layer == "grpo-job"
        task = self.values.get("job.task") if job else None
        named = self.values.get("job.name" if job else "stack.name")
        name = "-".join(str(part) for part in (named, None if task == "train" else task, _SUFFIX.get(layer)) if part)
        return name if named and _RELEASE.fullmatch(name) else layer

    def render(
        self,
        engine: Engine,
        layer: str,
        *,
        release: str | None = None,
        namespace: str = "default",
        kube_version: str | None = None,
        notes: bool = False,
        change: Mapping[str, Any] | None = None,
    ) -> Rendered:
        """Render one layer; its release has the README's name unless told otherwise. Raises as Engine.render does.

        `change` is laid over the files.
        """
        try:
            return engine.render(
                paths.chart(layer),
                self.files,
                release=release or self.release(layer),
                namespace=namespace,
                kube_version=kube_version,
                notes=notes,
                values=change,
            )
        except RenderError as error:
            if not error.is_of_schema:
                raise
            # Helm knows the key, and neither the file nor the line.
            words = " ".join(f"-f {file}" for file in self.files)
            raise RenderError(error.message, fix=f"grpo lint {words} names the file and the line") from error
