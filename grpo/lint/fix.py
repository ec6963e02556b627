"""`grpo lint --fix` and `grpo plan --fix`: show the changes to the user's values files, ask, and write them."""

from __future__ import annotations

import difflib
import os
import stat
import sys
from collections.abc import Iterator, Sequence

from grpo.lint import values_editor
from grpo.values import set_arguments
from postrender import masking, output_file, paths, textfile
from postrender.errors import InputError, OutputError, UsageError
from postrender.finding import Finding, NewName
from postrender.types import Json, Path
from postrender.values.merge import Values


class _Plan:
    """The files' new texts, and messages about changes that cannot be made."""

    def __init__(self, values: Values) -> None:
        self._files = values.files
        self._merged = values
        self.old: dict[str, bytes] = {}
        self.new: dict[str, bytes] = {}
        self.messages: list[str] = []

    def put(self, path: Path, value: Json | NewName, rule: str) -> None:
        """Edit a value, or its key, in the file that sets it; add a message if no file can be edited."""
        name = ".".join(map(str, path))
        try:
            file = self._file_with(path) if isinstance(value, NewName) else self._file_of(path)
            if file not in self.old:
                self.old[file] = self.new[file] = textfile.read_bytes(file)
            text = self.new[file].decode("utf-8")
            if isinstance(value, NewName):
                text = values_editor.with_name(text, file, path, value.name)
            else:
                text = values_editor.with_value(text, file, path, value)
        except (InputError, OutputError) as error:
            self.messages.append(f"not fixed: {name} ({rule}): {error.message}")
        except TypeError:
            self.messages.append(f"not fixed: {name} ({rule}): {value!r} cannot be written unambiguously")
        else:
            self.new[file] = text.encode("utf-8")

    def changed(self) -> list[str]:
        """Return the files whose texts change."""
        return [file for file, text in self.new.items() if text != self.old[file]]

    def _file_with(self, path: Path) -> str:
        """Return the user's file that contains a key."""
        node = self._merged.node(path)
        file = node.key_at.file if node else ""
        if file not in paths.own(self._files) or textfile.is_stream(file):
            raise InputError(f"{file or 'no file'} has it, and is no file of yours that can be written")
        return file

    def _file_of(self, path: Path) -> str:
        """Return the user's file that sets a value, or else the user's last file, if it overrides the setting."""
        own = [file for file in paths.own(self._files) if not textfile.is_stream(file)]
        if not own:
            raise InputError("all values files are packaged ones: add your own with -f, which may be empty")
        node = self._merged.node(path)
        sets = node.key_at.file if node else ""
        if sets in own:
            return sets
        last = own[-1]
        # A file may be given twice; the last time counts.
        if sets and _last(self._files, sets) > _last(self._files, last):
            raise InputError(f"{sets} sets it, and comes after {last}: give your own file last")
        return last


def _last(files: Sequence[str], file: str) -> int:
    return max(number for number, each in enumerate(files) if each == file)


def apply(findings: Sequence[Finding], values: Values, *, command: str, yes: bool) -> bool:
    """Print the changes, ask unless `yes`, and write them; return whether a file was written.

    `command` is the command as given, for messages.

    Raises UsageError if there is no terminal to ask on, and OutputError if a file cannot be written; then no file is.
    """
    plan = _planned(findings, values)
    for line in plan.messages:
        _print(f"{line}\n")
    changed = plan.changed()
    if not changed:
        if findings:
            _print("nothing is fixed: no finding proposes a value that can be written\n")
        return False
    for file in changed:
        _refuse_read_only(file)
        _print("".join(_diff(file, plan.old[file], plan.new[file])))
    if not yes and not _is_agreed(changed, command):
        return False
    for file in changed:
        _write(file, plan.old[file], plan.new[file])
        _print(f"fixed: {file}\n")
    return True


def _planned(findings: Sequence[Finding], values: Values) -> _Plan:
    plan = _Plan(values)
    first: dict[Path, tuple[Json | NewName, str]] = {}
    for finding in findings:
        # The values of a finding mend it together, so that the others are not written either.
        if given := list(_of_arguments(finding, values)):
            plan.messages += given
            continue
        for path, value in finding.edits.items():
            if path not in first:
                first[path] = value, finding.rule
            elif first[path][0] != value:
                name, (taken, rule) = ".".join(map(str, path)), first[path]
                plan.messages.append(f"{name}: {rule} proposes {taken!r}, which is used, and {finding.rule} {value!r}")
    # Names come last: a path leads through the present ones.
    for path, (value, rule) in sorted(first.items(), key=_last_names):
        plan.put(path, value, rule)
    return plan


def _of_arguments(finding: Finding, values: Values) -> Iterator[str]:
    """Yield a message for each value set by --set or a related flag, which no file can change."""
    for path in finding.edits:
        node = values.node(path)
        if node and set_arguments.is_place(node.at.file):
            name, flag = ".".join(map(str, path)), node.at.file.strip("<>")
            yield f"not fixed: {name} ({finding.rule}): {flag} gives it, and no file: change it there"


def _last_names(edit: tuple[Path, tuple[Json | NewName, str]]) -> tuple[bool, int]:
    path, (value, _) = edit
    return isinstance(value, NewName), -len(path) if isinstance(value, NewName) else 0


def _print(text: str) -> None:
    sys.stderr.write(masking.text(text))


def _diff(file: str, old: bytes, new: bytes) -> Iterator[str]:
    before, after = (text.decode("utf-8").splitlines(keepends=True) for text in (old, new))
    for line in difflib.unified_diff(before, after, file, file):
        yield line.rstrip("\r\n") + "\n"


def _is_agreed(changed: Sequence[str], command: str) -> bool:
    # stdin is None if the shell has closed it (<&-).
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            f"{command}: nothing was written, because there is no terminal to ask on", fix="add --yes to write it"
        )
    _print(f"write {', '.join(changed)}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _refuse_read_only(file: str) -> None:
    """Raise OutputError if a file is read-only, although it could be replaced in a writable folder."""
    mode = os.stat(file).st_mode
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(file, os.W_OK):
        raise OutputError(f"{file}: no permission to write it, nothing was changed", fix=f"chmod u+w {file}")


def _write(file: str, old: bytes, new: bytes) -> None:
    """Replace a file atomically: a reader sees either the old or the new text."""
    target = os.path.realpath(file)
    try:
        with open(target, "rb") as stream:
            if stream.read() != old:
                raise OutputError(f"{file}: was changed meanwhile, so it was not written", fix="run the command again")
        output_file.replace(target, new)
    except OSError as error:
        raise OutputError(f"{file}: cannot be written and is unchanged: {error.strerror}") from error
