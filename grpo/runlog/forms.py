"""Detect what a file is: a NeMo RL or verl log, verl's file log, or a tracker's file; reject any other."""

from __future__ import annotations

import codecs
import os
import zlib
from typing import Final

from grpo.runlog import tensorboard, wandb_files
from log_readers import ANY, VERL_FILE
from postrender.errors import InputError, Location, UnreadableError

TENSORBOARD: Final = "tensorboard"
WANDB: Final = "wandb"
HEAD_BYTES: Final = 8192
_GZIP: Final = b"\x1f\x8b"
# With it, zlib reads the header of gzip.
_OF_GZIP: Final = 16 + zlib.MAX_WBITS
# A tar begins with the name of its first file; this is that of a bundle (live/bundle.py).
_BUNDLE: Final = b"about.json\0"
# What each writer puts first into its lines.
_VERL_FILE: Final = b'{"step":'
_SAMPLES: Final = (b'{"content"', b'{"input"', b'{"agent_ref"')


def of_file(path: str, *, grows: bool) -> str:
    """Return a file's format; a file that is still growing may be empty.

    Raises UnreadableError if the file cannot be read, and InputError if it has no steps.
    """
    if tensorboard.is_events(path):
        return TENSORBOARD
    if wandb_files.is_file(path) and os.path.exists(path):
        return WANDB
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
    except FileNotFoundError as error:
        fix = "name the log, the directory of a run, or - for stdin"
        raise UnreadableError("there is no such file", at=Location(path), fix=fix) from error
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path)) from error
    if not head and not grows:
        raise InputError(
            "the file is empty",
            at=Location(path),
            fix="name the output of a training; grpo watch --follow waits for it",
        )
    return of_text(head, path)


def of_text(head: bytes, name: str) -> str:
    """Return the format of content by its first bytes; raise InputError if such content has no steps."""
    if _tar(head).startswith(_BUNDLE):
        raise InputError("this is a bundle, not a log", at=Location(name), fix=f"grpo why --from {name}")
    if head.startswith(_GZIP):
        raise InputError("this is compressed", at=Location(name), fix=f"gunzip {name}")
    if b"\0" in head and head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        fix = f"iconv -f UTF-16 -t UTF-8 {name} > utf-8.log; in PowerShell, Out-File -Encoding utf8 instead of >"
        raise InputError("this is UTF-16, expected UTF-8", at=Location(name), fix=fix)
    if b"\0" in head:
        raise InputError("this is a binary file, not a log", at=Location(name), fix="name the output of the training")
    if head.startswith(_SAMPLES):
        fix = "name the directory of the run; grpo samples shows this file"
        raise InputError("this has the samples of one step", at=Location(name), fix=fix)
    return VERL_FILE if head.startswith(_VERL_FILE) else ANY


def _tar(head: bytes) -> bytes:
    """Return the first bytes, decompressed if they are gzip."""
    try:
        return zlib.decompressobj(_OF_GZIP).decompress(head, len(_BUNDLE))
    except zlib.error:
        return head
