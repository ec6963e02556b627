"""Copy what a stack needs into a repository: the charts, the package's values files, the schema.

The copy has the package's folder structure, so its relative paths and the documentation's commands remain valid. A
copy that differs is not replaced, because somebody may have changed it, and because a newer version of the package
should be reviewed before it is adopted.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from postrender import __version__, output_file, paths, textfile
from postrender.counting import counted
from postrender.errors import OutputError, OutputRefusedError
from postrender.yaml import writer

_SCHEMA = os.path.join("schemas", "values.schema.json")
# Of a chart: what only people read, and what links to the values files beside the charts.
_LEFT_OUT = ("README.md", "values")
_VALUES = ("accelerators", "recipes", "frameworks")
# A recipe that was edited among the copies would be lost.
_FIRST = "copy what is yours to files of your own and commit them, then"
_NAMED = f"grpo-charts {__version__}"


class Copies(NamedTuple):
    """The package files in a folder: files by their path below it, each with the package file that it copies.

    `new` files are missing or empty; `changed` files differ; `foreign` files are in a chart, but not in the package.
    """

    folder: str
    sources: Mapping[str, str]
    new: Sequence[str]
    changed: Sequence[str]
    foreign: Sequence[str]

    def path(self, source: str) -> str:
        """Return the path of a package file's copy, as used in commands."""
        return os.path.relpath(os.path.join(self.folder, paths.in_package(source)))

    @property
    def schema(self) -> str:
        """Return the path of the copied schema for editors."""
        return os.path.join(self.folder, _SCHEMA)

    def refuse_changed(self) -> None:
        """Raise OutputRefusedError if the folder has changed or foreign files; the error says what to do about them."""
        if other := [*self.changed, *self.foreign]:
            named = ", ".join(other[:3]) + (f" and {len(other) - 3} more" if len(other) > 3 else "")
            first = f"{_FIRST} {self._removal()}"
            fix = f"{first}, and run this again; git diff has the changes"
            raise OutputRefusedError(f"{named}: not as in {_NAMED}, so nothing is written", fix=fix)

    def differences(self, command: str) -> Iterator[str]:
        """Yield a line for each file that differs from the package, and what to do about them; nothing if none differs.

        `command` writes the missing files.
        """
        yield from (f"differs: {name}" for name in self.changed)
        yield from (f"not in {_NAMED}: {name}" for name in self.foreign)
        if self.new and len(self.new) == len(self.sources):
            yield f"nothing of {_NAMED} is in {os.path.relpath(self.folder)}"
        else:
            yield from (f"only in {_NAMED}: {name}" for name in self.new)
        if self.changed or self.foreign:
            yield f"fix: {_FIRST} {self._removal()} && {command}; git diff has the changes"
        elif self.new:
            yield f"fix: {command}"

    def same(self) -> str:
        """Return a line saying that the copies match the package."""
        return f"as in {_NAMED}: {counted(len(self.sources), 'file')} in {os.path.relpath(self.folder)}"

    def _removal(self) -> str:
        """Return the commands that make room for the package's files; values files are emptied to remain listed."""
        values = [name for name in self.changed if name.startswith("values" + os.sep)]
        others = [name for name in (*self.changed, *self.foreign) if name not in values]
        # A chart as a whole, the schema by itself.
        removed = [*dict.fromkeys(os.sep.join(name.split(os.sep)[:2]) for name in others)]
        commands = [("rm -r", removed), ("truncate -s 0", values)]
        words = [
            shlex.join([*word.split(), *(os.path.relpath(os.path.join(self.folder, name)) for name in names)])
            for word, names in commands
            if names
        ]
        return " && ".join(words)

    def write(self) -> str:
        """Write the new files; return a line that says what was done.

        Raises OutputError if a file cannot be written, and OutputRefusedError if a file must not be replaced.
        """
        for name in self.new:
            path = os.path.join(self.folder, name)
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            except OSError as error:
                raise OutputError(f"{path}: cannot be written: {error.strerror}", fix="name another folder") from error
            output_file.write(path, _content(self.sources[name]), mark=b"")
        same, place = len(self.sources) - len(self.new), os.path.relpath(self.folder)
        if not self.new:
            return self.same()
        return (
            f"written: {counted(len(self.new), 'file')} of {_NAMED} in {place}{f'; {same} are there' if same else ''}"
        )


