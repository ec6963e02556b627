"""Write the commands that a user runs next, with the stack's names."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence

from grpo.manifests.needs import commands
from grpo.manifests.needs.needed import Need
from grpo.start.site_file import Answers
from postrender import paths

OF_THIS_MACHINE = "The paths are those of this machine; for a repository, grpo init --vendor copies the files."
_ALL = '"${F[@]}"'


def lines(files: Sequence[str], answers: Answers, namespace: str, needs: Sequence[Need] | None) -> Iterator[str]:
    """Yield the shell commands for a stack of these files; `needs` is None if nothing can be rendered."""
    at, charts = f"--namespace {namespace}", paths.shown(paths.charts_of(files))
    yield f"F=({flags(files)})"
    if os.path.isabs(charts):
        yield f"# {OF_THIS_MACHINE}"
    yield f"grpo lint {_ALL} {at}"
    yield f"grpo guide {_ALL} {at} > my-guide.md    # every step, from the cluster to the trained model"
    yield "# In short; my-guide.md also has the operator, what the namespace needs, the download and the tests:"
    yield f"kubectl create namespace {namespace}"
    if needs is None:
        yield "# What must exist before is in my-guide.md, as soon as the charts can be rendered."
    yield from map(commands.explained, sorted(needs or (), key=lambda each: not commands.creates(each)))
    for layer, release in releases(answers).items():
        if layer == "network" and answers["network"] != "multiNetwork":
            yield f"# charts/network is left out: with network.mode {answers['network']} it creates nothing"
            continue
        yield f"helm install {release} {shlex.quote(f'{charts}/{layer}')} {_ALL} {at}"


def flags(files: Sequence[str]) -> str:
    """Return values files as command line flags."""
    return " ".join(f"-f {shlex.quote(paths.shown(file))}" for file in files)


def releases(answers: Answers) -> dict[str, str]:
    """Return each layer's release name, in installation order."""
    stack = answers["stack"]
    names = (f"{stack}-network", f"{stack}-storage", f"{stack}-ray", answers["run"])
    return dict(zip(paths.LAYERS, names, strict=True))
