"""Read the files of a chart (a folder or a package) and of its subcharts, for the rules over charts."""

from __future__ import annotations

import contextlib
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import IO, Any

from postrender import json_text, textfile
from postrender.errors import InputError, Location, UnreadableError
from postrender.types import Json, Untyped
from postrender.yaml import reader
from postrender.yaml.reader import Node

META = "Chart.yaml"
VALUES = "values.yaml"
SCHEMA = "values.schema.json"
PACKAGES = (".tgz", ".tar.gz")
# The files that the rules read; templates only copy other files.
_READ = re.compile(r"(?:charts/[^/]+/)*(?:Chart\.yaml|values\.yaml|values\.schema\.json|templates/.+|crds/.+\.ya?ml)")
_CRDS = re.compile(r"(?:charts/[^/]+/)*crds/.+")
_BELOW = re.compile(r"charts/([^/]+)/Chart\.yaml")
# Helm also refuses deeper nesting of subcharts.
_DEPTH = 8


class Chart:
    """A chart, as rules read it: `files` by path, and `name` as given on the command line.

    `renders` has the texts of two renders; it is empty if the chart was not rendered.
    """

    def __init__(self, name: str, files: Mapping[str, bytes], places: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.files = files
        self._places = places or {}
        self.renders: tuple[str, ...] = ()

    def place(self, path: str) -> str:
        """Return the path of a chart's file, for messages."""
        return self._places.get(path, f"{self.name}/{path}")

    def at(self, path: str, line: int = 0, col: int = 0) -> Location:
        """Return the location of a line in a file of the chart."""
        return Location(self.place(path), line, col)

    def text(self, path: str) -> str:
        """Return a file as text, or an empty text if it does not exist."""
        return self.files.get(path, b"").decode("utf-8", "replace")

    def templates(self) -> Iterator[str]:
        """Yield the paths of all templates, including those of subcharts."""
        return (path for path in self.files if "templates/" in path)

    def definitions(self) -> dict[str, bytes]:
        """Return the files in crds/, which Helm installs first, by their paths for messages."""
        return {self.place(path): data for path, data in self.files.items() if _CRDS.fullmatch(path)}

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Return the content of Chart.yaml, or an empty map if the content is not a map, which Helm rejects."""
        return _map(self.node(META))

    @cached_property
    def values(self) -> Node | None:
        """Return values.yaml, or None if it is missing or cannot be read."""
        return self.node(VALUES)

    @cached_property
    def schema(self) -> Node | None:
        """Return the schema, or None if it is missing or not JSON."""
        return self.node(SCHEMA)

    @property
    def is_library(self) -> bool:
        """Return whether the chart is a library chart, which Helm does not render."""
        return self.meta.get("type") == "library"

    def node(self, path: str) -> Node | None:
        """Return a file's content as a node with places."""
        if path not in self.files:
            return None
        try:
            roots = reader.parse(self.files[path], self.place(path))
            return roots[0] if roots else None
        except InputError:
            return _without_places(self.files[path], self.place(path)) if path.endswith(".json") else None

    def subcharts(self) -> Iterator[tuple[str, Chart]]:
        """Yield the subcharts with their folders."""
        for path in sorted(self.files):
            if found := _BELOW.fullmatch(path):
                folder = f"charts/{found[1]}/"
                inner = [path for path in self.files if path.startswith(folder)]
                files = {path.removeprefix(folder): self.files[path] for path in inner}
                places = {path.removeprefix(folder): self.place(path) for path in inner}
                yield folder, Chart(self.place(folder.rstrip("/")), files, places)


def _map(node: Node | None) -> dict[str, Any]:
    plain: Json = node.plain() if node else None
    return plain if isinstance(plain, dict) else {}


def _without_places(data: bytes, name: str) -> Node | None:
    """Read JSON that is not valid YAML because of its escapes."""
    try:
        tree = json_text.loads(data)
    except ValueError:
        return None

    def node(value: Json) -> Node:
        if isinstance(value, dict):
            return reader.Node({key: node(each) for key, each in value.items()}, Location(name))
        return reader.Node([node(each) for each in value] if isinstance(value, list) else value, Location(name))

    return node(tree)


def read(path: str) -> Chart:
    """Read a chart; raise UnreadableError or InputError if it is not a chart or a file cannot be read."""
    textfile.refuse_outside(path)
    if os.path.isdir(path):
        name = os.path.normpath(path)
        chart = _chart(name, _of_folder(name, "", 0))
    else:
        chart = _chart(path, _of_package(path, _open(path), 0))
    if textfile.is_limited():
        _refuse_addresses(chart)
    return chart


def _refuse_addresses(chart: Chart) -> None:
    """Raise InputError if a schema refers to another file or server: Helm reads the target, and prints parts of it."""
    for path, data in chart.files.items():
        if os.path.basename(path) == SCHEMA:
            with contextlib.suppress(ValueError):
                for reference in _references(json_text.loads(data)):
                    if "#" not in reference[:1]:
                        fix = "write the definition into the schema, and name it as #/definitions/NAME"
                        what = f"the schema reads {reference}, which is not in it"
                        raise InputError(what, at=chart.at(path), fix=fix)


def _references(value: Untyped) -> Iterator[str]:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict) and isinstance(value.get("$ref"), str):
        yield value["$ref"]
    for each in below:
        yield from _references(each)


