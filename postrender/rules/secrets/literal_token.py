"""No secret stands in a manifest."""

from __future__ import annotations

from postrender import tokens
from postrender.pods import mapping
from postrender.rules import ERROR, Hit, Manifests, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from postrender.plain import Plain
    from postrender.pods import Path


# Where an object may hold bytes, in base64, which hides what they are.
_ENCODED = {"Secret": "data", "ConfigMap": "binaryData"}
# A secret is known by its first letters; a second finding for the same one would not help.
_PREFIX = 12
# From here on it is worth to make a better search.
_LONG = 100_000
_KEY = "privateKey"


def check(manifests: Manifests) -> Iterator[Hit]:
    """Search every text, what escapes hide from the text, and what Secrets and ConfigMaps hold in base64."""
    # Charts make certificates when they render, into Secrets of their own: there a private key is where it belongs.
    kept = {item.document for item in manifests.items if item.object.get("kind") == "Secret"}
    suspects = suspicious(manifests.texts) if manifests.suspects is None else manifests.suspects
    for document in suspects:
        for token in tokens.find(manifests.texts[document]):
            if token.shape == _KEY and document in kept:
                continue
            what = f"looks like a secret of the kind {token.shape}"
            yield Hit(document, what, line=token.line, col=token.col, secret=True)
    for item in manifests.items:
        found = _encoded(item.object)
        text = manifests.texts[item.document]
        if "\\" in text and tokens.may_be_hidden(text):
            found += [(path, shape) for path, value in _strings(item.object) if (shape := _hidden(value, text))]
        for path, shape in found:
            what = f"{item.title}: this holds a secret of the kind {shape}"
            yield Hit(item.document, what, path=(*item.path, *path), secret=True)


def suspicious(texts: Sequence[str]) -> list[int]:
    """Return the numbers of the texts that may hold a secret; most texts are short, and searched as one."""
    if sum(map(len, texts)) > _LONG:
        from postrender import schema

        # To look for what secrets begin with needs no more than words: these are compiled and found at once.
        may_have_secret = schema.finder(tokens.starts())
        return [number for number, text in enumerate(texts) if may_have_secret(text)]
    plain = "\n".join(text for text in texts if text.isascii())
    suspects = tokens.suspects(plain)
    # A text of narrow characters is searched in a third of the time; no secret has other ones.
    return [
        number
        for number, text in enumerate(texts)
        if (suspects if text.isascii() else tokens.suspects(text.encode("ascii", "replace").decode("ascii")))
    ]


def _encoded(item: dict[str, Any]) -> list[tuple[Path, str]]:
    name = _ENCODED.get(str(item.get("kind")), "")
    entries = mapping(item.get(name)).items()
    # Some secrets have no shape of their own, and are known by the key in front of them.
    shapes = [((name, key), tokens.shape_of(f"{key}: {_decoded(value)}")) for key, value in entries]
    return [(path, shape) for path, shape in shapes if shape and (shape != _KEY or name == _ENCODED["ConfigMap"])]


def _decoded(value: object) -> str:
    import binascii

    try:
        return binascii.a2b_base64(str(value).encode()).decode("utf-8", "replace")
    except ValueError:
        return ""


def _strings(value: Plain, path: Path = ()) -> Iterator[tuple[Path, str]]:
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
    """Return the shape of a secret in a value that the text writes in another way."""
    lines = value.split("\n")
    for token in tokens.find(value):
        begin = token.col - 1
        if lines[token.line - 1][begin : begin + _PREFIX] not in text:
            return token.shape
    return None


RULE = Rule(
    "secrets/literal-token",
    severity=ERROR,
    title="a manifest holds a secret",
    why="Helm stores manifests in the release, where helm get manifest shows them, and reviews and logs keep them",
    fix="revoke it, put the new one into a Kubernetes Secret and refer to that by name",
    source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
    check=check,
)
