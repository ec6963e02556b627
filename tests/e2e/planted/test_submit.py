"""`grpo submit` on a real Ray: a kubectl of a few lines stands in for the real one, which tests/e2e/node has."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from grpo.cli.jobs import packing

from harness import suite
from harness.waiting import until
from ray_site import BASE, MIDDLE, SITE, Site, quietly

FILES = [word for file in (*BASE, MIDDLE["nemo-rl"], SITE) for word in ("-f", file)]
# The deadlines of these values are shorter than the schema allows.
NAMES = ("loading", "firstStep", "step", "checkpoint", "validation")
DEADLINES = json.dumps({f"{name}Seconds": 600 for name in NAMES})
TOKEN = "hf_" + "aB3" * 8
# The pod has the environment of the head, and nothing of the one who asks.
KUBECTL = """\
#!/bin/sh
echo "$*" >> {calls}
case $1 in
  get) echo pod/ray-head ;;
  exec) while [ "$1" != -- ]; do shift; done; shift
        cd / && env -i {environment} "$@"; code=$?
        [ $code = 0 ] || {{ echo "command terminated with exit code $code" >&2; exit $code; }} ;;
esac
"""


class Person:
    """Who submits, with a kubectl and a working directory."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site, self.calls, self.code = site, folder / "calls", folder / "my code"
        environment = shlex.join(f"{name}={value}" for name, value in site.ray.environment.items())
        (folder / "bin").mkdir()
        (folder / "bin/kubectl").write_text(KUBECTL.format(calls=self.calls, environment=environment))
        (folder / "bin/kubectl").chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "MINE": "mine"}
        self.environment["PYTHONPATH"] = str(suite.REPOSITORY)
        self.code.mkdir()

    def command(self, *words: str) -> list[str]:
        options = [*FILES, "--helm", str(suite.TOOLS / "bin/helm4"), "-n", "rl"]
        options += ["--set", "images.training.libraryPath=/none", "--set-json", f"job.guard.deadlines={DEADLINES}"]
        return [sys.executable, "-m", "grpo.cli", "submit", str(self.code), *options, *words]

    def submit(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            env=self.environment,
            cwd=suite.REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )


@pytest.fixture
def person(site: Site, tmp_path: Path) -> Person:
    return Person(site, tmp_path)


def job_id(errors: str) -> str:
    return errors.partition("submitted as job ")[2].split()[0]


@pytest.mark.ci
def test_a_command_runs_in_its_directory_with_the_environment_of_the_run(person: Person) -> None:
    (person.code / "mine.py").write_text("NAME = 'from the directory'\n")
    (person.code / ".gitignore").write_text("data/\n")
    (person.code / "data").mkdir()
    (person.code / "data/large").write_text("x")
    program = (
        "import json, os, sys, mine; print('VARIABLES ' + json.dumps(dict(os.environ))); print(mine.NAME, sys.argv[1]);"
        "print(sorted(set(os.listdir('.')) - {'__pycache__'})); import ray;"
        "ray.init(address='auto', log_to_driver=False);"
        "print('task', ray.get(ray.remote(lambda: __import__('mine').NAME).options(num_cpus=1).remote()))"
    )
    (person.code / "train.py").write_text(program)
    began = time.monotonic()
    done = person.submit("--", "python3", "train.py", 'it\'s "$HOME"')
    print(f"{time.monotonic() - began:.1f} s from the command to its exit")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    variables = json.loads(next(line for line in lines if line.startswith("VARIABLES ")).removeprefix("VARIABLES "))
    plan = person.site.plan("nemo-rl")["environment"]
    paths = variables["PYTHONPATH"].split(os.pathsep)
    assert {name: variables[name] for name in plan if name != "PYTHONPATH"} == {
        name: value for name, value in plan.items() if name != "PYTHONPATH"
    }
    assert paths[0] == variables["PWD"]
    assert str(person.site.ray.environment["PYTHONPATH"]) in paths
    assert "MINE" not in variables
    assert 'from the directory it\'s "$HOME"' in lines
    assert "['.gitignore', 'mine.py', 'train.py']" in lines
    assert "task from the directory" in lines
    assert "3 files" in done.stderr
    assert done.stderr.splitlines()[-1].endswith("has ended: SUCCEEDED")