def compare(folder: str, values: Sequence[str] = ()) -> Copies:
    """Compare a folder with the package: the charts, the schema, these values files, and the ones already copied.

    Raises OutputRefusedError if the folder is behind a link, or is the package's own.
    """
    if os.path.realpath(folder) == os.path.realpath(paths.data_root()):
        fix = "leave --vendor out: charts/ and values/ are here"
        raise OutputRefusedError(f"{folder}: is the folder of grpo-charts itself", fix=fix)
    sources = {paths.in_package(path): path for path in (*_charts(), paths.editors_schema(), *_there(folder), *values)}
    for place in dict.fromkeys(os.path.dirname(name) for name in sources):
        _refuse_link(folder, place)
    new, changed = [], []
    for name, source in sources.items():
        held = _held(os.path.join(folder, name))
        if not held:
            new.append(name)
        elif held != _content(source):
            changed.append(name)
    return Copies(folder, sources, sorted(new), sorted(changed), sorted(_foreign(folder, sources)))


def of_site(file: str) -> str:
    """Return the folder of copies in which a site file's schema is; empty if the schema is not a copy."""
    first = textfile.read_bytes(file).decode("utf-8", "replace").partition("\n")[0]
    named = os.path.join(os.path.dirname(file), first.removeprefix(writer.SCHEMA).strip())
    folder = os.path.dirname(os.path.dirname(named)) if first.startswith(writer.SCHEMA) else ""
    is_copied = named.endswith(_SCHEMA) and os.path.realpath(folder) != os.path.realpath(paths.data_root())
    return os.path.relpath(folder or os.curdir) if is_copied and os.path.isfile(named) else ""


def _charts() -> Iterator[str]:
    for layer in paths.LAYERS:
        chart = paths.chart(layer)
        # In a checkout, parts of a chart are links.
        for folder, folders, names in os.walk(chart, followlinks=True):
            folders[:] = sorted(name for name in folders if name != "__pycache__" and not _is_left_out(folder, name))
            yield from (os.path.join(folder, name) for name in sorted(names) if not _is_left_out(folder, name))


def _is_left_out(folder: str, name: str) -> bool:
    is_top = os.path.basename(os.path.dirname(folder)) == "charts" and os.path.basename(folder) in paths.LAYERS
    return name.startswith(output_file.DRAFT) or (is_top and name in _LEFT_OUT)


def _there(folder: str) -> Iterator[str]:
    """Yield the package's values files that have a copy in a folder."""
    for kind in _VALUES:
        with suppress(OSError):
            for name in os.listdir(os.path.join(folder, "values", kind)):
                source = os.path.join(paths.data_root(), "values", kind, name)
                if os.path.isfile(source):
                    yield source


def _foreign(folder: str, sources: Mapping[str, str]) -> Iterator[str]:
    known = {os.path.dirname(name) for name in sources}
    for layer in paths.LAYERS:
        yield from _more(folder, os.path.join("charts", layer), sources, known)


def _more(folder: str, place: str, sources: Mapping[str, str], known: Container[str]) -> Iterator[str]:
    """Yield what a copied folder has but the package does not: Helm reads every folder and follows links to folders."""
    with suppress(FileNotFoundError), os.scandir(os.path.join(folder, place)) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            name = os.path.join(place, entry.name)
            if _is_left_out(os.path.join(folder, place), entry.name):
                continue
            if entry.is_dir(follow_symlinks=name in known):
                yield from _more(folder, name, sources, known)
            elif name not in sources:
                yield name


def _refuse_link(folder: str, place: str) -> None:
    whole = os.path.join(folder, place)
    if os.path.realpath(whole) != os.path.join(os.path.realpath(folder), place):
        fix = "remove the link, or name another folder"
        raise OutputRefusedError(f"{whole}: is behind a symbolic link, so nothing is written there", fix=fix)


def _held(path: str) -> bytes:
    """Return a copy's content, empty if there is none; raise OutputRefusedError if the path is not a regular file."""
    if not os.path.lexists(path):
        return b""
    if os.path.islink(path) or not os.path.isfile(path):
        raise OutputRefusedError(f"{path}: is no ordinary file", fix="remove it, or name another folder")
    return _content(path)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror}", fix="name another folder") from error
