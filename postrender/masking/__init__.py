"""Remove secrets from objects and texts before anything else sees them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from postrender import secrets
from postrender.masking.keys import Keys
from postrender.masking.names import HIDDEN, Names
from postrender.types import Json

# Who has changed which field, and the object once more: neither says anything about the run.
_DROPPED: Final = ("managedFields", "kubectl.kubernetes.io/last-applied-configuration")
# Programs write a name in one and its value in another.
_SECRET_DATA: Final = ("data", "stringData")
_COLOUR: Final = re.compile("\x1b\\[[0-9;]*m")
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
# A password behind a short option, as these commands take it; behind `mysql -p ` is a database, and a number is a port.
_SHORT_OPTION: Final = re.compile(
    r"(\b(?:sshpass|(?:docker|podman|nerdctl|oras|registry)[ \t]+login)\b[^\n|;&]{0,100}?[ \t]-p[ \t]*"
    r"|\bmysql(?:dump|admin)?\b[^\n|;&]{0,100}?[ \t]-p(?=\S)|\bredis-cli\b[^\n|;&]{0,100}?[ \t]-a[ \t]+)"
    r"(?!\d{1,5}(?!\S)|-|(?:is|was|has|and|or|in|to|with)\b)(?:'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"]+)"
)
_COMMANDS: Final = ("sshpass", " login", "mysql", "redis-cli")
# One of Azure's storage, as its command lists them: 64 bytes. A SHA-512 looks alike, and has its name before it.
_STORAGE_KEY: Final = re.compile(r"(?i)(?<![\w+/-])(?<!sha512[:=])(?<!sha512\": \")[a-z0-9+/]{86}==")
# A token of a Kubernetes service account is one; the second shape is encrypted. Longer headers would make a long word
# take long.
_WEB_TOKEN: Final = re.compile(
    r"eyJ[\w-]{10,400}\.(?:eyJ[\w-]{10,}\.[\w-]{10,}|[\w-]{0,1000}\.[\w-]{10,100}\.[\w-]{10,}\.[\w-]{10,})"
)
# Not what a message says about one.
_VALUE: Final = r"(?![a-z]+(?:[^\w~+/=.-]|[.]?$|[.]\s))[\w.~+/=-]"
_BEARER: Final = re.compile(rf"(?im)(bearer\s+){_VALUE}{{8,}}")
_AUTHORIZATION: Final = re.compile(
    rf"(?im)(authorization[\\'\"]{{0,8}}\s*[=:]\s*[\\'\"]{{0,8}})(?:\w+\s+{_VALUE}{{8,}}|(?=[^\s\d]{{0,200}}\d){_VALUE}{{20,}})"
)
_WORDS: Final = ("bearer", "authorization", "cookie", "password")
# A name, a sign and six letters are longer.
_SHORTEST: Final = 8
# Who has a signed address of a file may read it: those of S3, GCS, Azure, and of Hugging Face's store.
# Programs write its "&" in several ways.
_SIGNATURE: Final = re.compile(
    r"(?i)((?:[?&,;\s]|\\u0026|%26|%3F)(?:x-(?:amz|goog)-)?(?:signature|sig)(?:=|%3D))(?:(?!%26)[^&\s'\"\\<,;]){8,}"
)
# To the last "@" before the path; a port that is followed by other words is no password.
_PASSWORD_IN_URL: Final = re.compile(r"(\w://[^\s:/@]*:)(?!\d{1,5}[\"',;|)\]}])[^\s/]+@")
_TOKEN_IN_URL: Final = re.compile(r"((?i:https?)://)(?![a-z]{1,20}@)[^\s/@:'\"<>?#,;|&()]+@")
_PROXY: Final = re.compile(r"(?i)(_proxy[\"']?\s*[=:]\s*[\"']?[^\s:/@]{1,100}:)[^\s/@]{1,200}@")


def clean(value: Json) -> Any:  # noqa: ANN401 (the same type as the value)
    """Return an object with secrets masked: variables and keys named like secrets, and texts that look like secrets."""
    if isinstance(value, dict):
        named = value.get("name") if "value" in value else None
        if value.get("kind") == "Secret":
            value = {key: _of_secret(each) if key in _SECRET_DATA else each for key, each in value.items()}
        return {
            _key(key): HIDDEN if _is_secret(key, each, named) else clean(each)
            for key, each in value.items()
            if key not in _DROPPED
        }
    if isinstance(value, list | tuple):
        return _words(value)
    return text(value) if isinstance(value, str) else value


def _of_secret(data: Json) -> Json:
    return dict.fromkeys(data, HIDDEN) if isinstance(data, dict) else data


def _words(values: Sequence[Json]) -> list[Any]:
    """Return a list with secrets masked; a word that follows a flag such as --api-key is a secret."""
    cleaned, flag = [], ""
    is_curl = "curl" in values
    for value in values:
        word = value if isinstance(value, str) else ""
        is_user = is_curl and _USER.fullmatch(flag) and word
        is_secret = not word.startswith("-") and (is_user or secrets.holds_secret(flag, word))
        cleaned.append(HIDDEN if is_secret else clean(value))
        flag = word if word.startswith("-") else ""
    return cleaned


@lru_cache(maxsize=10_000)
def _key(key: str) -> str:
    """Return a key with secrets masked; the result is cached, because thousands of objects have the same few keys."""
    return secrets.mask(key)


def _is_secret(key: str, value: Json, named: Json) -> bool:
    name = named if key == "value" and isinstance(named, str) else key
    if isinstance(value, int) and not isinstance(value, bool):
        # Digits alone are a number in YAML.
        return secrets.is_sure(name) and secrets.holds_secret(name, str(value))
    return isinstance(value, str) and secrets.holds_secret(name, value)


@lru_cache(maxsize=50_000)
def text(value: str) -> str:
    """Return a text with apparent secrets masked; it is cached, because many objects have the same few texts."""
    return value if len(value) < _SHORTEST else Stream().masked(value)


class Stream:
    """Mask secrets in a text that arrives in pieces of complete lines; a key, or a name and value, may span them."""

    def __init__(self) -> None:
        """Start a text."""
        self._keys, self._names = Keys(), Names()

    def masked(self, text: str) -> str:
        """Return the next lines with secrets masked."""
        text = _COLOUR.sub("", text) if "\x1b" in text else text
        return self._names.masked(_shaped(secrets.mask(self._keys.masked(text))))


def _shaped(masked: str) -> str:
    """Mask the secrets in a text that are recognizable by their context: headers, addresses, commands."""
    lower = masked.lower()
    if any(word in lower for word in _WORDS):
        for shape in (_NETRC, _COOKIE, _COOKIES, _BEARER, _AUTHORIZATION):
            masked = shape.sub(lambda found: found[1] + HIDDEN, masked)
    if "sig" in lower:
        masked = _SIGNATURE.sub(lambda found: found[1] + HIDDEN, masked)
    if "eyJ" in masked:
        masked = _WEB_TOKEN.sub(HIDDEN, masked)
    if "curl" in lower:
        masked = _CURL.sub(lambda found: found[1] + HIDDEN, masked)
    if any(word in masked for word in _COMMANDS):
        masked = _SHORT_OPTION.sub(lambda found: found[1] + HIDDEN, masked)
    if "==" in masked:
        masked = _STORAGE_KEY.sub(HIDDEN, masked)
    if "@" in masked and ("://" in masked or "_proxy" in lower):
        for shape in (_PASSWORD_IN_URL, _TOKEN_IN_URL, _PROXY):
            masked = shape.sub(lambda found: f"{found[1]}{HIDDEN}@", masked)
    return masked
