"""Recognize secrets: by shape (schemas/tokens.yaml), or by the name before a value and how the value looks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from postrender import facts

# How the names of secrets end, whatever stands between their words. What these name is one, whatever it looks like.
_SURE: Final = (
    *("password", "passwd", "passphrase", "passcode", "dockerconfigjson", "dockercfg"),
    *("api_key", "secret_key", "access_key", "private_key", "signing_key", "encryption_key", "master_key"),
    *("account_key", "storage_key", "key_data", "tls_key"),
    *("api_token", "auth_token", "access_token", "bearer_token", "refresh_token", "session_token", "identity_token"),
    *("api_secret", "app_secret", "client_secret", "shared_secret", "signing_secret", "webhook_secret"),
)
# Variables that programs read a secret from, and nothing else.
_VARIABLES: Final = frozenset(
    (
        *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HF_HUB_TOKEN"),
        *("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "NPM_TOKEN", "PYPI_TOKEN", "SLACK_TOKEN", "VAULT_TOKEN"),
    )
)
# These name as well a token of a model, an object of kind Secret or a way to log in.
_DOUBTFUL: Final = ("secret", "token", "credential", "credentials")
# Only what looks random is a secret.
_LEAST: Final = "auth"
# A password, after other words.
_SHORT: Final = ("pass", "pwd")
_JOINED: Final = ("sshpass", "requirepass", "dbpass", "userpass")
SECRET_NAMES: Final = (*_SURE, *_DOUBTFUL)
_ENDS: Final = tuple(each.replace("_", "") for each in SECRET_NAMES)
_SURE_ENDS: Final = tuple(each.replace("_", "") for each in (*_SURE, *_JOINED))
# Where the name of a secret may stand in a text, and what stands in every text that has one, in lower case.
NAME_PART: Final = re.compile(
    "(?i)" + "|".join(sorted((each.replace("_", "[_ .-]?") for each in (*SECRET_NAMES, _LEAST, *_SHORT)), reverse=True))
)
NAME_HINTS: Final = ("pass", "pwd", "secret", "token", "key", "credential", "auth", "dockerc")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Tokens of models and counts of them; passes of programs, and the folder before.
_OF_MODELS: Final = frozenset(
    (
        *("audio", "bos", "chat", "cls", "completion", "decode", "each", "end", "eos", "every", "first", "generated"),
        *(
            "image",
            "input",
            "last",
            "mask",
            "max",
            "mean",
            "min",
            "new",
            "next",
            "num",
            "output",
            "pad",
            "per",
            "prefill",
        ),
        *("prev", "prompt", "response", "sample", "sampled", "sep", "special", "start", "stop", "text", "think"),
        *("thinking", "tool", "total", "unk", "video", "vision", "vocab"),
    )
)
_OF_PROGRAMS: Final = frozenset(
    (
        *(
            "backward",
            "dry",
            "first",
            "forward",
            "last",
            "multi",
            "next",
            "num",
            "old",
            "one",
            "per",
            "second",
            "single",
        ),
        *("test", "two"),
    )
)
_NONE: Final = (
    "bool|boolean|bytes|changeme|dummy|empty|fake|false|hidden|int|integer|masked|missing|none|not-needed|null|number|off|optional"
    "|placeholder|redacted|required|secretstr|str|string|true|undefined|unset|yes"
)
# A reference of some language, two characters, stars, words of a type, words about a value, a sentence.
_NO_VALUE: Final = re.compile(
    r"[$%<{[]|[&*][A-Za-z_]+$|.{0,2}$|[*.x#_-]+$"
    rf"|(?i:{_NONE})(?:\|(?i:{_NONE}))*$|key \S+ of Secret \S+$|\([^()]*\)$|(?:\S+\s+){{8}}"
)
# In lower case: base64 may begin with a stroke too.
_PATH: Final = re.compile(r"(?:~|\.{1,2})?/(?=[0-9_./-]*[a-z])[a-z0-9_./-]*$|[a-z]{1,10}://")
_NUMBER: Final = re.compile(r"[+-]?\d[\d.,_%]*(?:[eE][+-]?\d+)?[a-zA-Z%]{0,2}$")
_PLAIN_WORD: Final = re.compile(r"[A-Za-z][a-z]*$|[A-Z]+$")
# An object of Kubernetes; digits are left to secrets.
_OBJECT: Final = re.compile(r"[a-z]+(?:[.-][a-z]+)*$")
_REFERENCE: Final = re.compile(r"\.?[A-Za-z]+(?:[._-]+[A-Za-z]+)*$")
_CONSTANT: Final = re.compile(r"[A-Z]+(?:_[A-Z]+)*$")
_RANDOM: Final = re.compile(r"(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9+/_.~=-]{16,}$")
# An address with a password that is no reference.
_LOGIN: Final = re.compile(r"\w://[^\s:/@$]{1,100}:(?![$<{])[^\s:/@]{3,200}@[\w.-]")
# An address with a secret in its query.
_QUERY: Final = re.compile(
    r"(?i)[?&](?:(?:[a-z]{1,20}[_-])?(?:api[_-]?key|access[_-]?key|token|password|passwd|secret)="
    r"(?=[a-z_.~-]{0,40}\d)[a-z0-9_.~-]{12,}"
    # What only names its key may be the key of a file, which is words and numbers.
    r"|key=(?=\d*[a-z]+\d+[a-z])[a-z0-9]{16,}(?![a-z0-9_.~-]))"
)
# A variable in a value of Kubernetes or of a shell; the file of a secret, or the key of an object in a store.
_EXPANDED: Final = re.compile(r"\$(?:\([A-Za-z_][\w.-]*\)|\{[^{}]+\})")
_FILE: Final = re.compile(
    r"[\w./-]+\.(?:asc|cer|conf|crt|der|env|gpg|ini|jks|json|key|p12|pem|pfx|pub|toml|txt|ya?ml)$"
    r"|[a-z0-9_.-]+(?:/[a-z0-9_.-]+)+$"
)
# How many times to pass.
_COUNTED: Final = "PASS"
# An escape that writes a character by its code, or continues a quoted string on the next line.
_ESCAPE = re.compile(r"\\[xuU\n\r]")
_MARK = "privateKey"
_BARE_KEY = re.compile(r"(?:local-)?[0-9a-f]{40}")
# Where values name the Secret of a token, by the start of its shape, and the variable that pods read it from.
_PLACES = {
    "huggingface": ("huggingface.secret.name and huggingface.secret.key", "HF_TOKEN"),
    "wandb": ("tracking.wandb.secret.name and tracking.wandb.secret.key", "WANDB_API_KEY"),
}
_ANY_PLACE = ("ray.env.NAME.secret.name and ray.env.NAME.secret.key", "a variable")


class Secret(NamedTuple):
    """A secret's shape and its location, counted from 1; the secret itself is not stored."""

    shape: str
    line: int
    col: int


