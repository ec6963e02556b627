"""Run Helm: a helm executable, or the Helm 4 embedded in helm-python-sdk. No other module runs Helm.

Helm itself reads the values files, so the result is what an install would render.
"""

# ruff: noqa: TID251 - this module may start programs

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from shutil import which
from typing import IO, Any, Self

from postrender import output_file, textfile
from postrender.errors import EngineError, RenderError
from postrender.yaml import reader

# How the worker ends over a chart with a missing file.
_LOST = re.compile(r"^FileNotFoundError: \[Errno 2\] [^:]*: '([^']+)'", re.MULTILINE)
# Lines that Helm logs on stderr or adds to a message. A checkout links the library chart, which Helm reports.
_NOISE = re.compile(r"found symbolic link in path|^level=INFO|^Use --debug flag|^\s*$")
_PREFIX = re.compile(r"^(Error: |INSTALLATION FAILED: )+")
_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class Rendered:
    """A rendered chart.

    `manifest` is the text that `helm template` prints, hooks last. `notes` is NOTES.txt, or None if the engine cannot
    render it without a cluster (Helm 3). `engine` is the engine's name and version.
    """

    chart: str
    manifest: str
    notes: str | None
    engine: str

    @cached_property
    def documents(self) -> tuple[dict[str, Any], ...]:
        """Return the manifest as Kubernetes reads it: one map for each document, without empty documents."""
        return tuple(reader.load_objects(self.manifest, f"<{self.chart}>"))


@dataclass(frozen=True)
class Release:
    """A request to Helm: the chart's folder, the values to merge over the chart's own, and the release's names."""

    chart: str
    files: Sequence[str]
    values: Mapping[str, Any] | None
    name: str
    namespace: str
    kube_version: str | None
    notes: bool


class Engine(ABC):
    """Renders charts; use it as a context manager."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the engine's name and version, for messages."""

    @property
    def rollback(self) -> str:
        """Return the `helm upgrade` flag that rolls back a failed upgrade, under the name that it has since Helm 4."""
        return "--rollback-on-failure"

    @abstractmethod
    def _render(self, release: Release) -> tuple[str, str | None]:
        """Return the manifest and the notes."""

    def render(
        self,
        chart: str,
        files: Sequence[str | os.PathLike[str]] = (),
        *,
        values: Mapping[str, Any] | None = None,
        release: str = "release",
        namespace: str = "default",
        kube_version: str | None = None,
        notes: bool = True,
    ) -> Rendered:
        """Render one chart with values files; later files override earlier ones, and `values` overrides all of them.

        Raises RenderError with Helm's message if Helm rejects the input, UnreadableError if a file is missing, and
        EngineError if Helm crashes.
        """
        names = [os.fspath(file) for file in files]
        request = Release(os.path.abspath(chart), names, values, release, namespace, kube_version, notes)
        manifest, text = self._render(request)
        return Rendered(os.path.basename(request.chart), manifest, text, self.name)


def _clean(text: str) -> str:
    """Return Helm's message about the chart or the values, without log lines and prefixes."""
    lines = [line.rstrip() for line in text.splitlines() if not _NOISE.search(line)]
    return _PREFIX.sub("", "\n".join(lines)).strip()


def _too_slow() -> EngineError:
    return EngineError(
        f"helm did not finish within {_TIMEOUT_SECONDS} s", fix="look for a value that is very large, or for a loop"
    )


