"""Run a program of jobs/ where its volume is mounted: on this machine, or with kubectl in the head pod of a RayCluster.

Only proxy.py runs kubectl too. Only the cluster's pods mount the volume, and kubectl has the user's credentials. Every
command can be printed and pasted into a shell. A program is a single file that needs only the standard library: it is
sent on stdin, because a running pod cannot mount it, or packed in the command where stdin has something for it.
"""

# ruff: noqa: TID251 - this module may start programs

from __future__ import annotations

import base64
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from grpo.deadline import Deadline
from postrender import paths
from postrender.errors import ClusterError, InputError
from postrender.values.merge import Values

_CONTAINER = "ray-head"
_TIMEOUT_SECONDS = 600
# How long a kubectl whose output has ended may take to say with which exit code.
_END_SECONDS = 5.0
GET_KUBECONFIG = (
    "your cloud's CLI writes it: gcloud container clusters get-credentials, aws eks update-kubeconfig, "
    "az aks get-credentials"
)
# What kubectl asks without a kubeconfig, and with one that has no current context.
_NO_KUBECONFIG = "localhost:8080 was refused"
LOOK = "kubectl config current-context names the cluster; kubectl auth can-i --list shows what you may do"
# Runs a packed program with the words after it.
_UNPACK = "import base64, sys, zlib; exec(zlib.decompress(base64.b64decode(sys.argv.pop(1))))"
# kubectl's message if the program in the pod failed, not kubectl itself.
_PROGRAM_FAILED = "command terminated with exit code"


@dataclass(frozen=True)
class Head:
    """A cluster's head pod: the labels that select it, and its namespace (None: that of kubectl's context)."""

    labels: str
    namespace: str | None = None

    @property
    def _namespace(self) -> list[str]:
        return ["--namespace", self.namespace] if self.namespace else []

    def find(self) -> list[str]:
        """Return the command that prints the pod's name."""
        running = ["--field-selector", "status.phase=Running", "--output", "name"]
        return ["kubectl", "get", "pods", *self._namespace, "--selector", self.labels, *running]

    def execute(self, pod: str, words: Sequence[str]) -> list[str]:
        """Return the command that runs a program in the pod, and passes this program's stdin to it."""
        return ["kubectl", "exec", "--stdin", *self._namespace, pod, "--container", _CONTAINER, "--", *words]

    def shell(self, words: Sequence[str]) -> str:
        """Return a line, to paste into a shell, that finds the pod and runs a program in it."""
        found = f'"$({shlex.join(self.find())} | head -n 1)"'
        return shlex.join(self.execute("POD", words)).replace(" POD ", f" {found} ", 1)


class FailedError(ClusterError):
    """kubectl has failed; `said` is the last line of its own."""

    def __init__(self, said: str, fix: str) -> None:
        super().__init__(f"kubectl failed: {said}", fix=fix)
        self.said = said

    @property
    def is_of_missing(self) -> bool:
        """Return whether the API server has no such object."""
        return "(NotFound)" in self.said


@dataclass(frozen=True)
class Outcome:
    """A program's output and exit code."""

    code: int
    output: str
    errors: str


def head(values: Values, run: str, *, namespace: str | None = None, cluster: str | None = None) -> Head:
    """Return the head pod that mounts a run's volume, by the names that the charts use.

    Raises InputError if the values do not name a stack.
    """
    ephemeral = values.get("job.cluster.mode", "existing") == "ephemeral"
    if ephemeral and not cluster:
        # KubeRay names the cluster of such a run; the chart names its pods.
        return Head(f"grpo-charts/owner={run},ray.io/node-type=head", namespace)
    stack = values.get("stack.name")
    name = cluster or values.get("stack.names.cluster") or (f"{stack}-ray" if stack else "")
    if not name:
        raise InputError(
            "the values name no stack, so its RayCluster is unknown", fix="also give the site file, with -f"
        )
    return Head(f"ray.io/cluster={name},ray.io/node-type=head", namespace)


def run_directory(values: Values, run: str) -> str:
    """Return the path of a run's directory in the pods; raise InputError as `mount_path` does."""
    return f"{mount_path(values)}/runs/{run}"


def mount_path(values: Values) -> str:
    """Return where the pods mount the volume job.volume; raise InputError if storage has no such volume."""
    volume = values.get("job.volume", "data")
    mount = values.get(f"storage.{volume}.mountPath")
    if not isinstance(mount, str):
        raise InputError(
            f"job.volume is {volume!r}, and storage has no volume of that name with a mountPath",
            fix="also give the site file, with -f",
        )
    return mount


