"""Pack each task's programs into one archive, which the entrypoint of its job carries as text.

An archive is a base64-encoded bzip2 tar, a fifth smaller than with gzip: `base64 -d FILE | tar -tj` lists it. It
contains all programs side by side, without docstring and comment text, which is a quarter of their size: Ray
rejects an entrypoint of 128 KiB. Line numbers are kept, so a traceback from a pod matches the source.
"""

from __future__ import annotations

import ast
import base64
import bz2
import io
import tarfile
import tokenize
from collections.abc import Mapping
from pathlib import Path

from grpo.manifests import folds

FOLDER = "charts/grpo-job/files/programs"
# A log agent stops reading a file at a line that is longer than its buffer (Fluent Bit: 32 KiB), and Ray writes the
# entrypoint into the log of the driver.
WIDTH = 4096
_EVERY = ("common/*.py", "launcher/*.py")
TASKS = {
    "train": (
        "guard/*.py",
        "runlog/*.py",
        "rewards/*.py",
        "staging/*.py",
        "tasks/code_digest.py",
        "inspection/checkpoints.py",
        "inspection/resume.py",
    ),
    "fetch": ("tasks/fetch*.py", "tasks/code_digest.py", "tasks/hub_cache.py"),
    "prepare-data": ("tasks/prepare_data.py", "tasks/hub_cache.py", "rewards/reward_numbers.py"),
    "convert": ("tasks/convert.py", "tasks/base_names.py", "tasks/tensors.py", "inspection/checkpoints.py"),
    "evaluate": ("evaluation/*.py", "staging/model_staging.py", "inspection/checkpoints.py"),
    "clean": ("tasks/clean.py",),
}


def render(root: Path) -> dict[str, str]:
    """Return each task's archive by its path below the repository root.

    An existing archive that contains the same programs is kept, because another library would write different bytes.
    """
    found = {}
    for task in TASKS:
        path, programs = f"{FOLDER}/{task}.tar.bz2.b64", files(root, task)
        there = (root / path).read_text("utf-8") if (root / path).is_file() else ""
        found[path] = there if folds.unpacked(there) == programs else pack(programs)
    return found


def files(root: Path, task: str) -> dict[str, str]:
    """Return the text of each of a task's programs by the name that it has where the job runs."""
    paths = sorted(path for pattern in (*_EVERY, *TASKS[task]) for path in (root / "jobs").glob(pattern))
    return {"__main__.py" if path.stem == "launch" else path.name: code(path.read_text("utf-8")) for path in paths}


def code(source: str) -> str:
    """Return a Python program without comments and with empty docstrings, keeping all line numbers."""
    # What goes: where it begins and ends, by lines from 1 and characters from 0, and what takes its place.
    places = [
        (token.start, token.end, "")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            bounds = (text.lineno, text.col_offset), (text.end_lineno or text.lineno, text.end_col_offset or 0)
            start, end = ((line, len(lines[line - 1].encode()[:column].decode())) for line, column in bounds)
            places.append((start, end, '""'))
    for (first, begin), (last, end_column), instead in sorted(places, reverse=True):
        before, after = lines[first - 1][:begin], lines[last - 1][end_column:]
        before = before + instead if instead else before.rstrip()
        between = "\n" * (last - first)
        lines[first - 1 : last] = f"{before}{between}{after}".splitlines(keepends=True)
    return "".join(lines)


def pack(programs: Mapping[str, str]) -> str:
    """Return an archive of programs as lines of base64; the same programs always give the same text."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, text in programs.items():
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    packed = base64.b64encode(bz2.compress(buffer.getvalue())).decode()
    return "".join(f"{packed[at : at + WIDTH]}\n" for at in range(0, len(packed), WIDTH))
