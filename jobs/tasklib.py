"""What the task programs share: they end with one sentence, and write files whole."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import base
from base import Record, Refused, say


def gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def read_json(path: str) -> Record:
    """Return the JSON object in a file; {} when there is none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def replace(path: str, text: str) -> None:
    base.replace(Path(path), text, uuid.uuid4().hex[:8])


def write_json(path: str, value: Record) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    replace(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def run(program: Callable[[Record], object]) -> int:
    """Run a task program on the file that its first argument names; return the exit code."""
    task = read_json(sys.argv[1]) if len(sys.argv) > 1 else {}
    try:
        if not task:
            raise Refused(f"usage: python3 {os.path.basename(sys.argv[0])} task.json, a JSON object")
        program(task)
    except Refused as error:
        say(f"failed: {error}")
    except KeyError as error:
        say(f"failed: the task file has no key {error}: the chart and this program are of different versions")
    except OSError as error:
        say(f"failed: {error.filename or 'input or output'}: {error.strerror or error}")
    else:
        return 0
    return 1
