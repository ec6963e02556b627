"""The commands of SKILL.md from its installation on, in their order, with the values of a stack whose pods run.

tests/docs/test_skill.py has those before: lint and plan do not pass sizes as small as this machine's.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import REPOSITORY, TOOLS, Installed
from harness.stack import Stack

pytestmark = pytest.mark.shared

RUN = "gemma3-gsm8k"
TEXT = (REPOSITORY / "SKILL.md").read_text("utf-8").partition("\n## 2. Install\n")[2]
BLOCKS = re.findall(r"^```bash\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
LINES = [line for block in BLOCKS for line in block.splitlines() if line.startswith("grpo ")]
# As NeMo RL stores one.
SAMPLE = {"content": [["Half of 144?", "#### 72", "correct"]], "rewards": [1.0], "input_lengths": [9], "idx": [0]}


class Shell:
    """A bash in a folder that has what the commands name: the values as `${F[@]}`, and the files of earlier ones."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack, self.folder = stack, folder
        self.files = [word for option in stack.options() for word in ("-f", option.removeprefix("--values="))]
        programs = folder / "bin"
        programs.mkdir()
        (programs / "helm").symlink_to(stack.helm.program)
        (programs / "grpo").write_text(f'#!/bin/sh\nexec {sys.executable} -m grpo.cli "$@"\n')
        (programs / "grpo").chmod(0o755)
        for name in ("charts", "jobs", "values"):
            (folder / name).symlink_to(REPOSITORY / name)
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{TOOLS.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "KUBECONFIG": str(stack.kube.kubeconfig),
        }

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line of the page for the namespace of the stack."""
        text = f"F=({shlex.join(self.files)})\n" + line.replace(" -n rl", f" -n {self.stack.namespace}")
        options = {"cwd": self.folder, "env": self.environment, "capture_output": True, "text": True, "timeout": 240}
        return subprocess.run(["bash", "-c", text], check=False, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.ci
@pytest.mark.usefixtures("as_on_gke")
def test_every_command_in_the_skill_runs(shared: Installed, tmp_path: Path) -> None:
    """The last printed helm command starts the run; Ray has its layers already."""
    shared.trainer.behave(steps=2)
    run = shared.with_run(RUN)
    samples = run.on_volume(f"/data/runs/{RUN}/logs/exp_001/train_data_step2.jsonl")
    samples.parent.mkdir(parents=True)
    samples.write_text(json.dumps(SAMPLE) + "\n")
    # What the page uploads.
    (tmp_path / "train.jsonl").write_text('{"question": "Half of 144?", "answer": "72"}\n')
    shell, said = Shell(run, tmp_path), dict[str, str]()
    for line in LINES:
        done = shell.run(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        words = line.split("#")[0].split()
        said[" ".join(words[:2])] = done.stdout
        if words[1] == "render":
            *_, last = done.stdout.splitlines()
            assert shell.run(last).returncode == 0
            run.until_job("SUCCEEDED", 120)
            kept = 'grpo status "${F[@]}" -n rl --bundle evidence.tar.gz; grpo logs "${F[@]}" -n rl >driver.log'
            assert shell.run(kept).returncode == 0
    run.uninstall("grpo-job")
    assert "2  yes" in said["grpo checkpoints"]
    assert "Half of 144?" in said["grpo samples"]
    assert "SUCCEEDED" in said["grpo status"]
    assert "Total step time" in said["grpo logs"]
    assert (tmp_path / "report.html").exists()