def program(name: str) -> str:
    """Return the path of a program in jobs/inspection/; raise ClusterError if the installation lacks it."""
    path = os.path.join(paths.data_root(), "jobs", "inspection", f"{name}.py")
    if not os.path.isfile(path):
        raise ClusterError(f"{path} is missing", fix="install grpo-charts again, or run from a checkout")
    return path


def packed(name: str, arguments: Sequence[str]) -> list[str]:
    """Return the words that run a program of jobs/ and leave its stdin free; raise ClusterError as `program` does."""
    with open(program(name), "rb") as file:
        text = base64.b64encode(zlib.compress(file.read(), 9)).decode()
    return ["python3", "-I", "-c", _UNPACK, text, *arguments]


def shell(name: str, arguments: Sequence[str], pod: Head | None = None) -> str:
    """Return the command that `run` runs, as a line to paste into a shell."""
    path = program(name)
    if pod is None:
        return shlex.join(["python3", path, *arguments])
    return f"{pod.shell(['python3', '-I', '-', *arguments])} < {shlex.quote(path)}"


def run(
    name: str,
    arguments: Sequence[str],
    pod: Head | None = None,
    stdin: bytes = b"",
    deadline: Deadline | None = None,
) -> Outcome:
    """Run a program of jobs/ on this machine or in a head pod, where it may get a stdin, and wait for it to finish.

    The wait lasts until the deadline, or ten minutes. Raises ClusterError if kubectl is missing or fails, or if there
    is no such pod.
    """
    path = program(name)
    if pod is None:
        return _start([sys.executable, "-I", path, *arguments], None)
    words = packed(name, arguments) if stdin else ["python3", "-I", "-", *arguments]
    found = _name(pod, deadline)
    done = _start(pod.execute(found, words), stdin or Path(path).read_bytes(), deadline)
    if done.code and _PROGRAM_FAILED not in done.errors:
        raise refused(done)
    errors = [line for line in done.errors.splitlines(keepends=True) if _PROGRAM_FAILED not in line]
    return Outcome(done.code, done.output, "".join(errors))


def _name(pod: Head, deadline: Deadline | None) -> str:
    """Return the pod's name; raise ClusterError if no such pod is running."""
    found = _start(pod.find(), None, deadline or Deadline())
    names = found.output.split()
    if found.code:
        raise refused(found)
    if not names:
        raise ClusterError(
            f"no head pod is running with the labels {pod.labels}",
            fix="--cluster NAME selects another cluster that mounts the volume; list them with kubectl get raycluster",
        )
    return names[0]


@contextlib.contextmanager
def running(name: str, arguments: Sequence[str], pod: Head) -> Iterator[int]:
    """Run a program of jobs/ in a head pod, as `run` does, and yield its output's descriptor, as `piped` does."""
    with open(program(name), "rb") as file:
        words = pod.execute(_name(pod, None), ["python3", "-I", "-", *arguments])
        with piped(words, (), file.fileno()) as descriptor:
            yield descriptor


def namespace() -> str:
    """Return the namespace of kubectl's context; raise ClusterError if kubectl cannot run."""
    found = _start(["kubectl", "config", "view", "--minify", "--output", "jsonpath={..namespace}"], None)
    return found.output.strip() or "default"


def read(path: str, deadline: Deadline) -> bytes:
    """Return the API server's answer to a GET of a path, as JSON; raise ClusterError if it does not answer in time.

    With a path, kubectl sends only this request; given a kind, it would first look up the kind's name.
    """
    done = _start(["kubectl", "get", "--raw", path], None, deadline)
    if done.code:
        raise refused(done, LOOK)
    return done.output.encode("utf-8")


