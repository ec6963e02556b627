"""The command `grpo upload`."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Sequence

import click

from grpo.cli import options
from grpo.cli.command import Command, examples, wrong
from grpo.cli.uploading import data_file, sending
from grpo.cli.uploading.volume import Volume
from grpo.cli.watching.printing import tell
from grpo.deadline import Deadline
from grpo.helm import kubectl
from grpo.values.config import RunConfig
from grpo.values.set_arguments import Argument
from postrender.counting import counted
from postrender.errors import EXIT_CLEAN, ClusterError
from postrender.manifests.pods import mapping
from postrender.values import merge


@click.command(
    cls=Command,
    options_metavar="FILE ... -f VALUES ... [OPTIONS]",
    epilog=examples(
        "grpo upload train.jsonl test.jsonl --accelerator b200 -f my-recipe.yaml -f my-site.yaml -n rl",
        "grpo upload train.parquet -f my-values.yaml -n rl --to mine --replace",
    ),
)
@click.argument("words", nargs=-1, metavar="", type=options.FILE)
@options.values()
@options.set_values
@options.accelerator
@options.namespace("Namespace of the volume. Default: that of kubectl's context.")
@click.option("--to", metavar="FOLDER", default="", help="Folder below datasets/ on the volume. Default: datasets/.")
@click.option("--replace", is_flag=True, help="Replace a file of the same name that has another content.")
def upload(
    words: Sequence[str],
    files: Sequence[str],
    arguments: Sequence[Argument],
    accelerator: str | None,
    namespace: str | None,
    to: str,
    *,
    replace: bool,
) -> int:
    """Put data files onto a stack's volume, for a run to train on.

    Each FILE goes to datasets/ on the volume job.volume, through a running pod that mounts it: the Ray cluster's head
    pod, or any other. The file gets its final name only once it has arrived completely, with matching size and sha256;
    otherwise nothing of it is left behind. A file that already exists there is not sent again. Files whose names mark
    them as secret (.env, *.pem …) and links that leave their folder are rejected, and so is a text file of at most 1
    MiB with a token in it.

    The output is each file's path, for use in the run's configuration. If no pod is running, the error says how else to
    write to the volume.

    The exit code is 2 if a file is rejected, and 3 if it did not arrive.
    """
    if not words:
        raise wrong("no file is given", fix=f"{click.get_current_context().command_path} FILE … -f VALUES …")
    values = options.stack(files, accelerator, arguments).values
    volume, run = Volume.of(values), RunConfig(merge.over_defaults(values))
    folder = _folder(to, volume, run)
    data_file.refuse(words)
    where = namespace or kubectl.namespace()
    pods = sending.find(volume, where, Deadline())
    if not pods:
        message = f"no running pod in {where} mounts the claim {volume.claim}, as the head of its RayCluster does"
        raise ClusterError(message, fix=volume.by_hand(words, folder, where))
    place = posixpath.join(volume.mount, folder)
    tell(f"sending {counted(len(words), 'file')} to {place} through the pod {pods[0].name}")
    for word in words:
        with data_file.opened(word) as file:
            target = posixpath.join(folder, file.name)
            is_old = _sent(pods, file, target, replace=replace)
        what = "was there already" if is_old else f"has arrived, {file.size / 1e6:.1f} MB"
        tell(f"{file.name} {what}, sha256 {file.sha256}")
        sys.stdout.write(f"{posixpath.join(volume.mount, target)}\n")
    tell(f"write the path into the values: {_keys(run)}")
    return EXIT_CLEAN


def _sent(pods: list[sending.Pod], file: data_file.DataFile, target: str, *, replace: bool) -> bool:
    """Send a file through the first pod that can take it, dropping pods that cannot; return whether it existed."""
    while True:
        try:
            return pods[0].send(file, target, replace=replace)
        except sending.SilentError:
            if len(pods) == 1:
                raise
            silent = pods.pop(0)
            tell(f"the pod {silent.name} has no Python that begins, so {pods[0].name} is asked")


def _folder(to: str, volume: Volume, run: RunConfig) -> str:
    """Return the folder on the volume; raise UsageError unless it is below datasets/ and not reserved for other use."""
    inside = to.removeprefix(f"{volume.datasets}/").rstrip("/")
    if to.rstrip("/") == volume.datasets:
        inside = ""
    parts = inside.split("/") if inside else []
    if not all(data_file.NAME.fullmatch(part) for part in parts):
        raise wrong(f"--to is {to!r}, expected a folder below {volume.datasets}, of {data_file.NAMES}")
    if parts and mapping(run.value("job.prepareData")).get(parts[0]) is not None:
        raise wrong(
            f"--to is {to!r}, and task prepare-data writes its own files there: job.prepareData has {parts[0]}",
            fix="choose another folder",
        )
    return posixpath.join("datasets", *parts)


def _keys(run: RunConfig) -> str:
    """Return the keys that name a data file, as spelled by the run's framework."""
    if run.framework == "verl":
        return "job.config.data.train_files, or val_files"
    if run.since("v0.6.0"):
        return "job.config.data.train.data_path, or validation.data_path, with dataset_name: ResponseDataset"
    return "job.config.data.train_data_path, or val_data_path, with dataset_name: ResponseDataset"
