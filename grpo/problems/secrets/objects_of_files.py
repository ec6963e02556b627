"""Secrets whose data is in a file: where manifests are files, they are in a repository."""

from __future__ import annotations

import binascii
import re
from typing import TYPE_CHECKING, Final

from postrender import json_text, secrets
from postrender.finding import ERROR, Finding
from postrender.gate.manifests import Item, Manifests
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.types import Json

# What Helm renders and what is read from a pipe have a name in angle brackets.
_NO_FILE: Final = "<"
_DOCKER: Final = (".dockerconfigjson", ".dockercfg")
_LOGIN: Final = ("auth", "password", "identitytoken", "registrytoken")
# Names of private keys, which have no word of a secret. PEM needs none: a private key has a shape there.
_KEYS: Final = re.compile(r"(?:.*\.key|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|ssh-privatekey)$")
_PUBLIC: Final = re.compile(r"-----BEGIN (?!.*PRIVATE)|^(?:sk-)?(?:ssh|ecdsa)-\S+ AAAA")
_TO_FILL: Final = re.compile(
    r"(?i)(?<![a-z])(?:replace|change|your|insert|fill|todo|example|placeholder)|x{3}|\.{3}|[-_ ]here$|enc\["
)
# What another program puts a secret in the place of: Vault's injectors and vals, and marks of templates.
_REFERENCE: Final = re.compile(
    r"(?:>>)?(?:vault|arn:aws[\w-]*|gcp:secretmanager|azure:keyvault|(?:secret)?ref\+\w+):"
    r"|@+[\w.-]+@+$|__\w+__$|#\{.*\}#?$|\(\(.*\)\)$"
)


def check(manifests: Manifests) -> Iterator[Finding]:
    """Find the entries of Secrets that hold a secret; those that SOPS has encrypted and placeholders do not."""
    for item in manifests.of_kinds(["Secret"]):
        if not manifests.name(item.document).startswith(_NO_FILE) and "sops" not in item.object:
            yield from _of_secret(item)


def _of_secret(item: Item) -> Iterator[Finding]:
    for section in ("data", "stringData"):
        for key, value in mapping(item.object.get(section)).items():
            text = _decoded(value) if section == "data" else str(value or "")
            known = secrets.shape_of(f"{key}: {text}")
            if not known and _holds_secret(str(key), text.strip()):
                yield item.finding((section, key), f"{section} has the secret {key} in this file")


def _holds_secret(key: str, text: str) -> bool:
    if key in _DOCKER:
        return _has_login(text)
    named = secrets.names_secret(key) or _KEYS.match(key)
    return bool(named) and not _stands_for(text) and not _PUBLIC.search(text)


def _stands_for(text: str) -> bool:
    return not text or secrets.is_no_value(text) or bool(_TO_FILL.search(text) or _REFERENCE.match(text))


def _has_login(text: str) -> bool:
    """Return whether a login of Docker has a password."""
    try:
        tree: Json = json_text.loads(text)
    except ValueError:
        return not _stands_for(text)
    root = mapping(tree)
    entries = mapping(root.get("auths", root)).values()
    return any(not _stands_for(str(mapping(each).get(key) or "")) for each in entries for key in _LOGIN)


def _decoded(value: object) -> str:
    try:
        return binascii.a2b_base64(str(value or "").encode(), strict_mode=True).decode("utf-8", "replace")
    except ValueError:
        return str(value)


RULE = Problem(
    "secrets/data-in-file",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.EXPOSES,
    title="a file has the data of a Secret",
    why="base64 is no encryption: who can read the repository has the secret, and its history keeps it",
    fix="revoke it, create the Secret outside of Git (External Secrets), or encrypt it (Sealed Secrets, SOPS)",
    source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
    check=check,
)
