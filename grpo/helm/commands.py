"""Write the commands that install a stack."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence

from grpo.helm.engines import Engine
from grpo.helm.stack import Stack
from postrender import paths

# Its releases are locked: a change that is refused must leave nothing behind.
_LOCKED = "grpo-job"


def install(
    stack: Stack,
    layers: Sequence[str],
    engine: Engine,
    *,
    program: str | None = None,
    release: str | None = None,
    namespace: str | None = None,
) -> Iterator[str]:
    """Yield a shell line for each layer, in this order; it also upgrades a layer that is already installed.

    The flags match the engine's version of Helm; `program` defaults to helm on PATH.
    """
    files = [word for file in stack.files for word in ("-f", paths.shown(file))]
    arguments = [word for argument in stack.arguments for word in argument]
    where, charts = ["--namespace", namespace] if namespace else [], paths.charts_of(stack.files)
    for number, layer in enumerate(layers):
        words = [program or "helm", "upgrade", "--install", release or stack.release(layer)]
        words += [paths.shown(os.path.join(charts, layer)), *where]
        words += ["--create-namespace"] if namespace and number == 0 else []
        words += [engine.rollback] if layer == _LOCKED else []
        yield shlex.join([*words, *files, *arguments])
