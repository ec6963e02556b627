"""Find out where a training is: something on this machine, a run of the cluster, or a job of Ray's dashboard."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from grpo.cli.command import wrong
from grpo.cli.named_run import Named
from grpo.cli.watching.printing import tell
from grpo.runlog import events, job_output, pieces, ray_jobs
from grpo.runlog.events import Found
from postrender.errors import Location, UnreadableError

_URLS = ("http://", "https://")


@dataclass(frozen=True)
class Place:
    """Where a command line says that the training is; without a word, its options do."""

    word: str
    run: Named
    token_file: str | None = None

    def read(self, *, follow: bool) -> Iterator[list[Found]]:
        """Yield the training's events, raising as `events.read` does, and also UsageError and ClusterError."""
        if self.word:
            self.run.refuse_of_values(self.word)
        if self.run.namespace or not self.word or self.word.startswith(_URLS):
            source = self._source()
            found = job_output.follow(source, wait=follow, tell=tell)
            return events.of_text(pieces.text(found), source.name, wait=follow)
        if self.run.cluster:
            raise wrong("--cluster is given without --namespace", fix="--namespace names that of the RayJob")
        if self.word != events.STDIN and not os.path.exists(self.word):
            fix = "name the log, the directory of a run, - for stdin, or a RayJob with --namespace"
            if re.fullmatch(r"[\w.-]+:\d+(/.*)?", self.word):
                fix = f"Ray's dashboard is http://{self.word}"
            raise UnreadableError("there is no such file", at=Location(self.word), fix=fix)
        return events.read(self.word, follow=follow)

    def _source(self) -> job_output.Source:
        if self.word.startswith(_URLS):
            return ray_jobs.RayJobs(self.word, _token(self.token_file))
        return self.run.of_name(self.word) if self.word else self.run.of_values()


def _token(path: str | None) -> str:
    """Return the token from a file, or else from Ray's own variable."""
    if path is None:
        return os.environ.get("RAY_AUTH_TOKEN", "").strip()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise UnreadableError(f"--token-file {path} cannot be read: {why}") from error