@contextlib.contextmanager
def piped(words: Sequence[str], ends: Collection[int], stdin: int = subprocess.DEVNULL) -> Iterator[int]:
    """Run kubectl, and yield its output's descriptor; stop it at the end of the block.

    Raises ClusterError if kubectl cannot run, or if it has ended by then with an exit code that is neither 0 nor in
    `ends`.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        with begin(words, stdin=stdin, stderr=errors, start_new_session=True) as process:
            assert process.stdout  # noqa: S101 (a pipe, as above)
            try:
                yield process.stdout.fileno()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_END_SECONDS)
            finally:
                code = process.poll()
                stop(process)
        if code and code not in ends:
            errors.seek(0)
            raise refused(Outcome(code, "", errors.read()), LOOK)


def definitions() -> bytes:
    """Return the CustomResourceDefinitions of kubectl's current cluster, as JSON.

    Raises ClusterError if kubectl is missing or fails.
    """
    words = ["kubectl", "get", "customresourcedefinitions", "--output", "json"]
    done = _start(words, None)
    if done.code:
        raise refused(done, f"run it by hand: {shlex.join(words)}")
    return done.output.encode("utf-8")


def no_rayjob(name: str, namespace: str) -> InputError:
    """Return the error for a RayJob that is not there."""
    fix = f"kubectl get rayjobs -n {namespace} lists them; -f names a run by its values files"
    return InputError(f"there is no RayJob {name} in the namespace {namespace}", fix=fix)


def refused(done: Outcome, fix: str = "print the command with --show-commands and run it by hand") -> ClusterError:
    """Return the error for a kubectl that has failed: the last line of its own."""
    lines = [line for line in done.errors.strip().splitlines() if _PROGRAM_FAILED not in line]
    last = (lines or ["it left no message"])[-1]
    if _NO_KUBECONFIG in last:
        fix = f"choose a context (kubectl config get-contexts lists them); without any, {GET_KUBECONFIG}"
        return ClusterError("kubectl has no kubeconfig, or one without a current context", fix=fix)
    return FailedError(last, fix)


def cannot_run(program: str, error: OSError) -> ClusterError:
    """Return the error for a program that does not start."""
    fix = (
        "install kubectl (https://kubernetes.io/docs/tasks/tools), or run this command where kubectl is"
        if program == "kubectl"
        else ""
    )
    return ClusterError(f"cannot run {program}: {error.strerror}", fix=fix)


def configuration(file: str | None) -> bytes:
    """Return a kubeconfig as kubectl reads it, the default one without a file, as JSON without its secrets.

    Raises ClusterError as `definitions` does.
    """
    done = _start(["kubectl", "config", "view", "--output", "json", *(["--kubeconfig", file] if file else [])], None)
    if done.code:
        raise refused(done, LOOK)
    return done.output.encode("utf-8")


class Programs:
    """Programs in pods that run at the same time; at the end of the block, the kubectl of each is stopped."""

    def __init__(self, flags: Sequence[str]) -> None:
        """Run nothing yet; `flags` choose the cluster."""
        self._flags, self._lock, self._is_over = flags, threading.Lock(), False
        self._running: set[subprocess.Popen[bytes]] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_over = True
            for each in self._running:
                stop(each)

    def output(self, namespace: str, pod: str, container: str, words: Sequence[str], seconds: float) -> str:
        """Return what a program in a pod prints, with whichever exit code it ends; raise ClusterError."""
        where = [*self._flags, "--namespace", namespace, pod, "--container", container]
        with self._begin(["kubectl", "exec", *where, "--", *words]) as process:
            try:
                output, errors = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as error:
                raise ClusterError(f"it did not answer within {seconds:.0f} s") from error
            finally:
                stop(process)
                with self._lock:
                    self._running.discard(process)
        said = errors.decode("utf-8", "replace")
        if process.returncode and _PROGRAM_FAILED not in said:
            raise refused(Outcome(process.returncode, "", said))
        return output.decode("utf-8", "replace")

    def _begin(self, words: list[str]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_over:
                raise ClusterError("it is too late to ask")
            process = begin(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
            self._running.add(process)
            return process


def begin(words: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 (those of Popen)
    """Start a program whose output is a pipe; raise ClusterError if it does not start."""
    try:
        return subprocess.Popen(words, stdout=subprocess.PIPE, **options)
    except OSError as error:
        raise cannot_run(words[0], error) from error


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a program, and with it the credential program that it may wait for if they are a group of their own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process.poll() is None and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def has_person() -> bool:
    """Return whether a person is at the terminal: what kubectl starts there stays on it, so that a login can ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def _start(words: list[str], stdin: bytes | None, deadline: Deadline | None = None) -> Outcome:
    deadline = deadline or Deadline(_TIMEOUT_SECONDS)
    source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
    group = None if has_person() else 0
    with begin(words, stdin=source, stderr=subprocess.PIPE, process_group=group) as process:
        try:
            output, errors = process.communicate(stdin, deadline.left)
        except subprocess.TimeoutExpired as error:
            fix = LOOK if words[0] == "kubectl" else ""
            raise ClusterError(f"{words[0]} did not answer within {deadline.seconds:.0f} s", fix=fix) from error
        finally:
            stop(process)
    deadline.renew()
    return Outcome(process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))
