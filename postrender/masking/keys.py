"""Mask private keys in text, even if a program or `kubectl logs` puts a prefix before each line."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "<hidden>"
_BEGIN: Final = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_MARK: Final = re.compile(r"-----(BEGIN|END) [A-Z ]{1,60}-----")
# The same in base64, as configurations of clusters and the data of a Secret have it.
_ENCODED: Final = re.compile(r"LS0tLS1CRUdJTiB(?:EU0Eg|FQyBQ|FTkNS|PUEVO|QUklW|SU0Eg)[A-Za-z0-9+/]{20,}={0,2}")
# What a key may have on the line of its mark: with escaped ends of lines, the whole of it.
_MATERIAL: Final = re.compile(r"(?:\s|\\+[nr]|[A-Za-z0-9+/=]{16,})*")
# A line of a key, whatever stands around it. After such a line, the last word of the next one is a part of the key.
_RUN: Final = re.compile(r"(?<![\w+/=.-])[A-Za-z0-9+/]{40,}={0,2}(?![\w+/=.-])")
_MIXED: Final = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=[^0-9+/]*[0-9+/])")
_LAST: Final = re.compile(r"(?![A-Z]?[a-z]+[.:]?$)\S+$")
_DIGITS: Final = re.compile(r"\d+")
_LINES: Final = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])?")
# Lines of a key of 16384 bits, and of others between them.
_MOST: Final = 400


class Keys:
    """Mask private keys in consecutive lines."""

    def __init__(self) -> None:
        """Start outside a key."""
        self._left = 0
        self._before: str | None = None

    def masked(self, text: str) -> str:
        """Return a text's next lines with private keys masked."""
        text = _ENCODED.sub(HIDDEN, text)
        if not self._left and "PRIVATE KEY" not in text:
            return text
        return "".join(map(self._line, _LINES.findall(text)))

    def _line(self, line: str) -> str:
        if "PRIVATE KEY" in line and _BEGIN.search(line):
            return self._marked(line)
        if not self._left or not line.strip():
            return line
        if _MARK.search(line):
            self._left = 0
            return line
        self._left -= 1
        body = line.rstrip()
        begin = max(map(body.rfind, " \t|>")) + 1
        before = _DIGITS.sub("0", line[:begin])
        if before == self._before and _LAST.match(body, begin):
            return f"{line[:begin]}{HIDDEN}{line[len(body) :]}"
        hidden = _RUN.sub(lambda run: HIDDEN if _MIXED.match(run[0]) else run[0], line)
        if hidden != line:
            self._before = before
        elif self._before is not None and before.startswith(self._before):
            # The same program has written something else.
            self._before = None
        return hidden

    def _marked(self, line: str) -> str:
        """Mask the keys that begin on a line, each up to its end mark or as far as the line looks like a key."""
        parts, last, last_end = [], 0, line.rfind("-----END ")
        begin = _BEGIN.search(line)
        while begin:
            mark = _MARK.search(line, line.find("-----END ", begin.end())) if begin.end() <= last_end else None
            material = _MATERIAL.match(line, begin.end())
            shown = begin.end()
            end = mark.start() if mark else len(line[: material.end() if material else shown].rstrip())
            parts += [line[last:shown], HIDDEN] if end > shown else [line[last:shown]]
            last = max(end, shown)
            self._left = 0 if mark or line[last:].strip("'\" \t\r\n\\") else _MOST
            self._before = _DIGITS.sub("0", line[: begin.start()]) if self._left else None
            begin = _BEGIN.search(line, last)
        return "".join((*parts, line[last:]))
