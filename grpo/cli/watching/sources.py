"""Find out what the word of `grpo watch` means: something on this machine, a RayJob, or a job of Ray's dashboard."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from grpo.cli import options
from grpo.cli.command import wrong
from grpo.cli.watching.printing import tell
from grpo.cli.watching.rayjob import RayJob
from grpo.runlog import events, job_output, pieces, ray_jobs
from grpo.runlog.events import Found
from postrender.errors import Location, UnreadableError

_URLS = ("http://", "https://")


@dataclass(frozen=True)
class Place:
    """Where a command line says that the training is."""

    word: str
    namespace: str | None
    cluster: str | None
    token_file: str | None

    def read(self, *, follow: bool) -> Iterator[list[Found]]:
        """Yield the events of the training, as `events.read` does; raise UsageError, and ClusterError, too."""
        if self.namespace or self.word.startswith(_URLS):
            source = self._source()
            found = job_output.follow(source, wait=follow, tell=tell)
            return events.of_text(pieces.text(found), source.name, wait=follow)
        if self.cluster:
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
        if not options.is_name(self.word):
            message = f"the RayJob is {self.word!r}, expected lower-case letters, digits and -, at most 63"
            if os.path.exists(self.word):
                raise wrong(message, fix=f"leave out --namespace to read the file {self.word}")
            raise wrong(message)
        return RayJob(self.word, self.namespace or "", self.cluster)


def _token(path: str | None) -> str:
    """Return the token from a file, else from Ray's own variable."""
    if path is None:
        return os.environ.get("RAY_AUTH_TOKEN", "").strip()
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise UnreadableError(f"--token-file {path} cannot be read: {why}") from error
