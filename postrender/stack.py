"""A stack: one list of values files and what the four charts make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from postrender import paths, values
from postrender.errors import RenderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from postrender.helm import Engine, Rendered
    from postrender.values import Values


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
        return cls(names, values.load(names))

    def render(
        self,
        engine: Engine,
        layer: str,
        *,
        release: str | None = None,
        namespace: str = "default",
        kube_version: str | None = None,
        notes: bool = False,
    ) -> Rendered:
        """Render one layer; the release is called as the layer unless told otherwise. Raises as Engine.render does."""
        try:
            return engine.render(
                paths.chart(layer),
                self.files,
                release=release or layer,
                namespace=namespace,
                kube_version=kube_version,
                notes=notes,
            )
        except RenderError as error:
            if not error.is_of_schema:
                raise
            # Helm knows the key, and neither the file nor the line.
            words = " ".join(f"-f {file}" for file in self.files)
            raise RenderError(error.message, fix=f"grpo lint {words} names the file and the line") from error
