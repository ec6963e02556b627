"""`grpo` on a cluster, with the values of a stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from harness import suite
from harness.kube import Manifest
from harness.stack import Stack

Done = subprocess.CompletedProcess[str]


def grpo(*words: str) -> Done:
    """Run `grpo` of this checkout, with the kubectl of the tools."""
    command = [sys.executable, "-m", "grpo.cli", *words]
    environment = {**os.environ, "PATH": f"{suite.TOOLS / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, cwd=suite.REPOSITORY, env=environment
    )


def ask(command: str, stack: Stack, *options: str) -> Done:
    """Run a command that asks the cluster of a stack."""
    files = [word for option in stack.options() for word in ("-f", option.removeprefix("--values="))]
    where = ["-n", stack.namespace, "--kubeconfig", str(stack.kube.kubeconfig), "--helm", str(stack.helm.program)]
    return grpo(command, *files, *where, *options)


def explain(stack: Stack, folder: Path) -> tuple[list[str], Manifest]:
    """Return the causes that `grpo why` names for the run of a stack, the first one first, and its `grpo status`.

    Both judge the same evidence.
    """
    bundle = str(folder / f"{stack.name}-{stack.run}.tar.gz")
    # A busy machine may not answer all questions in time, which the command says.
    for _ in range(3):
        why = ask("why", stack, "--format", "json", "--bundle", bundle)
        assert why.returncode == 1, why.stdout + why.stderr
        status = json.loads(grpo("status", "--from", bundle, "--format", "json").stdout)
        if "no answer within" not in str(status["unread"]):
            break
    return [each["id"] for each in json.loads(why.stdout)["causes"]], dict(status)
