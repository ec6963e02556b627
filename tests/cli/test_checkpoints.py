"""`grpo checkpoints`: on a directory that is mounted here, and in the head pod of the values' cluster."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grpo.cli import main as cli
from tests.conftest import ROOT, stack_files
from tests.grpo.test_kubectl import KUBECTL
from tests.jobs import checkpoint_files

Run = Callable[..., tuple[int, str, str]]
FILES = [word for file in stack_files() for word in ("-f", str(file))]


@pytest.fixture
def grpo(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command line where a stand-in for kubectl runs what the head pod would; its command lines go to CALLS."""
    (tmp_path / "bin").mkdir()
    # The pod sees the volume at /data; here it is a folder of the test.
    pod = KUBECTL.replace('"$@"; code=$?', 'set -- "$1" "$2" "$3" "$VOLUME${4#/data}" ${5+"$5" "$6"}; "$@"; code=$?')
    (tmp_path / "bin/kubectl").write_text(pod)
    (tmp_path / "bin/kubectl").chmod(0o755)
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    for name, value in (("CALLS", "calls"), ("VOLUME", "data"), ("PATH", "bin")):
        monkeypatch.setenv(name, str(tmp_path / value) + (":/usr/bin:/bin" if name == "PATH" else ""))
    monkeypatch.setenv("PODS", "gemma-ray-head")

    def run(*words: str) -> tuple[int, str, str]:
        code = cli.main(["checkpoints", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    run = tmp_path / "data/runs/gemma3-gsm8k"
    for step, value in ((10, 0.5), (20, 0.25)):
        checkpoint_files.nemo_rl(run, step, value=value)
    return run


def test_a_local_run_directory_is_listed_without_the_cluster(grpo: Run, directory: Path, tmp_path: Path) -> None:
    code, out, err = grpo(str(directory))
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["step", "10", "20"]
    assert out.splitlines()[1].endswith("0.5000  best")
    assert not (tmp_path / "calls").exists()


def test_a_run_in_the_cluster_is_listed_by_the_same_program(grpo: Run, directory: Path, tmp_path: Path) -> None:
    code, out, err = grpo("gemma3-gsm8k", *FILES, "--namespace", "team-a")
    assert (code, out, err) == (0, grpo(str(directory))[1], "")
    found, executed = (tmp_path / "calls").read_text().splitlines()
    assert "--namespace team-a --selector ray.io/cluster=gemma-ray,ray.io/node-type=head" in found
    assert executed.endswith("-- python3 -I - /data/runs/gemma3-gsm8k")


def test_options_reach_the_program(grpo: Run, directory: Path) -> None:
    checkpoint_files.nemo_rl(directory, 30, value=0.5, metric="train:reward")
    code, out, _ = grpo(str(directory), "--format", "json", "--metric", "train:reward", "--framework", "nemo-rl")
    found = json.loads(out)
    assert (code, found["framework"], found["checkpoints"][0]["metric"]) == (0, "nemo-rl", "train:reward")


def test_a_run_outside_the_volume_is_a_usage_error(grpo: Run, directory: Path) -> None:
    code, out, err = grpo("another-run", *FILES)
    assert (code, out) == (2, "")
    assert "runs/another-run is no directory: name the run directory" in err


def test_an_unknown_metric_is_a_finding(grpo: Run, directory: Path) -> None:
    for words in ([str(directory)], ["gemma3-gsm8k", *FILES]):
        code, out, err = grpo(*words, "--metric=zork")
        assert (code, len(out.splitlines())) == (1, 3)
        assert err == "grpo: no step has a value of zork; available metrics: total_steps, val:accuracy\n"


@pytest.mark.parametrize("command", ["checkpoints", "samples"])
def test_a_directory_without_a_run_is_a_usage_error(
    command: str, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For both commands; the folder above the runs is the usual mistake."""
    (tmp_path / "empty/.git/logs").mkdir(parents=True)
    (tmp_path / "data/runs/lost+found").mkdir()
    for folder, fix in (("data/runs", f"grpo {command} {tmp_path}/data/runs/gemma3-gsm8k"), ("empty", "name the run ")):
        assert cli.main([command, str(tmp_path / folder)]) == 2
        message, hint = capsys.readouterr().err.splitlines()
        assert (
            message == f"grpo {command}: {str(tmp_path / folder)!r} is not the directory of a run: "
            "it has no checkpoints and no logs"
        )
        assert hint.startswith(f"  fix: {fix}")


@pytest.mark.parametrize("command", ["checkpoints", "samples"])
def test_a_run_without_checkpoints_is_a_finding(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "attempts/1").mkdir(parents=True)
    assert cli.main([command, str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_a_crashed_program_exits_with_code_3(
    grpo: Run, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python ends with 1 too when a program has a mistake; and a pod may end it with any code."""
    for text, code in (("raise RuntimeError", 3), ("raise SystemExit(137)", 3)):
        (tmp_path / "broken.py").write_text(text)
        monkeypatch.setattr("grpo.helm.kubectl.program", lambda name: str(tmp_path / "broken.py"))
        assert grpo(str(directory))[0] == code


@pytest.mark.parametrize("options", [[], ["--cluster", "other", "--namespace", "team-a"]])
def test_show_commands_prints_the_command_without_running_it(grpo: Run, tmp_path: Path, options: list[str]) -> None:
    code, out, err = grpo("gemma3-gsm8k", *FILES, *options, "--show-commands")
    assert (code, err) == (0, "")
    assert not (tmp_path / "calls").exists()
    cluster = "other" if options else "gemma-ray"
    assert f"ray.io/cluster={cluster}," in out
    assert out.endswith(f"-- python3 -I - /data/runs/gemma3-gsm8k < {ROOT}/jobs/inspection/checkpoints.py\n")


def test_the_command_printed_for_a_directory_gives_the_same_output(grpo: Run, directory: Path) -> None:
    line = grpo(str(directory), "--show-commands")[1]
    assert shlex.split(line)[0] == "python3"
    pasted = subprocess.run(["sh", "-c", line], check=True, capture_output=True, text=True)
    assert pasted.stdout == grpo(str(directory))[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "one run is needed"),
        (["a", "b"], "one run is needed"),
        (["nowhere"], "'nowhere' is not a directory here"),
        (["../x", *FILES], "the run is '../x', expected lower-case letters"),
        (["x", *FILES, "--namespace", "A"], "--namespace is 'A', expected lower-case letters"),
        (["x", *FILES, "--cluster", "a,b=c"], "--cluster is 'a,b=c', expected lower-case letters"),
        (["x", "--framework", "trl"], "--framework is 'trl', expected one of nemo-rl, verl"),
        (["x", "--format", "xml"], "--format is 'xml', expected one of text, json"),
        (["x", "--json"], "no option is called --json"),
    ],
)
def test_a_wrong_command_line_is_refused(grpo: Run, words: list[str], message: str) -> None:
    code, out, err = grpo(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert "fix: " in err


def test_help_shows_the_usage(grpo: Run) -> None:
    code, out, err = grpo("--help")
    assert (code, err) == (0, "")
    assert out.startswith("Usage: grpo checkpoints DIR | -f FILE ... | RUN -n NAMESPACE [OPTIONS]")
