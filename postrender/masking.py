"""Take secrets out of objects before anything else sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from postrender import secrets
from postrender.types import Json

HIDDEN: Final = "<hidden>"
# Who has changed which field, and the object once more: neither says anything about the run.
_DROPPED: Final = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
# Keys of Azure's storage, in its connection strings and variables. In values the same names may hold a path.
_AZURE: Final = ("account_key", "storage_key")
# An argument such as --api-token=… or PASSWORD=…, as it stands in commands, messages and JSON within a text.
_ARGUMENT: Final = re.compile(
    # Not the beginning of the name: with it, the time would grow with the square of a long word.
    r"(?i)(?P<name>(?:"
    + "|".join(each.replace("_", "[_-]?") for each in (*secrets.SECRET_NAMES, *_AZURE))
    + r")[\\'\"]*[ \t]*[=:][ \t]*[\\'\"\[]*)"
    r"(?P<value>[^\s'\"\\&,;}{$<\[]{6,})"
)
# The same with a space, as programs read it.
_FLAG: Final = re.compile(
    r"(?i)(--[\w-]*(?:"
    + "|".join(each.replace("_", "[_-]?") for each in secrets.SECRET_NAMES)
    + r")[ \t]+)[^\s'\"<-]\S{5,}"
)
# The same in quotes, as a shell and a list of arguments have it.
_QUOTED_FLAG: Final = re.compile(
    r"(?i)(--[\w-]*(?:"
    + "|".join(each.replace("_", "[_-]?") for each in secrets.SECRET_NAMES)
    + r")(?:[\\'\"]*,[ \t]*|[ \t]+)[\\'\"]+)[^\\'\"]{6,}"
)
# As curl and git read it from a file.
_NETRC: Final = re.compile(
    r"(?i)(\b(?:machine\s+\S{1,200}|default)\s+(?:login|user)\s+\S{1,200}\s+(?:account\s+\S{1,200}\s+)?password\s+)\S+"
)
# Of a header, an option or a variable: the pairs of names and values. A short value is none of a session.
_COOKIE: Final = re.compile(
    r"(?i)(\bcookies?[\\'\"]*(?:\s*[:,=]\s*|\s+)[\[({b\\'\"]*)"
    r"[^\s'\"\\=;:]{1,100}=[\\'\"]*[^\s'\"\\;]{8,}(?:[\\'\"]*;[ ]?[^\s'\"\\=;]{1,100}=[\\'\"]*[^\s'\"\\;]+)*"
)
# As programs print a dictionary of them: quoted names. Without its end, to the end of the line: a cause may follow.
_COOKIES: Final = re.compile(
    r"(?i)((?<![a-z])cookies?(?:[\\'\"]*[ \t]*[:=][ \t]*|[ \t]+)(?:dict\()?\{)(?=\s*[\\'\"])"
    r"(?:[^{}]{8,2000}(?=\})|[^{}\n]{8,2000})"
)
# As curl takes the name and the password, also among other short options and as a list. Another command is none of its.
_CURL: Final = re.compile(
    r"(?i)(\bcurl\b(?:[^\n|;&]|&(?!&)|\\\n){0,100}?[\s\\'\",](?:-[a-z#]{0,9}u|--(?:proxy-)?user)[\s=,\\'\"]{0,8}"
    r"(?!https?:)[^\s:'\"\\]{1,100}:)[^\s'\"\\]+"
)
_USER: Final = re.compile(r"-[a-zA-Z#]{0,9}u|--(?:proxy-)?user")
# One of Azure's storage, as its command lists them: 64 bytes. A SHA-512 looks alike, and has its name before it.
_STORAGE_KEY: Final = re.compile(r"(?i)(?<![\w+/-])(?<!sha512[:=])(?<!sha512\": \")[a-z0-9+/]{86}==")
# A token of a Kubernetes service account is one; the second shape is encrypted. Longer headers would make a long word
# take long.
_WEB_TOKEN: Final = re.compile(
    r"eyJ[\w-]{10,400}\.(?:eyJ[\w-]{10,}\.[\w-]{10,}|[\w-]{0,1000}\.[\w-]{10,100}\.[\w-]{10,}\.[\w-]{10,})"
)
_BEARER: Final = re.compile(r"(?i)(bearer\s+)[\w.~+/=-]{8,}")
_AUTHORIZATION: Final = re.compile(r"(?i)(authorization[\\'\"]*\s*[=:]\s*[\\'\"]*\w+\s+)[\w.~+/=-]{8,}")
# With its lines, to its end; of one that was cut, all that looks like a key.
_PRIVATE_KEY: Final = re.compile(
    r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"(?:.{0,20000}?-----END [A-Z ]*PRIVATE KEY-----|(?:\s|\\[nr]|[A-Za-z0-9+/=]{20,})*)"
)
_WORDS: Final = ("passw", "secret", "token", "key", "bearer", "authorization", "cookie")
# A name, a sign and six letters are longer.
_SHORTEST: Final = 8
# Who has a signed address of a file may read it: those of S3, GCS, Azure, and of Hugging Face's store.
# Programs write its "&" in several ways.
_SIGNATURE: Final = re.compile(
    r"(?i)((?:[?&,;\s]|\\u0026|%26|%3F)(?:x-(?:amz|goog)-)?(?:signature|sig)(?:=|%3D))(?:(?!%26)[^&\s'\"\\<,;]){8,}"
)
# To the last "@" before the path; a port that is followed by other words is no password.
_PASSWORD_IN_URL: Final = re.compile(r"(\w://[^\s:/@]*:)(?!\d{1,5}[\"',;|)\]}])[^\s/]+@")
_TOKEN_IN_URL: Final = re.compile(r"(?i)(https?://)(?!git@)[^\s/@:'\"<>?#,;|&()]+@")
_PROXY: Final = re.compile(r"(?i)(_proxy[\"']?\s*[=:]\s*[\"']?[^\s:/@]{1,100}:)[^\s/@]+@")


def clean(value: Json) -> Any:  # noqa: ANN401 (the same type as the value)
    """Return an object without its secrets: variables and keys that name one, and texts that look like one."""
    if isinstance(value, dict):
        named = value.get("name") if "value" in value else None
        hides = isinstance(named, str) and secrets.names_secret(named)
        return {
            _key(key): HIDDEN if _is_secret(key, each, hides=hides) else clean(each)
            for key, each in value.items()
            if key not in _DROPPED
        }
    if isinstance(value, list | tuple):
        return _words(value)
    return text(value) if isinstance(value, str) else value


def _words(values: Sequence[Json]) -> list[Any]:
    """Return a list without its secrets; a word that follows a flag such as --api-key is one."""
    cleaned, hides = [], False
    is_curl = "curl" in values
    for value in values:
        cleaned.append(HIDDEN if hides and isinstance(value, str) and not value.startswith("-") else clean(value))
        is_flag = isinstance(value, str) and value.startswith("-")
        hides = is_flag and (secrets.names_secret(value) or (is_curl and bool(_USER.fullmatch(value))))
    return cleaned


@lru_cache(maxsize=10_000)
def _key(key: str) -> str:
    """Return a key without secrets: the same few stand in thousands of objects."""
    return secrets.mask(key)


def _is_secret(key: str, value: Json, *, hides: bool) -> bool:
    return isinstance(value, str) and bool(value) and ((hides and key == "value") or secrets.names_secret(key))


@lru_cache(maxsize=50_000)
def text(value: str) -> str:
    """Return a text with what looks like a secret replaced; thousands of objects have the same few texts."""
    if len(value) < _SHORTEST:
        return value
    masked = secrets.mask(_PRIVATE_KEY.sub(HIDDEN, value))
    lower = masked.lower()
    # The search for names takes a hundred times as long as this.
    if any(word in lower for word in _WORDS):
        masked = _ARGUMENT.sub(lambda found: found["name"] + HIDDEN, masked)
        for shape in (_FLAG, _QUOTED_FLAG, _NETRC, _COOKIE, _COOKIES, _BEARER, _AUTHORIZATION):
            masked = shape.sub(lambda found: found[1] + HIDDEN, masked)
    if "sig" in lower:
        masked = _SIGNATURE.sub(lambda found: found[1] + HIDDEN, masked)
    if "eyJ" in masked:
        masked = _WEB_TOKEN.sub(HIDDEN, masked)
    if "curl" in lower:
        masked = _CURL.sub(lambda found: found[1] + HIDDEN, masked)
    if "==" in masked:
        masked = _STORAGE_KEY.sub(HIDDEN, masked)
    if "@" in masked and ("://" in masked or "_proxy" in lower):
        for shape in (_PASSWORD_IN_URL, _TOKEN_IN_URL, _PROXY):
            masked = shape.sub(lambda found: f"{found[1]}{HIDDEN}@", masked)
    return masked
