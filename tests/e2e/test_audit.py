"""The commands that ask a cluster change nothing: the audit log has every request of a user of their own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from grpo.live import logs, submission

from conftest import REPOSITORY, NewStack
from harness.apiserver import ApiServer, Tools
from harness.commands import ask
from harness.controlplane import ControlPlane
from harness.stack import TOKEN, Stack
from harness.waiting import until

# Each command that asks a cluster, with options: a new one is a new line.
COMMANDS = [
    ("status",),
    ("status", "--bundle", "{work}/audit.tar.gz"),
    ("doctor",),
    ("why",),
]
RUN = "gemma3-gsm8k"
READS = ("get", "list", "watch")
# An answer to a question is no object: nothing is stored.
REVIEWS = ("selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews")
# What prints the logs of the run: cd, ls, sort, tail, printf.
PROGRAM = logs.program(f"/data/runs/{RUN}")
# What asks Ray for a job: a GET. The last word is the job.
QUESTION = submission.question("")[:-1]
# What prints the first file that is there, for grpo logs.
FIRST_FILE = re.compile(
    r'for file; do \[ -r "\$file" \] && \{ printf \.; exec tail -[cn] \+?\d+ "\$file"; exit; \}; done; '
    r'echo "none of the files can be read" >&2; exit 1'
)
# Ways into a pod or a service, for which the verb says nothing.
TUNNELS = ("exec", "attach", "portforward", "proxy")


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Iterator[Stack]:
    """A stack whose head is ready: the commands look into its pod."""
    stack = new_stack("b200", "helm4")
    stack.install("storage", "raycluster", "grpo-job")
    stack.until_ready()
    yield stack
    stack.uninstall_all()


def is_read(entry: dict[str, Any]) -> bool:
    """Tell whether a request only reads."""
    about = entry.get("objectRef", {})
    verb, resource, inside = entry["verb"], about.get("resource"), about.get("subresource")
    if inside == "exec":
        words = parse_qs(urlsplit(entry["requestURI"]).query)["command"]
        if words[:2] != ["sh", "-c"]:
            return False
        return words[2:] in ([f"cat {words[2].split(' ')[1]} || true"], [PROGRAM]) or words[:-1] == QUESTION
    if inside in TUNNELS:
        return bool(verb == "get" and inside == "proxy")
    return verb in READS or (verb == "create" and resource in REVIEWS)


def asked(server: ApiServer, stack: Stack, command: str, *options: str) -> list[dict[str, Any]]:
    """Run a command as the audited user and return its requests."""
    before = len(server.requests())
    words = [option.replace("{work}", str(stack.work)) for option in options]
    done = ask(command, stack, *words, "--kubeconfig", str(server.audited))
    assert done.returncode in (0, 1), done.stderr
    # The last entry of the log is written after its answer.
    return until(lambda: server.requests()[before:], "entries of the audit log")


@pytest.mark.ci
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_only_reads_from_the_api_server(
    stack: Stack, control_plane: ControlPlane, command: tuple[str, ...]
) -> None:
    entries = asked(control_plane.server, stack, *command)
    assert [(each["verb"], each["requestURI"]) for each in entries if not is_read(each)] == []
    # Otherwise the head was not asked, and the line above proves less.
    assert any(each.get("objectRef", {}).get("subresource") == "exec" for each in entries)
    secrets = [each for each in entries if each.get("objectRef", {}).get("resource") == "secrets"]
    assert secrets
    assert {each["responseObject"]["kind"] for each in secrets} == {"PartialObjectMetadataList"}
    assert TOKEN not in str(secrets)


@pytest.mark.parametrize("command", [("logs", "--attempt", "7"), ("checkpoints", RUN), ("samples", RUN)], ids=" ".join)
def test_a_command_executes_in_the_pod_what_show_commands_prints(
    stack: Stack, control_plane: ControlPlane, tools: Tools, command: tuple[str, ...]
) -> None:
    """A pod that nobody runs gives no answer; what is asked there is what --show-commands prints, or prints a file."""
    server = control_plane.server
    files = [word for option in stack.options() for word in ("-f", option.removeprefix("--values="))]
    words = [sys.executable, "-m", "grpo.cli", *command, *files, "-n", stack.namespace]
    environment = {**os.environ, "KUBECONFIG": str(server.audited), "PATH": f"{tools.bin}:{os.environ['PATH']}"}
    options = {"cwd": REPOSITORY, "env": environment, "capture_output": True, "text": True}
    shown = subprocess.run([*words, "--show-commands"], check=False, **options)  # type: ignore[call-overload]
    assert shown.returncode == 0, shown.stderr
    before = len(server.requests())
    done = subprocess.run(words, check=False, timeout=120, **options)  # type: ignore[call-overload]
    entries = until(lambda: server.requests()[before:], "entries of the audit log")
    inside = [each for each in entries if each.get("objectRef", {}).get("subresource") == "exec"]
    assert inside, done.stderr
    assert [(each["verb"], each["requestURI"]) for each in entries if each not in inside and not is_read(each)] == []
    for each in inside:
        asked_for = parse_qs(urlsplit(each["requestURI"]).query)["command"]
        reads = asked_for[:2] == ["sh", "-c"] and FIRST_FILE.fullmatch(asked_for[2])
        assert reads or all(word in shown.stdout for text in asked_for for word in shlex.split(text)), asked_for


@pytest.mark.ci
@pytest.mark.parametrize(
    ("verb", "subresource", "uri"),
    [
        ("create", "", "/api/v1/namespaces/x/pods"),
        ("patch", "", "/api/v1/namespaces/x/pods/y"),
        ("get", "exec", "/api/v1/namespaces/x/pods/y/exec?command=rm&command=-r&command=%2Fdata"),
        ("get", "exec", "/api/v1/namespaces/x/pods/y/exec?command=sh&command=-c&command=cat+a+%3E+b"),
        ("get", "portforward", "/api/v1/namespaces/x/pods/y/portforward"),
        ("create", "proxy", "/api/v1/namespaces/x/services/y/proxy/api/jobs/"),
    ],
)
def test_the_audit_recognizes_a_write_request(verb: str, subresource: str, uri: str) -> None:
    entry = {"verb": verb, "requestURI": uri, "objectRef": {"resource": "pods", "subresource": subresource}}
    assert not is_read(entry)
