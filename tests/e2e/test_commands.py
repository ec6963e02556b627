"""The commands that `grpo render all --commands` prints install a stack, and upgrade it."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from conftest import NewStack
from harness import suite
from harness.commands import grpo
from harness.stack import Stack


def printed(stack: Stack, *words: str) -> list[str]:
    files = [word for option in stack.options() for word in ("-f", option.removeprefix("--values="))]
    options = ["-n", stack.namespace, "--helm", str(stack.helm.program)]
    done = grpo("render", "all", "--commands", *files, *options, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("helm", ["helm3", pytest.param("helm4", marks=pytest.mark.ci)])
def test_the_printed_commands_install_and_upgrade(new_stack: NewStack, helm: str, tmp_path: Path) -> None:
    stack = new_stack("b200", helm)
    folders = {f"HELM_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "CONFIG", "DATA")}
    environment = {**os.environ, **folders, "KUBECONFIG": str(stack.kube.kubeconfig)}

    def run(line: str) -> None:
        options = {"cwd": suite.REPOSITORY, "env": environment, "text": True, "capture_output": True}
        done = subprocess.run(["sh", "-c", line], check=False, **options)  # type: ignore[call-overload]
        assert done.returncode == 0, f"{line}\n{done.stderr}"

    try:
        for line in printed(stack):
            run(line)
        stack.until_ready()
        for line in printed(stack, "--set", "job.attempt=2"):
            run(line)
        releases = [shlex.split(line)[3] for line in printed(stack)]
        assert {stack.helm.status(each, stack.namespace) for each in releases} == {"deployed"}
        jobs = [each["metadata"]["name"] for each in stack.kube.list("rayjobs", stack.namespace)]
        assert [name.rpartition("-")[2] for name in jobs] == ["2"]
    finally:
        stack.uninstall_all()
