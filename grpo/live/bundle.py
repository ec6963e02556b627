"""Save evidence to a file, so that it can be read after the cluster is gone."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import zlib
from dataclasses import asdict
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from grpo.cluster.evidence import Evidence
from grpo.cluster.expected import Expected
from postrender import json_text, masking, output_file
from postrender.errors import InputError, Location, UnreadableError
from postrender.types import Json, Untyped

T = TypeVar("T")

_FORMAT: Final = 1
_ABOUT: Final = "about.json"
_EXPECTED: Final = "expected.json"
_OBJECTS: Final = "objects/"
_LOGS: Final = "logs.json"
# A cluster of 500 nodes and 2,000 pods makes 20 MB of JSON.
# What gzip writes before the data: no time, and the name of the archive inside.
MARK: Final = b"\x1f\x8b\x08\x08\0\0\0\0\x02\xffgrpo-bundle.tar\0"
_GZIP: Final = b"\x1f\x8b"
_MAX_BYTES: Final = 128 * 1024 * 1024


def write(path: str, evidence: Evidence) -> list[str]:
    """Write a tar.gz of JSON files; return their names with their sizes. Raises as output_file.write does.

    Secrets were removed from the cluster's objects when they were read; here they are removed from the rendered ones.
    """
    about = {"format": _FORMAT, "context": evidence.context, "time": evidence.time, "unread": evidence.unread}
    members: dict[str, Any] = {
        _ABOUT: {**about, "record": evidence.record, "ray": evidence.ray},
        _EXPECTED: masking.clean(asdict(evidence.expected)),
        _LOGS: evidence.logs,
        **{f"{_OBJECTS}{kind}.json": objects for kind, objects in sorted(evidence.objects.items())},
    }
    listed = []
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, content in members.items():
            data = json.dumps(content, indent=1).encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime = len(data), int(evidence.time)
            archive.addfile(entry, io.BytesIO(data))
            listed.append(f"{name} ({len(data) / 1000:.0f} kB)")
    output_file.write(path, _compressed(tar.getvalue()), mark=MARK)
    return listed


def _compressed(tar: bytes) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile("grpo-bundle.tar", "wb", fileobj=packed, mtime=0) as file:
        file.write(tar)
    return packed.getvalue()


def read(path: str) -> Evidence:
    """Read what `write` has written; raise UnreadableError, or InputError if the file is not a bundle."""
    fix = "grpo status --bundle FILE writes one"
    wrong = InputError("this is not a grpo bundle, or a damaged one", at=Location(path), fix=fix)
    try:
        content = _members(path)
        about = content[_ABOUT]
        if isinstance(about["format"], int) and about["format"] > _FORMAT:
            fix = "read it with that version: pip install --upgrade grpo-charts"
            raise InputError("a newer version of grpo has made this bundle", at=Location(path), fix=fix)
        return _evidence(content)
    except FileNotFoundError as error:
        raise UnreadableError("there is no such file", at=Location(path), fix="check the path") from error
    except OSError as error:
        if not error.strerror:
            raise wrong from error
        fix = f"name a file that you may read; {fix}"
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path), fix=fix) from error
    except (tarfile.TarError, zlib.error, EOFError, ValueError, TypeError, LookupError) as error:
        raise wrong from error


def _members(path: str) -> dict[str, Any]:
    """Return the content of each file in an archive; raise as tarfile and json do."""
    # The whole is measured first: a header may be as large as the content.
    with open(path, "rb") as stream:
        is_packed = stream.read(2) == _GZIP
        stream.seek(0)
        data = (gzip.GzipFile(fileobj=stream) if is_packed else stream).read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError("larger than any bundle")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        members = {entry.name: entry for entry in archive if entry.isfile()}
        return {name: json_text.loads(_content(archive, entry)) for name, entry in members.items()}


def _evidence(content: dict[str, Any]) -> Evidence:
    """Return a bundle's evidence; raise TypeError or LookupError if the bundle has unexpected content."""
    about, expected = content[_ABOUT], _typed(Expected, content[_EXPECTED])
    if about["format"] != _FORMAT:
        raise TypeError("not this format")
    kinds = {os.path.basename(name).removesuffix(".json"): name for name in content if name.startswith(_OBJECTS)}
    objects = {kind: content[name] for kind, name in kinds.items()}
    fields = {name: about[name] for name in ("context", "time", "unread", "record")}
    fields["ray"] = about.get("ray") or {}
    return _typed(Evidence, {**fields, "expected": expected, "objects": objects, "logs": content.get(_LOGS) or {}})


def _typed(kind: type[T], fields: dict[str, Any]) -> T:
    """Return a dataclass with these fields; raise TypeError if a field is missing, unknown or of the wrong type."""
    made = kind(**fields)
    for name, hint in get_type_hints(kind).items():
        if not _is(getattr(made, name), hint):
            raise TypeError(f"{name} has another type")
    return made


def _is(value: Json, hint: Untyped) -> bool:
    """Return whether a value, including everything in it, has a type; JSON writes a tuple as a list."""
    kind: Untyped = get_origin(hint) or hint
    inside = get_args(hint)
    if kind is tuple:
        return isinstance(value, list) and len(value) == len(inside) and all(map(_is, value, inside))
    if kind is Any or not isinstance(value, kind):
        return kind is Any
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(_is(each, inside[-1]) for each in items)


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return file.read() if file else b""
