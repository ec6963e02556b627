"""Write the commands that a user runs next, with the names of the stack."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from postrender import paths
from postrender.start.site_file import Answers

_ALL = '"${F[@]}"'


def lines(files: Sequence[str], answers: Answers, namespace: str) -> Iterator[str]:
    """Yield the commands of a shell for a stack of these files."""
    at = f"--namespace {namespace}"
    yield f"F=({flags(files)})"
    yield f"grpo lint {_ALL} {at}"
    yield f"grpo guide {_ALL} {at} > my-guide.md    # every step, from the cluster to the trained model"
    yield "# In short; my-guide.md also has the operator, what the namespace needs, the download and the tests:"
    yield f"kubectl create namespace {namespace}"
    yield _secret(answers["hf-secret"], answers["hf-key"], "TOKEN_FILE", at)
    if answers["tracking"] == "wandb":
        yield _secret(answers["wandb-secret"], answers["wandb-key"], "KEY_FILE", at)
    for layer, release in releases(answers).items():
        if layer == "network" and answers["network"] != "multiNetwork":
            yield f"# charts/network is left out: with network.mode {answers['network']} it creates nothing"
            continue
        yield f"helm install {release} {shlex.quote(paths.shown(paths.chart(layer)))} {_ALL} {at}"


def flags(files: Sequence[str]) -> str:
    """Return values files as a command line has them."""
    return " ".join(f"-f {shlex.quote(paths.shown(file))}" for file in files)


def releases(answers: Answers) -> dict[str, str]:
    """Return the release of each layer, in the order of installation."""
    stack = answers["stack"]
    names = (f"{stack}-network", f"{stack}-storage", f"{stack}-ray", answers["run"])
    return dict(zip(paths.LAYERS, names, strict=True))


def _secret(name: str, key: str, file: str, at: str) -> str:
    """Return the command that makes a Secret from a file, so that no shell history holds the token."""
    return f"kubectl create secret generic {name} {at} --from-file={key}={file}"
