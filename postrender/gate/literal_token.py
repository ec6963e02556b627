"""No manifest contains a secret."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any

from postrender import secrets
from postrender.finding import ERROR, Finding, Place
from postrender.gate.manifests import Manifests
from postrender.manifests.pods import mapping
from postrender.problem import OBJECTS, Fails, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from postrender.manifests.pods import Path
    from postrender.types import Json


# Fields that contain data in base64.
_ENCODED = {"Secret": "data", "ConfigMap": "binaryData"}
# The first letters identify a secret; a second finding for the same secret would not help.
_PREFIX = 12
_KEY = "privateKey"


def check(manifests: Manifests) -> Iterator[Finding]:
    """Search every text, values written with escapes, and the base64 data of Secrets and ConfigMaps."""
    # Charts generate certificates when they render, into Secrets: a private key belongs there.
    kept = {item.document for item in manifests.items if item.object.get("kind") == "Secret"}
    for document, text in enumerate(manifests.texts):
        for token in secrets.find(text):
            if token.shape == _KEY and document in kept:
                continue
            what = f"this looks like a secret of the kind {secrets.title_of(token.shape)}"
            place = Place(document, line=token.line, col=token.col)
            yield Finding(what, place=place, fix=_fix(token.shape), secret=True)
    hides = [secrets.may_be_hidden(text) for text in manifests.texts]
    for item in manifests.items:
        found = _encoded(item.object)
        if hides[item.document]:
            text = manifests.texts[item.document]
            found += [(path, shape) for path, value in _strings(item.object) if (shape := _hidden(value, text))]
        for path, shape in found:
            what = f"{item.title}: this contains a secret of the kind {secrets.title_of(shape)}"
            place = Place(item.document, (*item.path, *path))
            yield Finding(what, place=place, fix=_fix(shape), secret=True)


def _fix(shape: str) -> str:
    """Return a fix that names the variable and the values by which the secret can be read from a Kubernetes Secret."""
    if shape == _KEY:
        return ""
    of_values = f"{secrets.variable_of(shape)} with valueFrom.secretKeyRef (in values: {secrets.place_of(shape)})"
    return f"revoke it, put the new one into a Kubernetes Secret, and read it from there as {of_values}"


def _encoded(item: dict[str, Any]) -> list[tuple[Path, str]]:
    name = _ENCODED.get(str(item.get("kind")), "")
    entries = mapping(item.get(name)).items()
    # Some secrets have no typical shape; the key in front of them identifies them.
    shapes = [((name, key), secrets.shape_of(f"{key}: {_decoded(value)}")) for key, value in entries]
    return [(path, shape) for path, shape in shapes if shape and (shape != _KEY or name == _ENCODED["ConfigMap"])]


def _decoded(value: object) -> str:
    try:
        return binascii.a2b_base64(str(value).encode()).decode("utf-8", "replace")
    except ValueError:
        return ""


def _strings(value: Json, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield (*path, key), str(key)
            yield from _strings(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _strings(each, (*path, at))


def _hidden(value: str, text: str) -> str | None:
    """Return a secret's shape if it is in a value that the text writes with escapes."""
    lines = value.split("\n")
    for secret in secrets.find(value):
        begin = secret.col - 1
        if lines[secret.line - 1][begin : begin + _PREFIX] not in text:
            return secret.shape
    return None


RULE = Problem(
    "secrets/literal-token",
    target=OBJECTS,
    severity=ERROR,
    fails=Fails.EXPOSES,
    title="a manifest contains a secret",
    why="Helm stores manifests in the release, helm get manifest prints them, and reviews and logs keep them",
    fix="revoke it, put the new one into a Kubernetes Secret and refer to that by name",
    source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
    check=check,
)
