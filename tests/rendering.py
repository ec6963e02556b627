"""Render each chart once: all tests ask one embedded Helm, and its answers are kept for the workers and the next run.

A render is a pure function of the chart's files, of the values, release, namespace and Kubernetes version that are
given to it, and of Helm. So each answer is kept under a digest of all of these. Those of charts/ are kept in pytest's
cache for as long as neither the charts nor the code that calls Helm change; those of other charts, for one run.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import pytest

from grpo.helm.engines import Embedded
from postrender.errors import RenderError

ROOT = Path(__file__).resolve().parent.parent
HELM = version("helm-python-sdk")
Answer = dict[str, Any]


class SharedHelm:
    """One embedded Helm for all tests of a process, and its answers: of charts/ in `kept`, of other charts in `folder`.

    `is_bypassed` lets Helm be started and asked as without this class, by the tests of the engine itself.
    """

    def __init__(self, folder: Path, kept: Path) -> None:
        self._folder, self._kept = folder, kept_for_these_charts(kept)
        self._engine: Embedded | None = None
        self._enter, self._exit, self._ask = Embedded.__enter__, Embedded.__exit__, Embedded.ask
        self._own_charts: dict[str, str] = {}
        self.is_bypassed = False

    @property
    def engine(self) -> Embedded:
        """Return the one running Helm; start it at the first call."""
        if self._engine is None:
            self._engine = self._enter(Embedded())
        return self._engine

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Take the place of every `Embedded` that is started while the context lasts."""

        def enter(started: Embedded) -> Embedded:
            return self._enter(started) if self.is_bypassed else self.engine

        def leave(started: Embedded, *exc: object) -> None:
            if started is not self._engine:
                self._exit(started, *exc)

        def ask(asked: Embedded, request: Mapping[str, Any]) -> Answer:
            is_shared = asked is self._engine and not self.is_bypassed
            return self._render(request) if is_shared and request["op"] == "render" else self._ask(asked, request)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Embedded, "__enter__", enter)
            patch.setattr(Embedded, "__exit__", leave)
            patch.setattr(Embedded, "ask", ask)
            yield
        if self._engine is not None:
            self._exit(self._engine, None, None, None)

    def _render(self, request: Mapping[str, Any]) -> Answer:
        """Return what is known of a request, or ask Helm and remember the answer; raise RenderError as Helm does."""
        folder = self._kept if _is_ours(request["chart"]) else self._folder
        file = folder / self._key(request)
        try:
            answer = cast("Answer", json.loads(zlib.decompress(file.read_bytes())))
        except FileNotFoundError:
            try:
                answer = self._ask(self.engine, request)
            except RenderError as error:
                answer = {"refused": error.message}
            _write(file, answer)
        if "refused" in answer:
            raise RenderError(answer["refused"])
        return answer

    def _key(self, request: Mapping[str, Any]) -> str:
        everything = json.dumps([request, self._digest(request["chart"]), HELM], sort_keys=True)
        return hashlib.sha256(everything.encode()).hexdigest()

    def _digest(self, chart: str) -> str:
        """Return a digest of the chart's files; no test changes those of the checkout."""
        if not _is_ours(chart):
            return _digest_of_files(chart)
        if chart not in self._own_charts:
            self._own_charts[chart] = _digest_of_files(chart)
        return self._own_charts[chart]


def kept_for_these_charts(kept: Path) -> Path:
    """Return the folder for the answers of the charts and the code as they are; delete those of others."""
    parts = [_digest_of_files(str(ROOT / part)) for part in ("charts", "grpo/helm", "postrender/values")]
    folder = kept / hashlib.sha256("".join(parts).encode()).hexdigest()[:16]
    for other in kept.iterdir() if kept.exists() else ():
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _is_ours(chart: str) -> bool:
    return chart.startswith(f"{ROOT / 'charts'}/")


def _digest_of_files(path: str) -> str:
    digest = hashlib.sha256()
    files = [path] if os.path.isfile(path) else []
    for folder, folders, names in os.walk(path, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        files += [os.path.join(folder, name) for name in sorted(names)]
    for file in files:
        # A link that leads nowhere is a file to Helm, which refuses it.
        data = Path(file).read_bytes() if os.path.isfile(file) else os.readlink(file).encode()
        digest.update(f"{file} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _write(file: Path, answer: Answer) -> None:
    """Write a file whole or not at all: another worker may read it at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(f".{os.getpid()}")
    temporary.write_bytes(zlib.compress(json.dumps(answer).encode(), 1))
    temporary.replace(file)