@cache
def shapes() -> Mapping[str, re.Pattern[str]]:
    """Return each shape's pattern by name, in the order of schemas/tokens.yaml."""
    # One pattern for all would be slower: `re` is fast only where a pattern starts with a literal text.
    return {name: re.compile(pattern) for name, pattern in facts.load("secrets.json").items()}


def _matches(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    for name, pattern in shapes().items():
        for match in pattern.finditer(text):
            yield name, match


def shape_of(text: str) -> str | None:
    """Return the shape of the first kind of secret in the text, or None."""
    return next((name for name, _ in _matches(text)), None)


def has_shape(value: str, text: str) -> bool:
    """Return whether a search finds the secret that a value of a text is, perhaps by the name in front of it."""
    return shape_of(value) is not None or any(value in match[0] for _, match in _matches(text))


def is_bare_key(text: str) -> bool:
    """Return whether a text is a W&B key, which has no shape of its own: elsewhere, forty digits may be a commit."""
    return _BARE_KEY.fullmatch(text) is not None


def title_of(shape: str) -> str:
    """Return the name of a shape in words, such as `google oauth`: those of W&B have one name."""
    return "wandb" if shape.startswith("wandb") else re.sub(r"(?<=[a-z])(?=[A-Z])", " ", shape).lower()


def place_of(shape: str) -> str:
    """Return the values keys that name the Secret for a token of this shape."""
    return _place(shape)[0]


def variable_of(shape: str) -> str:
    """Return the variable from which pods read a token of this shape."""
    return _place(shape)[1]


def _place(shape: str) -> tuple[str, str]:
    return next((place for start, place in _PLACES.items() if shape.startswith(start)), _ANY_PLACE)


def find(text: str) -> list[Secret]:
    """Return the location and shape of every secret in a text, in order."""
    found = []
    line, begin, last = 1, 0, 0
    for name, start in sorted(((name, match.start()) for name, match in _matches(text)), key=itemgetter(1)):
        line += text.count("\n", last, start)
        begin = text.rfind("\n", last, start) + 1 or begin
        last = start
        found.append(Secret(name, line, start - begin + 1))
    return found


def mask(text: str) -> str:
    """Replace every secret that has a shape with its name in angle brackets; private keys are masked elsewhere."""
    for name, pattern in shapes().items():
        text = text if name == _MARK else pattern.sub(f"<{name} token>", text)
    return text


def may_be_hidden(text: str) -> bool:
    """Return whether YAML text has escapes that can hide a secret from a text search."""
    return _ESCAPE.search(text) is not None


@lru_cache(maxsize=10_000)
def names_secret(name: str) -> bool:
    """Return whether a key or variable with this name may hold a secret."""
    *others, last = ["", *(word.lower() for word in _WORD.findall(name))]
    before = others[-1] if others else ""
    if last in _SHORT:
        return last == "pwd" if not before else before not in _OF_PROGRAMS
    joined = "".join((*others, last))
    if joined.endswith(_ENDS):
        return last not in _DOUBTFUL or before not in _OF_MODELS
    return last == _LEAST or joined.endswith(_JOINED)


def holds_secret(name: str, value: str) -> bool:
    """Return whether a key or variable with this name and value holds a secret, not a reference, path or count."""
    if not names_secret(name) or is_no_value(value):
        return False
    if is_sure(name):
        return True
    joined = "".join(_WORD.findall(name)).lower()
    if joined.endswith(_LEAST):
        return _RANDOM.match(value) is not None and any(map(str.isdigit, value))
    is_object = _OBJECT.match(value) and "_" not in name and not name.startswith("-") and not name.isupper()
    return not (is_object or _NUMBER.match(value) or _PLAIN_WORD.match(value))


def is_literal(name: str, value: str) -> bool:
    """Return whether a variable in a file has a secret as its value rather than an object's name or a placeholder."""
    if in_address(value):
        return True
    if _EXPANDED.search(value) or _FILE.match(value) or (name.endswith(_COUNTED) and _NUMBER.match(value)):
        return False
    if name in _VARIABLES:
        return not is_no_value(value)
    sure = is_sure(name) or (_RANDOM.match(value) is not None and any(map(str.isdigit, value)))
    return sure and holds_secret(name, value)


def in_address(text: str) -> bool:
    """Return whether a text has an address with a secret: a password before the host, or a key in the query."""
    return _LOGIN.search(text) is not None or _QUERY.search(text) is not None


def is_sure(name: str) -> bool:
    """Return whether this name, which may denote a secret, can denote nothing else."""
    joined = "".join(_WORD.findall(name)).lower()
    return joined.endswith(_SURE_ENDS) or (joined.endswith(_SHORT) and name.upper() == name)


def is_no_value(value: str) -> bool:
    """Return whether a value only stands in for a secret: a reference, a path, another name, or a word such as none."""
    if _NO_VALUE.match(value) or _PATH.match(value):
        return True
    if _CONSTANT.match(value) and NAME_PART.search(value):
        return True
    return _REFERENCE.match(value) is not None and names_secret(value)
