"""Fold the programs and the lock in manifests: readers see a name, a size and a digest instead of the lines.

The programs are those that come with the charts. The user's rewards and prompts, which the same entrypoint carries,
are never folded.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from typing import Any

from grpo.manifests import entrypoint
from postrender import json_text
from postrender.counting import counted
from postrender.types import Json

_LOCK = "spec.yaml"
_SHOWN = 16
# As charts/grpo-job/templates/_entrypoint.tpl writes them. What has no end is matched to the end of the text, so that
# none is looked for from each beginning.
_FILE = re.compile(
    r"""^cat >"\$programs/(?P<name>[^"]+)" <<'GRPO_FILE'\n(?P<text>.*?)(?:^GRPO_FILE$|(?P<open>\Z))""",
    re.MULTILINE | re.DOTALL,
)
_PROGRAMS = re.compile(
    r"^(?P<indent> *)base64 -d <<'GRPO_PROGRAMS' [^\n]*\n(?P<text>.*?)(?:^(?P=indent)GRPO_PROGRAMS$|(?P<open>\Z))",
    re.MULTILINE | re.DOTALL,
)
# As common.lifecycle (charts/common/templates/_pod.tpl) puts it into a pod template.
_BEFORE_THE_END = re.compile(
    r"""^(?P<indent>\ *)-\ python3\n(?P=indent)-\ -I\n(?P=indent)-\ -c\n(?P=indent)-\ \|\n"""
    r"""(?P<text>(?:(?P=indent)\ \ .*\n|\ *\n)+)(?=(?P=indent)-\ (?:head|worker)$)""",
    re.MULTILINE | re.VERBOSE,
)
_DOCUMENT = re.compile(r"^(?=---)", re.MULTILINE)
# A block in the data of a ConfigMap.
_BLOCK = re.compile(r"^  (?P<name>\S+): \|-?\n(?P<text>(?:(?: {4}.*| *)\n)+)", re.MULTILINE)


class Folded(str):
    """The replacement for a folded text: its number of lines and its digest."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> Folded:
        """Fold a text."""
        count = len(text.removesuffix("\n").split("\n"))
        return cls(f"{counted(count, 'line')}, sha256 {hashlib.sha256(text.encode()).hexdigest()}")

    @property
    def short(self) -> str:
        """Return the fold with the beginning of the digest, which is enough for readers."""
        before, word, digest = self.partition("sha256 ")
        return f"{before}{word}{digest[:_SHOWN]}"


def fold_manifest(manifest: str) -> tuple[str, int]:
    """Return a manifest with its programs and its lock folded, and the number of hidden lines.

    A fold's line starts in the first column and has no colon, which makes it invalid YAML: a folded manifest must not
    be applied, because its programs are missing.
    """
    documents = [_fold_document(text) for text in _DOCUMENT.split(manifest)]
    folded = "".join(documents)
    return folded, manifest.count("\n") - folded.count("\n")


def _fold_document(text: str) -> str:
    if not re.search(r"^kind: ConfigMap$", text, re.MULTILINE):
        return _BEFORE_THE_END.sub(_fold_before_the_end, _PROGRAMS.sub(_fold_programs, text))
    locks = re.search(r"^immutable: true$", text, re.MULTILINE) is not None
    return _BLOCK.sub(lambda block: _fold_block(block, locks=locks), text)


def _fold_programs(found: re.Match[str]) -> str:
    if found["open"] is not None:
        return found[0]
    return _replaced(found, _without_indent(found["text"], len(found["indent"])), "programs")


def _fold_before_the_end(found: re.Match[str]) -> str:
    return _replaced(found, _without_indent(found["text"], len(found["indent"]) + 2), "pre_stop.py")


def _fold_block(found: re.Match[str], *, locks: bool) -> str:
    if not _is_folded_key(found["name"], locks=locks):
        return found[0]
    name = f"{found['name']}, the lock of the run" if found["name"] == _LOCK else found["name"]
    return _replaced(found, _without_indent(found["text"], 4).rstrip("\n") + "\n", name)


def _replaced(found: re.Match[str], text: str, name: str) -> str:
    before, after = (found[0][: found.start("text") - found.start()], found[0][found.end("text") - found.start() :])
    return f"{before}… {name}, {Folded.of(text).short}\n{after}"


def _without_indent(text: str, width: int) -> str:
    return "\n".join(line[width:] for line in text.split("\n"))


def _is_folded_key(name: str, *, locks: bool) -> bool:
    return name.endswith(".py") or (locks and name == _LOCK)


def fold_object(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object with the programs and the lock in a ConfigMap folded."""
    data = item.get("data")
    if item.get("kind") != "ConfigMap" or not isinstance(data, dict):
        return item
    locks = bool(item.get("immutable")) and _LOCK in data
    texts = {
        key: Folded.of(value)
        for key, value in data.items()
        if isinstance(value, str) and _is_folded_key(str(key), locks=locks)
    }
    if locks and "digest" in data:
        texts["digest"] = Folded(f"sha256 {data['digest']}")
    return {**item, "data": {**data, **texts}}


def unpacked(archive: str) -> dict[str, str]:
    """Return the programs in an entrypoint's archive, text by name; empty if it is not such an archive."""
    found = {}
    with contextlib.suppress(ValueError, OSError, EOFError, tarfile.TarError):
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(archive)), mode="r:bz2") as tar:
            for entry in tar:
                file = tar.extractfile(entry) if entry.isfile() else None
                found[entry.name] = file.read().decode() if file else ""
        return found
    return {}


def programs(text: str) -> dict[str, str]:
    """Return the programs that a run's entrypoint carries, text by name, without the user's files."""
    found = {}
    for archive in _closed(_PROGRAMS, _FILE.sub(_first_line, text)):
        found.update(unpacked(archive["text"]))
    return found


def parts(text: str, *, full: bool = False) -> Iterator[tuple[str, Json]]:
    """Yield the parts of a run's entrypoint: the plan as a tree, the user's files, the shell command, the programs.

    The programs are folded, unless `full`. Any other text has no parts.
    """
    plan = entrypoint.PLAN.search(text)
    if plan is None:
        return
    try:
        tree = json_text.loads(plan["text"])
    except ValueError:
        return
    if isinstance(tree, dict) and "digest" in tree and not full:
        tree["digest"] = Folded(f"sha256 {tree['digest']}")
    yield "plan", tree
    rest = text[: plan.start("text")] + text[plan.end("text") :]
    for file in _closed(_FILE, rest):
        yield file["name"], file["text"]
    rest = _FILE.sub(_first_line, rest)
    for name, program in programs(rest).items():
        yield name, program if full else Folded.of(program)
    yield "shell", _PROGRAMS.sub(_first_line, rest)


def _closed(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    return (found for found in pattern.finditer(text) if found["open"] is None)


def _first_line(found: re.Match[str]) -> str:
    return found[0] if found["open"] is not None else found[0].partition("\n")[0]
