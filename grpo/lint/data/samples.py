"""Read the first rows of a data file: JSON lines, or Parquet if pyarrow is installed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from postrender import json_text, textfile
from postrender.errors import InputError, Location, UnreadableError
from postrender.types import Json

ROLES: Final = ("train", "validation")
MOST_ROWS: Final = 1000
MOST_BYTES: Final = 64 * 1024 * 1024
_PARQUET: Final = b"PAR1"
_OF_PARQUET: Final = (".parquet", ".pq")
# NeMo RL reads them, too.
_OTHERS: Final = (".csv", ".arrow", ".txt")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BATCH: Final = 100
_PIECE: Final = 1024 * 1024
_LINES: Final = 'write one JSON object a line: {"question": "…", "answer": "…"}'


# Counting its lines takes seconds.
_MOST_COUNTED: Final = 4 * 1024**3


class Row(NamedTuple):
    """A row with its place; `label` identifies the row if the file has no lines."""

    at: Location
    values: dict[str, Json]
    label: str = ""


class Sample(NamedTuple):
    """The first rows of a file, the lines that are not rows, and whether more follow; `total` counts all, if known."""

    role: str
    file: str
    rows: list[Row]
    faulty: list[tuple[Location, str]]
    is_cut: bool
    total: int | None = None
    # The columns of a Parquet file, whose rows are read when it is known which of them are used.
    names: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """Return the column names of all rows, in order of first appearance."""
        return [*dict.fromkeys((*self.names, *(name for row in self.rows for name in row.values)))]

    def filled(self, used: Sequence[str]) -> Sample:
        """Return the sample with its rows; from Parquet, only the columns that are used are read."""
        return self._replace(**_rows_of_parquet(self.file, used)) if self.names else self


class UnjudgedError(Exception):
    """A sample cannot be judged; the message says why, and `fix` says what to do."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def read(role: str, path: str) -> Sample:
    """Return the first rows of a file.

    Raises UnreadableError or InputError if the file is not a data file, and UnjudgedError for Parquet without pyarrow.
    """
    textfile.refuse_outside(path)
    try:
        with open(path, "rb") as file:
            data = file.read(len(_PARQUET))
            if path.endswith(_OTHERS):
                raise UnjudgedError("only JSON lines and Parquet are judged", "give some of its rows as JSON lines")
            if data == _PARQUET:
                return _parquet(role, path)
            data += file.read(MOST_BYTES - len(data))
            is_cut = bool(file.read(1))
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path), fix="check the path") from error
    sample = _lines(role, path, data, is_cut=is_cut)
    return sample._replace(total=_counted(path)) if sample.is_cut else sample


def _counted(path: str) -> int | None:
    """Return how many lines of a file are not blank; None for a pipe, and for a file that takes long to read."""
    if not os.path.isfile(path) or os.path.getsize(path) > _MOST_COUNTED:
        return None
    with open(path, "rb") as file:
        return sum(1 for line in file if line.strip())


def count(path: str) -> int:
    """Return the number of rows of a file: the lines with something in them, or what the end of Parquet says.

    Raises UnreadableError or InputError for a file without rows, UnjudgedError for Parquet without pyarrow.
    """
    textfile.refuse_outside(path)
    try:
        with open(path, "rb") as file:
            if path.endswith(_OTHERS):
                raise UnjudgedError("only JSON lines and Parquet are read", "give the rows as JSON lines")
            is_parquet = file.read(len(_PARQUET)) == _PARQUET
            file.seek(0)
            rows = 0 if is_parquet else sum(bool(line.strip()) for line in file)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path), fix="check the path") from error
    if is_parquet:
        rows = _opened(path)[0].metadata.num_rows
    return rows or _refuse(path, [b""], [])


