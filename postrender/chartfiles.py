"""Read a chart, a folder or a package, with the charts below it: what rules about charts look at."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from postrender import textio, yamlio
from postrender.errors import InputError, Location, UnreadableError
from postrender.plain import Plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import IO

    from postrender.yamlio import Node

META = "Chart.yaml"
VALUES = "values.yaml"
SCHEMA = "values.schema.json"
PACKAGES = (".tgz", ".tar.gz")
# What is read of a chart: the rest is files that templates only copy.
_READ = re.compile(r"(?:charts/[^/]+/)*(?:Chart\.yaml|values\.yaml|values\.schema\.json|templates/.+|crds/.+\.ya?ml)")
_CRDS = re.compile(r"(?:charts/[^/]+/)*crds/.+")
_BELOW = re.compile(r"charts/([^/]+)/Chart\.yaml")
# Helm gives up where charts lie deeper in each other, too.
_DEPTH = 8


class Chart:
    """A chart as rules see it: `files` by their paths in it, `name` as the command line has it.

    `renders` are the texts of two renders, empty where the chart is not rendered.
    """

    def __init__(self, name: str, files: Mapping[str, bytes], places: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.files = files
        self._places = places or {}
        self.renders: tuple[str, ...] = ()

    def place(self, path: str) -> str:
        """Return the name by which a person finds a file of the chart."""
        return self._places.get(path, f"{self.name}/{path}")

    def at(self, path: str, line: int = 0, col: int = 0) -> Location:
        """Return a place in a file of the chart."""
        return Location(self.place(path), line, col)

    def text(self, path: str) -> str:
        """Return a file as text, empty where there is none."""
        return self.files.get(path, b"").decode("utf-8", "replace")

    def templates(self) -> Iterator[str]:
        """Yield the paths of all templates, those of the charts below too."""
        return (path for path in self.files if "templates/" in path)

    def definitions(self) -> dict[str, bytes]:
        """Return the files that Helm installs before all else, by the names by which a person finds them."""
        return {self.place(path): data for path, data in self.files.items() if _CRDS.fullmatch(path)}

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Return what Chart.yaml says; nothing where it is no map, which Helm refuses."""
        return _map(self.node(META))

    @cached_property
    def values(self) -> Node | None:
        """Return values.yaml, None where there is none or none that can be read."""
        return self.node(VALUES)

    @cached_property
    def schema(self) -> Node | None:
        """Return the schema, None where there is none or none that is JSON."""
        return self.node(SCHEMA)

    @property
    def is_library(self) -> bool:
        """Say whether it is only a part of other charts, which Helm does not render."""
        return self.meta.get("type") == "library"

    def node(self, path: str) -> Node | None:
        """Return a file as a tree of which each value is a place."""
        if path not in self.files:
            return None
        try:
            roots = yamlio.parse(self.files[path], self.place(path))
            return roots[0] if roots else None
        except InputError:
            return _without_places(self.files[path], self.place(path)) if path.endswith(".json") else None

    def below(self) -> Iterator[tuple[str, Chart]]:
        """Yield the charts that lie in it, each with the folder in which it lies."""
        for path in sorted(self.files):
            if found := _BELOW.fullmatch(path):
                folder = f"charts/{found[1]}/"
                inner = [path for path in self.files if path.startswith(folder)]
                files = {path.removeprefix(folder): self.files[path] for path in inner}
                places = {path.removeprefix(folder): self.place(path) for path in inner}
                yield folder, Chart(self.place(folder.rstrip("/")), files, places)


def _map(node: Node | None) -> dict[str, Any]:
    plain: Plain = node.plain() if node else None
    return plain if isinstance(plain, dict) else {}


def _without_places(data: bytes, name: str) -> Node | None:
    """Read JSON that is no YAML, as some escapes are none."""
    import json

    try:
        tree = json.loads(data)
    except ValueError:
        return None

    def node(value: Plain) -> Node:
        if isinstance(value, dict):
            return yamlio.Node({key: node(each) for key, each in value.items()}, Location(name))
        return yamlio.Node([node(each) for each in value] if isinstance(value, list) else value, Location(name))

    return node(tree)


