"""What is submitted to Ray: a command in a working directory, with the environment of a stack's run."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grpo.cli.jobs import packing
from grpo.cli.jobs.run import Run
from grpo.helm.kubectl import Head

_ADDRESS: Final = ("--address", "http://127.0.0.1:8265")
_PATH: Final = "PYTHONPATH"
_LONGEST: Final = 30


@dataclass(frozen=True)
class Request:
    """A job: its id, and the shell line that it runs."""

    id: str
    entrypoint: str
    runtime_env: dict[str, Any]

    @classmethod
    def of(cls, directory: str, words: Sequence[str], run: Run) -> Request:
        """Return the job that runs a command in a directory, in the same way as the run's own program."""
        name = re.sub(r"[^\w-]+", "-", os.path.basename(os.path.abspath(directory)), flags=re.ASCII).strip("-")
        # Two of a team, or a loop, may submit a folder of one name in the same second, and Ray takes an id only once.
        stamp = f"{time.strftime('%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        lines = [*_exports(run), f"exec {shlex.join(words)}"]
        return cls(f"{name[:_LONGEST] or 'job'}-{stamp}", "\n".join(lines), run.runtime_env)

    def as_json(self, package: str) -> str:
        """Return the request in the format of Ray's Jobs API, with the package of its working directory."""
        runtime_env = {**self.runtime_env, "working_dir": f"gcs://{package}"}
        job = {"submission_id": self.id, "entrypoint": self.entrypoint, "runtime_env": runtime_env}
        return json.dumps({**job, "metadata": {"grpo-charts": "submit"}})

    def by_hand(self, directory: str, head: Head) -> Iterator[str]:
        """Yield the commands to do this by hand, with Ray's own program in the head pod and no check for tokens."""
        folder = f"/tmp/{self.id}"  # noqa: S108 (of the pod)
        unpack = head.shell(["sh", "-c", f"mkdir {folder} && tar -xf - -C {folder}"])
        excluded = " ".join(f"--exclude={shlex.quote(each)}" for each in ("./.git", *packing.SECRETS))
        yield f"tar -C {shlex.quote(directory)} {excluded} -cf - . | {unpack}"
        environment = ["--runtime-env-json", json.dumps(self.runtime_env)] if self.runtime_env else []
        options = [*_ADDRESS, "--submission-id", self.id, "--working-dir", folder, *environment]
        yield head.shell(["ray", "job", "submit", *options, "--", "sh", "-c", self.entrypoint])

    def stop(self, head: Head) -> str:
        """Return the command that stops the job."""
        return head.shell(["ray", "job", "stop", *_ADDRESS, self.id])

    def logs(self, head: Head) -> str:
        """Return the command that prints the job's output."""
        return head.shell(["ray", "job", "logs", *_ADDRESS, "--follow", self.id])


def _exports(run: Run) -> Iterator[str]:
    """Yield what the run's launcher sets. The directory's modules take precedence over the run's and the pod's."""
    environment = {name: str(value) for name, value in run.plan["environment"].items()}
    paths = shlex.quote(f":{environment.pop(_PATH)}") if _PATH in environment else ""
    yield from (f"export {name}={shlex.quote(value)}" for name, value in sorted(environment.items()))
    yield f'export {_PATH}="$PWD"{paths}"${{{_PATH}:+:${_PATH}}}"'