def _lines(role: str, path: str, data: bytes, *, is_cut: bool) -> Sample:
    lines = data.removeprefix(_BYTE_ORDER_MARK).split(b"\n")
    if is_cut and len(lines) == 1:
        what = f"its first line is longer than {MOST_BYTES // 1024 // 1024} MiB"
        raise _hidden(InputError(what, at=Location(path, 1, 1), fix=_LINES))
    if is_cut:
        # The last line may go on.
        lines.pop()
    rows, faulty = list[Row](), list[tuple[Location, str]]()
    for number, line in enumerate(lines, 1):
        if len(rows) + len(faulty) == MOST_ROWS:
            is_cut = is_cut or any(map(bytes.strip, lines[number - 1 :]))
            break
        if line.strip():
            at = Location(path, number, 1)
            row, reason = _row(line)
            if row is None:
                faulty.append((at, reason))
            else:
                rows.append(Row(at, row))
    if not rows:
        _refuse(path, lines, faulty)
    return Sample(role, path, rows, faulty, is_cut, None if is_cut else len(rows) + len(faulty))


def _row(line: bytes) -> tuple[dict[str, Json] | None, str]:
    """Return a line's object, or the reason why it has none."""
    try:
        found = json_text.loads(line.decode("utf-8"))
    except ValueError as error:
        return None, "is not UTF-8" if isinstance(error, UnicodeDecodeError) else "is not JSON"
    return (found, "") if isinstance(found, dict) else (None, "is no JSON object")


def _hidden(error: InputError) -> InputError:
    """Keep the line out of the report: rows may contain data that must not be logged."""
    error.secret = True
    return error


def _refuse(path: str, lines: list[bytes], faulty: list[tuple[Location, str]]) -> NoReturn:
    """Raise InputError if a file has no rows."""
    if lines[0].lstrip().startswith(b"["):
        fix = f"write one object a line: jq -c '.[]' {path}"
        what = "this is one JSON list, and JSON lines or Parquet are read"
        raise _hidden(InputError(what, at=Location(path, 1, 1), fix=fix))
    if faulty:
        at, reason = faulty[0]
        raise _hidden(InputError(f"no line is a row: this one {reason}", at=at, fix=_LINES))
    if path.endswith(_OF_PARQUET):
        what = f"this file is {'empty' if not any(lines) else 'no Parquet file'}"
        raise InputError(what, at=Location(path), fix="write it again as Parquet, with rows")
    raise InputError("this file has no rows", at=Location(path), fix=_LINES)


def _parquet(role: str, path: str) -> Sample:
    file, errors = _opened(path)
    try:
        names = file.schema_arrow.names
    except errors as error:
        raise _none_of_parquet(path, error) from error
    if not names:
        raise InputError("this file has no columns", at=Location(path), fix="give a file with rows")
    return Sample(role, path, [], [], is_cut=False, names=names)


def _opened(path: str) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return a Parquet file, and the errors that reading it may raise."""
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        fix = "pip install pyarrow"
        raise UnjudgedError(f"pyarrow is not installed: {fix}", fix) from error
    errors = (pyarrow.ArrowException, OSError)
    try:
        # A group of rows may be larger than the memory: it is read in pieces.
        return parquet.ParquetFile(path, buffer_size=_PIECE, pre_buffer=False), errors
    except errors as error:
        raise _none_of_parquet(path, error) from error


def _none_of_parquet(path: str, error: Exception) -> InputError:
    return InputError(f"this is no Parquet file: {str(error)[:100]}", at=Location(path))


def _rows_of_parquet(path: str, used: Sequence[str]) -> dict[str, Any]:
    """Return those fields of a Parquet sample that depend on the columns read."""
    file, errors = _opened(path)
    found, size = list[dict[str, Json]](), 0
    try:
        for batch in file.iter_batches(batch_size=_BATCH, columns=[*used]):
            found += batch.to_pylist() or [{}] * batch.num_rows
            size += batch.nbytes
            if len(found) >= MOST_ROWS or size >= MOST_BYTES:
                break
    except (ValueError, OverflowError, LookupError) as error:
        # Text that is no UTF-8, a time that Python does not have, a map with one name twice.
        what = f"a value in one of the columns {', '.join(used)} cannot be read: {str(error)[:100]}"
        raise InputError(what, at=Location(path), fix="write these columns again, as texts and numbers") from error
    except errors as error:
        raise _none_of_parquet(path, error) from error
    if not found:
        raise InputError("this file has no rows", at=Location(path), fix="give a file with rows")
    rows = [Row(Location(path), row, f"row {number}") for number, row in enumerate(found, 1)]
    total = file.metadata.num_rows
    return {"rows": rows, "is_cut": total > len(rows), "total": total}
