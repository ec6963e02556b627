"""`grpo` on a cluster, with the values of a stack."""

from __future__ import annotations

import subprocess
import sys

from harness import suite
from harness.stack import Stack

Done = subprocess.CompletedProcess[str]


def grpo(*words: str) -> Done:
    """Run `grpo` of this checkout."""
    command = [sys.executable, "-m", "postrender.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=suite.REPOSITORY)


def ask(command: str, stack: Stack, *options: str) -> Done:
    """Run a command that asks the cluster of a stack."""
    files = [word for option in stack.options() for word in ("-f", option.removeprefix("--values="))]
    where = ["-n", stack.namespace, "--kubeconfig", str(stack.kube.kubeconfig), "--helm", str(stack.helm.program)]
    return grpo(command, *files, *where, *options)
