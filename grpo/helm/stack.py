"""A stack: a list of values files and the four charts that it configures."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grpo.helm.engines import Engine, Rendered
from grpo.values import set_arguments
from grpo.values.derived import mapping
from grpo.values.set_arguments import Argument
from postrender import paths, textfile
from postrender.values import merge
from postrender.values.merge import Values

# The suffix of each layer's release name; the release of a run has the name of the run.
_SUFFIX = {"network": "network", "storage": "storage", "raycluster": "ray"}
# The names that Helm accepts; the schema reports a wrong name together with its key.
_RELEASE = re.compile("[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?")


def installs_network(sections: Mapping[str, Any]) -> bool:
    """Return whether the chart network creates objects for a stack: GKE networks, an installer, a policy for pods.

    `sections` are the values merged over the charts' defaults.
    """
    network = mapping(sections.get("network"))
    options = (mapping(network.get(name)) for name in ("rdmaInstaller", "podPolicy"))
    return network.get("mode") == "multiNetwork" or any(each.get("enabled") for each in options)


@dataclass(frozen=True)
class Stack:
    """The merged values of one training setup.

    `files` are the names as the user gave them, `arguments` those of --set and related flags.
    """

    files: tuple[str, ...]
    values: Values
    arguments: tuple[Argument, ...] = ()

    @classmethod
    def load(cls, files: Sequence[str], arguments: Sequence[Argument] = (), *, accelerator: str | None = None) -> Stack:
        """Read the files, preceded by an accelerator's profile; raise as merge.load and paths.accelerator do."""
        profile = [paths.accelerator(accelerator)] if accelerator else []
        names = (*profile, *files)
        return cls(names, set_arguments.apply(merge.load(names), arguments), tuple(arguments))

    @property
    def name(self) -> str:
        """Return the stack's name, or an empty text if the values do not set it."""
        return str(self.values.get("stack.name") or "")

    @property
    def charts(self) -> str:
        """Return the folder of the charts: those copied beside a values file, or else those in the package."""
        return paths.charts_of(self.files)

    @property
    def copied_charts(self) -> str:
        """Return the folder of the copied charts as commands show it; empty if the charts are not a copy."""
        own = os.path.realpath(os.path.join(paths.data_root(), "charts"))
        return "" if os.path.realpath(self.charts) == own else paths.shown(self.charts)

    def layers(self) -> tuple[str, ...]:
        """Return the layers to install, in order; a job with its own cluster needs no raycluster layer."""
        ephemeral = self.values.get("job.cluster.mode") == "ephemeral"
        return tuple(layer for layer in paths.LAYERS if not (ephemeral and layer == "raycluster"))

    def release(self, layer: str) -> str:
        """Return a layer's release name as in the README, or the layer's name if the values do not name the stack."""
        job = layer == "grpo-job"
        task = self.values.get("job.task") if job else None
        named = self.values.get("job.name" if job else "stack.name")
        name = "-".join(str(part) for part in (named, None if task == "train" else task, _SUFFIX.get(layer)) if part)
        return name if named and _RELEASE.fullmatch(name) else layer

    def objects(self, engine: Engine, layers: Sequence[str], namespace: str) -> dict[str, list[dict[str, Any]]]:
        """Return the objects of the given layers, by layer; raise as `render` does."""
        return {layer: [*self.render(engine, layer, namespace=namespace).documents] for layer in layers}

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
        """Render one layer; `release` defaults to the README's name, and `change` overrides the files.

        The charts that would be installed are rendered: the copied ones, if there are any. Raises as Engine.render
        does, and InputError if the copies lead out of a checkout.
        """
        chart = os.path.join(self.charts, layer)
        textfile.refuse_outside(chart)
        # The arguments may change an item of a list in a file, so they are given with everything that they change.
        over = self.values.as_helm_merges() if self.arguments else {}
        return engine.render(
            chart,
            self.files,
            release=release or self.release(layer),
            namespace=namespace,
            kube_version=kube_version,
            notes=notes,
            values=merge.overlay(over, change or {}),
        )