def read(path: str) -> Chart:
    """Read a chart; raise UnreadableError or InputError where it is none, or a file of it cannot be read."""
    if os.path.isdir(path):
        name = os.path.normpath(path)
        return _chart(name, _of_folder(name, "", 0))
    return _chart(path, _of_package(path, _open(path), 0))


def _chart(name: str, entries: Iterable[tuple[str, bytes, str]]) -> Chart:
    files, places = {}, {}
    for path, data, place in entries:
        files[path], places[path] = data, place
    if META not in files:
        raise UnreadableError(f"{name}: no chart: there is no {META}", fix="give a chart's folder or its package")
    return Chart(name, files, places)


def _of_folder(root: str, below: str, depth: int) -> Iterator[tuple[str, bytes, str]]:
    """Yield path, text and place of each file; charts may be links to folders beside this one."""
    if depth > 2 * _DEPTH:
        return
    folder = os.path.join(root, below) if below else root
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise UnreadableError(f"{folder}: cannot be read: {error.strerror}") from error
    for name in names:
        path = f"{below}/{name}" if below else name
        place = os.path.join(root, path)
        if os.path.isdir(place):
            if not name.startswith(".") and _leads_on(path):
                yield from _of_folder(root, path, depth + 1)
        elif _READ.fullmatch(path):
            yield path, textio.read_bytes(place), place
        elif re.fullmatch(r"(?:charts/[^/]+/)*charts/[^/]+", path) and name.endswith(PACKAGES):
            folder_of = f"{below}/{_without_version(name)}"
            for inner, data, shown in _of_package(place, _open(place), 0):
                yield f"{folder_of}/{inner}", data, shown


def _leads_on(path: str) -> bool:
    return bool(re.fullmatch(r"(?:charts/[^/]+/)*(?:charts(?:/[^/]+)?|(?:templates|crds)(?:/.+)?)", path))


def _without_version(name: str) -> str:
    return re.sub(r"(?:-v?\d+\.\d+\.\d+[^/]*)?(?:\.tgz|\.tar\.gz)$", "", name)


def _open(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        raise UnreadableError(f"{path}: there is no such chart", fix="check the path") from error
    except OSError as error:
        raise UnreadableError(f"{path}: cannot be read: {error.strerror}") from error


def _of_package(name: str, stream: IO[bytes], depth: int) -> Iterator[tuple[str, bytes, str]]:
    """Yield path, text and place of each file of a package, and of the packages in it."""
    import tarfile

    try:
        with stream, tarfile.open(fileobj=stream, mode="r:gz") as archive:
            for member in archive:
                path = member.name.removeprefix("./").partition("/")[2]
                place = f"{name}/{path}"
                is_package = path.startswith("charts/") and path.endswith(PACKAGES) and depth < _DEPTH
                if not member.isfile() or not (is_package or _READ.fullmatch(path)):
                    continue
                if member.size > textio.MAX_BYTES:
                    raise InputError(f"{place}: larger than {textio.MAX_BYTES // (1024 * 1024)} MiB")
                inside = archive.extractfile(member)
                if inside and is_package:
                    folder = os.path.join(os.path.dirname(path), _without_version(os.path.basename(path)))
                    for inner, data, shown in _of_package(place, inside, depth + 1):
                        yield f"{folder}/{inner}", data, shown
                elif inside:
                    data = inside.read()
                    # Reports show lines of it, and no file on the disk holds them.
                    textio.keep(place, data)
                    yield path, data, place
    except (OSError, EOFError, tarfile.TarError) as error:
        fix = "give a chart's folder, or what helm package has made"
        raise UnreadableError(f"{name}: no package of a chart: {error}", fix=fix) from error
