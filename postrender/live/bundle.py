"""Save evidence in a file, and read it after the cluster is gone."""

from __future__ import annotations

import io
import json
import os
import tarfile
from dataclasses import asdict
from typing import Any, Final

from postrender.errors import InputError, Location, OutputError, UnreadableError
from postrender.live import masking
from postrender.live.evidence import Evidence
from postrender.live.expected import Expected

_FORMAT: Final = 1
_ABOUT: Final = "about.json"
_EXPECTED: Final = "expected.json"
_OBJECTS: Final = "objects/"
_LOGS: Final = "logs.json"
# A cluster of 500 nodes and 2,000 pods makes 20 MB of JSON.
_MAX_BYTES: Final = 512 * 1024 * 1024


def write(path: str, evidence: Evidence) -> list[str]:
    """Write a tar.gz of JSON files; return their names with their sizes. Raises OutputError.

    Secrets were taken out of the objects when they were read; here they are taken out of the rendered ones.
    """
    about = {"format": _FORMAT, "context": evidence.context, "time": evidence.time, "unread": evidence.unread}
    members: dict[str, Any] = {
        _ABOUT: {**about, "record": evidence.record},
        _EXPECTED: masking.clean(asdict(evidence.expected)),
        _LOGS: evidence.logs,
        **{f"{_OBJECTS}{kind}.json": objects for kind, objects in sorted(evidence.objects.items())},
    }
    listed = []
    try:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in members.items():
                data = json.dumps(content, indent=1).encode()
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime = len(data), int(evidence.time)
                archive.addfile(entry, io.BytesIO(data))
                listed.append(f"{name} ({len(data) / 1000:.0f} kB)")
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", at=Location(path)) from error
    return listed


def read(path: str) -> Evidence:
    """Read what `write` has written; raise UnreadableError, or InputError if it is no such file."""
    wrong = InputError("this is not a grpo bundle", at=Location(path), fix="grpo status --bundle FILE writes one")
    try:
        with tarfile.open(path, "r:*") as archive:
            members = {entry.name: entry for entry in archive if entry.isfile()}
            if sum(entry.size for entry in members.values()) > _MAX_BYTES:
                raise wrong
            content = {name: json.loads(_content(archive, entry)) for name, entry in members.items()}
    except FileNotFoundError as error:
        raise UnreadableError("there is no such file", at=Location(path), fix="check the path") from error
    except OSError as error:
        if isinstance(error, tarfile.ReadError | EOFError) or not error.strerror:
            raise wrong from error
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path)) from error
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise wrong from error
    about = content.get(_ABOUT) or {}
    if about.get("format") != _FORMAT or _EXPECTED not in content:
        raise wrong
    kinds = {os.path.basename(name).removesuffix(".json"): name for name in content if name.startswith(_OBJECTS)}
    return Evidence(
        Expected(**content[_EXPECTED]),
        about["context"],
        about["time"],
        {kind: content[name] for kind, name in kinds.items()},
        about["unread"],
        about["record"],
        content.get(_LOGS) or {},
    )


def _content(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(entry)
    return file.read() if file else b""