def _environment() -> dict[str, str]:
    """Return an environment in which Helm cannot reach a kubeconfig's cluster."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HELM_KUBE", "HELM_NAMESPACE"))}
    return {**kept, "KUBECONFIG": os.devnull}


class Binary(Engine):
    """Renders with a helm executable, version 3 or 4."""

    def __init__(self, path: str | os.PathLike[str] = "helm") -> None:
        self._path = os.fspath(path)

    @cached_property
    def version(self) -> str:
        """Return the version that the executable reports, such as `v4.3.1`."""
        version = self._run("version", "--template", "{{.Version}}").strip()
        if not re.match(r"v[0-9]", version):
            fix = "give the helm executable with --helm PATH"
            raise EngineError(f"{self._path} is not helm: it reports no version", fix=fix)
        return version

    @property
    def name(self) -> str:
        """Return the executable's version and path."""
        return f"helm {self.version} ({self._path})"

    @property
    def rollback(self) -> str:
        """Return the flag under the name that this version uses."""
        return "--atomic" if self._is_helm_3 else super().rollback

    @property
    def _is_helm_3(self) -> bool:
        return self.version.startswith("v3.")

    def plugin_folders(self) -> str:
        """Return the folders in which this Helm looks for plugins, separated as in PATH."""
        return self._run("env", "HELM_PLUGINS").strip()

    def _run(self, *args: str) -> str:
        try:
            done = subprocess.run(
                [self._path, *args],
                check=False,
                capture_output=True,
                text=True,
                encoding="utf-8",
                errors="replace",
                env=_environment(),
                timeout=_TIMEOUT_SECONDS,
            )
        except OSError as error:
            raise EngineError(
                f"cannot run {self._path!r}: {error.strerror}", fix="give the helm executable with --helm PATH"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise _too_slow() from error
        if done.returncode != 0:
            message = _clean(done.stderr)
            if not message:
                fix = "give the helm executable with --helm PATH"
                raise EngineError(f"{self._path} ended with exit code {done.returncode} and no message", fix=fix)
            raise RenderError(message)
        return done.stdout

    def _notes(self, args: list[str]) -> str | None:
        """Return NOTES.txt, or None with Helm 3, which needs a cluster even for a client-side dry run."""
        if self._is_helm_3:
            return None
        release = json.loads(self._run("install", *args, "--dry-run=client", "-o", "json"))
        return str(release["info"].get("notes", ""))

    def _render(self, release: Release) -> tuple[str, str | None]:
        with tempfile.TemporaryDirectory(prefix="grpo-") as folder:
            args = [release.name, release.chart, "--namespace", release.namespace]
            for number, file in enumerate(release.files):
                args += ["--values", _readable(file, os.path.join(folder, f"{number}.yaml"))]
            if release.values is not None:
                over = os.path.join(folder, "values.json")
                output_file.create(over, json.dumps(release.values).encode())
                args += ["--values", over]
            versions = ["--kube-version", release.kube_version] if release.kube_version else []
            manifest = self._run("template", *args, *versions)
            # `helm install` has no --kube-version; the notes do not depend on the cluster's version.
            return manifest, self._notes(args) if release.notes else None


class Embedded(Engine):
    """Renders with the Helm embedded in helm-python-sdk, in one worker process per context."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._name = ""

    def __enter__(self) -> Self:
        parent = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        start = "import sys; sys.path.append(sys.argv[1]); from grpo.helm.worker import main; sys.exit(main())"
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        # -P removes the current folder from the module path: a json.py in it must not be imported.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", start, parent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            # Go's default keeps the heap small, and garbage collection then takes a quarter of a render.
            env={"GOGC": "400", **_environment()},
        )
        try:
            hello = self._receive()
        except BaseException:
            self._close()
            raise
        self._name = f"helm {hello['version']} (embedded, helm-python-sdk {hello['package']})"
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()

    def _close(self) -> None:
        """Stop the worker and close its pipes and its log, whatever its state."""
        process, self._process = self._process, None
        if process and process.stdin and process.stdout:
            # The pipe of a dead worker cannot be flushed.
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            process.wait(timeout=_TIMEOUT_SECONDS)
            process.stdout.close()
        if self._log:
            self._log.close()
            self._log = None

    @property
    def name(self) -> str:
        """Return the name and version of the embedded Helm."""
        return self._name

    def _receive(self) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdout is None:
            raise EngineError("the embedded Helm is not running: use `with Embedded() as engine`")
        # Helm's library cannot be interrupted, so its process is ended.
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(_TIMEOUT_SECONDS, stop)
        timer.start()
        try:
            line = process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise _too_slow() if late.is_set() else self._broken()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _broken(self) -> EngineError:
        log = ""
        if self._log:
            self._log.seek(0)
            log = self._log.read()
        if "ModuleNotFoundError: No module named 'helm_python'" in log:
            return EngineError(
                "no Helm was found: neither a helm executable nor the embedded one",
                fix="put helm on PATH, give --helm PATH, or install the extra: pip install 'grpo-charts[render]'",
            )
        if "out of memory" in log or "MemoryError" in log:
            return EngineError(
                "the embedded Helm needed more than 6 GiB of memory",
                fix="look for a template that repeats something very often, or give a helm executable with --helm PATH",
            )
        if lost := _LOST.search(log):
            return EngineError(
                f"{lost[1]} is a file of a chart that is not there, or a link that leads nowhere",
                fix="restore it from Git, or copy what the link leads to: grpo init --vendor DIR copies whole charts",
            )
        last = log.strip().splitlines()[-1:] or ["it left no message"]
        return EngineError(f"the embedded Helm crashed: {last[0]}", fix="give a helm executable with --helm PATH")

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send one request to the worker and return its answer; raise RenderError with Helm's message if Helm fails."""
        if self._process is None or self._process.stdin is None:
            raise EngineError("the embedded Helm is not running: use `with Embedded() as engine`")
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._broken() from error
        answer = self._receive()
        if "error" in answer:
            raise RenderError(_clean(answer["error"]))
        return answer

    def package(self, chart: str, destination: str) -> str:
        """Package a chart as .tgz in a folder and return the archive's path; links are replaced by real files."""
        answer = self.ask({"op": "package", "chart": os.path.abspath(chart), "destination": destination})
        return str(answer["archive"])

    def _render(self, release: Release) -> tuple[str, str | None]:
        request = {
            "op": "render",
            "chart": release.chart,
            "texts": [_text(file) for file in release.files],
            "values": release.values,
            "release": release.name,
            "namespace": release.namespace,
            "kube_version": release.kube_version,
        }
        answer = self.ask(request)
        return answer["manifest"], answer["notes"] if release.notes else None


def _readable(file: str, copy: str) -> str:
    """Return a path that another program can read: a pipe's content is copied to `copy`."""
    if not textfile.is_stream(file):
        return os.path.abspath(file)
    output_file.create(copy, textfile.read_bytes(file))
    return copy


def _text(file: str) -> str:
    try:
        return textfile.read_bytes(file).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RenderError(f"{file} is not UTF-8") from error


def choose(path: str | None = None) -> Engine:
    """Choose the engine: the given executable, or else `helm` on PATH, or else the embedded Helm."""
    if path:
        return Binary(path)
    found = which("helm")
    return Binary(found) if found else Embedded()
