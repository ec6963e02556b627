"""Hostile text in files, names, logs and clusters commands neither the terminal nor the CI system that shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from grpo.cli import main as cli
from grpo.live import bundle
from postrender import main as post_render
from postrender import options as post_render_options
from tests.cli import clusters
from tests.conftest import Render, stack_files
from tests.live import test_no_secret as cluster
from tests.runlog import logs

HOSTILE = (
    "\x1b]52;c;AAAA\x07",
    "\x1b[\x1b[2J2J",
    "x\x9b2J\x9d0;title\x9c",
    "a\n::error::forged",
    "a\n  ::stop-commands::forged",
    "a ##[stop-commands]forged ##vso[task.setvariable variable=PATH]forged",
    "a\rforged: all is well",
    "a\nforged: all is well",
    "a\u2028forged: all is well\x85forged: all is well\x0bforged: all is well",
    "user\u202efdp.exe",
)
ALL = " ".join(HOSTILE)
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]")
# A line with a command of ours is no other command, whatever stands in it.
OURS = re.compile(r"(?m)^::(?:error|warning|notice) file=.*")
COMMAND = re.compile(r"(?m)^\s*::|##[a-z]*\[")
FORGED = re.compile("(?m)^forged")
# What prints the text of others as its own lines: each line of a log is a line.
PASSED_ON = ("logs", "samples")
# `values` and `version` read nothing that others write; `helm-plugin` writes files.
NOTHING_FOREIGN = {"values", "version", "helm-plugin"}
STACK = [word for path in stack_files() for word in ("-f", str(path))]


@pytest.fixture(autouse=True)
def ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, list[str]]:
    """Write hostile files; return the words of each command that reads them."""
    folder = tmp_path / "a\x1b[2J\n::error::b"
    folder.mkdir()
    values = folder / "my\x1b[31m.yaml"
    settings = {
        "job": {"name": ALL, ALL: 1, "rewards": {"mine": {"file": ALL}}, "config": {"grpo": {ALL: ALL}}},
        "ray": {"env": {"A": {"value": ALL}}, "image": ALL},
        ALL: ALL,
    }
    values.write_text(json.dumps(settings))
    broken = folder / "broken.yaml"
    broken.write_text('a: "\n::error::forged\n##[stop-commands]\n\x85forged\n\t- {')
    environment = [{"name": ALL, "value": "hf_" + "aB3" * 8}]
    container = {"name": ALL, "image": ALL, "env": environment, "args": [ALL]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": ALL}, "spec": {"containers": [container]}}
    manifest = folder / "pod.yaml"
    manifest.write_text(json.dumps(pod))
    log = folder / "driver.log"
    log.write_text(f"{ALL}\n{logs.nemo_rl(steps=3, reward=0.0, loss=0.0)}\nRuntimeError: CUDA out of memory {ALL}\n")
    run = folder / "run"
    trajectories = run / "logs/exp_001"
    trajectories.mkdir(parents=True)
    row = {"content": [[ALL, ALL, ALL]], "rewards": [0.5], "idx": 0}
    (trajectories / "train_data_step1.jsonl").write_text(json.dumps(row) + "\n")
    checkpoint = run / "checkpoints/step_10"
    checkpoint.mkdir(parents=True)
    (checkpoint / "training_info.json").write_text(json.dumps({"step": 10, ALL: ALL, "val_reward": ALL}))
    mine = [*STACK, "-f", str(values)]
    return {
        "check": ["check", str(manifest), str(broken)],
        "check in GitHub": ["check", str(manifest), "--format", "github"],
        "checkpoints": ["checkpoints", str(run)],
        "dead-values": ["dead-values", str(folder)],
        "diff": ["diff", *STACK, "--accelerator", ALL, "--accelerator", "b200"],
        "explain": ["explain", ALL],
        "guide": ["guide", *mine],
        "init": ["init", ALL, "--accelerator", ALL],
        "lint": ["lint", *mine],
        "lint in GitHub": ["lint", *mine, "--format", "github"],
        "lint of a broken file": ["lint", *STACK, "-f", str(broken)],
        "lint with --set": ["lint", *STACK, "--set", f"job.name={ALL}", "--no-render"],
        "lint --fix": ["lint", *mine, "--fix=dry-run"],
        "plan": ["plan", *mine],
        "render": ["render", "all", *mine],
        "report": ["report", str(log)],
        "report in Markdown": ["report", str(log), "--format", "markdown"],
        "rules": ["rules", ALL],
        "samples": ["samples", str(run)],
        "submit": ["submit", *mine, "--working-dir", str(folder), "--", "echo", ALL],
        "try-reward": ["try-reward", *mine],
        "upload": ["upload", *mine, ALL],
        "watch": ["watch", str(log)],
        "why": ["why", str(log)],
        "no command": [ALL],
        "no option": ["lint", f"--{ALL}"],
    }


def judge(name: str, printed: str) -> None:
    assert not (found := UNSEEN.search(printed)), (name, printed[max(0, found.start() - 80) : found.end() + 20])
    printed = OURS.sub("", printed)
    assert not (found := COMMAND.search(printed)), (name, printed[max(0, found.start() - 80) : found.end() + 20])
    if name not in PASSED_ON:
        assert not (found := FORGED.search(printed)), (name, printed[max(0, found.start() - 80) : found.end() + 20])


def test_no_command_prints_raw_text_from_hostile_files(
    inputs: dict[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    silent = []
    for name, words in inputs.items():
        cli.main(words)
        out, err = capsys.readouterr()
        judge(name, out + err)
        if not out + err:
            silent.append(name)
    assert not silent
    asked = {words[0] for words in inputs.values()}
    from_clusters = {"doctor", "status", "logs"}
    assert set(cli.grpo.list_commands(click.Context(cli.grpo))) <= asked | from_clusters | NOTHING_FOREIGN


@pytest.mark.parametrize("text", [*HOSTILE, ALL], ids=range(len(HOSTILE) + 1))
def test_hostile_text_from_a_cluster_is_escaped(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = cluster.filled()
    for place in cluster.PLACES:
        cluster.plant(evidence, *place, text)
    bundle.write(str(tmp_path / "b.tar.gz"), evidence)
    for command in cluster.COMMANDS:
        for form in ("text", "json"):
            assert cli.main([command, "--from", str(tmp_path / "b.tar.gz"), "--format", form]) == 1
            judge(command, "".join(capsys.readouterr()))


def test_hostile_text_in_a_pod_log_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: Render, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters.stand_in(tmp_path, monkeypatch, render).write(f"{ALL}\n" * 3)
    cli.main(["logs", *STACK, "-n", "rl"])
    out, err = capsys.readouterr()
    assert "forged" in out
    judge("logs", out + err)


def test_the_post_renderer_escapes_hostile_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HELM_PLUGIN_NAME", post_render_options.NAME)
    for words in ([f"--{ALL}"], ["--values", ALL], ["--report", ALL, "--values", str(stack_files()[0])]):
        post_render.main(words)
        out, err = capsys.readouterr()
        judge("post-renderer", out + err)
