"""Pack a working directory as Ray does: a zip file without what .gitignore and .rayignore exclude.

Source: ray/_private/runtime_env/packaging.py of Ray 2.55.1. Each pattern file applies to its folder and below.
Unlike Ray, this module skips files that contain passwords by convention, and links that lead out of the directory.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pathspec import GitIgnoreSpec

from postrender import secrets
from postrender.errors import InputError, Location, UnreadableError

_PATTERNS: Final = (".gitignore", ".rayignore")
# What Ray leaves out whatever the patterns say.
_ALWAYS: Final = (".git", ".venv", "venv", "__pycache__")
# What holds passwords and tokens by convention.
SECRETS: Final = (
    *(
        ".env*",
        "*.env",
        "dotenv",
        ".netrc",
        ".git-credentials",
        ".pypirc",
        ".npmrc",
        ".pgpass",
        ".boto",
        ".s3cfg",
        ".vault-token",
        "*.pem",
        "*.key",
        "id_rsa*",
        "id_dsa*",
        "id_ecdsa*",
        "id_ed25519*",
    ),
    *(".ssh", ".gnupg", ".aws", ".azure", ".docker", ".kube", "kubeconfig", "*.kubeconfig"),
    *(".huggingface", ".config/gh", ".config/gcloud"),
    *("application_default_credentials.json", "credentials.json", "service-account*.json"),
)
_PRIVATE: Final = GitIgnoreSpec.from_lines((*_ALWAYS, *SECRETS))
_SECRET: Final = GitIgnoreSpec.from_lines(SECRETS)
# A larger file is data, and one with a NUL byte is no text: no tokens are searched there.
_MAX_TEXT: Final = 1024 * 1024
# Ray's dashboard takes no larger request, and the head keeps each package in memory.
MAX_BYTES: Final = 100 * 1024 * 1024
_SHOWN: Final = 3
HOLDS_SECRETS: Final = "by its name it holds secrets"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)

# The folder of a file of patterns, with the patterns.
_Spec = tuple[str, GitIgnoreSpec]


@dataclass(frozen=True)
class Package:
    """A zip file, the number of its files, and what was left out, with the reasons.

    The same content always gets the same name.
    """

    content: bytes
    count: int
    left_out: Sequence[str]

    @property
    def name(self) -> str:
        """Return the name under which Ray stores the package."""
        return f"_ray_pkg_{hashlib.sha1(self.content, usedforsecurity=False).hexdigest()}.zip"


def pack(directory: str) -> Package:
    """Pack a directory; raise UnreadableError, or InputError if it is empty, too large or contains a token."""
    left_out: list[str] = []
    files = list(_files(directory, "", [("", GitIgnoreSpec.from_lines(_ALWAYS))], left_out))
    if not files:
        raise InputError("there is no file to send", at=Location(directory), fix="look at .gitignore and .rayignore")
    sizes = {name: os.path.getsize(os.path.join(directory, name)) for name in files}
    _check(sum(sizes.values()), directory, sizes)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in files:
            _add(archive, directory, name)
    # Of random bytes the package is larger than the files.
    _check(buffer.tell(), directory, sizes)
    return Package(buffer.getvalue(), len(files), left_out)


def _files(directory: str, folder: str, above: Sequence[_Spec], left_out: list[str]) -> Iterator[str]:
    """Yield the files below a folder that no pattern excludes, as sorted paths relative to the directory.

    Anything else that is not sent is added to `left_out`.
    """
    try:
        names = sorted(os.listdir(os.path.join(directory, folder)))
    except OSError as error:
        raise UnreadableError(
            f"cannot be read: {error.strerror}", at=Location(os.path.join(directory, folder))
        ) from error
    specs = [*above, *_specs(directory, folder, names)]
    for name in names:
        path = f"{folder}{name}"
        place = os.path.join(directory, path)
        is_folder = os.path.isdir(place)
        if any(spec.match_file(f"{path[len(where) :]}{'/' if is_folder else ''}") for where, spec in specs):
            continue
        if why := why_not(directory, path):
            left_out.append(f"{path} ({why})")
        elif is_folder and not _is_loop(place):
            yield from _files(directory, f"{path}/", specs, left_out)
        elif os.path.isfile(place):
            yield path


def why_not(directory: str, path: str) -> str:
    """Return why a file or folder is not sent; empty if it is sent. A link is also judged by its target."""
    root, target = os.path.realpath(directory), os.path.realpath(os.path.join(directory, path))
    if not os.path.exists(target):
        return "a link to nothing"
    inside = os.path.relpath(target, root)
    if inside.split(os.sep)[0] == os.pardir:
        return "a link that leaves the directory"
    if not os.path.isdir(target) and not os.path.isfile(target):
        return "no ordinary file"
    is_private = any(_PRIVATE.match_file(each.lower()) for each in (path, inside))
    return HOLDS_SECRETS if is_private else ""


def is_secret(path: str) -> bool:
    """Return whether the name of a file, or of a folder that contains it, marks it as secret."""
    parts = os.path.realpath(path).lower().strip(os.sep).split(os.sep)
    return any(_SECRET.match_file("/".join(parts[start:])) for start in range(len(parts)))


def _is_loop(place: str) -> bool:
    """Return whether a folder is a link to a folder that contains it."""
    outer = os.path.dirname(place)
    return os.path.islink(place) and f"{os.path.realpath(outer)}/".startswith(f"{os.path.realpath(place)}/")


def _specs(directory: str, folder: str, names: Sequence[str]) -> Iterator[_Spec]:
    for name in _PATTERNS:
        if name in names and os.path.isfile(os.path.join(directory, folder, name)):
            with open(os.path.join(directory, folder, name), encoding="utf-8", errors="replace") as file:
                yield folder, GitIgnoreSpec.from_lines(file)


def _check(total: int, directory: str, sizes: dict[str, int]) -> None:
    if total <= MAX_BYTES:
        return
    parts: dict[str, int] = {}
    for name, size in sizes.items():
        part = name.partition("/")[0]
        parts[part] = parts.get(part, 0) + size
    largest = sorted(parts.items(), key=lambda each: -each[1])[:_SHOWN]
    listed = ", ".join(f"{name} {_mebibytes(size)}" for name, size in largest)
    raise InputError(
        f"the directory has {_mebibytes(total)} in {len(sizes)} files, and a job gets at most {_mebibytes(MAX_BYTES)}; "
        f"the largest: {listed}",
        at=Location(directory),
        fix="name what the job does not need in .rayignore, and put data on the volume of the run",
    )


def _mebibytes(size: int) -> str:
    return f"{size / 1024**2:.1f} MiB"


def _add(archive: zipfile.ZipFile, directory: str, name: str) -> None:
    """Add a file with its mode but without its time, which would give the same content a different name."""
    path = os.path.join(directory, name)
    try:
        entry = zipfile.ZipInfo(name, _EPOCH)
        entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, os.stat(path).st_mode << 16
        with open(path, "rb") as file:
            data = file.read()
        refuse_token(path, data, "name the file in .rayignore")
        archive.writestr(entry, data)
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}", at=Location(path)) from error
    except UnicodeEncodeError as error:
        raise InputError("the name is not UTF-8", at=Location(directory), fix=f"rename {name!r}") from error


def refuse_token(path: str, data: bytes, otherwise: str) -> None:
    """Raise InputError if a text contains a token; `otherwise` names a remedy besides naming the token's Secret."""
    if len(data) > _MAX_TEXT or b"\0" in data:
        return
    for found in secrets.find(data.decode("utf-8", "replace")):
        name, place = secrets.variable_of(found.shape), secrets.place_of(found.shape)
        error = InputError(
            f"this is a {found.shape} token, and everybody who may use the cluster can read what jobs get",
            at=Location(path, found.line, found.col),
            fix=f"pods read it from {name}: name its Secret under {place}; or {otherwise}",
        )
        error.secret = True
        raise error
