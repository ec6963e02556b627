"""`grpo logs`, `grpo submit` and `grpo upload` in real pods, with a token that only the pods have."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from conftest import REPOSITORY, TOOLS, Installed
from harness.stack import Stack
from harness.waiting import until

pytestmark = pytest.mark.shared


def grpo(command: str, stack: Stack, *words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    files = [word for option in stack.options() for word in ("-f", option.removeprefix("--values="))]
    renders = ["--helm", str(stack.helm.program)] if command != "upload" else []
    options = [*files, "-n", stack.namespace, *renders]
    return subprocess.run(
        [sys.executable, "-m", "grpo.cli", command, *options, *words],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.fixture
def environment(shared: Installed) -> dict[str, str]:
    kubeconfig = str(shared.stack.kube.kubeconfig)
    return {**os.environ, "PATH": f"{TOOLS.bin}:{os.environ['PATH']}", "KUBECONFIG": kubeconfig}


def test_output_is_followed_live_and_stays_readable_on_the_volume(
    shared: Installed, environment: dict[str, str]
) -> None:
    """Followed to the end of the job, then from the volume: of the attempt whose RayJob is gone, too."""
    shared.trainer.behave(steps=2)
    run = shared.with_run("logged")
    run.install("grpo-job")
    followed = grpo("logs", run, "--follow", environment=environment)
    assert followed.returncode == 0, followed.stderr
    assert "/data/runs/logged/attempts/1/config.yaml" in followed.stdout
    assert "has ended: Complete: SUCCEEDED" in followed.stderr.splitlines()[-1]
    lines = followed.stdout.splitlines()
    last = grpo("logs", run, "--tail", "3", environment=environment)
    assert (last.returncode, last.stdout.splitlines()) == (0, lines[-3:])
    run.uninstall("grpo-job")
    kept = grpo("logs", run, environment=environment)
    assert kept.returncode == 0, kept.stderr
    # Ray writes the command before it.
    assert kept.stdout.splitlines()[-3:] == lines[-3:]
    assert "/data/runs/logged/attempts/1/config.yaml" in kept.stdout
    by_hand = grpo("logs", run, "--show-commands", environment=environment).stdout
    shown = subprocess.run(["bash", "-c", by_hand], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout == kept.stdout
    missing = grpo("logs", run, "--attempt", "7", environment=environment)
    assert (missing.returncode, missing.stdout) == (3, "")
    assert "attempts/7/output.log" in missing.stderr


def test_a_submitted_directory_runs_with_the_environment_of_the_run(
    shared: Installed, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text("import os, sys; print('has', os.environ['MINE'], os.environ['HF_HOME'])\n")
    run = shared.with_run("tried", env={"MINE": {"value": "it's mine"}})
    done = grpo("submit", run, str(tmp_path), "--", "python3", "job.py", environment=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("has ")]
    assert line.startswith("has it's mine /data/")
    (tmp_path / "data").write_bytes(os.urandom(30_000_000))
    sent = grpo("submit", run, str(tmp_path), "--", "sha256sum", "data", environment=environment)
    assert hashlib.sha256((tmp_path / "data").read_bytes()).hexdigest() in sent.stdout, sent.stderr
    (tmp_path / "data").unlink()
    failed = grpo("submit", run, str(tmp_path), "--", "sh", "-c", "exit 5", environment=environment)
    assert failed.returncode == 5, failed.stderr
    token = shared.stack.kube.get("secret", run.cluster, run.namespace)["data"]["auth_token"]
    assert token not in done.stdout + done.stderr


def test_an_uploaded_file_ends_up_on_the_volume(shared: Installed, environment: dict[str, str], tmp_path: Path) -> None:
    file, folder = tmp_path / "rows.parquet", shared.stack.on_volume("/data/datasets")
    file.write_bytes(b"PAR1" + os.urandom(50_000_000))
    done = grpo("upload", shared.stack, str(file), "--to", "sent", environment=environment)
    assert (done.returncode, done.stdout) == (0, "/data/datasets/sent/rows.parquet\n"), done.stderr
    assert (folder / "sent/rows.parquet").read_bytes() == file.read_bytes()
    assert (
        "was there already" in grpo("upload", shared.stack, str(file), "--to", "sent", environment=environment).stderr
    )
    file.write_bytes(b"PAR1")
    refused = grpo("upload", shared.stack, str(file), "--to", "sent", environment=environment)
    assert (refused.returncode, refused.stdout) == (2, ""), refused.stderr
    replaced = grpo("upload", shared.stack, str(file), "--to", "sent", "--replace", environment=environment)
    assert replaced.returncode == 0, replaced.stderr
    assert [path.read_bytes() for path in (folder / "sent").iterdir()] == [b"PAR1"]


# A half of the file, and then nothing more as long as kubectl lives.
STALLS = """\
#!/bin/sh
[ "$1" = exec ] || exec {kubectl} "$@"
exec 3<&0
{{ head -c 5000000; tail --pid=$$ -f /dev/null; }} <&3 | {kubectl} "$@" &
echo $! > {pid}
wait $!
"""


def test_a_killed_kubectl_leaves_no_partial_file(
    shared: Installed, environment: dict[str, str], tmp_path: Path
) -> None:
    """The program in the pod hears that the connection has ended."""
    folder, file, stalling = shared.stack.on_volume("/data/datasets/killed"), tmp_path / "rows", tmp_path / "kubectl"
    stalling.write_text(STALLS.format(kubectl=TOOLS.bin / "kubectl", pid=tmp_path / "pid"))
    stalling.chmod(0o755)
    file.write_bytes(os.urandom(10_000_000))
    path = {**environment, "PATH": f"{tmp_path}:{environment['PATH']}"}
    with ThreadPoolExecutor() as pool:
        done = pool.submit(grpo, "upload", shared.stack, str(file), "--to", "killed", environment=path)
        try:
            until(lambda: [*folder.glob(".rows.*.upload")], "a part of the file", 60)
        finally:
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert (done.result().returncode, done.result().stdout) == (3, ""), done.result().stderr
    until(lambda: not [*folder.iterdir()], "an empty folder", 60)


def test_a_user_without_permission_gets_a_clear_message(
    shared: Installed, environment: dict[str, str], tmp_path: Path
) -> None:
    config = yaml.safe_load(shared.stack.kube.kubeconfig.read_text())
    for user in config["users"]:
        user["user"]["as"] = "nobody"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    (tmp_path / "job.py").write_text("pass\n")
    nobody = {**environment, "KUBECONFIG": str(tmp_path / "kubeconfig")}
    for command, words in (("logs", []), ("submit", [str(tmp_path), "--", "true"])):
        done = grpo(command, shared.stack, *words, environment=nobody)
        assert (done.returncode, done.stdout) == (3, ""), done.stderr
        assert 'is forbidden: User "nobody"' in done.stderr
