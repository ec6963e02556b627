"""Names of data and models that do not name a single file or folder: addresses, and patterns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from grpo.problems.storage import values_paths as inputs
from grpo.problems.topic import Topic
from grpo.values.derived import mapping
from postrender.finding import Finding
from postrender.problem import Fails
from postrender.values.merge import value_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpo.values.config import RunConfig

TOPIC: Final = Topic("job", framework="", source="")
_ADDRESS: Final = re.compile(r"([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
# The library datasets opens them itself, where the pods reach the web or the hub.
_OPENED: Final = ("http", "https", "hf", "file")
_S3: Final = ("s3", "s3a")
_PATTERN: Final = re.compile(r"[*?\[]")


def _scheme(text: str) -> str:
    found = _ADDRESS.match(text)
    return found[1].lower() if found else ""


def _loads_data(run: RunConfig, scheme: str) -> bool:
    """Return whether the framework, or a library in its image, can open a data address."""
    if scheme in _OPENED or not inputs.is_official(run):
        # An image of one's own may have the library for a bucket.
        return True
    if run.framework == "verl":
        return scheme == "hdfs"
    # Up to v0.6.0 the lock of NeMo RL has s3fs.
    return scheme in _S3 and not run.since("v0.7.0")


@TOPIC.problem(
    "data", fails=Fails.AT_SETUP, source="verl/utils/fs.py:43 at 0.9.1; nemo_rl/data/datasets/utils.py:107 at v0.7.0"
)
def address_not_loaded(run: RunConfig) -> Iterator[Finding]:
    """data or a model is at an address that nothing can open

    Why: the run ends when it loads the address, after every pod has started and while GPUs are billed
    Fix: put it on a volume (grpo upload for data, the fetch task for a model) and use its absolute path there
    """
    for path, text in inputs.data_files(run):
        scheme = _scheme(text)
        if scheme and not _loads_data(run, scheme):
            fix = (
                f"grpo upload puts it on a volume: write the absolute path there, such as {inputs.uploaded(run, text)}"
            )
            yield Finding(f"{path} is at {scheme}://, which nothing in the image opens", keys=[path], fix=fix)
    for path in inputs.models(run) if run.trains else ():
        name = value_at(run.given, tuple(path.split("."))) if run.given_has(path) else None
        scheme = _scheme(name) if isinstance(name, str) else ""
        if scheme and not (run.framework == "verl" and scheme == "hdfs"):
            fix = "write OWNER/NAME of a model on the hub (task fetch), or the absolute path of its folder on a volume"
            yield Finding(f"{path} is at {scheme}://, and no loader of models opens it", keys=[path], fix=fix)


@TOPIC.problem("data", fails=Fails.AT_SETUP, source="jobs/launcher/launch.py at 0.1.0")
def pattern_for_data(run: RunConfig) -> Iterator[Finding]:
    """the name of a data file contains *, ? or [

    Why: the job ends at its start, with the cluster already running: no file has exactly this name
    Fix: list each file by name: verl takes a list, NeMo RL one file per section
    """
    volumes = [str(mapping(each).get("mountPath")).rstrip("/") for each in mapping(run.value("storage")).values()]
    for path, text in inputs.data_files(run):
        is_on_volume = any(text.startswith(f"{folder}/") for folder in volumes)
        # Another rule knows the files below GRPO_DATASETS.
        if is_on_volume and "${" not in text and _PATTERN.search(text):
            yield Finding(f"{path} is {text}, which the job takes as the name of one file", keys=[path])