@pytest.mark.parametrize(
    ("command", "code"),
    [pytest.param("exit 7", 7, marks=pytest.mark.ci), ("kill -9 $$", 137), ("no-such-program", 127)],
)
def test_the_exit_code_is_that_of_the_command(person: Person, command: str, code: int) -> None:
    (person.code / "a").write_text("x")
    done = person.submit("--", "sh", "-c", f"echo began; {command}")
    assert (done.returncode, "began" in done.stdout.splitlines()) == (code, True), done.stdout + done.stderr
    assert "has ended: FAILED" in done.stderr.splitlines()[-1]


@pytest.mark.ci
def test_no_secret_is_printed(person: Person) -> None:
    (person.code / "a").write_text("x")
    # A directory with a token in it is not sent.
    done = person.submit("--", "sh", "-c", f"printf '%s%s\\n' {TOKEN[:4]} {TOKEN[4:]}")
    assert done.returncode == 0, done.stderr
    assert TOKEN not in done.stdout + done.stderr + person.calls.read_text()
    assert "<huggingface token>" in done.stdout


def test_an_interrupt_leaves_the_job_running_and_prints_how_to_stop_it(person: Person) -> None:
    """The printed commands are run."""
    (person.code / "a").write_text("x")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A shell tells what it starts in the background to ignore the signal.
    restore = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(
        person.command("--", "sh", "-c", "echo began; sleep 300"),
        env=person.environment,
        cwd=suite.REPOSITORY,
        text=True,
        **pipes,  # type: ignore[call-overload]
        **restore,
    ) as process:
        try:
            assert process.stdout
            assert any(line == "began\n" for line in iter(process.stdout.readline, ""))
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 130
    job = job_id(errors)
    assert person.site.ray.job(job)["status"] == "RUNNING"
    logs, stop = (line.partition(": ")[2].partition(": ")[2] for line in errors.splitlines()[-2:])
    subprocess.run(["sh", "-c", stop], env=person.environment, check=True, capture_output=True, timeout=60)
    until(lambda: person.site.ray.job(job)["status"] == "STOPPED", "the end of the job", 60)
    shown = subprocess.run(["sh", "-c", logs], env=person.environment, check=False, capture_output=True, timeout=60)
    assert b"began" in shown.stdout


def test_without_waiting_only_the_job_id_is_printed(person: Person) -> None:
    (person.code / "a").write_text("x")
    done = person.submit("--no-wait", "--", "true")
    assert (done.returncode, done.stdout.strip()) == (0, job_id(done.stderr))
    until(lambda: quietly(lambda: person.site.ray.job(done.stdout.strip())["status"] == "SUCCEEDED"), "the job", 60)


def test_a_directory_of_the_maximum_size_is_accepted(person: Person) -> None:
    """Its bytes are random, so that the package is as large."""
    (person.code / "data").write_bytes(os.urandom(packing.MAX_BYTES - 1_000_000))
    done = person.submit("--", "sha256sum", "data")
    assert done.returncode == 0, done.stderr
    assert hashlib.sha256((person.code / "data").read_bytes()).hexdigest() in done.stdout


def test_a_failed_runtime_environment_is_reported(person: Person) -> None:
    (person.code / "a").write_text("x")
    done = person.submit("--set-json", 'job.runtimeEnv={"py_modules":["/no/such/module.whl"]}', "--", "true")
    assert done.returncode in (1, 2), done.stdout
    assert "module.whl" in done.stderr, done.stderr


def test_the_printed_commands_submit_the_same_job(person: Person) -> None:
    (person.code / "a").write_text("by hand\n")
    done = person.submit("--show-commands", "--", "sh", "-c", 'cat a; echo "$GRPO_DATASETS"')
    assert done.returncode == 0, done.stderr
    assert not person.calls.exists()
    shown = subprocess.run(["bash", "-ec", done.stdout], env=person.environment, check=False, capture_output=True)
    assert shown.returncode == 0, shown.stderr
    assert b"by hand\n" in shown.stdout
    assert person.site.plan("nemo-rl")["environment"]["GRPO_DATASETS"].encode() + b"\n" in shown.stdout
