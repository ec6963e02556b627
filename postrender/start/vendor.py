"""Copy what a stack needs into a repository: the charts, the values files that come with the package, the schema.

The copy has the folders of the package, so each relative path in it holds, and the commands of the documentation too.
A copy that differs is not replaced: somebody may have changed it, and a newer version of the package is looked at
before it is taken.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from postrender import __version__, output_file, paths
from postrender.counting import counted
from postrender.errors import OutputError, OutputRefusedError

_SCHEMA = os.path.join("schemas", "values.schema.json")
# Of a chart: what only people read, and what links to the values files beside the charts.
_LEFT_OUT = ("README.md", "values")
_VALUES = ("accelerators", "recipes", "frameworks")
_NAMED = f"grpo-charts {__version__}"


class Copies(NamedTuple):
    """What a folder has of the package: files by their path below it, with those of the package that they copy.

    `new` is not there, or empty; `changed` differs; `foreign` lies in a chart, and the package has no such file.
    """

    folder: str
    sources: Mapping[str, str]
    new: Sequence[str]
    changed: Sequence[str]
    foreign: Sequence[str]

    def path(self, source: str) -> str:
        """Return the copy of a file of the package, as commands name it."""
        return os.path.relpath(os.path.join(self.folder, paths.in_package(source)))

    @property
    def schema(self) -> str:
        """Return the copy of the schema for editors."""
        return os.path.join(self.folder, _SCHEMA)

    def refuse_changed(self) -> None:
        """Raise OutputRefusedError if the folder has other files than the package, with what to do about them."""
        if other := [*self.changed, *self.foreign]:
            named = ", ".join(other[:3]) + (f" and {len(other) - 3} more" if len(other) > 3 else "")
            raise OutputRefusedError(f"{named}: not as in {_NAMED}, so nothing is written", fix=self._fix())

    def differences(self) -> Iterator[str]:
        """Yield a line for each file that is not as in the package, and what to do about them; nothing without one."""
        yield from (f"differs: {name}" for name in self.changed)
        yield from (f"not in {_NAMED}: {name}" for name in self.foreign)
        if self.changed or self.foreign:
            yield from (f"only in {_NAMED}: {name}" for name in self.new)
            yield f"fix: {self._fix()}"

    def _fix(self) -> str:
        """Return the commands that take the files of the package: an empty values file keeps its place in the list."""
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
        return f"commit what is yours, then {' && '.join(words)}, and run this again; git diff has the changes"

    def write(self) -> str:
        """Write what is new; return a line that says what was done. Raises OutputError and OutputRefusedError."""
        for name in self.new:
            path = os.path.join(self.folder, name)
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
            except OSError as error:
                raise OutputError(f"{path}: cannot be written: {error.strerror}", fix="name another folder") from error
            output_file.write(path, _content(self.sources[name]), mark=b"")
        same, place = len(self.sources) - len(self.new), os.path.relpath(self.folder)
        if not self.new:
            return f"as in {_NAMED}: {counted(same, 'file')} in {place}"
        return (
            f"written: {counted(len(self.new), 'file')} of {_NAMED} in {place}{f'; {same} are there' if same else ''}"
        )


def compare(folder: str, values: Sequence[str] = ()) -> Copies:
    """Compare a folder with the package: the charts, the schema, and these values files of it with those there already.

    Raises OutputRefusedError for a folder behind a link, and for that of the package.
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


def unjudged(files: Sequence[str]) -> Iterator[str]:
    """Name the charts beside values files if they are others than the package's, which are judged in their place."""
    charts = paths.charts_of(files)
    pairs = [(source, os.path.join(charts, os.path.pardir, paths.in_package(source))) for source in _charts()]
    with suppress(OutputError):
        if all(os.path.isfile(copy) and _content(source) == _content(copy) for source, copy in pairs):
            return
    yield f"the charts in {charts} (not as in {_NAMED}, whose charts were: grpo init --vendor)"


def _charts() -> Iterator[str]:
    for layer in paths.LAYERS:
        # In a checkout, parts of a chart are links.
        yield from _files(paths.chart(layer), follow=True)


def _files(chart: str, *, follow: bool) -> Iterator[str]:
    for folder, folders, names in os.walk(chart, followlinks=follow):
        if folder == chart:
            folders[:] = [name for name in folders if name not in _LEFT_OUT]
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (
            os.path.join(folder, name)
            for name in sorted(names)
            if not name.startswith(output_file.DRAFT) and not (folder == chart and name in _LEFT_OUT)
        )


def _there(folder: str) -> Iterator[str]:
    """Yield the values files of the package whose copies a folder has."""
    for kind in _VALUES:
        with suppress(OSError):
            for name in os.listdir(os.path.join(folder, "values", kind)):
                source = os.path.join(paths.data_root(), "values", kind, name)
                if os.path.isfile(source):
                    yield source


def _foreign(folder: str, sources: Mapping[str, str]) -> Iterator[str]:
    for layer in paths.LAYERS:
        names = (os.path.relpath(path, folder) for path in _files(os.path.join(folder, "charts", layer), follow=False))
        yield from (name for name in names if name not in sources)


def _refuse_link(folder: str, place: str) -> None:
    whole = os.path.join(folder, place)
    if os.path.realpath(whole) != os.path.join(os.path.realpath(folder), place):
        fix = "remove the link, or name another folder"
        raise OutputRefusedError(f"{whole}: is behind a symbolic link, so nothing is written there", fix=fix)


def _held(path: str) -> bytes:
    """Return the content of a copy, empty where none is; raise OutputRefusedError for what is no ordinary file."""
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