def _chart(name: str, entries: Iterable[tuple[str, bytes, str]]) -> Chart:
    files, places = {}, {}
    for path, data, place in entries:
        files[path], places[path] = data, place
    if META not in files:
        raise UnreadableError(f"{name}: not a chart: there is no {META}", fix="give a chart's folder or its package")
    return Chart(name, files, places)


def _of_folder(root: str, below: str, depth: int) -> Iterator[tuple[str, bytes, str]]:
    """Yield each file's path, text and place; subcharts may be links to other folders."""
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
            if not name.startswith(".") and _is_read_folder(path):
                yield from _of_folder(root, path, depth + 1)
        elif _READ.fullmatch(path):
            yield path, textfile.read_bytes(place), place
        elif re.fullmatch(r"(?:charts/[^/]+/)*charts/[^/]+", path) and name.endswith(PACKAGES):
            folder_of = f"{below}/{_without_version(name)}"
            for inner, data, shown in _of_package(place, _open(place), 0):
                yield f"{folder_of}/{inner}", data, shown


def _is_read_folder(path: str) -> bool:
    return bool(re.fullmatch(r"(?:charts/[^/]+/)*(?:charts(?:/[^/]+)?|(?:templates|crds)(?:/.+)?)", path))


def _without_version(name: str) -> str:
    folder, slash, file = name.rpartition("/")
    bare = file.removesuffix(".tgz").removesuffix(".tar.gz")
    return name if bare == file else folder + slash + re.split(r"-v?\d+\.\d+\.\d+", bare, maxsplit=1)[0]


def _open(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        raise UnreadableError(f"{path}: there is no such chart", fix="check the path") from error
    except OSError as error:
        raise UnreadableError(f"{path}: cannot be read: {error.strerror}") from error


def _of_package(name: str, stream: IO[bytes], depth: int) -> Iterator[tuple[str, bytes, str]]:
    """Yield the path, text and place of each file in a package, and in the packages that it contains."""
    try:
        with stream, tarfile.open(fileobj=stream, mode="r:gz") as archive:
            for member in archive:
                path = member.name.removeprefix("./").partition("/")[2]
                place = f"{name}/{path}"
                is_package = path.startswith("charts/") and path.endswith(PACKAGES) and depth < _DEPTH
                if not member.isfile() or not (is_package or _READ.fullmatch(path)):
                    continue
                if member.size > textfile.MAX_BYTES:
                    raise InputError(f"{place}: larger than {textfile.MAX_BYTES // (1024 * 1024)} MiB")
                inside = archive.extractfile(member)
                if inside and is_package:
                    folder = os.path.join(os.path.dirname(path), _without_version(os.path.basename(path)))
                    for inner, data, shown in _of_package(place, inside, depth + 1):
                        yield f"{folder}/{inner}", data, shown
                elif inside:
                    data = inside.read()
                    # Reports show lines of this text, which is not a file on disk.
                    textfile.keep(place, data)
                    yield path, data, place
    except (OSError, EOFError, tarfile.TarError) as error:
        fix = "give a chart's folder, or a package made by helm package"
        raise UnreadableError(f"{name}: not a chart package: {error}", fix=fix) from error
