"""The programs of jobs/: the file of each, one folder that holds them all, and those that an entrypoint carries."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from grpo.manifests import folds
from tests.conftest import ROOT

JOBS = ROOT / "jobs"
PROGRAMS = {path.stem: path for path in sorted(JOBS.glob("*/*.py"))}


@functools.cache
def flat_folder() -> Path:
    """Return a folder with a copy of every program: the entrypoint of a job lays them out like this."""
    folder = Path(tempfile.mkdtemp(prefix="grpo-programs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for path in PROGRAMS.values():
        shutil.copy(path, folder)
    return folder


def carried(entrypoint: str) -> dict[str, str]:
    """Return the programs in an entrypoint, text by name."""
    packed = entrypoint.split("base64 -d <<'GRPO_PROGRAMS'")[1].partition("\n")[2]
    return folds.unpacked(packed.split("\nGRPO_PROGRAMS\n")[0])
