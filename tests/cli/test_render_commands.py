"""`grpo render all --commands`: each printed line renders what `grpo render` renders; tests/e2e installs with them."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from grpo.cli import main as cli
from grpo.helm.engines import Embedded
from tests.conftest import LAYERS, require_tool, stack_files, thin

FILES = [word for path in stack_files() for word in ("-f", str(path))]
# A value that a shell would change.
VALUE = '{"HOSTILE": {"value": "it\'s \\"$HOME\\" `id`"}}'
WORDS = ["render", "all", *FILES, "--set-json", f"job.env={VALUE}", "--set", "job.attempt=2", "-n", "rl"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert cli.main([*words]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(("name", "layers"), thin([("helm4", LAYERS[-1:]), ("helm4", LAYERS), ("helm3", LAYERS)], 3))
def test_the_printed_commands_render_what_grpo_renders(
    name: str,
    layers: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the verb of Helm that only prints, in a shell, from another folder."""
    monkeypatch.chdir(tmp_path)
    helm = str(require_tool(name))
    lines = printed(capsys, *WORDS, "--commands", "--helm", helm)
    assert [shlex.split(line)[4].rpartition("/")[2] for line in lines] == [*LAYERS]
    for layer in layers:
        line = lines[LAYERS.index(layer)]
        words = ["render", layer, *WORDS[2:], "--helm", helm]
        assert cli.main(words) == 0
        expected = capsys.readouterr().out
        template = line.replace("upgrade --install", "template", 1)
        done = subprocess.run(["sh", "-c", template], capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode == 0, done.stderr
        assert done.stdout == expected
    flag = {"helm3": "--atomic", "helm4": "--rollback-on-failure"}[name]
    assert [flag in shlex.split(line) for line in lines] == [False, False, False, True]
    assert ["--create-namespace" in line for line in lines] == [True, False, False, False]


def test_without_a_namespace_the_commands_leave_it_to_the_context(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """On a machine without Helm, too."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(Embedded, "__enter__", lambda _: pytest.fail("Helm was started"))
    lines = printed(capsys, "render", "all", *FILES, "--commands")
    assert not [line for line in lines if "namespace" in line]
    assert [shlex.split(line)[:4] for line in lines] == [
        ["helm", "upgrade", "--install", name]
        for name in ("gemma-network", "gemma-storage", "gemma-ray", "gemma3-gsm8k")
    ]


def test_one_layer_can_be_printed_with_a_given_release(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = printed(capsys, "render", "storage", *FILES, "--commands", "--release", "mine")
    assert shlex.split(line)[3:5] == ["mine", "charts/storage"]


def test_a_run_with_its_own_cluster_needs_three_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["render", *FILES, "--set", "job.cluster.mode=ephemeral", "--commands"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 3
    assert err.startswith("raycluster is left out: ")


@pytest.mark.parametrize(
    ("machine", "extra", "is_left_out"),
    [
        ("b200", "", False),
        ("eks-h200", "storage: {data: {gcsfuse: null, existingClaim: {name: shared}}}\n", True),
        pytest.param("b200", "network: {mode: dranet}\n", True, marks=pytest.mark.full),
        pytest.param("b200", "network: {mode: none}\n", True, marks=pytest.mark.full),
        pytest.param(
            "b200", "network: {mode: dranet, rdmaInstaller: {enabled: true}}\n", False, marks=pytest.mark.full
        ),
    ],
)
def test_a_network_without_objects_is_left_out_of_commands_and_guide(
    machine: str, extra: str, is_left_out: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = tmp_path / "more.yaml"
    more.write_text(extra or "{}\n", encoding="utf-8")
    files = [word for path in (*stack_files(machine), more) for word in ("-f", str(path))]
    assert cli.main(["render", "network", *files]) == 0
    assert bool(capsys.readouterr().out) != is_left_out
    assert cli.main(["render", *files, "--commands", "-n", "rl"]) == 0
    out, err = capsys.readouterr()
    layers = [shlex.split(line)[4].rpartition("/")[2] for line in out.splitlines()]
    assert layers == [*LAYERS[1 if is_left_out else 0 :]]
    assert ("network is left out: with this network.mode it creates nothing\n" in err) == is_left_out
    assert "--create-namespace" in out.splitlines()[0]
    assert cli.main(["guide", *files]) == 0
    page = capsys.readouterr().out.replace("\n", " ")
    assert ("The chart `network` would create nothing: leave it out." in page) == is_left_out
    assert ("charts/network " in page) != is_left_out


@pytest.mark.parametrize("words", [["--output-dir", "x"], ["--notes"], ["--full"], ["--kube-version", "1.35"]])
def test_manifest_options_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["render", *FILES, "--commands", *words]) == 2
    assert capsys.readouterr().err.startswith("grpo render: --commands prints commands, not manifests")


def test_a_token_in_the_values_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    token = "hf_" + "aB3" * 8
    assert cli.main(["render", *FILES, "--commands", "--set", f"job.env.A.value={token}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert token not in err
